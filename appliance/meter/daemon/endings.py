"""The last exit of a container that somebody else started: told by the kernel, read before its cgroup is removed.

Our own trials' cgroups outlive their containers, so their last reading can wait; an adopted container's goes with it
4 to 29 ms after its last process (energy rows C4, C5). v2 only: v1 has no such word.
"""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Sequence
from typing import Final

from appliance.meter.daemon.columns import Column

_EMPTY: Final = b"populated 0"
_PIECE: Final = 256


class Endings:
    """Descriptors of `cgroup.events`, known to the daemon's epoll. Nothing is read but when it says so."""

    def __init__(self, epoll: select.epoll):
        self._epoll = epoll
        self._columns: Sequence[Column] = ()
        self._files: dict[Column, int] = {}

    def follow(self, columns: Sequence[Column], role: str) -> None:
        """Those of this role; called at every turn, and does nothing where the columns are the same ones."""
        if columns is self._columns:
            return
        self._columns = columns
        wanted = {one for one in columns if one.role == role and one.file.version == 2 and not one.gone}
        for column in self._files.keys() - wanted:
            self._leave(column)
        for column in wanted - self._files.keys():
            self._join(column)

    def told(self, fd: int) -> bool:
        """Whether this descriptor is one of them, whose cgroup is empty now."""
        column = next((one for one, file in self._files.items() if file == fd), None)
        if column is None:
            return False
        try:
            # Reading is what tells the kernel that we know.
            empty = _EMPTY in os.pread(fd, _PIECE, 0)
        except OSError:
            self._leave(column)
            return True
        return empty

    def close(self) -> None:
        for column in list(self._files):
            self._leave(column)

    def _join(self, column: Column) -> None:
        try:
            fd = os.open(column.file.folder / "cgroup.events", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return  # gone already, or no descriptor left: the regular looks go on
        try:
            os.pread(fd, _PIECE, 0)
            self._epoll.register(fd, select.EPOLLPRI)
        except OSError:
            os.close(fd)
            return
        self._files[column] = fd

    def _leave(self, column: Column) -> None:
        fd = self._files.pop(column)
        with contextlib.suppress(OSError):
            self._epoll.unregister(fd)
        os.close(fd)
