"""In which cgroup a process lives, and which of our columns that is (/proc/PID/cgroup, cgroups(7))."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from appliance.cgroups import parse_membership
from appliance.meter.daemon.columns import Column, CpuTimes
from appliance.meter.daemon.messages import Refused


def home_of(pid: int, cpu: CpuTimes, proc: Path = Path("/proc")) -> tuple[str, int]:
    """Kernel path and tree of the cgroup that a process lives in: v2's before v1's (row C15). Raises Refused."""
    try:
        homes = _membership(pid, proc)
    except OSError as error:
        raise Refused("bad_message", f"no process {pid}: {error.strerror}") from error
    if cpu.main is None:
        raise Refused("no_counter", "this host counts no CPU time where this meter can read it")
    for path, version in ((homes.get(""), 2), (homes.get("cpuacct"), 1)):
        if path is None or path == "/" or not cpu.counts_in(version):
            continue
        if path.startswith("/.."):
            raise Refused("bad_message", f"process {pid} is in another cgroup namespace")
        if cpu.has(path, version):
            return path, version
    raise Refused("bad_message", f"process {pid} is in no cgroup of its own")


def columns_of(
    pids: frozenset[int], columns: Sequence[Column], proc: Path = Path("/proc")
) -> tuple[tuple[str, ...], int]:
    """Ids of the columns that these processes live in, and how many live in none."""
    found: set[str] = set()
    foreign = 0
    for pid in pids:
        try:
            homes = _membership(pid, proc)
        except OSError:
            # It ended between the driver's list and this look.
            continue
        owner = next((one.id for one in columns if _in(homes, one)), None)
        if owner is None:
            foreign += 1
        else:
            found.add(owner)
    return tuple(sorted(found)), foreign


def _membership(pid: int, proc: Path) -> dict[str, str]:
    """A cgroup's name is bytes, as a file's. Raises OSError."""
    return parse_membership(os.fsdecode((proc / str(pid) / "cgroup").read_bytes()))


def _in(homes: dict[str, str], column: Column) -> bool:
    home = homes.get("" if column.file.version == 2 else "cpuacct", "")
    return home == column.path or home.startswith(f"{column.path}/")
