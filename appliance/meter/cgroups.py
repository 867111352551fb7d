"""The trial's own parent cgroups: made where we may, read where they are, removed in every hierarchy.

Standard library and `appliance.cgroups` only: the privileged part of the meter stays small.
"""

from __future__ import annotations

import errno
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from appliance.cgroups import (
    MONITOR,
    CgroupDriver,
    Hierarchies,
    Hierarchy,
    engine_parent,
    kernel_path,
    remove_cgroups,
    slice_of,
    tasks_below,
)
from appliance.errors import HostRefused

# What a read of a cgroup that is gone, or was never made, ends with (energy row C1).
_ABSENT: Final = frozenset({errno.ENOENT, errno.ENODEV, errno.ENOTDIR})
_ATTEMPTS: Final = 10
_SYSTEMD_SECONDS: Final = 2.0


@dataclass(frozen=True)
class CpuReading:
    """CPU time of one cgroup and all that ever ran below it, and who is in it now."""

    cpu_ns: int
    tasks: frozenset[int]


@dataclass(frozen=True)
class CpuSource:
    """One of the two places that count a cgroup's CPU time; never both (energy row C15)."""

    hierarchy: Hierarchy

    def read(self, path: str) -> CpuReading | None:
        """Of a cgroup's kernel path; None where there is none. The counter is read before the list of tasks.

        What podman's monitor used beside the container (60 ms an exec on v1) is the engine's, and taken off.
        """
        folder = self.hierarchy.folder(path)
        usage = None if folder is None else self._usage_ns(folder)
        if folder is None or usage is None:
            return None
        return CpuReading(usage - (self._usage_ns(folder / MONITOR) or 0), tasks_below(folder))

    def _usage_ns(self, folder: Path) -> int | None:
        try:
            return _usage_usec(folder) * 1000 if self.hierarchy.version == 2 else _usage_ns(folder)
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            raise


def cpu_sources(trees: Hierarchies) -> tuple[CpuSource, ...]:
    """Where CPU time can be read here, the preferred first: v2, then v1's cpuacct."""
    found = (trees.unified, trees.v1("cpuacct"))
    return tuple(CpuSource(one) for one in found if one is not None)


def source_of(sources: tuple[CpuSource, ...], path: str) -> CpuSource | None:
    """The first that holds tasks of this cgroup: on hybrid hosts some engines join one tree only.

    Where none holds any, the first in which the cgroup is; where it is in none, the first of all.
    """
    readings = [(source, source.read(path)) for source in sources]
    with_tasks = [source for source, reading in readings if reading is not None and reading.tasks]
    present = [source for source, reading in readings if reading is not None]
    return next(iter(with_tasks or present or sources), None)


class OwnCgroups:
    """Cgroups of ours under one driver. Without the right to make them, the engine makes them and nobody removes."""

    def __init__(self, trees: Hierarchies, driver: CgroupDriver):
        self._trees = trees
        self._driver = driver
        self.makes = os.geteuid() == 0 and _writable(trees)

    def make(self, cgroup: str) -> str:
        """What the engine takes as `cgroup_parent`; made first where we may. Raises HostRefused where that fails."""
        if self.makes:
            try:
                if self._driver == "systemd":
                    _systemctl("start", slice_of(cgroup))
                else:
                    for folder in self._trees.folders(cgroup):
                        _make(folder)
            except OSError as error:
                raise HostRefused(f"cannot make the trial's cgroup: {error}", where=cgroup) from error
        return engine_parent(cgroup, self._driver)

    def path(self, cgroup: str) -> str:
        """Where it stands in the kernel's tree."""
        return kernel_path(cgroup, self._driver)

    def remove(self, cgroup: str, patience_seconds: float = 0.5) -> tuple[Path, ...]:
        """Those that are still held are returned; nothing is done where we make none."""
        if not self.makes:
            return ()
        if self._driver == "systemd":
            _systemctl("stop", slice_of(cgroup))
        return remove_cgroups(self._trees, (self.path(cgroup),), patience_seconds)


def _usage_usec(folder: Path) -> int:
    for line in (folder / "cpu.stat").read_text().splitlines():
        key, _, value = line.partition(" ")
        if key == "usage_usec":
            return int(value)
    raise OSError(errno.ENODATA, "no usage_usec", str(folder / "cpu.stat"))


def _usage_ns(folder: Path) -> int:
    return int((folder / "cpuacct.usage").read_text())


def _writable(trees: Hierarchies) -> bool:
    return any(os.access(source.hierarchy.mount, os.W_OK) for source in cpu_sources(trees))


def _make(folder: Path) -> None:
    for _ in range(_ATTEMPTS):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            break
        except FileNotFoundError:
            # Another run just removed the parent that we were about to use.
            continue
        except OSError as error:
            # A hierarchy that is mounted read-only or delegated: the engine, which can, makes it there.
            if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
                return
            raise
    _fill_cpuset(folder)


def _fill_cpuset(folder: Path) -> None:
    """A v1 cpuset is born without CPUs and takes no task till it has some: it gets its parent's, the top down."""
    if not (folder / "cpuset.cpus").exists() or (folder / "cgroup.controllers").exists():
        return
    if not (folder.parent / "cpuset.cpus").read_text().strip():
        _fill_cpuset(folder.parent)
    for name in ("cpuset.cpus", "cpuset.mems"):
        if not (folder / name).read_text().strip():
            (folder / name).write_text((folder.parent / name).read_text())


def _systemctl(act: str, unit: str) -> None:
    """Untested on a systemd host. A unit that is not there any more is no failure of `stop`, which is not waited for:
    whoever lives in it may take his time to end, and the meter's one thread has none. Raises OSError for `start`."""
    command = ["systemctl", act, unit] if act == "start" else ["systemctl", "--no-block", act, unit]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SYSTEMD_SECONDS)
        problem = ended.stderr.strip() if ended.returncode else None
    except (OSError, subprocess.TimeoutExpired) as error:
        problem = str(error)
    if problem is not None and act == "start":
        raise OSError(errno.EIO, f"systemctl {act} {unit}: {problem}")
