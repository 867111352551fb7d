"""Who may work while a window is open: in an exclusive run, nobody of ours."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Turns:
    """Windows exclude each other and all other work of the run; work may overlap work. A waiting window goes first.

    In shared scheduling both are free.
    """

    def __init__(self, *, exclusive: bool):
        self.exclusive = exclusive
        self._changed = threading.Condition()
        self._working = 0
        self._open = False
        self._waiting = 0

    @contextmanager
    def window(self) -> Iterator[None]:
        if not self.exclusive:
            yield
            return
        with self._changed:
            self._waiting += 1
            self._changed.wait_for(lambda: not self._open and self._working == 0)
            self._waiting -= 1
            self._open = True
        try:
            yield
        finally:
            with self._changed:
                self._open = False
                self._changed.notify_all()

    @contextmanager
    def work(self) -> Iterator[None]:
        if not self.exclusive:
            yield
            return
        with self._changed:
            self._changed.wait_for(lambda: not self._open and self._waiting == 0)
            self._working += 1
        try:
            yield
        finally:
            with self._changed:
                self._working -= 1
                self._changed.notify_all()
