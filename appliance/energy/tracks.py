"""One zone through one window: its energy split among idle, system and members, in integers.

A fast counter's is split sample by sample, as it comes: who worked in that tenth of a second has what it cost. A *slow*
one, whose step is no small part of a sample, is split once, over the whole window. Sample by sample, its steps would
fall where its clock wants them: a sample without a step has nothing to take idle from, the sample with the step pays
idle once for many samples' energy and shares the rest by its own CPU time alone (decision 9).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from appliance.energy.counter import CounterZone
from appliance.energy.idle import Line, Unfit
from appliance.energy.inner import InnerBook
from appliance.energy.members import CpuMoment, CpuShare, CpuTimes
from appliance.energy.occupancy import Occupancy
from appliance.energy.readings import Header
from appliance.energy.series import Break, Step, ZoneSeries, is_slow
from appliance.energy.split import shares_of

_NS: Final = 10**9
_EXCESS_PERCENT: Final = 2


class Track:
    """Sums of microjoules; `gross = idle + system + others + sum(own)` in the end, where there is an idle."""

    def __init__(self, zone: CounterZone, header: Header, idle: Line | Unfit, inner: InnerBook, safe_ns: int | None):
        self.zone = zone
        self.series = ZoneSeries(zone, header.period_ns)
        self.idle = idle
        self.flags: set[str] = set()
        self.broken: str | None = None
        """Why there is no number."""
        self.bounded = True
        """Every break had bounds."""
        self.low_uj = self.high_uj = 0
        """Of what the breaks hide."""
        self.gross_uj = self.idle_uj = self.system_uj = self.others_uj = 0
        self.rest_uj = 0
        """Idle power by time, whether a step had as much or not."""
        self.ratio_uj: int | None = None if zone.domain == "gpu" else 0
        self.own_uj: dict[str, int] = {}
        """By cgroup id."""
        self.error: str | None = None
        """Of its last reading that failed, by name (`EIO`)."""
        self.unsplit = False
        """Some energy was read without the machine's CPU time."""
        self._own = frozenset(one.id for one in header.cgroups if one.trial == "own")
        self._known_ids: tuple[str, ...] = ()
        self._own_places: list[int] = []
        """In `_known_ids`, those of the trial's own."""
        self._is_gpu = zone.domain == "gpu"
        self._opened_ns = int(header.opened_boottime_ns)
        self._unit_ns = 1000 if header.cpu_unit == "us" else 1
        self._lag = header.cpus * header.tick_ns // self._unit_ns
        self._owed = self._lost = self._members = 0
        self.slow = is_slow(zone, header.period_ns)
        self._capacity_ns = 0
        """CPUs that were online, by time."""
        self._since = CpuMoment(0, {})
        self._inner = inner
        self._safe_ns = safe_ns

    def check_late(self, at_ns: int) -> None:
        """A sample that the daemon itself took too late is believed up to the longest allowed period (row T10)."""
        if self._safe_ns is not None and at_ns - (self.series.last_ns or 0) > self._safe_ns:
            self.break_off("late")

    def advance(self, raw: int | None, at_ns: int, cpu: CpuTimes, cpus: int, on: Occupancy, *, blind: bool) -> None:
        """`blind`: the machine's CPU time could not be read, so that what is left of it is nobody's."""
        before = self.series.last_ns
        step = self.series.advance(raw, at_ns)
        if isinstance(step, Break):
            self.break_off(step.reason, step.bounds_uj)
        elif isinstance(step, Step):
            self._book(step, cpu, cpus, on, blind=blind)
        if self.series.last_ns != before:
            self._since = cpu.now

    def break_off(self, reason: str, bounds_uj: tuple[int, int] | None = None) -> None:
        self.broken = self.broken or reason
        if bounds_uj is None:
            self.bounded = False
        else:
            self.low_uj += bounds_uj[0]
            self.high_uj += bounds_uj[1]

    def end(self, at_ns: int, cpu: CpuTimes, on: Occupancy) -> None:
        """A zone that was not read at both edges of the window has no number for it; a slow one is split here."""
        if self.series.began_ns is None or self.series.in_gap or self.series.began_blind:
            self.flags.add("gap")
            self.break_off("gap" if self.error is None else f"gap: {self.error}")
        elif self.series.began_ns > 0 or self.series.last_ns != at_ns:
            self.flags.add("source_changed")
            self.break_off("source_changed")
        if self.slow and self.broken is None:
            self._split_whole(at_ns, cpu, on)
        if (self._lost - self._owed) * 100 > self._members * _EXCESS_PERCENT:
            self.flags.add("cpu_excess")

    @property
    def bounds_uj(self) -> tuple[int, int] | None:
        if self.broken is None or not self.bounded:
            return None
        return self.gross_uj + self.low_uj, self.gross_uj + self.high_uj

    def _book(self, step: Step, cpu: CpuTimes, cpus: int, on: Occupancy, *, blind: bool) -> None:
        dt_ns = step.until_ns - step.since_ns
        self.gross_uj += step.energy_uj
        self.unsplit = self.unsplit or blind
        covering = self._inner.covering(step.since_ns, step.until_ns)
        if covering:
            self._inner.book(covering, f"gross {self.zone.id}", step.energy_uj)
        if self.slow:
            self._capacity_ns += cpus * dt_ns
            return
        share = cpu.since(self._since)
        self._rate(step.energy_uj, share, cpus * dt_ns)
        own = self._split(step, share, on.on(self.zone.id) if self._is_gpu else ())
        if covering:
            self._inner.book(covering, f"own {self.zone.id}", own)

    def _split_whole(self, at_ns: int, cpu: CpuTimes, on: Occupancy) -> None:
        """The window as one step: idle once, weights of all its CPU time, whoever was on a board at any moment."""
        step = Step(0, at_ns, self.gross_uj)
        share = cpu.whole()
        self._rate(step.energy_uj, share, self._capacity_ns)
        self._split(step, share, on.ever_on(self.zone.id))

    def _rate(self, energy_uj: int, share: CpuShare, capacity_ns: int) -> None:
        if self.ratio_uj is not None and capacity_ns:
            if share.ids is not self._known_ids:
                self._known_ids = share.ids
                self._own_places = [at for at, one in enumerate(share.ids) if one in self._own]
            own = sum([share.members[at] for at in self._own_places])
            self.ratio_uj += min(energy_uj, energy_uj * own * self._unit_ns // capacity_ns)

    def _split(self, step: Step, share: CpuShare, holders: tuple[str, ...]) -> int:
        """What of it is the trial's own."""
        if isinstance(self.idle, Unfit):
            return 0
        dt_ns = step.until_ns - step.since_ns
        idle_uw = self.idle.at(self._opened_ns + (step.since_ns + step.until_ns) // 2)
        rest_uj = idle_uw * dt_ns // _NS
        if self._is_gpu:
            ids = holders
            idle, system, members = shares_of(step.energy_uj, rest_uj, [1] * len(ids), 0)
        else:
            ids = share.ids
            left = self._left(share.machine, share.whole)
            idle, system, members = shares_of(step.energy_uj, rest_uj, share.members, left)
        self.rest_uj += rest_uj
        self.idle_uj += idle
        self.system_uj += system
        booked = 0
        for one, energy_uj in zip(ids, members, strict=True):
            if one in self._own:
                self.own_uj[one] = self.own_uj.get(one, 0) + energy_uj
                booked += energy_uj
            else:
                self.others_uj += energy_uj
        return booked

    def _left(self, machine: int, members: int) -> int:
        """The system's CPU time of a step: what the machine's has beyond the members', never less than 0.

        The machine's may be counted by ticks and the members' exactly (row C12): what a step lacks, up to a tick a CPU,
        is taken from the next, else rounding alone would give the system a share. What is lacking beyond that is lost,
        and flagged in the end (row T6).
        """
        self._members += members
        left = machine - members + self._owed
        self._owed = min(0, max(left, -self._lag))
        self._lost += max(0, self._owed - left)
        return left


def own_by_role(own_uj: Mapping[str, int], header: Header) -> dict[str, int]:
    """Every role of the trial is there, 0 where it took nothing."""
    found: dict[str, int] = {}
    for one in header.cgroups:
        if one.trial == "own":
            found[one.role] = found.get(one.role, 0) + own_uj.get(one.id, 0)
    return found
