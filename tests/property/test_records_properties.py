"""Truths of plans, trials, aggregates and the journal for whatever a run may give."""

from __future__ import annotations

import itertools
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from appliance import schemas
from appliance.records.fold import fold, is_complete
from appliance.records.frontier import Point, frontier
from appliance.records.journal import (
    BaselineLine,
    HeaderLine,
    HostLine,
    InterruptedLine,
    Line,
    TrialLine,
    decode,
    encode,
)
from appliance.records.money import total_usd
from appliance.records.plan import RunPlan, TrialPlan, trial_keys
from appliance.records.record import Record
from appliance.records.summarise import summarise
from appliance.records.trial import TrialResult
from appliance.records.verdict import Verdict
from appliance.records.words import OUTCOMES, REASONS_OF, Outcome, Reason
from appliance.wire import Wire
from attest import canonical
from tests import record_builder as build
from tests.wire_strategies import wire_values

WORDS: list[tuple[Outcome, Reason | None]] = [
    (outcome, reason)
    for outcome in OUTCOMES
    for reason in [*sorted(REASONS_OF[outcome]), *([] if REASONS_OF[outcome] else [None])]
]
COSTS = st.one_of(st.none(), st.integers(0, 999).map(lambda cents: f"{cents // 100}.{cents % 100:02}"))

# Several suites share a machine: how long an example takes says nothing here.
BUSY = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def runs(draw: st.DrawFn) -> tuple[TrialPlan, list[TrialResult]]:
    """A plan and what became of some of its trials."""
    of = build.plan(
        [f"t{number}" for number in range(draw(st.integers(1, 3)))],
        passes=draw(st.integers(1, 2)),
        rollouts=draw(st.integers(1, 3)),
    )
    trials: list[TrialResult] = []
    for key in trial_keys(of):
        word = draw(st.one_of(st.none(), st.sampled_from(WORDS)))
        if word is None:
            continue
        outcome, reason = word
        figure = draw(
            st.one_of(
                st.builds(build.figure, st.integers(0, 10**9)),
                st.builds(build.counted_figure, st.one_of(st.none(), st.integers(0, 10**9))),
            )
        )
        trials.append(
            build.trial(
                key,
                outcome,
                reason=reason,
                wall=draw(st.floats(0.001, 1e4)),
                cost=draw(
                    st.one_of(st.none(), st.integers(0, 999).map(lambda cents: f"{cents // 100}.{cents % 100:02}"))
                ),
                energy=draw(st.one_of(st.none(), st.just(build.energy(figure)))),
            )
        )
    return of, trials


@BUSY
@given(run=runs(), order=st.randoms(use_true_random=False))
def test_a_summary_does_not_depend_on_the_order_of_the_trials(
    run: tuple[TrialPlan, list[TrialResult]], order: Any
) -> None:
    """Equal trials, equal bytes (E35)."""
    of, trials = run
    shuffled = list(trials)
    order.shuffle(shuffled)
    assert summarise(of, shuffled).canonical() == summarise(of, trials).canonical()


@BUSY
@given(run=runs())
def test_counts_and_rates_hold_together(run: tuple[TrialPlan, list[TrialResult]]) -> None:
    """Counts add up to what was planned; rates lie in [0, 1]; the lower bound is never above the rate (J19)."""
    of, trials = run
    for found in summarise(of, trials).passes:
        assert sum(found.outcomes.values()) + found.not_run == found.planned
        assert found.planned == len(of.tasks) * of.rollouts
        assert 0 <= found.lower_bound <= (1 if found.resolution is None else found.resolution) <= 1
        if found.energy and found.energy.missing:
            assert found.energy.net_uj is None
        assert (found.outcomes["resolved"] == 0) == (found.joules_per_resolved == "Infinity")


@BUSY
@given(run=runs())
def test_best_of_k_never_falls(run: tuple[TrialPlan, list[TrialResult]]) -> None:
    """More rollouts never lower the fraction, the cost or the joules (J28)."""
    of, trials = run
    for found in summarise(of, trials).passes:
        curve = found.best_of_k
        assert len(curve) == (of.rollouts if of.rollouts > 1 else 0)
        for before, after in itertools.pairwise(curve):
            assert before.fraction <= after.fraction
            if before.cost_usd and after.cost_usd:
                assert Decimal(before.cost_usd) <= Decimal(after.cost_usd)
            if before.local_uj is not None and after.local_uj is not None:
                assert before.local_uj <= after.local_uj


@BUSY
@given(run=runs())
def test_a_folded_record_reads_back_equal_and_is_complete_when_every_trial_ended(
    run: tuple[TrialPlan, list[TrialResult]],
) -> None:
    """Bytes, model, bytes again: the same; complete iff no planned trial lacks or was broken off (H22)."""
    of, trials = run
    record = fold(of, build.stamps(of), [], reversed(trials))
    assert Record.from_canonical(record.canonical(), "x") == record
    assert [trial.key for trial in record.trials] == [key for key in trial_keys(of) if key in {t.key for t in trials}]
    ended = {trial.key for trial in trials if trial.outcome != "cancelled"}
    assert record.complete == is_complete(of, trials) == (ended == set(trial_keys(of)))


@BUSY
@given(
    st.lists(
        st.builds(Point, st.just("p"), st.sampled_from([0, 0.5, 1]), st.one_of(st.none(), st.integers(0, 3))),
        max_size=8,
    )
)
def test_whatever_is_off_the_frontier_is_beaten_by_something_on_it(points: list[Point]) -> None:
    """Best, beaten and apart are all the points; no best one beats another (J23)."""
    found = frontier(points)
    assert sorted(map(repr, [*found.best, *found.beaten, *found.apart])) == sorted(map(repr, points))
    for loser in found.beaten:
        assert any(p.resolution >= loser.resolution and p.cost <= loser.cost for p in found.best)  # type: ignore[operator]
    for one in found.best:
        assert not any(p.resolution > one.resolution and p.cost <= one.cost for p in found.best)  # type: ignore[operator]


@BUSY
@given(st.lists(st.integers(0, 10**20), min_size=1))
def test_money_adds_up_like_integers(units: list[int]) -> None:
    """Decimal strings of 10^-9 dollars: the sum of any number of them is exact (J29)."""
    amounts = [format(Decimal(unit) / Decimal(10**9), "f") for unit in units]
    total = total_usd(amounts)
    assert total is not None
    assert Decimal(total) * 10**9 == sum(units)


ROOTS: dict[type[Wire], str] = {
    TrialPlan: "plan-v1",
    RunPlan: "run-plan-v1",
    Record: "record-v1",
    Verdict: "verdict-v1",
    HeaderLine: "journal-v1",
    HostLine: "journal-v1",
    BaselineLine: "journal-v1",
    TrialLine: "journal-v1",
    InterruptedLine: "journal-v1",
}


@pytest.mark.parametrize("model", ROOTS, ids=lambda model: model.__name__)
@settings(BUSY, max_examples=12)
@given(data=st.data())
def test_every_wire_model_reads_back_what_it_wrote_and_fits_its_schema(model: type[Wire], data: st.DataObject) -> None:
    """Canonical bytes of any value give the value again; what the model takes, the schema takes (design 6)."""
    value = data.draw(wire_values(model))
    content = value.canonical()
    again = model.from_canonical(content, "x")
    assert again == value
    assert again.canonical() == content
    assert schemas.first_problem(ROOTS[model], canonical.loads(content)) is None


@BUSY
@given(run=runs(), cut=st.integers(0, 10_000))
def test_a_journal_cut_anywhere_loses_at_most_its_last_line(run: tuple[TrialPlan, list[TrialResult]], cut: int) -> None:
    """Whatever byte a crash stopped at: whole lines are kept, the rest is dropped and measured (H22)."""
    of, trials = run
    content = build.journal_bytes(of, [], trials)
    first = content.index(b"\n") + 1
    cut = max(first, cut % (len(content) + 1))
    whole, found = decode(content, "j"), decode(content[:cut], "j")
    assert found.lines == whole.lines[: len(found.lines)]
    assert (found.kept_bytes, found.dropped_bytes) == (content.rfind(b"\n", 0, cut) + 1, cut - found.kept_bytes)
    assert len(found.lines) == content[:cut].count(b"\n") - 1


@BUSY
@given(run=runs())
def test_a_journal_reads_back_line_by_line(run: tuple[TrialPlan, list[TrialResult]]) -> None:
    """Encode, decode: the same lines in the same order."""
    of, trials = run
    lines: list[Line] = [TrialLine(plan_digest=of.digest, trial=n, result=trial) for n, trial in enumerate(trials)]
    header = decode(build.journal_bytes(of, [], []), "j").header
    assert decode(encode(header) + b"".join(map(encode, lines)), "j").lines == tuple(lines)
