"""Cases and exchanges inside a window: what of a zone's energy is whose, never more in all than the whole (row D5)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from appliance.energy.readings import InnerWindow
from appliance.energy.split import apportion

Covering = tuple[int, ...]


class InnerBook:
    """Books each step on the inner windows that cover it whole; a step that reaches over an edge is nobody's.

    Of windows inside one another the innermost takes it; those that overlap otherwise share it evenly.
    """

    def __init__(self, windows: Sequence[InnerWindow]):
        self._windows = windows
        self._waiting = sorted(range(len(windows)), key=lambda at: (windows[at].opened_ns, at), reverse=True)
        self._open: list[int] = []
        self._covering: Covering = ()
        self._change_ns = (0, 0)
        self._booked: dict[tuple[Covering, str], int] = {}

    def covering(self, since_ns: int, until_ns: int) -> Covering:
        """Steps come in order of their ends; one may begin before the one before it (a gap that was bridged)."""
        if not self._windows:
            return ()
        while self._waiting and self._windows[self._waiting[-1]].opened_ns <= since_ns:
            self._open.append(self._waiting.pop())
        self._open = [at for at in self._open if self._windows[at].closed_ns >= until_ns]
        return self._innermost(at for at in self._open if self._windows[at].opened_ns <= since_ns)

    def book(self, covering: Covering, of: str, amount: int) -> None:
        if covering and amount:
            self._booked[covering, of] = self._booked.get((covering, of), 0) + amount

    def shares(self, of: str) -> list[int]:
        """By inner window, in the order of the header."""
        found = [0] * len(self._windows)
        for (covering, what), amount in self._booked.items():
            if what != of:
                continue
            for at, share in zip(covering, apportion(amount, [1] * len(covering)) or (), strict=True):
                found[at] += share
        return found

    def _innermost(self, several: Iterable[int]) -> Covering:
        chosen: list[int] = []
        first_close: int | None = None
        before: tuple[int, int] | None = None
        for at in sorted(several, key=lambda at: (-self._windows[at].opened_ns, self._windows[at].closed_ns, at)):
            edges = (self._windows[at].opened_ns, self._windows[at].closed_ns)
            # One that opened no later and closes no earlier than another holds it, and leaves the step to it.
            if first_close is None or edges[1] < first_close or edges == before:
                chosen.append(at)
                before = edges
                first_close = edges[1] if first_close is None else min(first_close, edges[1])
        return tuple(sorted(chosen))
