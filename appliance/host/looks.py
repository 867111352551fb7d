"""Two looks at the machine some time apart: what it did in between is their difference."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from appliance.cgroups import Hierarchies, tasks_below
from appliance.host.facts import Roots, text

_CONTAINER: Final = re.compile(r"(?:^|-)([0-9a-f]{64})(?:\.scope)?$")


@dataclass(frozen=True)
class Clocks:
    """Nanoseconds of the three clocks, read one after another."""

    real: int
    monotonic: int
    boot: int

    @classmethod
    def now(cls) -> Clocks:
        return cls(time.time_ns(), time.monotonic_ns(), time.clock_gettime_ns(time.CLOCK_BOOTTIME))


@dataclass(frozen=True)
class Look:
    """Counters of one moment; those of containers by id, in nanoseconds of CPU time."""

    clocks: Clocks
    cpu: Mapping[str, int]
    """Of /proc/stat's first line, in its ticks, without guest time counted twice."""
    containers: Mapping[str, int]


@dataclass(frozen=True)
class Between:
    """What happened between two looks; shares are of all CPUs, None where nothing was counted."""

    seconds: float
    busy: float | None
    steal: float | None
    guest: float | None
    containers: Mapping[str, float]
    """CPU seconds a second, by container id."""
    suspended_seconds: float
    clock_step_seconds: float
    """Of the wall clock against the monotonic one."""


def look(roots: Roots, trees: Hierarchies) -> Look:
    return Look(Clocks.now(), parse_stat(text(roots.proc / "stat") or ""), container_cpu(trees))


def parse_stat(stat: str) -> dict[str, int]:
    """user nice system idle iowait irq softirq steal guest; guest is taken out of user (proc(5): it is in both)."""
    names = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice")
    for line in stat.splitlines():
        words = line.split()
        if words[:1] == ["cpu"]:
            ticks = dict(zip(names, (int(word) for word in words[1:]), strict=False))
            ticks["user"] = ticks.get("user", 0) - ticks.get("guest", 0)
            ticks["nice"] = ticks.get("nice", 0) - ticks.pop("guest_nice", 0)
            return ticks
    return {}


def container_cpu(trees: Hierarchies) -> dict[str, int]:
    """CPU nanoseconds of every container with a live task, by id; by the names that engines give their cgroups."""
    found: dict[str, int] = {}
    unified, accounting = trees.unified, trees.v1("cpuacct")
    for one in (accounting, unified):
        if one is None:
            continue
        for folder in _folders(one.mount):
            named = _CONTAINER.search(folder.name)
            if named is None or named[1] in found or not tasks_below(folder):
                continue
            usage = _usage_ns(folder)
            if usage is not None:
                found[named[1]] = usage
    return found


def between(first: Look, last: Look) -> Between:
    seconds = (last.clocks.monotonic - first.clocks.monotonic) / 1e9
    ticks = {name: last.cpu[name] - first.cpu[name] for name in first.cpu if name in last.cpu}
    whole = sum(ticks.values())

    def share(*names: str) -> float | None:
        return sum(ticks.get(name, 0) for name in names) / whole if whole > 0 else None

    grown = {
        container: (usage - first.containers.get(container, 0)) / 1e9 / seconds
        for container, usage in last.containers.items()
        if seconds > 0
    }
    boot = (last.clocks.boot - first.clocks.boot) / 1e9
    real = (last.clocks.real - first.clocks.real) / 1e9
    return Between(
        seconds=seconds,
        busy=share("user", "nice", "system", "irq", "softirq"),
        steal=share("steal"),
        guest=share("guest"),
        containers={container: max(0.0, rate) for container, rate in grown.items()},
        suspended_seconds=boot - seconds,
        # A suspended wall clock runs on: only what is beyond the boot clock is a step.
        clock_step_seconds=real - boot,
    )


def _folders(mount: Path, depth: int = 6) -> list[Path]:
    """Folders down to where engines put containers; a vanished one is passed over."""
    try:
        children = [entry for entry in mount.iterdir() if entry.is_dir()]
    except OSError:
        return []
    if depth == 0:
        return children
    return children + [below for child in children for below in _folders(child, depth - 1)]


def _usage_ns(folder: Path) -> int | None:
    v1 = text(folder / "cpuacct.usage")
    if v1 is not None and v1.strip().isdigit():
        return int(v1)
    for line in (text(folder / "cpu.stat") or "").splitlines():
        key, _, value = line.partition(" ")
        if key == "usage_usec":
            return int(value) * 1000
    return None
