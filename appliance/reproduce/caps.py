"""What a stranger's record may ask of this host (row R4)."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from appliance.errors import HostRefused
from appliance.records.plan import TrialPlan

_MIB = 1024 * 1024
_PIDS_A_TRIAL = 32768


@dataclass(frozen=True)
class Caps:
    """Upper bounds on a task's limits; None bounds nothing."""

    wall_seconds: float | None
    cpus: float
    memory_mib: int
    pids: int
    disk_mib: int


def host_caps(folder: Path, **given: float | None) -> Caps:
    """The host's own bounds (cores, memory, free disk under `folder`), each replaced by a given `--max-*`."""
    memory_mib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // _MIB
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    wall = given.get("wall_seconds")
    return Caps(
        wall_seconds=wall,
        cpus=given.get("cpus") or float(os.cpu_count() or 1),
        memory_mib=int(given.get("memory_mib") or memory_mib),
        pids=int(given.get("pids") or _PIDS_A_TRIAL),
        disk_mib=int(given.get("disk_mib") or shutil.disk_usage(existing).free // _MIB),
    )


def refuse_beyond(plan: TrialPlan, caps: Caps, where: str) -> None:
    """Raises HostRefused naming the first task and limit over its cap.

    Less than the recorded limit would be another experiment, so nothing is trimmed to fit.
    """
    for index, planned in enumerate(plan.tasks):
        limits = planned.spec.limits
        asked = {
            "wall_seconds": limits.wall_seconds,
            "cpus": limits.cpus,
            "memory_mib": limits.memory_mib,
            "pids": limits.pids,
            "disk_mib": limits.disk_mib,
        }
        for name, value in asked.items():
            cap = getattr(caps, name)
            if cap is not None and value > cap:
                raise HostRefused(
                    f"task {planned.spec.name!r} asks for {name} {value:g}, and at most {cap:g} may be had here",
                    where=f"{where}: $.plan.tasks[{index}].spec.limits",
                    mend=f"reproduce on a larger host, or allow it: --max-{name.replace('_', '-')} {value:g}",
                )
