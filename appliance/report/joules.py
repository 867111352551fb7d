"""Joules as words, each with its label, wherever they are shown.

125.3 J ± 0.8 (k=2)               a counter's figure with its expanded uncertainty
< 0.020 J                         below the limit of detection (row G6)
~0.4 J ± 0.1 (k=2)                below the shortest window that its counter resolves (row J41)
60.0 J (estimated) [12.0, 120.0]  a model's figure, with its interval (row L2)
10.0 J (simulated) ± 0.1 (k=2)    of counters that are not the kernel's own
missing: EACCES intel-rapl:0      no figure, and why (never 0)
"""

from __future__ import annotations

from typing import Final, Literal

from appliance.records.energy import EnergyFigure
from appliance.records.summary import EnergySum, PassSummary
from appliance.report.words import NONE

Kind = Literal["net", "gross", "ratio"]
"""What a column of joules is of; `ratio` is Kepler's utilisation ratio, shown on request."""
_MILLI: Final = 0.001


def of_trial(figure: EnergyFigure | None, kind: Kind = "net") -> str:
    if figure is None:
        return NONE
    if kind == "net" and figure.below_lod:
        return f"{_floor(figure.below_floor)}< {amount(figure.lod_uj or 0)} J{label(figure)}"
    value = _value(figure, kind)
    if value is None:
        return f"missing: {figure.missing}" if kind == "net" else NONE
    return _worded(figure, value, kind, below_floor=figure.below_floor)


def of_pass(energy: EnergySum | None, kind: Kind = "net", per: int = 1) -> str:
    """`per`: divided by so many. A sum that is missing says in how many trials."""
    if energy is None:
        return NONE
    if kind == "net" and energy.undetected:
        return f"{_floor(bool(energy.below_floor))}< {amount((energy.lod_uj or 0) / per)} J{label(energy)}"
    value = _value(energy, kind)
    if value is None:
        return f"missing in {energy.missing} of {energy.trials}" if kind == "net" else NONE
    return _worded(energy, value, kind, below_floor=bool(energy.below_floor), per=per)


def per_resolved(found: PassSummary, kind: Kind = "net") -> str:
    """Joules of all counted trials over the resolved ones. Only the forms for machines have a word for infinity."""
    resolved = found.outcomes["resolved"]
    if not resolved:
        return f"{NONE} (none resolved)" if kind == "net" else NONE
    known = found.energy is not None and (_value(found.energy, kind) is not None or found.energy.undetected)
    return of_pass(found.energy, kind, resolved) if known else NONE


def label(figure: EnergyFigure | EnergySum) -> str:
    """How a figure that no counter gave was obtained; a counter's own needs no word."""
    if figure.provenance == "simulated":
        return " (simulated)"
    return " (estimated)" if figure.basis == "modelled" or figure.provenance == "estimator" else ""


def source(figure: EnergyFigure | EnergySum | None) -> str:
    """Provenance and basis, the worst of a sum (rows J46, L6)."""
    return NONE if figure is None else f"{figure.provenance}, {figure.basis}"


def amount(microjoules: float) -> str:
    """Without a unit: three figures that say something, never an exponent; a microjoule is the smallest there is."""
    value = microjoules / 1e6
    if value >= 1 or value == 0:
        return f"{value:.1f}"
    return f"{value:.3f}" if value >= _MILLI else f"{value:.6f}".rstrip("0").removesuffix(".")


def _value(figure: EnergyFigure | EnergySum, kind: Kind) -> int | None:
    values: dict[Kind, int | None] = {"net": figure.net_uj, "gross": figure.gross_uj, "ratio": figure.ratio_uj}
    return values[kind]


def _worded(figure: EnergyFigure | EnergySum, value: int, kind: Kind, *, below_floor: bool, per: int = 1) -> str:
    """Interval and uncertainty are of the net."""
    span = ""
    if kind == "net" and figure.interval is not None:
        span = f" [{amount(figure.interval[0] / per)}, {amount(figure.interval[1] / per)}]"
    elif kind == "net" and figure.uncertainty_uj is not None:
        span = f" ± {amount(figure.uncertainty_uj / per)} (k=2)"
    return f"{_floor(below_floor)}{amount(value / per)} J{label(figure)}{span}"


def _floor(below: bool) -> str:
    return "~" if below else ""
