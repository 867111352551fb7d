"""A container's own cgroups on v1, v2 and hybrid hosts: where they lie, what they hold, what they counted."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from appliance.cgroups import Hierarchies, hierarchies, parse_membership, tasks_below
from appliance.ports import Evidence

MIB = 1 << 20
_UNLIMITED_V1 = 1 << 62
"""v1 says "no limit" as the largest multiple of a page below 2^63."""


@dataclass(frozen=True)
class CgroupPlaces:
    """The folders of one container; None where no hierarchy has that controller."""

    memory: Path | None
    pids: Path | None
    cpu: Path | None
    members: Path | None
    """Whose `cgroup.procs` lists its processes."""


@cache
def mounted() -> Hierarchies:
    return hierarchies()


def places_of(trees: Hierarchies, paths: Mapping[str, str]) -> CgroupPlaces:
    """v1's folder of a controller where it is mounted, v2's where that has the controller's files."""
    unified = trees.unified.folder(paths[""]) if trees.unified is not None and "" in paths else None

    def place(controller: str, file: str) -> Path | None:
        legacy = trees.v1(controller)
        if legacy is not None and controller in paths:
            return legacy.folder(paths[controller])
        return unified if unified is not None and (unified / file).exists() else None

    memory, pids = place("memory", "memory.max"), place("pids", "pids.max")
    return CgroupPlaces(memory, pids, place("cpu", "cpu.max"), pids or unified or memory)


def places_of_pid(pid: int) -> CgroupPlaces | None:
    """None where the process is gone, or lives where we cannot see it (a remote engine)."""
    try:
        text = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    return places_of(mounted(), parse_membership(text))


def pid_is_in(pid: int, container: str) -> bool:
    """Whether this pid is of that container: pids are used again, and a remote engine's mean nothing here."""
    try:
        return container in Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return False


def read_evidence(places: CgroupPlaces) -> Evidence:
    """What the kernel counted so far. It must be read while the container lives: its own cgroups go with it."""
    oom = peak = denied = None
    if places.memory is not None:
        v1 = _keyed(places.memory / "memory.oom_control").get("oom_kill")
        oom = v1 if v1 is not None else _keyed(places.memory / "memory.events").get("oom_kill")
        peak = _number(places.memory / "memory.max_usage_in_bytes")
        if peak is None:
            peak = _number(places.memory / "memory.peak")
    if places.pids is not None:
        denied = _keyed(places.pids / "pids.events").get("max")
    return Evidence(oom_kills=oom, pids_denied=denied, peak_memory_mib=None if peak is None else peak / MIB)


def memory_limit_mib(places: CgroupPlaces) -> float | None:
    """None: no limit, or not readable."""
    if places.memory is None:
        return None
    limit = _number(places.memory / "memory.limit_in_bytes")
    if limit is None:
        limit = _number(places.memory / "memory.max")
    return None if limit is None or limit >= _UNLIMITED_V1 else limit / MIB


def pids_limit(places: CgroupPlaces) -> int | None:
    return None if places.pids is None else _number(places.pids / "pids.max")


def cpus_limit(places: CgroupPlaces) -> float | None:
    if places.cpu is None:
        return None
    quota, period = _number(places.cpu / "cpu.cfs_quota_us"), _number(places.cpu / "cpu.cfs_period_us")
    if quota is not None and period:
        return quota / period if quota > 0 else None
    words = _text(places.cpu / "cpu.max").split()
    return int(words[0]) / int(words[1]) if len(words) == 2 and words[0].isdigit() else None


def member_count(places: CgroupPlaces) -> int | None:
    """Processes in the container's cgroup and below it, 0 once it is gone; None where it cannot be seen."""
    return None if places.members is None else len(tasks_below(places.members))


def _text(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text(encoding="ascii", errors="replace")
    return ""


def _number(path: Path) -> int | None:
    text = _text(path).strip()
    return int(text) if text.lstrip("-").isdigit() else None


def _keyed(path: Path) -> dict[str, int]:
    """Flat keyed files, as `oom_kill 3`."""
    pairs = (line.split() for line in _text(path).splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}
