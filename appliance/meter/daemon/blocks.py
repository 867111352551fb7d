"""Blocks of readings: while one is written, and finished.

A block's numbers refer to its own head alone, so that its packed bytes mean the same in every window that holds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from appliance.energy.counter import CounterZone
from appliance.energy.readings import Event, block_line_of, block_names, event_line, pack, sample_line
from appliance.meter.daemon.columns import Column

MOST_SAMPLES: Final = 200
"""Of a block: what a block costs to compress stays far below a period."""
_WIDEST: Final = 2**53
"""Of a difference: a number that every JSON reader holds. A counter that jumped further gets a new head."""
_OVERHEAD_BYTES: Final = 1024


class Holder(Protocol):
    """A window, as its blocks know it."""

    blocks: list[Block]


@dataclass(eq=False)
class Block:
    """A finished one, and whose columns it has."""

    lines: bytes
    """Empty once they are packed."""
    zones: tuple[CounterZone, ...]
    columns: tuple[Column, ...]
    length_ns: int
    marks: tuple[int, ...]
    """Samples, counted from 0 after the head, at which an inner window began or ended."""
    level: int = 0
    """How often it was thinned."""
    holders: set[Holder] = field(default_factory=set)
    """Windows that need it."""
    _packed: bytes = b""

    @property
    def content(self) -> bytes:
        """Its gzip member; packed when it is first asked for."""
        if self.lines:
            self._packed, self.lines = pack(self.lines), b""
        return self._packed

    @property
    def cost_bytes(self) -> int:
        """Of memory, with what Python keeps of it."""
        return len(self.content) + _OVERHEAD_BYTES


class BlockWriter:
    """The block that is being written. Values come as zones, machine, cgroups."""

    def __init__(
        self,
        zones: tuple[CounterZone, ...],
        columns: tuple[Column, ...],
        values: Sequence[int | None],
        at_ns: int,
        events: Sequence[Event],
        *,
        names: bytes | None = None,
    ):
        """`names`: those of these columns, where they are at hand."""
        self.zones = zones
        self.columns = columns
        self.began_ns = self.last_ns = at_ns
        self.samples = 0
        self._base = list(values)
        self._marks: list[int] = []
        self._lines = [event_line(one) for one in events]
        self._lines.append(block_line_of(names_of(zones, columns) if names is None else names, values))

    def sample(
        self, at_ns: int, values: Sequence[int | None], events: Sequence[Event] = (), mark: bool = False
    ) -> bool:
        """True where a column stands at a number that no difference tells (its first since the head, or too far off):
        a new head must say it."""
        for event in events:
            self._lines.append(event_line(event))
        base, news = self._base, False
        numbers = _differences(values, base)
        if numbers is None or max(numbers) > _WIDEST or min(numbers) < -_WIDEST:
            differences: list[int | None] = []
            for place, value in enumerate(values):
                before = base[place]
                if value is None or before is None or abs(value - before) > _WIDEST:
                    news = news or value is not None
                    differences.append(None)
                else:
                    differences.append(value - before)
                    base[place] = value
            self._lines.append(sample_line(at_ns - self.last_ns, differences))
        else:
            # What nearly every sample is; the same bytes as sample_line's, at a third of its cost.
            self._lines.append(b"[%d,%s]\n" % (at_ns - self.last_ns, ",".join(map(str, numbers)).encode()))
            base[:] = values
        if mark:
            self._marks.append(self.samples)
        self.last_ns = at_ns
        self.samples += 1
        return news

    def finish(self, level: int = 0) -> Block:
        return Block(
            lines=b"".join(self._lines),
            zones=self.zones,
            columns=self.columns,
            length_ns=self.last_ns - self.began_ns,
            marks=tuple(self._marks),
            level=level,
        )


def names_of(zones: Sequence[CounterZone], columns: Sequence[Column]) -> bytes:
    """What their heads begin with."""
    return block_names((zone.id for zone in zones), (one.id for one in columns))


def _differences(values: Sequence[int | None], base: Sequence[int | None]) -> list[int] | None:
    """None where one is missing."""
    if None in values or None in base:
        return None
    return [now - was for now, was in zip(values, base, strict=True)]  # type: ignore[operator]  # none of them is None
