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
    model_cgroup,
    remove_run_cgroups,
    role_cgroup,
    run_cgroup,
    trial_cgroup,
)
from appliance.energy.cpus import Processor, parse_cpuinfo
from appliance.meter.cgroups import CpuReading, CpuSource, OwnCgroups, cpu_sources, source_of
from appliance.meter.choice import Choice, Estimator, choose
from appliance.meter.counters.search import POWERCAP, CounterSearch, look_for_counters
from appliance.meter.figures import Estimating
from appliance.meter.serving import ModelTime
from appliance.ports import MeteredTrial, StoredRest
from appliance.records.metered import lost
from appliance.records.plan import PlannedEnergy
from appliance.records.record import MeterStamp

NAME: Final = "local"
RAN_ON_NS: Final = 5_000_000
"""CPU time between close and release above which strangers in the cgroup count as having run on (formats 5)."""

StatsReader = Callable[[str, int | None, str], int | None]
"""(run, trial, role) -> CPU nanoseconds of that container by the engine's one-shot statistics; None where unknown.
Trial None: of the run's own."""


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
    processor: Processor
    source: Estimator
    lack: str | None
    """Why there are no joules at all."""


class LocalMeter:
    """A `ports.Meter` that reads no counter. Raises MeterRefused at construction where energy cannot be stated as
    planned."""

    counts = False

    def __init__(
        self,
        planned: PlannedEnergy,
        engine: HostCgroups = CGROUPFS,
        stats: StatsReader | None = None,
        *,
        choice: Choice | None = None,
        proc: Path = Path("/proc"),
        powercap: Path = POWERCAP,
    ):
        """`choice`: what was decided for this run; None decides among the estimators here and now.

        A model decided for a plan that asks for counters (a record reproduced where there is none) gives CPU time
        alone: its joules are missing, with the choice's reason.
        """
        self._trees = hierarchies(proc) if engine.reachable else Hierarchies(())
        sources = cpu_sources(self._trees)
        choice = choice or choose(
            planned.mode,
            watts_set=planned.active_watts is not None,
            counters=_none_of(look_for_counters(powercap)),
            cpu_readable=bool(sources) or stats is not None,
        )
        if choice.source == "counters":
            raise ValueError("a meter that reads no counter was chosen to read them")
        self._setting = _Setting(
            own=OwnCgroups(self._trees, engine.driver),
            sources=sources,
            stats=stats,
            processor=processor_of(proc),
            source=choice.source,
            lack=(choice.reason or "no counter") if planned.mode == "measured" else None,
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
        self._models: dict[str, str | None] = {}
        self._lock = threading.Lock()

    @property
    def leaves_cgroups(self) -> bool:
        """The engine makes the trials' cgroups and nobody here may remove them: `sudo appliance gc` (formats 9)."""
        return bool(self._setting.sources) and not self._setting.own.makes

    def stamp(self) -> MeterStamp:
        return self._stamp

    def prepare(
        self,
        run: str,
        trial: int,
        planned: PlannedEnergy,
        cpus: float,
        by_kind: bool,
        *,
        roles: tuple[str, ...] = ("solver",),
    ) -> LocalTrial:
        del cpus  # the estimators reckon on the machine's own processors, whatever share the trial may take
        model = ModelTime(self._model_reader(run)) if run in self._models else None
        return LocalTrial(self._setting, run, trial, planned.active_watts, by_kind=by_kind, roles=roles, model=model)

    def harness_cgroup(self, run: str) -> str | None:
        if not self._setting.sources:
            return None
        with self._lock:
            if run not in self._harness:
                self._harness[run] = self._setting.own.make(harness_cgroup(run))
            return self._harness[run]

    def model_cgroup(self, run: str) -> str | None:
        with self._lock:
            if run not in self._models:
                own = self._setting.own
                self._models[run] = own.make(model_cgroup(run)) if self._setting.sources else None
            return self._models[run]

    def _model_reader(self, run: str) -> Callable[[], int | None]:
        setting = self._setting
        path = setting.own.path(model_cgroup(run))

        def read() -> int | None:
            if not setting.sources:
                return None if setting.stats is None else setting.stats(run, None, "model")
            source = source_of(setting.sources, path)
            reading = None if source is None else source.read(path)
            return None if reading is None else reading.cpu_ns

        return read

    def stored(self) -> StoredRest | None:
        return None

    def idle(self, run: str, pause: Callable[[], None]) -> bytes | None:
        del run, pause
        return None

    def close_run(self, run: str) -> None:
        with self._lock:
            self._harness.pop(run, None)
            self._models.pop(run, None)
        if self._setting.own.makes:
            self._setting.own.remove(run_cgroup(run))
            remove_run_cgroups(self._trees, run)


class LocalTrial:
    """A `ports.TrialMeter`; its cgroups are made with it."""

    def __init__(
        self,
        setting: _Setting,
        run: str,
        trial: int,
        watts: float | None,
        *,
        by_kind: bool,
        roles: tuple[str, ...],
        model: ModelTime | None,
    ):
        """`model`: of the run's model server, where there is one."""
        self._setting = setting
        self._roles = roles
        self._model = model
        self._run = run
        self._trial = trial
        self._watts = watts
        self._by_kind = by_kind
        names = {role: role_cgroup(run, trial, role) for role in roles} if setting.sources else {}
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
        if self._model is not None:
            self._model.open()
        self._opened = self._read()

    def began(self, order: int) -> None:
        if self._model is not None:
            self._model.began(order)

    def ended(self, order: int) -> None:
        if self._model is not None:
            self._model.ended(order)

    def close(self) -> None:
        """The first call counts: what comes after it is not the solver's."""
        if not self._closed:
            self._closed = self._read()
            if self._model is not None:
                self._model.close()

    def release(self, wall_seconds: float, *, at_limit: bool) -> MeteredTrial:
        """Also right where open or close were never reached: what they would have read is None then."""
        charged = {role: self._charged(role) for role in self._roles}
        if self._model is not None:
            charged["model"] = self._model.charged_ns
        flags = tuple(self._flags(at_limit))
        if self._setting.lack is None:
            estimating = Estimating(self._setting.source, self._setting.processor, self._watts)
            energy = estimating.energy(wall_seconds, charged, by_kind=self._by_kind, flags=flags)
        else:
            energy = lost(self._setting.lack, charged, by_kind=self._by_kind)
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
        for role in self._roles:
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


def processor_of(proc: Path = Path("/proc")) -> Processor:
    try:
        return parse_cpuinfo((proc / "cpuinfo").read_text(errors="replace"))
    except OSError:
        return Processor(brand="", threads=os.cpu_count() or 1, packages=1, virtual=False)


def _none_of(search: CounterSearch) -> CounterSearch:
    """Counters that are there are none to this meter."""
    if not search.found:
        return search
    return CounterSearch((), "NoCounter", f"the meter {NAME!r} reads no counter", "leave --meter away")


def _version() -> str:
    try:
        return version("bench-appliance")
    except PackageNotFoundError:
        return "0+unknown"
