"""The meter inside the harness: the trial's parent cgroup and the named estimators.

Many trials of many runs may be open at a time; a trial's calls come one after another.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from appliance.cgroups import (
    CgroupDriver,
    Hierarchies,
    harness_cgroup,
    hierarchies,
    remove_run_cgroups,
    role_cgroup,
    run_cgroup,
    trial_cgroup,
)
from appliance.energy import estimators, floors
from appliance.energy.cpus import Processor, design_power, parse_cpuinfo
from appliance.meter.cgroups import CpuReading, CpuSource, OwnCgroups, cpu_sources, source_of
from appliance.meter.choice import Source, choose
from appliance.meter.counters import POWERCAP, look_for_counters
from appliance.meter.figures import trial_energy
from appliance.ports import MeteredTrial
from appliance.records.plan import PlannedEnergy
from appliance.records.record import MeterStamp

NAME: Final = "local"
RAN_ON_NS: Final = 5_000_000
"""CPU time between close and release above which strangers in the cgroup count as having run on (formats 5)."""

StatsReader = Callable[[str, int, str], int | None]
"""(run, trial, role) -> CPU nanoseconds of that container by the engine's one-shot statistics; None where unknown."""


@dataclass(frozen=True)
class HostCgroups:
    """How the engine of this run places containers."""

    driver: CgroupDriver = "cgroupfs"
    reachable: bool = True
    """False with a rootless or remote engine: its cgroups are none of this host's that we could name."""


CGROUPFS: Final = HostCgroups()


@dataclass(frozen=True)
class _Setting:
    """What all trials of one meter share."""

    own: OwnCgroups
    sources: tuple[CpuSource, ...]
    """Empty where no cgroup of the engine's is reachable from here."""
    stats: StatsReader | None
    roles: tuple[str, ...]
    processor: Processor
    source: Source


class LocalMeter:
    """A `ports.Meter`. Raises MeterRefused at construction where energy cannot be stated as planned."""

    def __init__(
        self,
        planned: PlannedEnergy,
        engine: HostCgroups = CGROUPFS,
        stats: StatsReader | None = None,
        *,
        proc: Path = Path("/proc"),
        powercap: Path = POWERCAP,
        roles: tuple[str, ...] = ("solver",),
    ):
        self._trees = hierarchies(proc) if engine.reachable else Hierarchies(())
        sources = cpu_sources(self._trees)
        choice = choose(
            planned.mode,
            watts_set=planned.active_watts is not None,
            counters=look_for_counters(powercap),
            cpu_readable=bool(sources) or stats is not None,
        )
        self._setting = _Setting(
            own=OwnCgroups(self._trees, engine.driver),
            sources=sources,
            stats=stats,
            roles=roles,
            processor=_processor(proc),
            source=choice.source,
        )
        self._stamp = MeterStamp(
            name=NAME,
            version=_version(),
            counters=(),
            idle=None,
            calibration=None,
            mode=planned.mode,
            reason=choice.reason,
        )
        self._harness: dict[str, str] = {}
        self._lock = threading.Lock()

    @property
    def leaves_cgroups(self) -> bool:
        """The engine makes the trials' cgroups and nobody here may remove them: `sudo appliance gc` (formats 9)."""
        return bool(self._setting.sources) and not self._setting.own.makes

    def stamp(self) -> MeterStamp:
        return self._stamp

    def prepare(self, run: str, trial: int, planned: PlannedEnergy, cpus: float, by_kind: bool) -> LocalTrial:
        del cpus  # the estimators reckon on the machine's own processors, whatever share the trial may take
        return LocalTrial(self._setting, run, trial, planned.active_watts, by_kind)

    def harness_cgroup(self, run: str) -> str | None:
        if not self._setting.sources:
            return None
        with self._lock:
            if run not in self._harness:
                self._harness[run] = self._setting.own.make(harness_cgroup(run))
            return self._harness[run]

    def close_run(self, run: str) -> None:
        with self._lock:
            self._harness.pop(run, None)
        if self._setting.own.makes:
            self._setting.own.remove(run_cgroup(run))
            remove_run_cgroups(self._trees, run)


class LocalTrial:
    """A `ports.TrialMeter`; its cgroups are made with it."""

    def __init__(self, setting: _Setting, run: str, trial: int, watts: float | None, by_kind: bool):
        self._setting = setting
        self._run = run
        self._trial = trial
        self._watts = watts
        self._by_kind = by_kind
        names = {role: role_cgroup(run, trial, role) for role in setting.roles} if setting.sources else {}
        self.cgroups: Mapping[str, str] = {role: setting.own.make(cgroup) for role, cgroup in names.items()}
        self._paths = {role: setting.own.path(cgroup) for role, cgroup in names.items()}
        self._sources: dict[str, CpuSource] = {}
        self._opened: dict[str, CpuReading] = {}
        self._closed: dict[str, CpuReading] = {}

    def open(self) -> None:
        for role, path in self._paths.items():
            source = source_of(self._setting.sources, path)
            if source is not None:
                self._sources[role] = source
        self._opened = self._read()

    def close(self) -> None:
        """The first call counts: what comes after it is not the solver's."""
        if not self._closed:
            self._closed = self._read()

    def release(self, wall_seconds: float, *, at_limit: bool) -> MeteredTrial:
        """Also right where open or close were never reached: what they would have read is None then."""
        wall_ns = round(wall_seconds * 1e9)
        charged = {role: self._charged(role) for role in self._setting.roles}
        flags = tuple(self._flags(at_limit))
        estimate = self._estimate(wall_ns, charged)
        energy = trial_energy(
            estimate,
            charged,
            below_floor=self._by_kind or floors.below(floors.ESTIMATOR, wall_ns, charged.get("solver")),
            flags=flags,
            missing=None if estimate.net_uj is not None else "no CPU time: the trial's cgroup could not be read",
        )
        known = any(value is not None for value in charged.values())
        return MeteredTrial(
            energy=energy,
            cpu_seconds={role: None if value is None else value / 1e9 for role, value in charged.items()},
            cpu_source=("cgroup_parent" if self._paths else "stats_one_shot") if known else None,
            readings=None,
            flags=flags,
        )

    def _read(self) -> dict[str, CpuReading]:
        readings: dict[str, CpuReading | None] = {}
        for role in self._setting.roles:
            if role in self._sources:
                readings[role] = self._sources[role].read(self._paths[role])
            elif self._setting.stats is not None and not self._paths:
                cpu_ns = self._setting.stats(self._run, self._trial, role)
                readings[role] = None if cpu_ns is None else CpuReading(cpu_ns, frozenset())
        return {role: reading for role, reading in readings.items() if reading is not None}

    def _charged(self, role: str) -> int | None:
        first, last = self._opened.get(role), self._closed.get(role)
        if first is None or last is None:
            return None
        return max(0, last.cpu_ns - first.cpu_ns)

    def _flags(self, at_limit: bool) -> list[str]:
        flags = []
        if any(
            self._closed[role].cpu_ns < first.cpu_ns for role, first in self._opened.items() if role in self._closed
        ):
            # Only v1's counter can go back: somebody wrote to it (energy row C9).
            flags.append("v1_reset")
        if self._paths:
            if not at_limit and self._ran_on("solver"):
                flags.append("ran_on")
            if self._setting.own.remove(trial_cgroup(self._run, self._trial)):
                flags.append("cgroup_left")
        return flags

    def _ran_on(self, role: str) -> bool:
        first, last, source = self._opened.get(role), self._closed.get(role), self._sources.get(role)
        if first is None or last is None or source is None or not last.tasks - first.tasks:
            return False
        after = source.read(self._paths[role])
        return after is not None and after.cpu_ns - last.cpu_ns > RAN_ON_NS

    def _estimate(self, wall_ns: int, charged: Mapping[str, int | None]) -> estimators.Estimate:
        if self._setting.source == "wall":
            return estimators.wall(wall_ns, self._watts)
        known = [value for value in charged.values() if value is not None]
        cpu_ns = sum(known) if len(known) == len(charged) else None
        processor = self._setting.processor
        return estimators.curve(wall_ns, cpu_ns, processor.threads, design_power(processor))


def _processor(proc: Path) -> Processor:
    try:
        return parse_cpuinfo((proc / "cpuinfo").read_text(errors="replace"))
    except OSError:
        return Processor(brand="", threads=os.cpu_count() or 1, packages=1, virtual=False)


def _version() -> str:
    try:
        return version("bench-appliance")
    except PackageNotFoundError:
        return "0+unknown"
