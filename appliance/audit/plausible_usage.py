"""Tokens and dollars. What was counted on the wire is `subject`; what the solver says of itself is `claimed`.

The cassette itself is read by a check of its own (audit/cassettes.py): here it is enough that there is one.
"""

from __future__ import annotations

from collections.abc import Iterator

from appliance.audit.plausible import Fault, Seen
from appliance.records.trial import Usage

_BUILT_IN = frozenset({"reference", "noop"})


def counted_over_the_wire(seen: Seen) -> Iterator[Fault]:
    """Tokens need exchanges, exchanges need a model, a cassette needs exchanges; and reasoning is part of the output:
    subject > 0 => exchanges > 0; exchanges > 0 => the plan has a model; cassette => exchanges > 0;
    reasoningTokens <= outputTokens."""
    modelless = seen.record.solver.kind in _BUILT_IN or seen.record.plan.model is None
    for at, trial in enumerate(seen.record.trials):
        here, subject = f"$.trials[{at}]", trial.usage.subject
        if subject is not None and _sum(subject) and not trial.exchanges:
            yield Fault(f"{here}.usage.subject", f"{_sum(subject)} tokens in {trial.exchanges or 'no'} exchanges")
        if modelless and trial.exchanges:
            yield Fault(f"{here}.exchanges", f"{trial.exchanges}, and its plan has no model")
        if trial.cassette is not None and not trial.exchanges:
            yield Fault(f"{here}.cassette", "a transcript of no exchange")
        for name in ("subject", "judge"):
            usage: Usage | None = getattr(trial.usage, name)
            if usage is not None and usage.reasoning_tokens > usage.output_tokens:
                words = f"{usage.reasoning_tokens} of reasoning in {usage.output_tokens} of output"
                yield Fault(f"{here}.usage.{name}.reasoningTokens", words)


def claimed_as_counted(seen: Seen) -> Iterator[Fault]:
    """|claimed - subject| <= usage_tolerance x subject, of input (with what a cache held) and of output each, where
    there are both. Row P8: usage not the transcript's."""
    for at, trial in enumerate(seen.record.trials):
        subject, claimed = trial.usage.subject, trial.usage.claimed
        if subject is None or claimed is None:
            continue
        for name, counted, said in (
            ("input", _input(subject), _input(claimed)),
            ("output", subject.output_tokens, claimed.output_tokens),
        ):
            if abs(said - counted) > seen.rules.usage_tolerance * counted:
                yield Fault(f"$.trials[{at}].usage.claimed", f"{name}: {said} claimed, {counted} counted")


def tokens_fit_the_wall(seen: Seen) -> Iterator[Fault]:
    """output tokens of the subject <= most_output_tokens_per_second x wall."""
    for one in seen.ran:
        subject = one.trial.usage.subject
        if subject is not None and subject.output_tokens > seen.rules.most_output_tokens_per_second * one.wall:
            words = f"{subject.output_tokens} tokens in {one.wall:.3f} s"
            yield Fault(f"{one.here}.usage.subject.outputTokens", words)


def costs_have_prices(seen: Seen) -> Iterator[Fault]:
    """A cost that is not 0 has a table of prices, and tokens that it was reckoned from."""
    for at, trial in enumerate(seen.record.trials):
        for name in ("subject", "judge"):
            cost = getattr(trial.cost_usd, name)
            if cost is None or float(cost) == 0.0:
                continue
            here = f"$.trials[{at}].costUsd.{name}"
            if seen.record.prices is None:
                yield Fault(here, f"{cost} US dollars, and the record names no prices")
            elif getattr(trial.usage, name) is None:
                yield Fault(here, f"{cost} US dollars, and no tokens were counted")


def _input(usage: Usage) -> int:
    """What a cache held is in it (row M4)."""
    return usage.input_tokens


def _sum(usage: Usage) -> int:
    return _input(usage) + usage.output_tokens
