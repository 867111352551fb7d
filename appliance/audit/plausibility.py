"""Row P8: figures that a genuine signature makes no more believable. What fails here is quarantined, never excluded.

Each is a pure question to one record, with its formula; each is a check of its own, so a report lists every one that
failed, and each refusal counts the places where it did. What contradicts itself (a net above its gross, joules that
their readings do not give, limits that differ from the plan's) is refused outright by the checks before these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from appliance.audit import plausible_energy, plausible_outcomes, plausible_time, plausible_usage
from appliance.audit.opened import Opened
from appliance.audit.plausible import Fault, Formula, Seen
from appliance.audit.policy import Policy
from attest.checks import Check, Verified
from attest.errors import Refused

FORMULAS: Final[tuple[tuple[str, Formula], ...]] = (
    ("its joules are above a host's rest", plausible_energy.above_the_least),
    ("its joules are below what its host can take", plausible_energy.below_the_most),
    ("its joules are above the rest that was looked at", plausible_energy.above_its_own_rest),
    ("its rest leaves something for its solver", plausible_energy.rest_leaves_something),
    ("its estimates know their host", plausible_energy.estimates_know_their_host),
    ("its walls end at their limits", plausible_time.within_the_limit),
    ("its trials start within their run", plausible_time.within_the_run),
    ("it was signed after its trials", plausible_time.before_the_signature),
    ("it was signed before now", plausible_time.signed_in_the_past),
    ("its trials began after its challenge", plausible_time.after_the_challenge),
    ("its walls fit since its challenge", plausible_time.fit_since_the_challenge),
    ("its trials overlap as its host allows", plausible_time.overlap_as_allowed),
    ("its trials fit one behind another", plausible_time.fit_one_behind_another),
    ("its walls are those of a clock", plausible_time.walls_of_a_clock),
    ("its solvers had time to answer", plausible_time.time_to_answer),
    ("its graders had time to test", plausible_time.time_to_test),
    ("its CPU time fits its walls", plausible_outcomes.cpu_fits_the_wall),
    ("its memory fits its limits", plausible_outcomes.memory_fits_the_limit),
    ("its rates are of something", plausible_outcomes.rates_of_something),
    ("what is resolved was changed", plausible_outcomes.resolved_by_a_change),
    ("each of its tasks has one set of tests", plausible_outcomes.one_set_of_tests),
    ("its tokens came over the wire", plausible_usage.counted_over_the_wire),
    ("its tokens are those that its solver says", plausible_usage.claimed_as_counted),
    ("its tokens fit their time", plausible_usage.tokens_fit_the_wall),
    ("its costs have prices", plausible_usage.costs_have_prices),
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

    def check(name: str, formula: Formula) -> Check:
        return Check(name, lambda verified: _refuse(formula(seen(verified))), "policy")

    return tuple(check(name, formula) for name, formula in FORMULAS)


def _refuse(faults: Iterator[Fault]) -> None:
    first = next(faults, None)
    if first is None:
        return
    more = sum(1 for _ in faults)
    words = f"{first.words} (and {more} more)" if more else first.words
    raise Refused("policy", words, where=first.where, word="implausible")
