"""How a trial ended, decided from what was seen: no engine, no clock, no file."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from appliance.ports import Traffic
from appliance.records.words import Cause, Outcome, Reason
from appliance.solvers.outputs.claimed import Claimed

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


def cause_of(end: SolverEnd, traffic: Traffic | None = None) -> Cause | None:
    """What ended the solver; None where it never started.

    A limit counts as the cause only where the solver did not end with 0: one that met a limit and went on is `exit`
    (the counts stand in the record all the same). A budget that ran out counts whatever came after it: an agent that
    is told to wait may end by itself, or wait until its time is over (row M15).
    """
    if not end.started:
        return None
    if traffic is not None and traffic.over_budget is not None:
        return "budget"
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


def broken_off(cause: Cause | None, traffic: Traffic | None, claimed: Claimed | None) -> Verdict | None:
    """What makes a trial no attempt at all, so that there is nothing to grade; None: the oracle decides.

    Whether its provider failed is the gateway's to say, where there is one: else any solver could take its failures out
    of its rate by saying so. An agent's own word that its protocol never ended counts where it ended by itself: cut off
    by a limit or a signal, its output ends anywhere (rows M1, M5, M15, M17). A trial that the run's budget ended is an
    attempt as one that its own budget ended: else whoever burns what is left would have his failure excluded.
    """
    if traffic is not None and traffic.failed is not None:
        return Verdict("errored", traffic.failed, traffic.detail)
    if claimed is None or cause != "exit":
        return None
    if claimed.ended == "provider_failed" and traffic is None:
        return Verdict("errored", "provider_failed", claimed.detail)
    if claimed.ended == "incomplete":
        return Verdict("errored", "protocol_incomplete", claimed.detail)
    return None


def never_begun() -> Verdict:
    return Verdict("excluded", "budget", "the run's budget was used up before this trial began")


def outcome_of(cause: Cause | None, graded: Verdict, *, timeout_resolves: bool) -> Verdict:
    """The oracle decides whatever ended the solver, but where the suite says that a timeout resolves nothing."""
    if cause == "timeout" and not timeout_resolves and graded.outcome in ("resolved", "unresolved"):
        return Verdict("unresolved", "timeout", graded.detail)
    return graded


def claim_faults(claimed: Claimed, traffic: Traffic | None) -> tuple[str, ...]:
    """What a solver says of its own end, and where its own count differs from ours by more than 1 % (rows M2, M4);
    nothing of a count that one of the two does not know."""
    said: list[str] = []
    if claimed.limit is not None:
        said.append(f"the solver says that it met a limit of its own: {claimed.limit}")
    if claimed.ended == "provider_failed":
        said.append(f"the solver says that its provider failed: {claimed.detail}")
    return (*said, *_differing(claimed, traffic)) if traffic is not None else tuple(said)


def _differing(claimed: Claimed, traffic: Traffic) -> tuple[str, ...]:
    pairs: list[tuple[str, Decimal, Decimal]] = []
    if claimed.usage is not None and traffic.usage is not None:
        theirs, ours = claimed.usage, traffic.usage
        pairs.append(("input tokens", Decimal(theirs.input_tokens), Decimal(ours.input_tokens)))
        pairs.append(("output tokens", Decimal(theirs.output_tokens), Decimal(ours.output_tokens)))
    if claimed.cost_usd is not None and traffic.cost_usd is not None:
        pairs.append(("dollars", Decimal(claimed.cost_usd), Decimal(traffic.cost_usd)))
    return tuple(
        f"the solver says {said} {what}, the gateway counted {counted}"
        for what, said, counted in pairs
        if abs(said - counted) * 100 > counted
    )


def start_failed(error: str) -> Verdict:
    return Verdict("errored", "start_failed", error)


class FailureWatch:
    """Three trials in a row that engine, grader or the model's provider failed stop the run (row H23): the next would
    fail alike."""

    LIMIT = 3
    REASONS = ("grader_error", "engine_error", "provider_failed")

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
