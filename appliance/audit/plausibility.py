"""Row P8: figures that a genuine signature makes no more believable. What fails here is quarantined, never excluded.

Each is a pure question to one record, with its formula; each is a check of its own, so a report lists every one that
failed, and each refusal counts the places where it did. What contradicts itself (a net above its gross, joules that
their readings do not give, limits that differ from the plan's) is refused outright by the checks before these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from appliance.audit import plausible_energy, plausible_outcomes, plausible_time, plausible_usage
from appliance.audit.opened import Opened
from appliance.audit.plausible import Fault, Formula, Seen
from appliance.audit.policy import Policy
from attest.checks import Check, Verified
from attest.errors import Refused


@dataclass(frozen=True, slots=True)
class Rule:
    """One of the checks."""

    name: str
    formula: Formula
    bounds: tuple[str, ...] = ()
    """Keys of the policy's `[plausibility]` that the formula reads: whoever fails it is told their values."""


RULES: Final[tuple[Rule, ...]] = (
    Rule("its joules are above a host's rest", plausible_energy.above_the_least, ("idle_watts",)),
    Rule(
        "its joules are below what its host can take",
        plausible_energy.below_the_most,
        ("most_watts", "most_watts_per_core", "most_watts_per_gpu"),
    ),
    Rule("its joules are above the rest that was looked at", plausible_energy.above_its_own_rest, ("rest_tolerance",)),
    Rule(
        "its rest leaves something for its solver", plausible_energy.rest_leaves_something, ("most_below_idle_share",)
    ),
    Rule("its estimates know their host", plausible_energy.estimates_know_their_host),
    Rule("its walls end at their limits", plausible_time.within_the_limit, ("wall_slack_seconds",)),
    Rule("its trials start within their run", plausible_time.within_the_run, ("clock_slack_seconds",)),
    Rule("it was signed after its trials", plausible_time.before_the_signature, ("clock_slack_seconds",)),
    Rule("it was signed before now", plausible_time.signed_in_the_past, ("clock_slack_seconds",)),
    Rule("its trials began after its challenge", plausible_time.after_the_challenge, ("clock_slack_seconds",)),
    Rule("its walls fit since its challenge", plausible_time.fit_since_the_challenge, ("most_jobs_per_core",)),
    Rule("its trials overlap as its host allows", plausible_time.overlap_as_allowed, ("most_jobs_per_core",)),
    Rule("its trials fit one behind another", plausible_time.fit_one_behind_another, ("clock_slack_seconds",)),
    Rule("its walls are those of a clock", plausible_time.walls_of_a_clock, ("most_equal_walls", "most_round_walls")),
    Rule("its solvers had time to answer", plausible_time.time_to_answer, ("least_solver_seconds",)),
    Rule("its graders had time to test", plausible_time.time_to_test, ("least_test_seconds",)),
    Rule("its CPU time fits its walls", plausible_outcomes.cpu_fits_the_wall, ("cpu_tolerance", "cpu_slack_seconds")),
    Rule("its memory fits its limits", plausible_outcomes.memory_fits_the_limit),
    Rule("its rates are of something", plausible_outcomes.rates_of_something),
    Rule("what is resolved was changed", plausible_outcomes.resolved_by_a_change),
    Rule("each of its tasks has one set of tests", plausible_outcomes.one_set_of_tests),
    Rule("its tokens came over the wire", plausible_usage.counted_over_the_wire),
    Rule("its tokens are those that its solver says", plausible_usage.claimed_as_counted, ("usage_tolerance",)),
    Rule("its tokens fit their time", plausible_usage.tokens_fit_the_wall, ("most_output_tokens_per_second",)),
    Rule("its costs have prices", plausible_usage.costs_have_prices),
)


def plausibility_checks(
    policy: Policy, *, now: datetime, issued_at: datetime | None = None, opened: Opened | None = None
) -> Sequence[Check]:
    """Each refusal is of class policy, with the word `implausible`. `issued_at`: when the record's challenge was made,
    by our clock, if we made it. `opened`: shared with other lists of checks."""
    shared = opened or Opened()
    kept: list[tuple[Verified, Seen]] = []

    def seen(verified: Verified) -> Seen:
        """Sorted by hosts and clocks once for all formulas."""
        if not kept or kept[0][0] is not verified:
            record = shared.record(verified)
            kept[:] = [(verified, Seen(record, policy.plausibility, verified.signed_at, now, issued_at))]
        return kept[0][1]

    def check(rule: Rule) -> Check:
        bounds = ", ".join(f"{key} = {getattr(policy.plausibility, key):g}" for key in rule.bounds)
        return Check(rule.name, lambda verified: _refuse(rule.formula(seen(verified)), bounds), "policy")

    return tuple(check(rule) for rule in RULES)


def _refuse(faults: Iterator[Fault], bounds: str) -> None:
    first = next(faults, None)
    if first is None:
        return
    more = sum(1 for _ in faults)
    words = f"{first.words} (and {more} more)" if more else first.words
    if bounds:
        words += f"; the policy has {bounds}"
    raise Refused("policy", words, where=first.where, word="implausible")
