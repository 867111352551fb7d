"""Whose a run's model server is, step by step: the trial's while one of its exchanges is in flight, else others'.

Its cgroup counts as two: what it used within the exchanges of this window's trial is one of the trial's own, of role
`model`; the rest is a stranger's. Where the server has one slot, exchanges of different trials never overlap: all their
shares and what is nobody's make the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from appliance.energy.readings_shapes import Header, InnerWindow, ReadCgroup

EXCHANGE: Final = "exchange"
"""What the label of an exchange's window begins with: `exchange/3`."""
SERVER: Final = "run"
"""`ReadCgroup.trial` of the run's own model server."""
_WITHIN: Final = "\ud800"
"""Half a surrogate pair: no id that was read holds one."""


def members_of(header: Header) -> tuple[ReadCgroup, ...]:
    """The cgroups of the readings, and beside each server's the part of it that is the trial's own."""
    return tuple(_members(header.cgroups))


def _members(several: Iterable[ReadCgroup]) -> Iterator[ReadCgroup]:
    for one in several:
        yield one
        if one.trial == SERVER:
            yield ReadCgroup(within(one.id), one.role, "own")


def within(server: str) -> str:
    """The id of what a server's cgroup used within exchanges."""
    return server + _WITHIN


def servers_of(header: Header) -> frozenset[str]:
    """More than one where the server was started anew, or its meter was."""
    return frozenset(one.id for one in header.cgroups if one.trial == SERVER)


class Exchanges:
    """The time within a window in which exchanges were in flight, asked in order."""

    def __init__(self, windows: Iterable[InnerWindow]):
        self._spans = _merged(one for one in windows if one.label.partition("/")[0] == EXCHANGE)
        self._at = 0

    def hold(self, since_ns: int, until_ns: int) -> bool:
        """Whether a step lies in one as a whole; steps come in the order of their ends. An edge is always a reading's
        moment, so only a step that bridges a gap reaches over one: it is nobody's."""
        while self._at < len(self._spans) and self._spans[self._at][1] < until_ns:
            self._at += 1
        return self._at < len(self._spans) and self._spans[self._at][0] <= since_ns


def _merged(windows: Iterable[InnerWindow]) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for since, until in sorted((one.opened_ns, one.closed_ns) for one in windows):
        if spans and since <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], until))
        else:
            spans.append((since, until))
    return spans
