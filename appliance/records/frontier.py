"""Resolution against joules, and against dollars: which solvers no other beats (row J23)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from appliance.records.outline import AnyRecord
from appliance.records.record import HostStamp
from appliance.records.replays import is_replay
from appliance.records.summary import EnergySum, PassSummary
from appliance.records.words import UNRELIABLE

LIKE_HOSTS: Final = ("cpu", "cores", "gpus")
"""Fields in which two machines agree whose joules may be set against each other."""


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


def energy_point(label: str, record: AnyRecord, sweep: int) -> Point | None:
    """By the pass's net joules; apart where a figure lacks, is below floor, detection or idle, is a model's beside
    counters' (rows J39, J42, L3), or is of a replay, whose model took none. None: nothing scored."""
    return _point(label, record, sweep, _rankable_joules)


def money_point(label: str, record: AnyRecord, sweep: int) -> Point | None:
    """Apart where a price lacks, or was paid by the run that is replayed."""
    return _point(label, record, sweep, lambda found: None if found.cost_usd is None else float(found.cost_usd))


def _point(label: str, record: AnyRecord, sweep: int, cost: Callable[[PassSummary], float | None]) -> Point | None:
    summary = record.summary.passes[sweep]
    if summary.resolution is None:
        return None
    return Point(label, summary.resolution, None if is_replay(record) else cost(summary))


def _rankable_joules(summary: PassSummary) -> float | None:
    energy = summary.energy
    if energy is None or energy.net_uj is None or _mixed(energy):
        return None
    if energy.below_floor or energy.below_lod or not UNRELIABLE.isdisjoint(energy.flags):
        return None
    return energy.net_uj / 1e6


def _mixed(energy: EnergySum) -> bool:
    return 0 < energy.modelled < energy.trials


def ranking_refusal(records: Sequence[AnyRecord], sweep: int) -> tuple[str, ...]:
    """Why one pass of these records may not be ranked by joules, naming the fields (row L3); empty where it may.
    Replays, which are not ranked, stand against nobody's ranking.

    What counters gave is one kind, apportioned or not; what a model gave is another. Models are ranked on one machine
    only, counters between like machines and over one scope; windows that were alone never against ones that may share.
    """
    ranked = [record for record in records if sweep < len(record.summary.passes) and not is_replay(record)]
    sums = [energy for record in ranked if (energy := record.summary.passes[sweep].energy) is not None]
    totals = [
        trial.energy.total
        for record in ranked
        for trial in record.trials
        if trial.key.pass_ == sweep and trial.energy and trial.energy.total.net_uj is not None
    ]
    why = [*_differing("provenance", (energy.provenance for energy in sums))]
    if unlike_bases(sums) or any(_mixed(energy) for energy in sums):
        why += _differing("basis", (*(energy.basis for energy in sums), *(total.basis for total in totals)))
    if why:
        return tuple(why)
    why += _differing("plan.energy.scheduling", (record.plan.energy.scheduling for record in ranked))
    why += _differing("scope", (total.scope for total in totals))
    why += _differing("model", (str(total.model) for total in totals))
    hosts = [host for record in ranked for host in record.hosts]
    if any(energy.basis == "modelled" for energy in sums):
        several = len({host.id for host in hosts})
        why += [f"hosts differ ({several}), and the figures are modelled"] if several > 1 else []
    else:
        why += [one for field in LIKE_HOSTS for one in _differing(f"hosts[].{field}", _said(hosts, field))]
    return tuple(why)


def unlike_bases(sums: Sequence[EnergySum]) -> bool:
    """Whether a model's figures stand among counters'."""
    return len({energy.basis == "modelled" for energy in sums}) > 1


def _said(hosts: Sequence[HostStamp], field: str) -> Iterator[str]:
    return (str(getattr(host, field)) for host in hosts)


def _differing(field: str, words: Iterable[str]) -> tuple[str, ...]:
    several = sorted(set(words))
    return (f"{field} differs: {', '.join(several)}",) if len(several) > 1 else ()
