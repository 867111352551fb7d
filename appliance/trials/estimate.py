"""What a run is about to take, said before it starts: trials, disk, time (row H16)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from appliance.bundle import cache_home
from appliance.errors import HostRefused
from appliance.files import write_atomically
from appliance.reading import read_regular
from appliance.records.plan import TrialPlan, trial_keys
from appliance.trials.room import grader_disk_mib
from appliance.trials.upstreams import Dollars, dollars_of

KEPT_MIB_A_TRIAL: Final = 1
"""Journal line, streams, diff and report of a trial that says no more than usual; its cap is 20 MiB of streams."""
_MIB: Final = 1024 * 1024
_MAX_SPEEDS_BYTES: Final = 16 * _MIB


@dataclass(frozen=True)
class Estimate:
    """`seconds` is of the last run of the same suite and solvers where there was one, else the sum of the limits."""

    trials: int
    baselines: int
    disk_mib: int
    seconds: float
    seconds_from: str
    dollars: Dollars
    rest_seconds: float = 0.0
    """At the idle machine, before and after: no more than this."""

    def lines(self) -> tuple[str, ...]:
        rest = f", and {_spoken(self.rest_seconds)} at the idle machine" if self.rest_seconds else ""
        return (
            f"trials:  {self.trials}, and {self.baselines} {'baseline' if self.baselines == 1 else 'baselines'}",
            f"disk:    {self.disk_mib} MiB at most at a time",
            f"time:    {_spoken(self.seconds)} ({self.seconds_from}){rest}",
            f"dollars: {self.dollars.words}",
        )


def estimate(
    plans: tuple[TrialPlan, ...],
    jobs: int,
    known: Mapping[str, float],
    rest_seconds: float = 0.0,
    *,
    at: datetime | None = None,
) -> Estimate:
    """`known`: `speed_key` of a plan -> wall seconds a trial took of one worker; `at`: whose list prices count."""
    seconds = 0.0
    measured = True
    for plan in plans:
        pace = known.get(speed_key(plan))
        measured = measured and pace is not None
        for planned in plan.tasks:
            limits = planned.spec.limits
            each = pace if pace is not None else limits.wall_seconds + limits.test_seconds
            seconds += each * plan.passes * plan.rollouts
    trials = sum(len(trial_keys(plan)) for plan in plans)
    pairs = {(planned.spec.name, planned.images.task.config) for plan in plans for planned in plan.tasks}
    widest = max(planned.spec.limits.disk_mib for plan in plans for planned in plan.tasks)
    workers = min(jobs, trials)
    return Estimate(
        trials=trials,
        baselines=len(pairs),
        # A worker has the solver's workspace and the grader's at a time.
        disk_mib=workers * (widest + grader_disk_mib(widest)) + trials * KEPT_MIB_A_TRIAL,
        seconds=seconds / max(1, workers),
        seconds_from="as the last run" if measured else "if every trial takes its limits",
        dollars=dollars_of(plans, at or datetime.now(UTC)),
        rest_seconds=rest_seconds,
    )


def refuse_short_disk(wanted: Estimate, folders: Iterable[Path]) -> None:
    """Raises HostRefused where one of the file systems that the run writes to has less free than it may need."""
    for folder in folders:
        there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        free = shutil.disk_usage(there).free // _MIB
        if free < wanted.disk_mib:
            raise HostRefused(
                f"the run may need {wanted.disk_mib} MiB and {free} are free",
                where=str(there),
                mend="free some, lower --jobs, or lower --limit-disk-mib",
                reason="disk",
            )


def speed_key(plan: TrialPlan) -> str:
    return f"{plan.suite.digest[:16]}.{plan.solver.digest[:16]}.{plan.model or 'none'}"


def known_speeds() -> dict[str, float]:
    """Of earlier runs on this machine; empty where none is kept, or what is kept cannot be read."""
    try:
        kept = json.loads(read_regular(_speeds_path(), _MAX_SPEEDS_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(kept, dict):
        return {}
    return {key: float(value) for key, value in kept.items() if isinstance(value, int | float)}


def keep_speeds(plans: tuple[TrialPlan, ...], seconds_a_trial: float) -> None:
    speeds = known_speeds() | {speed_key(plan): round(seconds_a_trial, 3) for plan in plans}
    # A cache that cannot be written costs the next run its estimate, and nothing else.
    with suppress(OSError):
        write_atomically(_speeds_path(), json.dumps(speeds, sort_keys=True).encode())


def _speeds_path() -> Path:
    return cache_home() / "speeds.json"


def _spoken(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 5400:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"
