"""The daemon's own cgroup: its cost is a line of its own, and never inside a trial (energy row T11)."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

from appliance.cgroups import BASE, METER, parse_membership, tasks_below
from appliance.meter.daemon.columns import CpuTimes

METER_CGROUP: Final = f"/{BASE}/{METER}"


class OwnPlace:
    """Where this program counts its CPU time. It moves where somebody else lives in the same cgroup."""

    def __init__(self, cpu: CpuTimes, proc: Path = Path("/proc")):
        self._tree = cpu.main
        self._before: Path | None = None
        self.path = self._find(proc)
        """Its kernel path; None: not to be told from others."""

    def leave(self) -> None:
        """Back to where it came from; the cgroup is removed unless another meter is in it."""
        here = None if self._tree is None or self.path is None else self._tree.folder(self.path)
        if self._before is None or here is None:
            return
        with contextlib.suppress(OSError):
            _enter(self._before)
        for folder in (here, here.parent):
            with contextlib.suppress(OSError):
                folder.rmdir()
        self._before = None

    def _find(self, proc: Path) -> str | None:
        try:
            homes = parse_membership((proc / "self" / "cgroup").read_text())
        except OSError:
            return None
        version = None if self._tree is None else self._tree.version
        home = homes.get("" if version == 2 else "cpuacct", "/")
        folder = None if self._tree is None else self._tree.folder(home)
        if folder is None:
            return None
        if home != "/" and tasks_below(folder) == {os.getpid()}:
            return home
        return METER_CGROUP if self._moved(folder) else None

    def _moved(self, before: Path) -> bool:
        """False where we may not: the meter's cost stands with the machine's own then."""
        here = None if self._tree is None else self._tree.folder(METER_CGROUP)
        if here is None:
            return False
        try:
            here.mkdir(parents=True, exist_ok=True)
            _enter(here)
        except OSError:
            return False
        self._before = before
        return True


def _enter(folder: Path) -> None:
    (folder / "cgroup.procs").write_text(f"{os.getpid()}\n")
