"""inotify(7), which Python's standard library does not have: folders that come and go below watched ones.

One reason to be here: three calls of the C library, and the records that the kernel writes.
"""

from __future__ import annotations

import ctypes
import os
import struct
from dataclasses import dataclass
from typing import Final

CREATE: Final = 0x00000100
DELETE: Final = 0x00000200
MOVED_FROM: Final = 0x00000040
MOVED_TO: Final = 0x00000080
_OVERFLOW: Final = 0x00004000
_IGNORED: Final = 0x00008000
_ONLY_FOLDERS: Final = 0x01000000
_NO_FOLLOW: Final = 0x02000000
_FOLDER: Final = 0x40000000
_RECORD: Final = struct.Struct("iIII")
_PIECE: Final = 64 * 1024


@dataclass(frozen=True)
class Told:
    """`watch` is -1 and `lost` true where the kernel's queue ran over: what else happened is not known."""

    watch: int
    name: str
    folder: bool
    came: bool
    went: bool
    ended: bool
    """This watch tells nothing any more: its folder is gone."""
    lost: bool


class Inotify:
    """One queue. Raises OSError with the kernel's word: ENOSYS, EMFILE, ENOSPC (no watch left for this user)..."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None, use_errno=True)
        self.fd = self._checked(self._library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))

    def watch(self, folder: str) -> int:
        """Of what is made and removed right below; the same number for the same folder."""
        mask = CREATE | DELETE | MOVED_FROM | MOVED_TO | _ONLY_FOLDERS | _NO_FOLLOW
        return self._checked(self._library.inotify_add_watch(self.fd, os.fsencode(folder), ctypes.c_uint32(mask)))

    def read(self) -> list[Told]:
        """What is there now, of at most 64 KiB; never waits."""
        try:
            data = os.read(self.fd, _PIECE)
        except BlockingIOError:
            return []
        return parse(data)

    def close(self) -> None:
        os.close(self.fd)

    @staticmethod
    def _checked(number: int) -> int:
        if number < 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
        return number


def parse(data: bytes) -> list[Told]:
    """Of whole records, as a read gives them."""
    told, at = [], 0
    while at + _RECORD.size <= len(data):
        watch, mask, _, length = _RECORD.unpack_from(data, at)
        at += _RECORD.size
        name = os.fsdecode(data[at : at + length].rstrip(b"\0"))
        at += length
        told.append(
            Told(
                watch,
                name,
                folder=bool(mask & _FOLDER),
                came=bool(mask & (CREATE | MOVED_TO)),
                went=bool(mask & (DELETE | MOVED_FROM)),
                ended=bool(mask & _IGNORED),
                lost=bool(mask & _OVERFLOW),
            )
        )
    return told
