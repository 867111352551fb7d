"""How a trial ended, from what was seen of it."""

from __future__ import annotations

import pytest

from appliance.records.words import Cause
from appliance.trials.outcomes import (
    FailureWatch,
    SolverEnd,
    Verdict,
    cause_of,
    outcome_of,
    worth_another_try,
)

RESOLVED = Verdict("resolved")
FAILED = Verdict("unresolved", "tests_failed", "exit 1")


def end(**changes: object) -> SolverEnd:
    seen: dict[str, object] = {
        "exit": 0,
        "timed_out": False,
        "start_error": None,
        "oom_kills": 0,
        "pids_denied": 0,
        "disk_full": False,
    }
    return SolverEnd(**(seen | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seen", "cause"),
    [
        (end(), "exit"),
        (end(exit=3), "exit"),
        (end(exit=127), "exit"),
        (end(exit=137), "signal"),
        (end(exit=137, oom_kills=1), "oom"),
        (end(exit=1, oom_kills=1), "oom"),
        (end(exit=0, oom_kills=1), "exit"),
        (end(exit=2, pids_denied=9), "pids"),
        (end(exit=1, disk_full=True), "disk"),
        (end(exit=None, timed_out=True, oom_kills=1), "timeout"),
        (end(exit=1, oom_kills=None, pids_denied=None), "exit"),
        (end(exit=None, start_error="no such file"), None),
    ],
)
def test_the_cause_is_what_ended_the_solver(seen: SolverEnd, cause: Cause | None) -> None:
    """J12, I17: a limit that was met and survived is no cause; 126 and 127 of a started program are exits."""
    assert cause_of(seen) == cause


@pytest.mark.parametrize("cause", ["exit", "signal", "timeout", "oom", "pids", "disk"])
def test_the_oracle_decides_whatever_ended_the_solver(cause: Cause) -> None:
    """decisions, How a trial ends: a crash or a limit is the solver's doing and never an exclusion (J12)."""
    assert outcome_of(cause, RESOLVED, timeout_resolves=True) == RESOLVED
    assert outcome_of(cause, FAILED, timeout_resolves=True) == FAILED


def test_a_suite_may_say_that_a_timeout_resolves_nothing() -> None:
    """H7: then, and only then, a trial at its limit is unresolved whatever the tests say."""
    assert outcome_of("timeout", RESOLVED, timeout_resolves=False) == Verdict("unresolved", "timeout")
    assert outcome_of("exit", RESOLVED, timeout_resolves=False) == RESOLVED
    broken = Verdict("excluded", "grader_error", "gone")
    assert outcome_of("timeout", broken, timeout_resolves=False) == broken


def test_three_failures_of_ours_in_a_row_stop_a_run() -> None:
    """H23: two and a scored trial do not; a trial that never came to its grade says nothing either way."""
    watch = FailureWatch()
    assert not watch.saw("excluded", "grader_error")
    assert not watch.saw("excluded", "engine_error")
    assert not watch.saw("unresolved", "tests_failed")
    assert not watch.saw("excluded", "grader_error")
    assert not watch.saw("errored", "start_failed")
    assert not watch.saw("excluded", "grader_error")
    assert watch.saw("excluded", "grader_error")


def test_only_what_says_nothing_of_the_solver_is_tried_again() -> None:
    """--retry errored must not lift a rate: scored trials and broken baselines stay."""
    assert worth_another_try("errored", "start_failed")
    assert worth_another_try("excluded", "engine_error")
    assert not worth_another_try("unresolved", "tests_failed")
    assert not worth_another_try("excluded", "baseline_passed")
