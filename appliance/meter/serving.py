"""The CPU time of a run's model server while it answers one trial: between the beginnings and ends of its exchanges."""

from __future__ import annotations

import threading
from collections.abc import Callable


class ModelTime:
    """Exchanges of one trial that overlap are counted once; what comes before `open` or after `close` is nobody's."""

    def __init__(self, read_ns: Callable[[], int | None]):
        """`read_ns`: the server's CPU time so far; None where it could not be read."""
        self._read_ns = read_ns
        self._lock = threading.Lock()
        self._under_way: set[int] = set()
        self._open = False
        self._since_ns: int | None = None
        self._charged_ns: int | None = 0

    def open(self) -> None:
        with self._lock:
            self._open = True

    def began(self, order: int) -> None:
        with self._lock:
            if not self._open:
                return
            if not self._under_way:
                self._since_ns = self._read_ns()
            self._under_way.add(order)

    def ended(self, order: int) -> None:
        with self._lock:
            if order in self._under_way:
                self._under_way.remove(order)
                self._add_unless_busy()

    def close(self) -> None:
        with self._lock:
            if self._under_way:
                self._under_way.clear()
                self._add_unless_busy()
            self._open = False

    @property
    def charged_ns(self) -> int | None:
        """None as soon as one reading failed; a server that was started anew within an exchange is charged from its
        start."""
        return self._charged_ns

    def _add_unless_busy(self) -> None:
        if self._under_way:
            return
        now = self._read_ns()
        if now is None or self._since_ns is None or self._charged_ns is None:
            self._charged_ns = None
            return
        self._charged_ns += max(0, now - self._since_ns)
