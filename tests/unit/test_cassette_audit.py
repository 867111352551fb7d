"""What `verify` makes again of a cassette, and a cheat who signs his own record."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from appliance.audit import cassettes
from appliance.digests import sha256_hex
from appliance.files import store_blob
from appliance.gateway.cassette import CassetteWriter
from appliance.gateway.exchange import Exchange, Try
from appliance.gateway.forms.refusals import Kind, refusal
from appliance.gateway.prices import price, stamp
from appliance.gateway.usage import total
from appliance.records.blob import BlobRef
from appliance.records.money import total_usd
from appliance.records.plan import PlannedBudget, PlannedUpstream
from appliance.records.record import PricesStamp, Record
from appliance.records.trial import CostByWhom, Usage, UsageByWhom
from attest.checks import Noted, NotRun
from attest.errors import Refused
from tests import record_builder as build
from tests.cassette_builder import asked, exchange

MODEL = "claude-sonnet-4-5"
AT = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
"""A minute before the builder's trials begin."""
USAGE = Usage(input_tokens=2000, cache_read_tokens=800, cache_write_tokens=150, output_tokens=37, reasoning_tokens=0)
UPSTREAM = PlannedUpstream(
    provider="anthropic",
    base_url=None,
    forwarder=build.pin(),
    server=None,
    budget=PlannedBudget(),
    run_budget=PlannedBudget(),
)


def answer(usage: Usage = USAGE) -> bytes:
    """As Anthropic writes it: input without what its cache read and wrote."""
    counts = {
        "input_tokens": usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "output_tokens": usage.output_tokens,
    }
    text = [{"type": "text", "text": "Done."}]
    return json.dumps({"type": "message", "content": text, "stop_reason": "end_turn", "usage": counts}).encode()


def own(kind: Kind) -> bytes:
    """The gateway's own words."""
    return refusal("anthropic", kind, "no").body


def cost(usage: Usage = USAGE) -> str:
    found = price(usage, MODEL, "anthropic", AT)
    assert found is not None
    return found


def answered(order: int, usage: Usage = USAGE, **changes: Any) -> tuple[Exchange, bytes]:
    """One exchange that is as its answer's bytes say."""
    request = asked({"model": MODEL, "n": order})
    fields = {"stream": False, "model": MODEL, "usage": usage, "cost_usd": cost(usage), **changes}
    return exchange(order, request, answer(usage), **fields), answer(usage)


@dataclass
class Made:
    """A record of one trial and what its cassette holds; consistent until something of it is changed."""

    pairs: list[tuple[Exchange, bytes]] = field(default_factory=lambda: [answered(0), answered(1)])
    trial: dict[str, Any] = field(default_factory=dict)
    prices: PricesStamp | None = field(default_factory=stamp)
    prices_at: datetime = AT
    upstream: PlannedUpstream | None = UPSTREAM
    content: Callable[[bytes], bytes] = lambda content: content

    def stored(self, folder: Path) -> Record:
        path = folder / "cassette"
        writer = CassetteWriter(path, self.prices_at)
        for one, response in self.pairs:
            writer.add(one, response)
        writer.close()
        content = self.content(path.read_bytes())
        path.unlink()
        ref = BlobRef(sha256=sha256_hex(content), bytes=len(content))
        store_blob(folder, content, ref.sha256)
        given = [one for one, _ in self.pairs if one.refused is None and one.status == 200]
        fields: dict[str, Any] = {
            "exchanges": len(self.pairs),
            "cassette": ref,
            "usage": UsageByWhom(subject=total(one.usage for one in given)),
            "cost_usd": CostByWhom(subject=total_usd(one.cost_usd for one in given)),
            **self.trial,
        }
        plan = build.plan(solver="agent", kind="command", model=MODEL, upstream=self.upstream)
        return build.record(plan, [build.trial("t1", **fields)], prices=self.prices)


def refused(made: Made, folder: Path) -> Refused:
    with pytest.raises(Refused) as found:
        cassettes.bear_out(made.stored(folder), folder, False)
    return found.value


def test_what_the_cassette_holds_bears_the_record_out(tmp_path: Path) -> None:
    """Rows M14, M15: exchanges, tokens and dollars are made again from the answers' bytes."""
    cassettes.bear_out(Made().stored(tmp_path), tmp_path, False)


def test_refusals_and_an_outage_count_as_exchanges_and_cost_nothing(tmp_path: Path) -> None:
    """Rows M15, M17: what the gateway said by itself, and what the provider refused, is in the count alone."""
    other, budget = own("model"), own("budget")
    extra = [
        (exchange(2, asked({"model": "other"}), other, status=404, refused="model", model="other"), other),
        (exchange(3, asked({"model": MODEL}), b"{}", status=529, refused="provider", model=MODEL), b"{}"),
        (exchange(4, asked({"model": MODEL}), budget, status=429, refused="budget", model=MODEL), budget),
    ]
    made = Made(pairs=[answered(0), answered(1), *extra], trial={"cause": "budget"})
    cassettes.bear_out(made.stored(tmp_path), tmp_path, False)


def diverged(order: int) -> tuple[Exchange, bytes]:
    words = own("diverged")
    return exchange(order, asked({}), words, status=400, refused="diverged"), words


def one_more(name: str) -> Made:
    more = USAGE.model_copy(update={name: getattr(USAGE, name) + 1})
    whole = total([USAGE, more])
    return Made(trial={"usage": UsageByWhom(subject=whole)})


def stated(changed: Usage) -> Made:
    """In the cassette's own words and in the record's, but not in the answer's bytes."""
    first, response = answered(0)
    pairs = [(replace(first, usage=changed, cost_usd=cost(changed)), response), answered(1)]
    return Made(pairs=pairs)


CHEATS: dict[str, tuple[Callable[[], Made], str, str]] = {
    **{
        f"one token of {name} more": (lambda name=name: one_more(name), "$.trials[0].usage.subject", "in its cassette")  # type: ignore[misc]
        for name in Usage.model_fields
    },
    "an exchange less": (lambda: Made(trial={"exchanges": 1}), "$.trials[0].exchanges", "1 stated, 2 in its cassette"),
    "an exchange more": (lambda: Made(trial={"exchanges": 3}), "$.trials[0].exchanges", "3 stated, 2 in its cassette"),
    "a cheaper trial": (
        lambda: Made(trial={"cost_usd": CostByWhom(subject="0.001")}),
        "$.trials[0].costUsd.subject",
        "0.001 stated",
    ),
    "a trial without a price": (
        lambda: Made(trial={"cost_usd": CostByWhom(subject=None)}),
        "$.trials[0].costUsd.subject",
        "None stated",
    ),
    "fewer tokens in the cassette's own words": (
        lambda: stated(USAGE.model_copy(update={"output_tokens": 36})),
        "$.trials[0].cassette: 00000",
        "36 output stated",
    ),
    "a cheaper exchange in the cassette's own words": (
        lambda: Made(pairs=[(replace(answered(0)[0], cost_usd="0"), answer()), answered(1)]),
        "$.trials[0].cassette: 00000",
        "0 US dollars stated",
    ),
    "an answer of another model": (
        lambda: Made(pairs=[answered(0, model="claude-haiku-4-5"), answered(1)]),
        "$.trials[0].cassette: 00000",
        "claude-haiku-4-5 answered",
    ),
    "an answer in another form": (
        lambda: Made(pairs=[answered(0, form="gemini"), answered(1)]),
        "$.trials[0].cassette: 00000",
        "the form gemini",
    ),
    "an answer that is called a refusal, so as not to count": (
        lambda: Made(
            pairs=[answered(0, refused="provider"), answered(1)],
            trial={"usage": UsageByWhom(subject=total([USAGE, USAGE]))},
        ),
        "$.trials[0].cassette: 00000",
        "called refused (provider), and a model's answer of",
    ),
    "a budget that nothing was refused for": (
        lambda: Made(trial={"cause": "budget"}),
        "$.trials[0].cause",
        "nothing was refused",
    ),
    "a replay that was none": (
        lambda: Made(trial={"replay_level": "exact"}),
        "$.trials[0].replayLevel",
        "exact stated, None in its cassette",
    ),
    "a replay of a higher level": (
        lambda: Made(
            pairs=[answered(0, replay_level="structural", replay_of=0), answered(1, replay_level="exact", replay_of=1)],
            trial={"replay_level": "exact"},
        ),
        "$.trials[0].replayLevel",
        "exact stated, structural in its cassette",
    ),
    "a divergence that is not told": (
        lambda: Made(
            pairs=[
                answered(0),
                (exchange(1, asked({}), own("diverged"), status=400, refused="diverged"), own("diverged")),
            ],
            trial={"outcome": "errored", "reason": "provider_failed"},
        ),
        "$.trials[0].reason",
        "False stated, True in its cassette",
    ),
    "prices of a cheaper day": (
        lambda: Made(prices_at=datetime(2025, 1, 2, tzinfo=UTC)),
        "$.trials[0].costUsd.subject",
        "priced by 2025-01-02",
    ),
    "no cassette": (lambda: Made(trial={"cassette": None}), "$.trials[0].cassette", "and no cassette"),
    "what is no cassette": (lambda: Made(content=lambda _: b"{}"), "$.trials[0].cassette", "not a cassette"),
    "half a cassette": (lambda: Made(content=lambda c: c[: len(c) // 2]), "$.trials[0].cassette", "is cut off"),
}


NO_CASSETTES = {"what is no cassette", "half a cassette"}


@pytest.mark.parametrize("name", CHEATS)
def test_a_record_that_its_cassette_does_not_bear_out_is_refused(tmp_path: Path, name: str) -> None:
    """Rows M14, M15: by one token, one exchange, one digit; where and what is named."""
    made, where, words = CHEATS[name]
    found = refused(made(), tmp_path)
    assert found.reason == ("blob" if name in NO_CASSETTES else "aggregate")
    assert str(found.where).startswith(where)
    assert words in found.message


def test_a_cassette_that_is_not_there_is_not_run_as_other_blobs_are(tmp_path: Path) -> None:
    """`--allow-missing-blobs` takes it, and nothing else does."""
    record = Made().stored(tmp_path)
    ref = record.trials[0].cassette
    assert ref is not None
    (tmp_path / "sha256" / ref.sha256).unlink()
    for folder in (tmp_path, None):
        for allowed in (False, True):
            with pytest.raises(NotRun) as found:
                cassettes.bear_out(record, folder, allowed)
            assert found.value.acceptable is allowed


OTHER = PricesStamp(source="genai-prices", version="0.0.1")


def noted(made: Made, folder: Path) -> str:
    with pytest.raises(Noted) as found:
        cassettes.bear_out(made.stored(folder), folder, False)
    return found.value.what


def test_prices_of_another_release_that_ours_gives_too_are_borne_out(tmp_path: Path) -> None:
    """Row M15: ours is asked whatever the stamp says."""
    cassettes.bear_out(Made(prices=OTHER).stored(tmp_path), tmp_path, False)


def priced_at(one: str | None, summed: str | None) -> Made:
    return Made(
        prices=OTHER,
        pairs=[answered(0, cost_usd=one), answered(1)],
        trial={"cost_usd": CostByWhom(subject=summed)},
    )


def test_prices_of_another_release_that_ours_does_not_give_are_told_with_both_amounts(tmp_path: Path) -> None:
    """Row M15: another release may know better, so it is no refusal; and nobody has to look for it."""
    words = noted(priced_at("0.001", total_usd(["0.001", cost()])), tmp_path)
    assert words.startswith("priced by genai-prices 0.0.1, and installed here is genai-prices ")
    assert f"$.trials[0].cassette: 00000: 0.001 US dollars stated, {cost()} by its tokens" in words


UNPRICED = json.loads(answer()) | {"usage": json.loads(answer())["usage"] | {"service_tier": "priority"}}
STRANGE_PRICES: dict[str, tuple[Callable[[], Made], str, str]] = {
    "a stamp of another release, and nothing paid": (
        lambda: Made(
            prices=OTHER,
            pairs=[answered(order, cost_usd="0") for order in range(2)],
            trial={"cost_usd": CostByWhom(subject="0")},
        ),
        "$.trials[0].cassette: 00000",
        "0 US dollars stated",
    ),
    "a stamp of another release, and a sum that its own exchanges do not have": (
        lambda: Made(prices=OTHER, trial={"cost_usd": CostByWhom(subject="0")}),
        "$.trials[0].costUsd.subject",
        "0 stated",
    ),
    "a stamp of another release, and a price for what has none in any": (
        lambda: Made(
            prices=OTHER,
            pairs=[
                (replace(answered(0)[0], body_bytes=0, cost_usd="0.1"), json.dumps(UNPRICED).encode()),
                answered(1),
            ],
            trial={"cost_usd": CostByWhom(subject=total_usd(["0.1", cost()]))},
        ),
        "$.trials[0].cassette: 00000",
        "None by its tokens",
    ),
    "a stamp of no list of ours": (
        lambda: Made(prices=PricesStamp(source="my-list", version="1")),
        "$.prices.source",
        "my-list, and prices are those of genai-prices",
    ),
    "no stamp at all": (
        lambda: Made(
            prices=None,
            pairs=[answered(order, cost_usd=None) for order in range(2)],
            trial={"cost_usd": CostByWhom(subject=None)},
        ),
        "$.prices",
        "the plan's provider sells its answers",
    ),
    "a stamp, and a model that nobody sells": (
        lambda: Made(upstream=UPSTREAM.model_copy(update={"provider": "compatible", "base_url": "http://127.0.0.1:1"})),
        "$.prices",
        "no list has those",
    ),
}


@pytest.mark.parametrize("name", STRANGE_PRICES)
def test_no_stamp_of_prices_makes_dollars_free(tmp_path: Path, name: str) -> None:
    """Row M15: whatever list a record names."""
    made, where, words = STRANGE_PRICES[name]
    found = refused(made(), tmp_path)
    assert (found.reason, found.where) == ("aggregate", where)
    assert words in found.message


FLAGS: dict[str, dict[str, Any]] = {
    "act count_tokens": {"act": "count_tokens"},
    "act models": {"act": "models"},
    "no route": {"act": None, "form": None},
    "status 404": {"status": 404},
    "status 499": {"status": 499},
    "broken off": {"complete": False},
    **{
        f"refused for {why}, status {status}": {"refused": why, "status": status}
        for why in ("provider", "budget", "run_budget", "model", "route", "malformed", "too_large", "diverged")
        for status in (200, 429)
    },
}
TARGETS: dict[str, dict[str, Any]] = {
    "a target that counts": {"target": "/v1/messages/count_tokens"},
    "a target of another form": {"target": "/v1/chat/completions"},
    "a target of no form": {"target": "/anything"},
    "a list of models": {"target": "/v1/models", "method": "GET"},
}


def hidden(order: int = 1, **flags: Any) -> Made:
    """The second answer's bytes as they were, and a word beside them by which it would not count."""
    one, response = answered(order)
    pairs = [answered(0), (replace(one, usage=None, cost_usd=None, **flags), response)]
    return Made(pairs=pairs, trial={"usage": UsageByWhom(subject=USAGE), "cost_usd": CostByWhom(subject=cost())})


@pytest.mark.parametrize("name", FLAGS)
def test_no_word_beside_an_answer_takes_its_tokens_away(tmp_path: Path, name: str) -> None:
    """Rows M14, M15: what an exchange is follows from its bytes, not from what is written of it."""
    found = refused(hidden(**FLAGS[name]), tmp_path)
    assert (found.reason, found.where) == ("aggregate", "$.trials[0].cassette: 00001")


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("status", [200, 404])
def test_no_other_target_takes_an_answers_tokens_away(tmp_path: Path, name: str, status: int) -> None:
    """Rows M14, M15: an answer is looked for in all four forms."""
    request = asked({"model": MODEL, "n": 1}, **TARGETS[name])
    one = exchange(1, request, answer(), model=MODEL, stream=False, status=status)
    totals = {"usage": UsageByWhom(subject=USAGE), "cost_usd": CostByWhom(subject=cost())}
    found = refused(Made(pairs=[answered(0), (one, answer())], trial=totals), tmp_path)
    known = {"$.trials[0].cassette: 00001", "$.trials[0].usage.subject"}
    assert found.reason == "aggregate" and found.where in known


def test_an_answer_that_began_and_said_no_usage_is_no_refusal_of_ours(tmp_path: Path) -> None:
    """Rows M14, M15: its tokens are unknown, and calling it refused would make them none."""
    begun = b'event: content_block_delta\ndata: {"type":"content_block_delta","delta":{"text":"x"}}\n\n'
    one = exchange(1, asked({"model": MODEL}), begun, model=MODEL, status=429, refused="budget")
    totals = {"usage": UsageByWhom(subject=USAGE), "cost_usd": CostByWhom(subject=cost())}
    found = refused(Made(pairs=[answered(0), (one, begun)], trial=totals), tmp_path)
    assert "called refused (budget), and a model's answer" in found.message


def test_an_answer_that_nobody_waited_for_is_unknown_and_not_nothing(tmp_path: Path) -> None:
    """Rows M4, M15: a model was asked, and its agent left before a byte."""
    tries = (Try(0.0, 1.0, None, "left while it was under way"),)
    left = exchange(1, asked({"model": MODEL}), b"", model=MODEL, status=499, tries=tries, complete=False)
    unknown = {"usage": UsageByWhom(subject=None), "cost_usd": CostByWhom(subject=None)}
    cassettes.bear_out(Made(pairs=[answered(0), (left, b"")], trial=unknown).stored(tmp_path), tmp_path, False)
    known = {"usage": UsageByWhom(subject=USAGE), "cost_usd": CostByWhom(subject=cost())}
    assert "None in its cassette" in refused(Made(pairs=[answered(0), (left, b"")], trial=known), tmp_path).message
    hidden_away = replace(left, refused="model", status=404)
    found = refused(Made(pairs=[answered(0), (hidden_away, b"")], trial=known), tmp_path)
    assert "not the gateway's words" in found.message


def test_an_answer_to_a_request_for_another_model_is_refused(tmp_path: Path) -> None:
    """Rows M14, M15: which model was asked stands in the request's bytes."""
    request = asked({"model": "claude-haiku-4-5"})
    one = exchange(0, request, answer(), stream=False, model=MODEL, usage=USAGE, cost_usd=cost())
    found = refused(Made(pairs=[(one, answer()), answered(1)]), tmp_path)
    assert "claude-haiku-4-5 was asked for" in found.message


def replayed(order: int, **changes: Any) -> tuple[Exchange, bytes]:
    return answered(order, **{"replay_level": "exact", "replay_of": order, **changes})


def test_a_replay_is_noted_as_one_whatever_day_it_is(tmp_path: Path) -> None:
    """Row M14: its prices are those of what it replays."""
    past = datetime(2025, 11, 2, tzinfo=UTC)
    made = Made(pairs=[replayed(0), replayed(1)], prices_at=past, trial={"replay_level": "exact"})
    assert noted(made, tmp_path) == "a replay of recorded answers: no model was asked"


HALF_REPLAYS: dict[str, tuple[Callable[[], Made], str]] = {
    "of which one answer was not recorded": (
        lambda: Made(pairs=[replayed(0), answered(1)], trial={"replay_level": "exact"}),
        "not recorded before",
    ),
    "by one recorded answer twice": (
        lambda: Made(pairs=[replayed(0), replayed(1, replay_of=0)], trial={"replay_level": "exact"}),
        "as another was",
    ),
    "of nothing": (
        lambda: Made(pairs=[replayed(0), replayed(1, replay_of=None)], trial={"replay_level": "exact"}),
        "are there together",
    ),
    "for which an upstream was tried": (
        lambda: Made(
            pairs=[replayed(0), replayed(1, tries=(Try(0.0, 1.0, 200, None),))], trial={"replay_level": "exact"}
        ),
        "was tried",
    ),
    "by prices of a day to come": (
        lambda: Made(
            pairs=[replayed(0), replayed(1)],
            prices_at=datetime(2026, 6, 1, tzinfo=UTC),
            trial={"replay_level": "exact"},
        ),
        "priced by 2026-06-01",
    ),
}


@pytest.mark.parametrize("name", HALF_REPLAYS)
def test_a_replay_that_is_not_one_throughout_is_refused(tmp_path: Path, name: str) -> None:
    """Row M14: to call a trial a replay frees its price's day, so it has to be one."""
    made, words = HALF_REPLAYS[name]
    assert words in refused(made(), tmp_path).message


def test_a_record_of_replays_and_live_trials_is_refused(tmp_path: Path) -> None:
    """Row M14: a run replays all of its trials or none."""
    record = Made(pairs=[replayed(0), replayed(1)], trial={"replay_level": "exact"}).stored(tmp_path)
    live = Made().stored(tmp_path).trials[0]
    mixed = record.model_copy(update={"trials": (*record.trials, live)})
    with pytest.raises(Refused, match="others of this record replay") as found:
        cassettes.bear_out(mixed, tmp_path, False)
    assert found.value.where == "$.trials[1].replayLevel"


@pytest.mark.parametrize(
    ("name", "stated"),
    [
        ("usage", UsageByWhom(subject=USAGE)),
        ("cost_usd", CostByWhom(subject="0.1")),
        ("replay_level", "exact"),
    ],
)
def test_a_trial_without_exchanges_states_nothing_of_them(tmp_path: Path, name: str, stated: Any) -> None:
    """Rows M14, M15: no cassette is there that could bear it out."""
    nothing = Usage(**dict.fromkeys(Usage.model_fields, 0))
    none = {
        "exchanges": 0,
        "cassette": None,
        "usage": UsageByWhom(subject=nothing),
        "cost_usd": CostByWhom(subject="0"),
    }
    cassettes.bear_out(Made(trial=none).stored(tmp_path), tmp_path, False)
    found = refused(Made(trial={**none, name: stated}), tmp_path)
    assert "no exchange with a model is" in found.message


@pytest.mark.parametrize("name", ["exchanges", "cassette", "usage", "cost_usd"])
def test_without_a_gateway_in_the_plan_nothing_of_one_is_stated(tmp_path: Path, name: str) -> None:
    """Rows M14, M15: a plan without an upstream is no way around the cassette."""
    none: dict[str, Any] = {
        "exchanges": None,
        "cassette": None,
        "usage": UsageByWhom(),
        "cost_usd": CostByWhom(),
    }
    cassettes.bear_out(Made(upstream=None, prices=None, trial=none).stored(tmp_path), tmp_path, False)
    del none[name]
    found = refused(Made(upstream=None, prices=None, trial=none), tmp_path)
    assert "the plan has no model's gateway" in found.message


def test_a_local_model_has_tokens_and_no_price(tmp_path: Path) -> None:
    """Row M15: null is never zero."""
    upstream = UPSTREAM.model_copy(update={"provider": "compatible", "base_url": "http://127.0.0.1:1"})
    pairs = [answered(order, cost_usd=None) for order in range(2)]
    cassettes.bear_out(Made(pairs=pairs, prices=None, upstream=upstream).stored(tmp_path), tmp_path, False)
    priced = Made(pairs=pairs, prices=None, upstream=upstream, trial={"cost_usd": CostByWhom(subject="0")})
    assert refused(priced, tmp_path).where == "$.trials[0].costUsd.subject"
    listing = b'{"object":"list"}'
    asked_nothing = exchange(0, asked(b"", method="GET", target="/v1/models"), listing, stream=False, model=None)
    totals = {
        "usage": UsageByWhom(subject=Usage(**dict.fromkeys(Usage.model_fields, 0))),
        "cost_usd": CostByWhom(subject=None),
    }
    made = Made(pairs=[(asked_nothing, listing)], prices=None, upstream=upstream, trial=totals)
    cassettes.bear_out(made.stored(tmp_path), tmp_path, False)
    made.trial["cost_usd"] = CostByWhom(subject="0")
    assert refused(made, tmp_path).where == "$.trials[0].costUsd.subject"
