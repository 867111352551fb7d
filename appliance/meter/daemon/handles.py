"""What a client holds: a handle on its cgroups, the window on it, the windows inside that one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeVar

from appliance.energy.counter import CounterZone
from appliance.energy.readings import GpuSharing, InnerWindow
from appliance.meter.daemon.blocks import Block
from appliance.meter.daemon.columns import Column
from appliance.meter.daemon.looking import Look
from appliance.meter.daemon.placing import Placed

SOLVER: Final = "solver"
_T = TypeVar("_T")


@dataclass(frozen=True)
class Peer:
    """Who speaks, as the kernel says (SO_PEERCRED)."""

    connection: int
    uid: int


@dataclass
class Inner:
    id: str
    label: str
    opened_ns: int
    closed_ns: int | None = None


@dataclass(eq=False)
class Window:
    """A trial's window: what it saw at its edges, and the blocks between them."""

    id: str
    label: str | None
    gpu_sharing: GpuSharing = "device_total"
    blocks: list[Block] = field(default_factory=list)
    opened: Look | None = None
    opened_at: str = ""
    closed: Look | None = None
    closed_at: str = ""
    cpus: int = 0
    last_column: int = 0
    """How many columns the daemon may have made when this window must end."""
    tasks_at_open: frozenset[int] = frozenset()
    strangers: bool = False
    inner: list[Inner] = field(default_factory=list)
    flags: set[str] = field(default_factory=set)

    @property
    def zones(self) -> tuple[CounterZone, ...]:
        return tuple(
            {zone.id: zone for zones in _changes(block.zones for block in self.blocks) for zone in zones}.values()
        )

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(
            {one.id: one for some in _changes(block.columns for block in self.blocks) for one in some}.values()
        )

    def is_older_than(self, length_ns: int, now_ns: int) -> bool:
        """Of an open one."""
        return self.closed is None and self.opened is not None and now_ns - self.opened.at_ns > length_ns

    def inner_spans(self) -> tuple[InnerWindow, ...]:
        """Nanoseconds since the opening; only once the window is closed."""
        assert self.opened is not None  # noqa: S101  # asked of closed windows only
        begin = self.opened.at_ns
        return tuple(
            InnerWindow(one.label, one.opened_ns - begin, one.closed_ns - begin)
            for one in self.inner
            if one.closed_ns is not None
        )


@dataclass(eq=False)
class Handle:
    id: str
    uid: int
    connection: int | None
    """None: its client is gone."""
    run: str
    trial: int | None
    placed: Placed
    window: Window | None = None
    expires_ns: int | None = None

    @property
    def solver(self) -> Column | None:
        return next((one for one in self.placed.columns if one.role == SOLVER), None)


def _changes(rows: Iterable[tuple[_T, ...]]) -> Iterator[tuple[_T, ...]]:
    """Each row that is not the one before: blocks that follow each other mostly share theirs."""
    before: tuple[_T, ...] | None = None
    for row in rows:
        if row is not before:
            yield row
        before = row
