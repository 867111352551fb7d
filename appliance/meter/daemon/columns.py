"""CPU time of cgroups as columns of the readings: files kept open, read in place, known by path and inode.

All numbers are microseconds where v2 counts here, else nanoseconds. Energy rows C1, C7, C9, C15, T9.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from appliance.cgroups import MONITOR, Hierarchies, Hierarchy, tasks_below
from appliance.energy.readings import CpuUnit

_NO_FILE: Final = frozenset({errno.ENODEV, errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EMFILE, errno.ENFILE})
_KEY: Final = b"usage_usec "
_LINE: Final = 32
"""`usage_usec`, the widest number and its line feed: the first line of cpu.stat."""
_PIECE: Final = 4096
"""All of cpu.stat."""


class CpuFile:
    """One open counter. `read` gives None for one that is gone, or was never there."""

    def __init__(self, folder: Path, version: int, divisor: int = 1):
        self.folder = folder
        self.version = version
        self._divisor = divisor
        self._path = os.fspath(folder / ("cpu.stat" if version == 2 else "cpuacct.usage"))
        self.fd = -1
        self.inode = 0
        """0 while it was never there."""
        self.lack: int | None = None
        """Why it is not open, as an errno; None where it is, or is gone."""
        self.reopen()

    def reopen(self) -> None:
        """By path; another inode means another cgroup of the same name."""
        self.close()
        self.lack = None
        try:
            self.fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            self.inode = os.fstat(self.fd).st_ino
        except OSError as error:
            self.lack = error.errno
            if error.errno not in _NO_FILE:
                raise

    def read(self) -> int | None:
        if self.fd < 0:
            return None
        try:
            text = os.pread(self.fd, _PIECE, 0)
        except OSError:
            # Whatever the kernel says (ENODEV after rmdir): no number, and the file is of no more use.
            self.close()
            return None
        if self.version == 1:
            return int(text) // self._divisor
        for line in text.splitlines():
            if line.startswith(_KEY):
                return int(line[11:])
        return None

    @property
    def plain_fd(self) -> int:
        """Of a file whose number stands as v2 writes it; -1 for another."""
        return self.fd if self.version == 2 else -1

    def close(self) -> None:
        if self.fd >= 0:
            with contextlib.suppress(OSError):
                os.close(self.fd)
        self.fd = -1


@dataclass(eq=False)
class Column:
    """A cgroup while it is read. Another cgroup at the same path is another column."""

    id: str
    path: str
    role: str
    run: str | None
    trial: int | None
    opaque: str | None
    """What other trials' windows call the trial it is of; None for what belongs to none."""
    file: CpuFile
    monitor: CpuFile | None = None
    """Podman's monitor in the same cgroup, the engine's own: taken off."""
    owners: set[str] = field(default_factory=set)
    """Handles whose own it is or was; none for `meter` and for a container that is only watched."""
    live: set[str] = field(default_factory=set)
    """Those of them that are not released yet: several where a container was adopted more than once."""

    def read(self) -> int | None:
        usage = self.file.read()
        if usage is None or self.monitor is None:
            return usage
        return usage - (self.monitor.read() or 0)

    @property
    def gone(self) -> bool:
        return self.file.fd < 0

    def tasks(self) -> frozenset[int]:
        """Pids in it and below, of the source that is read."""
        return tasks_below(self.file.folder)

    def close(self) -> None:
        self.file.close()
        if self.monitor is not None:
            self.monitor.close()


def read_all(columns: Sequence[Column]) -> list[int | None]:
    """`read` of each. An edge reads everybody's: where all are v2's and there, as nearly always, no call each."""
    pread = os.pread
    try:
        texts = [pread(one.file.plain_fd if one.monitor is None else -1, _LINE, 0) for one in columns]
        if all([text[:11] == _KEY for text in texts]):  # noqa: C419  # a list is built in half the time
            return [int(text[11 : text.index(b"\n")]) for text in texts]
    except (OSError, ValueError):
        # One is gone, or v1's, or has a monitor's taken off: one by one, each by its own rule.
        pass
    return [column.read() for column in columns]


class CpuTimes:
    """Where this host counts CPU time, v2 before v1 (row C15), and the files in it.

    One of v1's, where the engine joins no other tree, is taken in microseconds beside v2's: both are the sum of what
    its tasks ran.
    """

    def __init__(self, trees: Hierarchies):
        self._unified = _counts(trees.unified, "cpu.stat")
        self._accounting = _counts(trees.v1("cpuacct"), "cpuacct.usage")
        self.main = self._unified or self._accounting
        self.unit: CpuUnit = "us" if self._unified is not None else "ns"
        # A mount that shows a part of the tree only says nothing of the machine.
        whole = self.main if self.main is not None and self.main.root == "/" else None
        self.machine = None if whole is None else CpuFile(whole.mount, whole.version)

    def file(self, path: str, version: int | None = None) -> CpuFile | None:
        """Of a cgroup's kernel path, in the main tree or that of a version; None where it lies outside of it."""
        tree = self.main if version is None else self._unified if version == 2 else self._accounting
        folder = None if tree is None else tree.folder(path)
        if tree is None or folder is None:
            return None
        return CpuFile(folder, tree.version, self._divisor(tree.version))

    def has(self, path: str, version: int) -> bool:
        """Whether this cgroup is there and counts."""
        tree = self._unified if version == 2 else self._accounting
        folder = None if tree is None else tree.folder(path)
        return folder is not None and (folder / ("cpu.stat" if version == 2 else "cpuacct.usage")).exists()

    def file_with_tasks(self, path: str, now: CpuFile) -> tuple[CpuFile, frozenset[int]]:
        """`now`, unless its cgroup holds no task and the other tree's does (some engines join one tree only); and who
        is in it."""
        tasks = tasks_below(now.folder)
        folder = None if self._accounting is None else self._accounting.folder(path)
        if tasks or folder is None or now.version == 1:
            return now, tasks
        elsewhere = tasks_below(folder)
        return (CpuFile(folder, 1, self._divisor(1)), elsewhere) if elsewhere else (now, tasks)

    def monitor(self, file: CpuFile) -> CpuFile | None:
        """None where podman has put none beside the container."""
        if not os.path.isdir(f"{file.folder}/{MONITOR}"):  # noqa: PTH112
            return None
        return CpuFile(file.folder / MONITOR, file.version, self._divisor(file.version))

    def _divisor(self, version: int) -> int:
        return 1000 if version == 1 and self.unit == "us" else 1

    @property
    def words(self) -> str:
        """For a person."""
        if self.main is None:
            return "nowhere"
        return "cgroup v2" if self.main.version == 2 else "cgroup v1 (cpuacct)"

    def counts_in(self, version: int) -> bool:
        return (self._unified if version == 2 else self._accounting) is not None

    def nanoseconds(self, number: int) -> int:
        return number * 1000 if self.unit == "us" else number


def _counts(tree: Hierarchy | None, name: str) -> Hierarchy | None:
    return tree if tree is not None and (tree.mount / name).exists() else None
