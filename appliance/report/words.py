"""Figures as words: rates, times, money, counts. Joules, which carry their labels, are in `joules`."""

from __future__ import annotations

from typing import Final

from appliance.records.summary import PassSummary
from appliance.records.words import Cause, Reason

NONE: Final = "-"
_CAUSES: Final[dict[Cause, str]] = {
    "signal": "ended by a signal",
    "timeout": "timed out",
    "oom": "ran out of memory",
    "pids": "ran out of processes",
    "disk": "filled their disk",
    "budget": "spent their budget",
}
"""`exit` needs no words."""
_REASONS: Final[dict[Reason, str]] = {
    "tests_failed": "tests failed",
    "oracle_timeout": "tests took too long",
    "no_verdict": "no verdict from the tests",
    "tampered": "tests tampered with",
    "patch_rejected": "patch rejected",
    "timeout": "solver timed out",
    "start_failed": "solver did not start",
    "provider_failed": "provider failed",
    "protocol_incomplete": "protocol not kept to its end",
    "replay_diverged": "replay went another way",
    "baseline_passed": "tests passed without a solver",
    "baseline_error": "tests could not be run without a solver",
    "expect_failed": "named tests were not as expected",
    "engine_error": "engine failed",
    "grader_error": "grader failed",
    "budget": "budget spent",
    "dry_run": "dry run",
    "filtered": "left out",
    "interrupted": "interrupted",
}


def cell(text: str) -> str:
    """Text of a stranger in one line of a terminal: nothing in it moves a cursor, turns a line, or hides."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def percent(rate: float | None) -> str:
    return NONE if rate is None else f"{100 * rate:.1f} %"


def seconds(value: float | None) -> str:
    return NONE if value is None else f"{value:.3f} s"


def dollars(value: str | None, *, partially: bool | None = False) -> str:
    """`partially` None: there should be prices, and there is not one."""
    if value is None:
        return "not priced" if partially is None else "partially priced" if partially else NONE
    return f"${value}"


def causes(found: PassSummary) -> tuple[str, ...]:
    """`3 of them timed out`."""
    return tuple(f"{count} of them {_CAUSES[cause]}" for cause, count in found.causes.items() if cause in _CAUSES)


def reasons(found: PassSummary) -> str:
    """`2 tests failed, 1 patch rejected` would read as counts of tests: `tests failed (2), patch rejected (1)`."""
    return ", ".join(f"{_REASONS.get(reason, reason)} ({count})" for reason, count in found.reasons.items())


def unscored_counts(found: PassSummary) -> tuple[str, ...]:
    """What stands in no rate: `2 excluded`, `1 not run`."""
    counted = [(outcome, found.outcomes[outcome]) for outcome in found.outcomes]
    parts = [f"{count} {word}" for word, count in counted if count and word not in ("resolved", "unresolved")]
    if found.not_run:
        parts.append(f"{found.not_run} not run")
    return tuple(parts)
