"""Readings that were handed out: memory of the daemon's for as long as anybody holds a descriptor of it.

Nobody can be made to close one. So the daemon keeps the only descriptor that may shorten the file, and empties it after
a while, or once its user was given so much more: a client takes its copy as soon as it hears of it, and checks it.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

KEPT_NS: Final = 120 * 10**9
MOST_FILES_OF_ONE: Final = 64
MOST_BYTES_OF_ONE: Final = 32 * 1024 * 1024
MOST_BYTES: Final = 96 * 1024 * 1024
"""Of all users; with what is not released yet, well below what the service may have."""
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class _File:
    uid: int
    fd: int
    cost: int
    until_ns: int


class Given:
    def __init__(self) -> None:
        self._files: deque[_File] = deque()

    def add(self, uid: int, fd: int, length: int) -> None:
        """`fd` is ours from now on; the oldest ones of this user make room."""
        cost = -(-length // _PAGE) * _PAGE
        self._files.append(_File(uid, fd, cost, time.monotonic_ns() + KEPT_NS))
        of_his = [one for one in self._files if one.uid == uid]
        while len(of_his) > MOST_FILES_OF_ONE or (len(of_his) > 1 and _cost(of_his) > MOST_BYTES_OF_ONE):
            self._empty(of_his.pop(0))
        while len(self._files) > 1 and _cost(self._files) > MOST_BYTES:
            self._empty(self._files[0])

    def expire(self, now_ns: int) -> None:
        while self._files and now_ns >= self._files[0].until_ns:
            self._empty(self._files[0])

    def deadlines(self) -> Iterator[int]:
        if self._files:
            yield self._files[0].until_ns

    def close(self) -> None:
        """What is in flight as we end is its client's to read."""
        while self._files:
            os.close(self._files.popleft().fd)

    def _empty(self, one: _File) -> None:
        self._files.remove(one)
        os.ftruncate(one.fd, 0)
        os.close(one.fd)


def _cost(files: deque[_File] | list[_File]) -> int:
    return sum(one.cost for one in files)
