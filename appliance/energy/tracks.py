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
from appliance.energy.exchanges import Exchanges, members_of, servers_of, within
from appliance.energy.idle import Line, Unfit
from appliance.energy.inner import InnerBook
from appliance.energy.members import CpuMoment, CpuShare, CpuTimes
from appliance.energy.occupancy import Occupancy
from appliance.energy.readings import Header
from appliance.energy.series import Break, Step, ZoneSeries, is_slow
from appliance.energy.split import apportion, shares_of

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
        self.utilised = False
        """Split by the utilisation of a board's SMs."""
        self.unsplit = False
        """Some energy was read without the machine's CPU time."""
        self._own = frozenset(one.id for one in members_of(header) if one.trial == "own")
        self._servers = servers_of(header)
        self._exchanges = Exchanges(header.inner)
        self._is_gpu = zone.domain == "gpu"
        self._opened_ns = int(header.opened_boottime_ns)
        self._unit_ns = 1000 if header.cpu_unit == "us" else 1
        self._lag = header.cpus * header.tick_ns // self._unit_ns
        self._owed = self._lost = self._members = 0
        self.slow = is_slow(zone, header.period_ns)
        self._capacity_ns = 0
        """CPUs that were online, by time."""
        self._since = CpuMoment(0, (), ())
        self._inner = inner if header.inner else None
        self._safe_ns = safe_ns

    def check_late(self, at_ns: int) -> None:
        """A sample that the daemon itself took too late is believed up to the longest allowed period (row T10)."""
        if self._safe_ns is not None and at_ns - (self.series.last_ns or 0) > self._safe_ns:
            self.break_off("late")

    def advance(self, raw: int | None, at_ns: int, cpu: CpuTimes, cpus: int, on: Occupancy, *, blind: bool) -> None:
        """`blind`: the machine's CPU time could not be read, so that what is left of it is nobody's."""
        before = self.series.last_ns
        energy_uj = self.series.step_uj(raw, at_ns)
        if energy_uj is not None and before is not None:
            self._book(before, at_ns, energy_uj, cpu, cpus, on, blind=blind)
            self._since = cpu.now
            return
        step = self.series.advance(raw, at_ns)
        if isinstance(step, Break):
            self.break_off(step.reason, step.bounds_uj)
        elif isinstance(step, Step):
            self._book(step.since_ns, step.until_ns, step.energy_uj, cpu, cpus, on, blind=blind)
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

    def _book(  # noqa: PLR0917  a step, and what was seen with it: ten times a second of every zone
        self, since_ns: int, until_ns: int, energy_uj: int, cpu: CpuTimes, cpus: int, on: Occupancy, *, blind: bool
    ) -> None:
        self.gross_uj += energy_uj
        if blind:
            self.unsplit = True
        covering = () if self._inner is None else self._inner.covering(since_ns, until_ns)
        if covering and self._inner is not None:
            self._inner.book(covering, f"gross {self.zone.id}", energy_uj)
        capacity_ns = cpus * (until_ns - since_ns)
        if self.slow:
            self._capacity_ns += capacity_ns
            return
        share = cpu.since(self._since)
        self._rate(energy_uj, share, capacity_ns)
        holders = self._told_apart(on.on(self.zone.id), since_ns, until_ns) if self._is_gpu else ()
        own = self._split(since_ns, until_ns, energy_uj, share, holders)
        if covering and self._inner is not None:
            self._inner.book(covering, f"own {self.zone.id}", own)

    def _split_whole(self, at_ns: int, cpu: CpuTimes, on: Occupancy) -> None:
        """The window as one step: idle once, weights of all its CPU time, whoever was on a board at any moment."""
        share = cpu.whole()
        self._rate(self.gross_uj, share, self._capacity_ns)
        self._split(0, at_ns, self.gross_uj, share, self._told_apart(on.ever_on(self.zone.id), 0, at_ns))

    def _rate(self, energy_uj: int, share: CpuShare, capacity_ns: int) -> None:
        if self.ratio_uj is not None and capacity_ns:
            self.ratio_uj += min(energy_uj, energy_uj * share.own * self._unit_ns // capacity_ns)

    def _split(self, since_ns: int, until_ns: int, energy_uj: int, share: CpuShare, holders: tuple[str, ...]) -> int:
        """What of it is the trial's own."""
        idle = self.idle
        if isinstance(idle, Unfit):
            return 0
        idle_uw = idle.at(self._opened_ns + (since_ns + until_ns) // 2)
        rest_uj = idle_uw * (until_ns - since_ns) // _NS
        self.rest_uj += rest_uj
        if self._is_gpu:
            return self._split_board(energy_uj, rest_uj, holders)
        left = self._left(share.machine, share.whole)
        taken = rest_uj if rest_uj < energy_uj else energy_uj
        self.idle_uj += taken
        # What `split` says of weights none of which is negative.
        shares = apportion(energy_uj - taken, [*share.members, left if left > 0 else 0])
        if shares is None:
            self.system_uj += energy_uj - taken
            return 0
        booked, owners = 0, self.own_uj
        for at in share.own_at:
            own, one = shares[at], share.ids[at]
            owners[one] = owners.get(one, 0) + own
            booked += own
        self.system_uj += shares[-1]
        self.others_uj += energy_uj - taken - shares[-1] - booked
        return booked

    def _split_board(self, energy_uj: int, rest_uj: int, holders: tuple[str, ...]) -> int:
        """No counter tells apart who was on it: each had as much."""
        idle, system, members = shares_of(energy_uj, rest_uj, [1] * len(holders), 0)
        self.idle_uj += idle
        self.system_uj += system
        booked = 0
        for one, share_uj in zip(holders, members, strict=True):
            if one in self._own:
                self.own_uj[one] = self.own_uj.get(one, 0) + share_uj
                booked += share_uj
            else:
                self.others_uj += share_uj
        return booked

    def _told_apart(self, holders: tuple[str, ...], since_ns: int, until_ns: int) -> tuple[str, ...]:
        """A model server that answers the trial is the trial's own."""
        if not self._servers or self._servers.isdisjoint(holders) or not self._exchanges.hold(since_ns, until_ns):
            return holders
        return tuple(within(one) if one in self._servers else one for one in holders)

    def _left(self, machine: int, members: int) -> int:
        """The system's CPU time of a step: what the machine's has beyond the members', never less than 0.

        The machine's may be counted by ticks and the members' exactly (row C12): what a step lacks, up to a tick a CPU,
        is taken from the next, else rounding alone would give the system a share. What is lacking beyond that is lost,
        and flagged in the end (row T6).
        """
        self._members += members
        left = machine - members + self._owed
        if left >= 0:
            self._owed = 0
            return left
        self._owed = max(left, -self._lag)
        self._lost += self._owed - left
        return left


def own_by_role(own_uj: Mapping[str, int], header: Header) -> dict[str, int]:
    """Every role of the trial is there, 0 where it took nothing."""
    found: dict[str, int] = {}
    for one in members_of(header):
        if one.trial == "own":
            found[one.role] = found.get(one.role, 0) + own_uj.get(one.id, 0)
    return found
