"""Budgets of a trial and of a run, as values."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from appliance.gateway.budget import Budget, Estimate, Ledger, Over, Spent, at_most, estimated, unpriced, used_up
from appliance.records.trial import Usage


def _usage(entered: int, left: int) -> Usage:
    return Usage(
        input_tokens=entered,
        cache_read_tokens=entered // 2,
        cache_write_tokens=0,
        output_tokens=left,
        reasoning_tokens=0,
    )


@pytest.mark.parametrize(
    ("budget", "spent", "over"),
    [
        (Budget(), Spent(10**12, "1000000", 10**9), False),
        (Budget(tokens=100), Spent(tokens=99), False),
        (Budget(tokens=100), Spent(tokens=100), True),
        (Budget(exchanges=2), Spent(exchanges=1), False),
        (Budget(exchanges=2), Spent(exchanges=2), True),
        (Budget(exchanges=0), Spent(), True),
        (Budget(usd="0.30"), Spent(usd="0.29999"), False),
        (Budget(usd="0.30"), Spent(usd="0.3"), True),
        (Budget(usd="0"), Spent(), True),
    ],
)
def test_a_budget_is_used_up_as_soon_as_it_is_reached(budget: Budget, spent: Spent, over: bool) -> None:
    """Row M15."""
    assert (used_up(budget, spent) is not None) == over


def test_an_unknown_price_keeps_no_budget_in_dollars() -> None:
    """Row M15: null is not zero, so that nothing more is bought on it; other budgets don't care."""
    ledger = Ledger(Budget(usd="5"))
    ledger.end(_usage(1, 1), None)
    assert "had no price" in (used_up(ledger.budget, ledger.spent) or "")
    assert used_up(Budget(tokens=100), ledger.spent) is None


def test_all_that_goes_in_and_out_counts_once() -> None:
    """What came from the cache is part of the input."""
    ledger = Ledger(Budget())
    ledger.begin()
    ledger.end(_usage(10, 5), "0.1")
    ledger.begin()
    ledger.end(_usage(20, 7), "0.02")
    assert ledger.spent == Spent(tokens=42, usd="0.12", exchanges=2)


def test_what_a_trial_uses_is_used_of_its_run() -> None:
    """Row M15: also what a run had used before it was resumed."""
    run = Ledger(Budget(exchanges=3), spent=Spent(exchanges=1))
    first, second = Ledger(Budget(exchanges=1), run), Ledger(Budget(exchanges=5), run)
    assert first.check() is None
    first.begin()
    assert first.check() == Over("trial", "1 of 1 exchanges")
    assert second.check() is None
    second.begin()
    assert second.check() == Over("run", "3 of 3 exchanges")
    assert first.check() == Over("run", "3 of 3 exchanges")


def test_an_answer_without_usage_counts_by_its_bytes() -> None:
    """A token has a byte at least: so counted, a budget is never passed by what nobody told us."""
    usage = at_most(300, 20)
    assert (usage.input_tokens, usage.output_tokens) == (300, 20)


def test_dollars_are_refused_for_a_model_without_a_price() -> None:
    """Row M15."""
    at = datetime(2026, 11, 1, tzinfo=UTC)
    assert unpriced(Budget(usd="1"), "claude-sonnet-4-5", "anthropic", at) is None
    assert "no model" in (unpriced(Budget(usd="1"), "smollm2-135m", "local", at) or "")
    assert unpriced(Budget(usd="1"), "no-such-model", "openai", at) is not None
    assert unpriced(Budget(tokens=1), "no-such-model", "openai", at) is None


def test_a_request_that_does_not_fit_beside_another_waits_for_its_end() -> None:
    """Row M15: of its own trial or of another of the run; one alone is never held up."""

    async def seen() -> list[object]:
        run = Ledger(Budget(tokens=100))
        first, second = Ledger(Budget(), run), Ledger(Budget(), run)
        held = Estimate(90, None)
        found: list[object] = [await first.reserve(held)]
        waiting = asyncio.create_task(second.reserve(held))
        small = await first.reserve(Estimate(10, None))
        await asyncio.sleep(0)
        found += [small, waiting.done()]
        first.end(_usage(60, 10), None)
        first.release(held)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        found.append(waiting.done())
        first.end(_usage(5, 5), None)
        first.release(Estimate(10, None))
        found.append(await waiting)
        second.end(_usage(90, 0), None)
        second.release(held)
        found.append(await first.reserve(held))
        return found

    assert asyncio.run(seen()) == [None, None, False, False, None, Over("run", "170 of 100 tokens")]


def test_one_that_leaves_while_it_waits_holds_nothing() -> None:
    """Row M15."""

    async def seen() -> Over | None:
        ledger = Ledger(Budget(usd="1"))
        held = Estimate(1, "0.9")
        await ledger.reserve(held)
        waiting = asyncio.create_task(ledger.reserve(held))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        ledger.release(held)
        return await ledger.reserve(held)

    assert asyncio.run(seen()) is None


def test_a_request_is_held_at_its_most() -> None:
    """Row M15: a byte is a token at most; an answer has its request's bound, or ours."""
    assert estimated(100, 20) == Estimate(120, None)
    assert estimated(100, None).tokens == 100 + 16_384
    assert estimated(100, 20, lambda usage: str(usage.input_tokens + usage.output_tokens)) == Estimate(120, "120")
