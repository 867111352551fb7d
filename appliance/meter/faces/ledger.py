"""Joules while they are used: what a live table and an exporter show, from the raw lines of the daemon's `watch`.

The same arithmetic as a record's, over the lines' own spacing (a second, not a tenth): what is shown live is never
what is signed. It keeps the same law: measured = idle + system + containers, to the microjoule, zone by zone.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final, Protocol

from appliance.energy.counter import CounterZone
from appliance.energy.series import Break, Step, ZoneSeries
from appliance.energy.split import split
from appliance.meter.faces.picture import Amount, CgroupView, Picture, ZoneView
from appliance.meter.faces.watching import Watched, WatchedCgroup

MOST_GONE: Final = 500
"""Cgroups that are gone and whose joules are still told; the oldest are forgotten first."""
_LINE_NS: Final = 1_000_000_000
"""Between two lines of `watch`."""


class IdlePower(Protocol):
    """`energy.idle.Idle`."""

    def power_uw(self, key: str, boot_id: str, boottime_ns: int) -> int | None: ...


@dataclass
class _Base:
    """The CPU times that were read with a zone's last good reading."""

    machine: int | None
    cpu: dict[str, int]
    """By id: a path that came back with another inode is another series."""


@dataclass
class _Account:
    """One zone's, by key: it outlives the zone's own coming and going."""

    zone: CounterZone
    measured_uj: int = 0
    idle_uj: int = 0
    system_uj: int = 0
    members_uj: Tally[str] = field(default_factory=Tally)
    forgotten_uj: int = 0
    """Of members that are gone and no longer listed."""
    series: ZoneSeries | None = None
    """None: the next reading is a baseline."""
    base: _Base | None = None
    idle_known: bool = False
    shared: bool = False
    last_uw: dict[str, int] = field(default_factory=dict)
    """Over the last line: `measured`, `idle`, `system`, and members by their paths, which begin with a slash."""

    @property
    def error_uj(self) -> int:
        parts = self.idle_uj + self.system_uj + self.members_uj.total() + self.forgotten_uj
        return self.measured_uj - parts


@dataclass
class _Member:
    cgroup: WatchedCgroup
    running: bool = True
    cpu: int | None = None
    """Last raw number of the column `cgroup.id`."""
    cpu_ns: int = 0
    share: float = 0.0


class Ledger:
    """Takes line after line. Of a daemon that was restarted it counts on; what was used meanwhile is a gap."""

    def __init__(self, idle: IdlePower | None = None):
        self.idle = idle
        """May be another one from a line to the next: a calibration is made, or lapses."""
        self._accounts: dict[str, _Account] = {}
        self._members: OrderedDict[str, _Member] = OrderedDict()
        self._occupied: dict[str, tuple[frozenset[str], bool]] = {}
        self._gaps: Tally[str] = Tally()
        self._last: Watched | None = None

    def interrupt(self) -> None:
        """The line of lines broke off: the next is a baseline again."""
        self._last = None
        self._occupied.clear()
        for account in self._accounts.values():
            account.series = None
        for member in self._members.values():
            member.cpu = None

    def take(self, line: Watched) -> Picture:
        if self._last is not None and (line.boot_id, line.monotonic_ns) <= (
            self._last.boot_id,
            self._last.monotonic_ns,
        ):
            self.interrupt()
        seconds = 0.0 if self._last is None else (line.monotonic_ns - self._last.monotonic_ns) / 1e9
        self._read_members(line, seconds)
        self._read_events(line)
        for place, zone in enumerate(line.zones):
            account = self._accounts.setdefault(zone.key, _Account(zone))
            if account.zone.id != zone.id:
                # Another one of that name (row W13): its counter begins anew.
                account.series = None
            account.zone = zone
            self._book(account, line, line.zone(place))
        for key in self._accounts.keys() - {zone.key for zone in line.zones}:
            self._accounts[key].series, self._accounts[key].last_uw = None, {}
        picture = self._picture(line, seconds)
        self._last = line
        return picture

    def _read_members(self, line: Watched, seconds: float) -> None:
        scale = 1 if line.cpu_unit == "ns" else 1000
        for member in self._members.values():
            member.running, member.share = False, 0.0
        for place, cgroup in enumerate(line.cgroups):
            member = self._members.setdefault(cgroup.path, _Member(cgroup))
            self._members.move_to_end(cgroup.path)
            if member.cgroup.id != cgroup.id:
                # The same path with another inode (row C7): a new member that goes on with the old one's sum.
                member.cpu = None
            member.cgroup, member.running = cgroup, True
            raw = line.cpu(place)
            if raw is None:
                continue
            grown = 0 if member.cpu is None else max(0, raw - member.cpu) * scale
            member.cpu = raw
            member.cpu_ns += grown
            member.share = grown / 1e9 / seconds if seconds > 0 else 0.0
        gone = [path for path, member in self._members.items() if not member.running]
        for path in gone[: max(0, len(gone) - MOST_GONE)]:
            del self._members[path]
            for account in self._accounts.values():
                account.forgotten_uj += account.members_uj.pop(path, 0)

    def _read_events(self, line: Watched) -> None:
        paths = {cgroup.id: cgroup.path for cgroup in line.cgroups}
        for event in line.events:
            if event.kind == "gpu" and event.subject is not None:
                ours = frozenset(paths[one] for one in event.cgroups if one in paths)
                self._occupied[event.subject] = (ours, bool(event.number) or event.word is not None)

    def _book(self, account: _Account, line: Watched, raw: int | None) -> None:
        account.last_uw = {}
        running = (member for member in self._members.values() if member.running)
        cpu = {member.cgroup.id: member.cpu for member in running if member.cpu is not None}
        here = _Base(line.machine, cpu)
        if account.series is None:
            account.series, account.base = ZoneSeries(account.zone, _LINE_NS), None
        step = account.series.advance(raw, line.monotonic_ns)
        if account.series.in_gap:
            # The counter runs on: the next good reading spans the gap (row W12).
            return
        base, account.base = account.base, here
        if isinstance(step, Break):
            self._gaps[step.reason] += 1
        elif step is not None and base is not None:
            account.measured_uj += step.energy_uj
            self._share(account, line, step, base, here)

    def _share(self, account: _Account, line: Watched, step: Step, base: _Base, here: _Base) -> None:
        zone, dt_ns = account.zone, step.until_ns - step.since_ns
        idle_uw = None if self.idle is None else self.idle.power_uw(zone.key, line.boot_id, line.boottime_ns)
        paths = {cgroup.id: cgroup.path for cgroup in line.cgroups}
        both = sorted(here.cpu.keys() & base.cpu.keys(), key=paths.__getitem__)
        grown = {paths[one]: here.cpu[one] - base.cpu[one] for one in both}
        machine = None if here.machine is None or base.machine is None else here.machine - base.machine
        account.shared = False
        if zone.domain in ("gpu", "module"):
            ours, foreign = self._occupied.get(zone.id, (frozenset(), False))
            account.shared = foreign or len(ours) > 1
            grown = dict.fromkeys(ours, 1) if not account.shared else {}
            machine = sum(grown.values())
        system = 0 if machine is None else machine - sum(max(0, one) for one in grown.values())
        found = split(step.energy_uj, idle_uw or 0, dt_ns, list(grown.values()), system)
        account.idle_known = idle_uw is not None
        account.idle_uj += found.idle_uj
        account.system_uj += found.system_uj
        per = {"idle": found.idle_uj, "system": found.system_uj, "measured": step.energy_uj}
        for path, share in zip(grown, found.members_uj, strict=True):
            account.members_uj[path] += share
            per[path] = share
        account.last_uw = {name: uj * 10**9 // dt_ns for name, uj in per.items()}

    def _picture(self, line: Watched, seconds: float) -> Picture:
        here = {zone.key for zone in line.zones}
        machine = None
        if self._last is not None and line.machine is not None and self._last.machine is not None and seconds > 0:
            busy = (line.machine - self._last.machine) * (1e-9 if line.cpu_unit == "ns" else 1e-6)
            machine = min(1.0, max(0.0, busy / (line.cpus * seconds)))
        return Picture(
            version=line.version,
            seconds=seconds,
            zones=tuple(_zone_view(account) for key, account in sorted(self._accounts.items()) if key in here),
            cgroups=tuple(self._cgroup_view(path, member) for path, member in sorted(self._members.items())),
            error_uj=sum(abs(account.error_uj) for account in self._accounts.values()),
            usage_ratio=machine,
            gaps=dict(sorted((Tally(line.gaps) + self._gaps).items())),
            absent=line.absent,
            meter_cpu_seconds=line.cpu_seconds,
            windows=line.windows,
        )

    def _cgroup_view(self, path: str, member: _Member) -> CgroupView:
        return CgroupView(
            path=path,
            role=member.cgroup.role,
            run=member.cgroup.run,
            trial=member.cgroup.trial,
            running=member.running,
            cpu_seconds=member.cpu_ns / 1e9,
            cpu_share=member.share,
            zones={
                key: Amount(account.members_uj[path], account.last_uw.get(path, 0) if member.running else 0)
                for key, account in sorted(self._accounts.items())
            },
        )


def _zone_view(account: _Account) -> ZoneView:
    def amount(uj: int, name: str) -> Amount:
        return Amount(uj, account.last_uw.get(name, 0))

    return ZoneView(
        zone=account.zone,
        measured=amount(account.measured_uj, "measured"),
        idle=amount(account.idle_uj, "idle") if account.idle_known else None,
        system=amount(account.system_uj, "system"),
        shared=account.shared,
    )
