"""Figures as words, each with its label: what is estimated says so, and what is below the floor carries `~`."""

from __future__ import annotations

from typing import Final

from appliance.records.summary import EnergySum, PassSummary
from appliance.records.words import Cause

NONE: Final = "-"
_MILLI: Final = 0.001
_CAUSES: Final[dict[Cause, str]] = {
    "signal": "ended by a signal",
    "timeout": "timed out",
    "oom": "ran out of memory",
    "pids": "ran out of processes",
    "disk": "filled their disk",
    "budget": "spent their budget",
}
"""`exit` needs no words."""


def cell(text: str) -> str:
    """Text of a stranger in one line of a terminal: nothing in it moves a cursor, turns a line, or hides."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def percent(rate: float | None) -> str:
    return NONE if rate is None else f"{100 * rate:.1f} %"


def seconds(value: float | None) -> str:
    return NONE if value is None else f"{value:.3f} s"


def dollars(value: str | None, *, partially: bool = False) -> str:
    if value is None:
        return "partially priced" if partially else NONE
    return f"${value}"


def joules(energy: EnergySum | None, per: int = 1) -> str:
    """`~60.0 J (estimated) [12.0, 120.0]`; `per`: divided by so many. A missing sum says in how many trials."""
    if energy is None:
        return NONE
    if energy.net_uj is None:
        return f"missing in {energy.missing} of {energy.trials}"
    floor = "~" if energy.below_floor else ""
    span = ""
    if energy.interval is not None:
        span = f" [{_joules(energy.interval[0] / per)}, {_joules(energy.interval[1] / per)}]"
    return f"{floor}{_joules(energy.net_uj / per)} J{label(energy)}{span}"


def label(energy: EnergySum) -> str:
    """How a figure that no counter gave was obtained; a counter's own needs no word."""
    if energy.provenance == "simulated":
        return " (simulated)"
    return " (estimated)" if energy.basis == "modelled" or energy.provenance == "estimator" else ""


def joules_per_resolved(found: PassSummary) -> str:
    if found.joules_per_resolved is None or found.joules_per_resolved == "Infinity":
        return NONE if found.joules_per_resolved is None else "Infinity"
    return joules(found.energy, found.outcomes["resolved"])


def _joules(microjoules: float) -> str:
    value = microjoules / 1e6
    if value >= 1 or value == 0:
        return f"{value:.1f}"
    # Three figures that say something, never an exponent; a microjoule is the smallest there is.
    return f"{value:.3f}" if value >= _MILLI else f"{value:.6f}".rstrip("0").removesuffix(".")


def causes(found: PassSummary) -> tuple[str, ...]:
    """`3 of them timed out`."""
    return tuple(f"{count} of them {_CAUSES[cause]}" for cause, count in found.causes.items() if cause in _CAUSES)


def unscored_counts(found: PassSummary) -> tuple[str, ...]:
    """What stands in no rate: `2 excluded`, `1 not run`."""
    counted = [(outcome, found.outcomes[outcome]) for outcome in found.outcomes]
    parts = [f"{count} {word}" for word, count in counted if count and word not in ("resolved", "unresolved")]
    if found.not_run:
        parts.append(f"{found.not_run} not run")
    return tuple(parts)
