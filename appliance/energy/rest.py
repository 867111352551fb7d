"""One look at the machine at rest: a window in which nothing of ours ran, cut into bins of a second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isqrt
from typing import Final

from appliance.energy.counter import CounterZone
from appliance.energy.members import CpuTimes
from appliance.energy.readings import Header, Readings
from appliance.energy.series import Break, Step, ZoneSeries, is_slow

UNFIT_PERCENT: Final = 5
"""Looks that differ by more, or bins that scatter by more, measure no rest (energy 3.2)."""
QUIET_PERCENT: Final = 5
"""Of one CPU: what a container may use while we say that nothing ran."""
WORK_PERCENT: Final = 5
"""Of all CPUs: what the whole machine may use, as where a calibration is made."""
_BIN_NS: Final = 10**9
_FEWEST_BINS: Final = 2
_FEWEST_UPDATES: Final = 10
"""Of a slow counter, in a look at rest."""


@dataclass(frozen=True)
class ZoneRest:
    """One zone at rest, from bins of a second."""

    mean_uw: int
    deviation_uw: int
    """Sample standard deviation of the bins; of a slow counter at the least what the sampling leaves open."""
    drift_uw: int
    """Of a straight line through the bins, over the whole of them."""
    bins: int
    bins_uj: tuple[int, ...] = ()
    """Energy of each; what the limit of detection is cut from."""
    unfit: str | None = None
    """Why this zone alone is no measure of rest."""


@dataclass(frozen=True)
class Rest:
    """One look at the machine at rest."""

    boot_id: str
    middle_boottime_ns: int
    seconds: float
    zones: Mapping[str, ZoneRest]
    """By the zone's key. A zone that broke off is not there."""
    unfit: str | None
    """Why it is no measure of rest (`package-0 varies by 7 %`, `a container used 12 % of a CPU`); None: it is one."""
    at_work: bool = False
    """The machine was busy with what is in no cgroup of ours: power that no trial saves is taken for rest."""


def rest_of(readings: Readings) -> Rest:
    """From a window in which nothing of ours ran. Raises `readings.Malformed`.

    A processor's zone that varies spoils the look; a GPU's, or one that is not summed, only itself.
    """
    header = readings.header
    tracks = {zone.id: _Bins(zone, header.period_ns) for zone in header.zones}
    cpu = CpuTimes(header)
    reason: str | None = None
    at_ns = 0
    for sample in readings.samples():
        at_ns = sample.at_ns
        cpu.advance(sample)
        for event in sample.events:
            if event.kind == "suspend":
                reason = "the machine slept"
            elif event.kind == "gpu" and event.subject in tracks and (event.cgroups or event.number or event.word):
                tracks[event.subject].occupied = True
        for one, raw in sample.zones.items():
            tracks[one].advance(raw, at_ns)
    zones = {
        track.zone.key: track.rest()
        for track in tracks.values()
        if not track.broken and track.series.began_ns == 0 and track.series.last_ns == at_ns and track.readable
    }
    reason = reason or _busy(header, cpu, at_ns)
    if reason is None and at_ns < _FEWEST_BINS * _BIN_NS:
        reason = f"{at_ns / 1e9:.1f} s are too short for a look at the machine at rest"
    if reason is None and not zones:
        reason = "no counter was read all the time"
    spoiled = (
        zones[zone.key].unfit for zone in header.zones if zone.key in zones and zone.summed and zone.domain != "gpu"
    )
    return Rest(
        boot_id=header.boot_id,
        middle_boottime_ns=int(header.opened_boottime_ns) + at_ns // 2,
        seconds=at_ns / 1e9,
        zones=zones,
        unfit=reason or next((one for one in spoiled if one), None),
        at_work=cpu.now.machine * _unit_ns(header) * 100 > at_ns * header.cpus * WORK_PERCENT,
    )


def deviation(several: Sequence[int]) -> int:
    """Sample standard deviation, rounded down; of fewer than two it is 0."""
    count = len(several)
    if count < 2:
        return 0
    return isqrt((count * sum(one**2 for one in several) - sum(several) ** 2) // (count * (count - 1)))


class _Bins:
    """One zone's energy by the second; what a step has on both sides of an edge is divided by the time.

    A slow counter is followed from the first of its steps to the last: what lies before and after is less than a step,
    and nobody knows how much; between two steps it is taken as even. Else the phase of its clock would be scatter.
    """

    def __init__(self, zone: CounterZone, period_ns: int):
        self.zone = zone
        self.series = ZoneSeries(zone, period_ns)
        self.broken = self.occupied = False
        self._period_ns = period_ns
        self._slow = zone.unit != "mw" and is_slow(zone, period_ns)
        self._from_ns: int | None = None if self._slow else 0
        self._until_ns = 0
        self._total_uj = 0
        self._edges_uj = [0]

    @property
    def readable(self) -> bool:
        """There is something to tell of it; of a slow one, if only that it is too slow."""
        return self._slow or len(self._edges_uj) > 1

    def advance(self, raw: int | None, at_ns: int) -> None:
        began_ns = self.series.last_ns
        energy_uj = self.series.step_uj(raw, at_ns)
        if energy_uj is None or began_ns is None:
            step = self.series.advance(raw, at_ns)
            if isinstance(step, Break):
                self.broken = True
            if not isinstance(step, Step):
                return
            began_ns, energy_uj = step.since_ns, step.energy_uj
        if self.broken or (self._slow and energy_uj == 0):
            return
        if self._from_ns is None:
            self._from_ns = self._until_ns = at_ns
            return
        since_ns = self._until_ns if self._slow else began_ns
        while (edge_ns := self._from_ns + len(self._edges_uj) * _BIN_NS) <= at_ns:
            part = energy_uj * (edge_ns - since_ns) // (at_ns - since_ns)
            self._edges_uj.append(self._total_uj + part)
        self._total_uj += energy_uj
        self._until_ns = at_ns

    def rest(self) -> ZoneRest:
        length_ns = self.series.last_ns or 1
        if self._slow and not self.series.moved:
            self._edges_uj = [0] * (length_ns // _BIN_NS + 1)
        bins = tuple(after - before for before, after in zip(self._edges_uj, self._edges_uj[1:], strict=False))
        count, scatter = len(bins), deviation(bins)
        mean = self._total_uj * _BIN_NS // max(1, self._until_ns - (self._from_ns or 0))
        # Least squares: the slope a bin is 6 sum((2i - n + 1) x) / (n (n^2 - 1)).
        slope = 6 * sum((2 * at - count + 1) * one for at, one in enumerate(bins))
        drift = slope // (count**2 - 1) if count > 1 else 0
        reason = None
        if self.occupied:
            reason = f"a program had {self.zone.key} open"
        elif self._slow and (count < _FEWEST_BINS or length_ns < _FEWEST_UPDATES * self.zone.update_period_ns):
            reason = f"{self.zone.key} counts too slowly for {length_ns / 1e9:.1f} s"
        elif scatter * 100 > mean * UNFIT_PERCENT:
            reason = f"{self.zone.key} varies by {scatter * 100 / max(1, mean):.0f} %"
        if self._slow:
            # A step of a slow counter is seen by the next sample: that much neither edge of a bin is known.
            scatter = max(scatter, isqrt((mean * self._period_ns // _BIN_NS) ** 2 // 6))
        return ZoneRest(mean, scatter, drift, count, bins, reason)


def _busy(header: Header, cpu: CpuTimes, length_ns: int) -> str | None:
    for one in header.cgroups:
        used_ns = cpu.charged.get(one.id, 0) * _unit_ns(header)
        if one.role != "meter" and used_ns * 100 > length_ns * QUIET_PERCENT:
            who = "a container" if one.role in ("container", "solver") else f"the {one.role}'s cgroup"
            return f"{who} used {used_ns * 100 // max(1, length_ns)} % of a CPU"
    return None


def _unit_ns(header: Header) -> int:
    return 1000 if header.cpu_unit == "us" else 1
