"""How a trial ended, decided from what was seen: no engine, no clock, no file."""

from __future__ import annotations

from dataclasses import dataclass

from appliance.records.words import Cause, Outcome, Reason

_SIGNALLED = range(129, 193)
"""128 + n: how a runtime reports a program that signal n ended."""


@dataclass(frozen=True)
class SolverEnd:
    """What was seen of the solver's exec and its container before the kill; None: not readable."""

    exit: int | None
    timed_out: bool
    start_error: str | None
    oom_kills: int | None
    pids_denied: int | None
    disk_full: bool

    @property
    def started(self) -> bool:
        return self.start_error is None


@dataclass(frozen=True)
class Verdict:
    """An outcome with its reason, where it needs one, and words for a person."""

    outcome: Outcome
    reason: Reason | None = None
    detail: str | None = None


def cause_of(end: SolverEnd) -> Cause | None:
    """What ended the solver; None where it never started.

    A limit counts as the cause only where the solver did not end with 0: one that met a limit and went on is `exit`
    (the counts stand in the record all the same).
    """
    if not end.started:
        return None
    if end.timed_out:
        return "timeout"
    met: tuple[tuple[bool, Cause], ...] = (
        (end.exit == 0, "exit"),
        (bool(end.oom_kills), "oom"),
        (bool(end.pids_denied), "pids"),
        (end.disk_full, "disk"),
        (end.exit in _SIGNALLED, "signal"),
    )
    return next((cause for holds, cause in met if holds), "exit")


def outcome_of(cause: Cause | None, graded: Verdict, *, timeout_resolves: bool) -> Verdict:
    """The oracle decides whatever ended the solver, but where the suite says that a timeout resolves nothing."""
    if cause == "timeout" and not timeout_resolves and graded.outcome in ("resolved", "unresolved"):
        return Verdict("unresolved", "timeout", graded.detail)
    return graded


def start_failed(error: str) -> Verdict:
    return Verdict("errored", "start_failed", error)


class FailureWatch:
    """Three trials in a row that the engine or the grader failed stop the run (row H23): the next would fail alike."""

    LIMIT = 3
    REASONS = ("grader_error", "engine_error")

    def __init__(self) -> None:
        self._in_a_row = 0

    def saw(self, verdict: Outcome, reason: Reason | None) -> bool:
        """True where the run must stop. A trial that never came to its grade says nothing either way."""
        if reason in self.REASONS:
            self._in_a_row += 1
        elif verdict in ("resolved", "unresolved"):
            self._in_a_row = 0
        return self._in_a_row >= self.LIMIT


def worth_another_try(outcome: Outcome, reason: Reason | None) -> bool:
    """What `--retry errored` runs again: trials that say nothing about the solver's work."""
    return outcome == "errored" or reason in FailureWatch.REASONS
