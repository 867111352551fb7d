"""Looks written into blocks, with what a look has to say beside numbers as events before it.

Nothing per window is done per sample: the windows that are open share the blocks. Energy rows W13, W14, C7, T8, T10.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from appliance.energy.counter import CounterZone
from appliance.energy.readings import Event
from appliance.meter.daemon.blocks import MOST_SAMPLES, BlockWriter, Holder, names_of
from appliance.meter.daemon.columns import Column
from appliance.meter.daemon.looking import Look, Looker, log
from appliance.meter.daemon.store import BlockStore

LATE_PERIODS: Final = 5
SUSPENDED_NS: Final = 50_000_000
RESCAN_NS: Final = 30_000_000_000
_RESCAN_AT_ONCE_NS: Final = 1_000_000_000
"""A zone that is gone is looked for at once, but no more than once a second."""
_RENEWED: Final = frozenset({"ENODEV", "ENOENT", "ENODATA", "GPU_IS_LOST", "CHILD_DIED", "BAD_FRAME"})
_MOST_NEWS: Final = 256

Whose = Callable[[frozenset[int]], tuple[tuple[str, ...], int]]
"""Host pids -> ids of the columns that they live in, and how many live in none."""


class Sampler:
    """Reads nothing by itself: whoever keeps the time calls `tick`, whoever opens and closes calls the edges."""

    def __init__(self, looker: Looker, period_ns: int, whose: Whose):
        self.looker = looker
        self.period_ns = period_ns
        self.store = BlockStore()
        self.open: list[Holder] = []
        self.news: deque[Event] = deque(maxlen=_MOST_NEWS)
        """Events since the last watch line; whoever writes that line empties it."""
        self._whose = whose
        self._block: BlockWriter | None = None
        self._utilising: list[Holder] = []
        self._unwritten: tuple[Look, Callable[[Holder], None], Holder] | None = None
        self._named: tuple[tuple[CounterZone, ...], tuple[Column, ...], bytes] | None = None
        """Of the last head: mostly the next one's too."""
        self._next_head: list[Event] = []
        self._rescanned_ns = time.monotonic_ns()
        self._offset_ns = 0
        self._cpus = looker.cpus()
        self._gpus: dict[str, Event] = {}

    @property
    def last_ns(self) -> int:
        """When the open windows were read last; 0 where none is."""
        return 0 if self._block is None else self._block.last_ns

    # ------------------------------------------------------------------------------------------ moments

    def tick(self) -> Look:
        """The regular look."""
        self.write_edges()
        look = self.looker.look()
        self._write(look)
        gone = any(event.word in _RENEWED for event in look.gaps)
        self._rescan(_RESCAN_AT_ONCE_NS if gone else RESCAN_NS)
        return look

    def mark(self) -> Look:
        """A sample at this very moment: an inner window's edge."""
        self.write_edges()
        look = self.looker.look()
        self._write(look, mark=True)
        return look

    def join(self, window: Holder, *, utilisation: bool = False) -> Look:
        """A window's opening: its first block begins here. `utilisation`: who used the GPUs' SMs is read as well, for
        as long as a window is open that wants it."""
        return self._edge(partial(self._enter, utilisation=utilisation), window)

    def leave(self, window: Holder) -> Look:
        """A window's close: its last block ends here."""
        return self._edge(self._part, window)

    def _enter(self, window: Holder, *, utilisation: bool) -> None:
        self.open.append(window)
        if utilisation:
            if not self._utilising:
                # What was before is none of its business.
                self.looker.utilised()
            self._utilising.append(window)

    def _part(self, window: Holder) -> None:
        self.open.remove(window)
        if window in self._utilising:
            self._utilising.remove(window)

    def _edge(self, change: Callable[[Holder], None], window: Holder) -> Look:
        """Read now, written by `write_edges`: whoever asked need not wait for the lines of everybody's windows."""
        self.write_edges()
        look = self.looker.look()
        self._unwritten = (look, change, window)
        return look

    def write_edges(self) -> None:
        """Before anything else is read or changed; whoever asked for an edge has his answer then."""
        if self._unwritten is None:
            return
        look, change, window = self._unwritten
        self._unwritten = None
        self._cut(look)
        change(window)
        self._begin(look)

    def change(self, add: Iterable[Column] = (), remove: Iterable[Column] = ()) -> None:
        """Other columns from now on; those that are removed are read once more and closed."""
        self.write_edges()
        added, removed = tuple(add), tuple(remove)
        if not added and not removed:
            return
        every = self.looker.columns + added
        kept = tuple(one for one in every if one not in removed)
        if self.open:
            self.looker.columns = every
            look = self.looker.look()
            self._cut(look)
            self.looker.columns = kept
            self._begin(look)
        else:
            self.looker.columns = kept
        for column in removed:
            column.close()

    def freshen(self) -> None:
        """Zones may have come and gone while nothing was read."""
        self._rescan(RESCAN_NS)

    # ------------------------------------------------------------------------------------------ blocks

    def _write(self, look: Look, *, mark: bool = False) -> None:
        block = self._block
        if block is None:
            return
        events = [*look.gaps, *self._happened(look, block)]
        news = block.sample(look.at_ns, look.under(block.zones, block.columns), events, mark)
        if news or block.samples >= MOST_SAMPLES:
            self._finish(block)
            self._begin(look)

    def _cut(self, look: Look) -> None:
        block = self._block
        if block is not None:
            events = [*look.gaps, *self._happened(look, block)]
            block.sample(look.at_ns, look.under(block.zones, block.columns), events)
            self._finish(block)

    def _finish(self, block: BlockWriter) -> None:
        done = block.finish()
        self.store.hold(done, self.open)
        self._block = None

    def _begin(self, look: Look) -> None:
        """A head at the moment of a look; none where no window needs it."""
        if not self.open:
            self._next_head.clear()
            return
        self._offset_ns = look.offset_ns
        zones, columns = self.looker.zones, self.looker.columns
        events = [*self._next_head, *look.gaps, *self.gpu_states()]
        self._next_head.clear()
        if self._named is None or self._named[0] is not zones or self._named[1] is not columns:
            self._named = (zones, columns, names_of(zones, columns))
        self._block = BlockWriter(zones, columns, look.under(zones, columns), look.at_ns, events, names=self._named[2])

    # ------------------------------------------------------------------------------------------ events

    def _happened(self, look: Look, block: BlockWriter) -> list[Event]:
        events: list[Event] = []
        late = look.at_ns - block.last_ns - self.period_ns
        if late > (LATE_PERIODS - 1) * self.period_ns:
            events.append(Event("late", number=late))
        slept = look.offset_ns - self._offset_ns
        if slept > SUSPENDED_NS:
            events.append(Event("suspend", number=slept))
        self._offset_ns = look.offset_ns
        cpus = self.looker.cpus()
        if cpus != self._cpus:
            self._cpus = cpus
            events.append(Event("cpus", number=cpus))
        if self.looker.has_gpus:
            before = dict(self._gpus)
            events += [event for event in self.gpu_states() if before.get(event.subject or "") != event]
        self.news.extend(events)
        self.news.extend(look.gaps)
        return events + self._used() if self._utilising else events

    def _used(self) -> list[Event]:
        """Percent of SMs since the last sample, of each column and of everybody else; nothing where nobody used any.

        Whoever ended between the driver's sample and this look is of no column of ours any more.
        """
        events: list[Event] = []
        for one in self.looker.utilised():
            if one.lack is not None:
                events.append(Event("sm", subject=one.zone, word=one.lack))
            percent: dict[tuple[str, ...], int] = {}
            for pid, of_it in one.percent.items():
                whose = self._whose(frozenset({pid}))[0]
                percent[whose] = percent.get(whose, 0) + of_it
            events += [
                Event("sm", subject=one.zone, number=of_it, cgroups=whose)
                for whose, of_it in sorted(percent.items())
                if of_it
            ]
        return events

    def gpu_states(self) -> list[Event]:
        """Who is on each GPU now; nobody is said too."""
        if not self.looker.has_gpus:
            return []
        states = []
        for one in self.looker.occupancy():
            cgroups, foreign = self._whose(one.pids)
            states.append(Event("gpu", subject=one.zone, word=one.sharing, number=foreign, cgroups=cgroups))
        self._gpus = {event.subject or "": event for event in states}
        return states

    def _rescan(self, after_ns: int) -> None:
        self.write_edges()
        now = time.monotonic_ns()
        if now - self._rescanned_ns < after_ns:
            return
        self._rescanned_ns = now
        before = self.looker.zones
        if not self.looker.rescan():
            return
        after = {zone.id for zone in self.looker.zones}
        gone = [Event("zone_gone", subject=zone.id) for zone in before if zone.id not in after]
        self.news.extend(gone)
        known = {zone.id for zone in before}
        log(
            f"zones changed: {', '.join(zone.key for zone in before if zone.id not in after) or 'none'} gone, "
            f"{', '.join(zone.key for zone in self.looker.zones if zone.id not in known) or 'none'} new"
        )
        if self.open:
            look = self.looker.look()
            self._cut(look)
            self._next_head += gone
            self._begin(look)
