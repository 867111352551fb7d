"""Resolution against joules, and against dollars: which solvers no other beats (row J23)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from appliance.records.record import Record
from appliance.records.summary import PassSummary


@dataclass(frozen=True)
class Point:
    """One solver's pass. `cost` is what less of is better; None where it is unknown or may not be ranked."""

    label: str
    resolution: float
    cost: float | None


@dataclass(frozen=True)
class Frontier:
    best: tuple[Point, ...]
    """No other point resolves as much for less, or more for as much; exact ties both stand. By falling resolution."""
    beaten: tuple[Point, ...]
    apart: tuple[Point, ...]
    """Points without a cost that can be ranked: listed, never compared."""


def frontier(points: Sequence[Point]) -> Frontier:
    """Order of the input does not matter; equal points keep it among themselves."""
    ranked = sorted((point for point in points if point.cost is not None), key=lambda p: (-p.resolution, p.cost))
    best = [point for point in ranked if not any(_beats(other, point) for other in ranked)]
    return Frontier(
        best=tuple(best),
        beaten=tuple(point for point in ranked if point not in best),
        apart=tuple(point for point in points if point.cost is None),
    )


def _beats(one: Point, other: Point) -> bool:
    if one.cost is None or other.cost is None:
        return False
    no_worse = one.resolution >= other.resolution and one.cost <= other.cost
    return no_worse and (one.resolution, one.cost) != (other.resolution, other.cost)


def energy_point(label: str, summary: PassSummary) -> Point | None:
    """By the pass's net joules; apart where a figure lacks or is below the floor (row J42). None: nothing scored."""
    return _point(label, summary, _rankable_joules)


def money_point(label: str, summary: PassSummary) -> Point | None:
    return _point(label, summary, lambda found: None if found.cost_usd is None else float(found.cost_usd))


def _point(label: str, summary: PassSummary, cost: Callable[[PassSummary], float | None]) -> Point | None:
    return None if summary.resolution is None else Point(label, summary.resolution, cost(summary))


def _rankable_joules(summary: PassSummary) -> float | None:
    energy = summary.energy
    if energy is None or energy.net_uj is None or energy.below_floor:
        return None
    return energy.net_uj / 1e6


def ranking_refusal(records: Sequence[Record], sweep: int) -> tuple[str, ...]:
    """Why one pass of these records may not be ranked by joules, naming the fields (row L3); empty where it may."""
    ranked = [record for record in records if sweep < len(record.summary.passes)]
    sums = [energy for record in ranked if (energy := record.summary.passes[sweep].energy) is not None]
    why: list[str] = []
    for field in ("provenance", "basis"):
        words = {getattr(energy, field) for energy in sums}
        if len(words) > 1:
            why.append(f"{field} differs: {', '.join(sorted(words))}")
    if not why and any(energy.basis == "modelled" for energy in sums):
        hosts = {host.id for record in ranked for host in record.hosts}
        if len(hosts) > 1:
            why.append(f"hosts differ ({len(hosts)}), and the figures are modelled")
        models = {trial.energy.total.model for record in ranked for trial in record.trials if trial.energy}
        if len(models) > 1:
            why.append(f"model differs: {', '.join(sorted(str(model) for model in models))}")
    return tuple(why)
