"""Clocks and walls. A trial begins at `startedAt` (to the millisecond), then its container is made; its wall is the
solver's, by a clock of nanoseconds. So it ended no sooner than startedAt + wall."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from appliance.audit.plausible import Fault, Ran, Seen, moment
from attest.checks import NotRun

_NS: Final = 10**9
_MS_IN_NS: Final = 10**6
_NO_CHALLENGE: Final = "it has no challenge whose issue is known here"


def within_the_limit(seen: Seen) -> Iterator[Fault]:
    """0 <= wall <= limit + wall_slack_seconds: the harness kills at the limit."""
    for one in seen.ran:
        limit = one.trial.limits.asked.wall_seconds
        if one.wall < 0:
            yield Fault(f"{one.here}.wallSeconds", f"{one.wall:.3f} s")
        if one.wall > limit + seen.rules.wall_slack_seconds:
            yield Fault(f"{one.here}.wallSeconds", f"{one.wall:.3f} s, and its limit is {limit:g} s")


def within_the_run(seen: Seen) -> Iterator[Fault]:
    """startedAt >= date - clock_slack_seconds: `date` is when the run began."""
    began = moment(seen.record.date, "$.date").timestamp()
    for at, trial in enumerate(seen.record.trials):
        here = f"$.trials[{at}].startedAt"
        if moment(trial.started_at, here).timestamp() < began - seen.rules.clock_slack_seconds:
            yield Fault(here, f"{trial.started_at}, and its run began at {seen.record.date}")


def before_the_signature(seen: Seen) -> Iterator[Fault]:
    """startedAt + wall <= signed time + clock_slack_seconds, and date too: nobody signs what has not happened."""
    signed = seen.signed_at.timestamp() + seen.rules.clock_slack_seconds
    if moment(seen.record.date, "$.date").timestamp() > signed:
        yield Fault("$.date", f"{seen.record.date}, and it was signed at {_shown(seen)}")
    for at, trial in enumerate(seen.record.trials):
        here = f"$.trials[{at}].startedAt"
        if moment(trial.started_at, here).timestamp() + (trial.wall_seconds or 0.0) > signed:
            yield Fault(here, f"{trial.started_at} and its wall, and it was signed at {_shown(seen)}")


def signed_in_the_past(seen: Seen) -> Iterator[Fault]:
    """signed time <= now + clock_slack_seconds: a local clock that was set forward makes a record younger for long."""
    if seen.signed_at.timestamp() > seen.now.timestamp() + seen.rules.clock_slack_seconds:
        yield Fault("bundle", f"signed at {_shown(seen)}, and now it is {seen.now:%Y-%m-%dT%H:%M:%SZ}")


def after_the_challenge(seen: Seen) -> Iterator[Fault]:
    """startedAt >= issued - clock_slack_seconds: what ran before its challenge was made was not made for it."""
    if seen.issued_at is None:
        raise NotRun(_NO_CHALLENGE, acceptable=True)
    issued = seen.issued_at.timestamp() - seen.rules.clock_slack_seconds
    for at, trial in enumerate(seen.record.trials):
        here = f"$.trials[{at}].startedAt"
        if moment(trial.started_at, here).timestamp() < issued:
            words = f"{trial.started_at}, and its challenge was made at {seen.issued_at:%Y-%m-%dT%H:%M:%SZ}"
            yield Fault(here, words)


def fit_since_the_challenge(seen: Seen) -> Iterator[Fault]:
    """Of one host, sum of walls <= (now - issued) x jobs; jobs is 1 where windows are exclusive, and otherwise
    max(1, most_jobs_per_core x cores). Both moments are the receiver's: no clock of the publisher's moves them."""
    if seen.issued_at is None:
        raise NotRun(_NO_CHALLENGE, acceptable=True)
    spent = seen.now.timestamp() - seen.issued_at.timestamp()
    for number, trials in seen.by_host.items():
        jobs = 1.0 if seen.record.plan.energy.scheduling == "exclusive" else _jobs(seen, number)
        walls = sum(one.wall for one in trials)
        if walls > spent * jobs:
            words = f"{walls:.3f} s of walls on host {number}, {jobs:g} at a time, in the {spent:.0f} s since"
            yield Fault(f"{trials[0].here}.startedAt", f"{words} its challenge was made")


def overlap_as_allowed(seen: Seen) -> Iterator[Fault]:
    """Of one host, at most max(1, most_jobs_per_core x cores) spans [startedAt, startedAt + wall] share a moment."""
    for number, trials in seen.by_host.items():
        most = _jobs(seen, number)
        ends: list[float] = []
        for one in trials:
            while ends and ends[0] <= one.started:
                heapq.heappop(ends)
            heapq.heappush(ends, one.ended)
            if len(ends) > most:
                yield Fault(f"{one.here}.startedAt", f"{len(ends)} trials of host {number} at once, over {most:g}")


def _jobs(seen: Seen, number: int) -> float:
    cores = seen.record.hosts[number].cores if number < len(seen.record.hosts) else 1
    return max(1.0, seen.rules.most_jobs_per_core * cores)


def fit_one_behind_another(seen: Seen) -> Iterator[Fault]:
    """Where windows are exclusive: from each trial's start to the signature there is room for its wall and those of
    all that began after it, one behind another. (Their preparations may overlap, their walls never.)"""
    if seen.record.plan.energy.scheduling != "exclusive":
        return
    end = seen.signed_at.timestamp() + seen.rules.clock_slack_seconds
    for number, trials in seen.by_host.items():
        needed = 0.0
        for one in reversed(trials):
            needed += one.wall
            if one.started + needed > end:
                words = f"from here on {needed:.3f} s of walls on host {number}, one at a time, and it was signed"
                yield Fault(f"{one.here}.startedAt", f"{words} at {_shown(seen)}")
                break


def walls_of_a_clock(seen: Seen) -> Iterator[Fault]:
    """No wall stands more than most_equal_walls times, to the nanosecond; no more than most_round_walls of them are
    whole milliseconds. Row P8: the same nanosecond wall in 20 trials."""
    walls = [(one, round(one.wall * _NS)) for one in seen.ran]
    counts = Counter(wall for _, wall in walls)
    said: set[int] = set()
    for one, wall in walls:
        if counts[wall] > seen.rules.most_equal_walls and wall not in said:
            said.add(wall)
            yield Fault(f"{one.here}.wallSeconds", f"{wall} ns in {counts[wall]} trials")
    round_walls = [one for one, wall in walls if wall % _MS_IN_NS == 0]
    if len(round_walls) > seen.rules.most_round_walls:
        words = f"{len(round_walls)} walls of whole milliseconds, of {len(walls)}"
        yield Fault(f"{round_walls[0].here}.wallSeconds", words)


def time_to_answer(seen: Seen) -> Iterator[Fault]:
    """wall >= least_solver_seconds of what is resolved."""
    for one in seen.ran:
        if one.trial.outcome == "resolved" and one.wall < seen.rules.least_solver_seconds:
            yield Fault(f"{one.here}.wallSeconds", f"resolved in {one.wall:.9f} s")


def time_to_test(seen: Seen) -> Iterator[Fault]:
    """On a host that ran one trial at a time: next startedAt - (startedAt + wall) >= least_test_seconds of what is
    resolved, since between the two the solver's container goes, another one starts, and the test runs."""
    for trials in seen.by_host.values():
        pairs = list(pairwise(trials))
        if any(following.started < one.ended for one, following in pairs):
            continue  # several at a time: the next one's start says nothing of this one's end
        for one, following in pairs:
            yield from _tested(seen, one, following)


def _tested(seen: Seen, one: Ran, following: Ran) -> Iterator[Fault]:
    left = following.started - one.ended
    if one.trial.outcome == "resolved" and left < seen.rules.least_test_seconds:
        words = f"resolved, and {left:.3f} s for its test before {following.here} began"
        yield Fault(f"{one.here}.startedAt", words)


def _shown(seen: Seen) -> str:
    return f"{seen.signed_at:%Y-%m-%dT%H:%M:%SZ}"
