"""Handles and windows: whose they are, how many there may be, and what each is told at its edges (formats 5).

Decides nothing about sockets or time; every refusal is a `messages.Refused`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Final

from appliance.energy.readings_shapes import MAX_INNER_AT_ONCE
from appliance.meter.daemon.handles import SOLVER, Handle, Inner, Peer, Window
from appliance.meter.daemon.looking import log
from appliance.meter.daemon.messages import Closed, Open, Opened, Prepare, Prepared, Refused
from appliance.meter.daemon.placing import Places
from appliance.meter.daemon.sampling import Sampler

MOST_HANDLES: Final = 1024
MOST_HANDLES_OF_ONE: Final = 256
MOST_INNER: Final = 4096
"""Cases and exchanges inside one window."""
LONGEST_NS: Final = 24 * 3600 * 10**9
"""A window is closed then, whoever forgot it; its readings are within what readings-v1 admits."""
_AGED_EVERY_NS: Final = 10**9
MOST_COLUMNS: Final = 4000
"""That one window may see come and go; a header of readings-v1 names no more than 4096."""
MOST_AT_ONCE: Final = 3000
"""Of them; what is left of the others is room for those to come."""
KEPT_NS: Final = 60 * 10**9
"""How long a handle outlives its client."""


class Book:
    """Every handle of the daemon."""

    def __init__(self, sampler: Sampler, places: Places):
        self.handles: dict[str, Handle] = {}
        self._sampler = sampler
        self._places = places
        self._windows: dict[str, tuple[Handle, Inner | None]] = {}
        self._open: set[str] = set()
        """Of the windows. Nothing here is counted through at every turn: a hundred windows cost an edge more than it
        takes."""
        self._closed: list[Handle] = []
        """Whose windows were closed since `write_edges`."""
        self._parted: set[str] = set()
        """Handles that outlive their client."""
        self._aged_ns = 0

    @property
    def open_windows(self) -> int:
        """Inner ones too."""
        return len(self._open)

    # ------------------------------------------------------------------------------------------ requests

    def prepare(self, asked: Prepare, peer: Peer) -> Prepared:
        self._room(peer, len(asked.roles))
        for other in [one for one in self.handles.values() if one.run == asked.run]:
            if other.uid != peer.uid:
                raise Refused("not_yours", f"run {asked.run} is another user's")
            if other.connection is None and asked.adopt is None and self._places.clash(asked, other.placed):
                # Its client died, and somebody takes the trial up again.
                self.drop(other)
        handle_id = new_id()
        if not self._sampler.open:
            self._sampler.freshen()
        placed = self._places.place(asked, handle_id, [one.placed for one in self.handles.values()])
        handle = Handle(handle_id, peer.uid, peer.connection, asked.run, asked.trial, placed)
        self.handles[handle_id] = handle
        self._end_widest()
        self._sampler.change(add=placed.new)
        return Prepared(handle_id, placed.parents)

    def open(self, asked: Open, peer: Peer) -> Opened:
        handle = self.handle(asked.handle, peer)
        if asked.inside is not None:
            return self._open_inner(asked, asked.inside, handle)
        if handle.window is not None:
            raise Refused("bad_message", "this handle has its window: open one `inside` it, or prepare another handle")
        if not self._sampler.looker.zones and self._sampler.looker.cpu.main is None:
            raise Refused("no_counter", "this host counts neither energy nor CPU time where this meter can read it")
        window = Window(new_id(), asked.label, asked.gpu_sharing)
        window.tasks_at_open = self._places.settle(handle.placed, self._sampler).get(SOLVER, frozenset())
        window.last_column = self._places.made - len(self._sampler.looker.columns) + MOST_COLUMNS
        window.cpus = self._sampler.looker.cpus()
        window.opened = self._sampler.join(window, utilisation=asked.gpu_sharing == "sm_utilisation")
        window.opened_at = moment()
        handle.window = window
        self._windows[window.id] = (handle, None)
        self._open.add(window.id)
        return Opened(window.id, tuple(zone.key for zone in window.opened.zones), window.opened_at)

    def _open_inner(self, asked: Open, inside: str, handle: Handle) -> Opened:
        window = handle.window
        if window is None or window.id != inside:
            raise Refused("unknown_window", "`inside` is no window of this handle")
        if window.closed is not None:
            raise Refused("bad_message", "that window is closed")
        if sum(1 for one in window.inner if one.closed_ns is None) >= MAX_INNER_AT_ONCE:
            raise Refused("too_many", f"{MAX_INNER_AT_ONCE} windows open at once inside this one: close some first")
        if len(window.inner) >= MOST_INNER:
            raise Refused("too_many", f"{MOST_INNER} windows inside this one")
        look = self._sampler.mark()
        inner = Inner(new_id(), asked.label or "", look.at_ns)
        window.inner.append(inner)
        self._windows[inner.id] = (handle, inner)
        self._open.add(inner.id)
        return Opened(inner.id, tuple(zone.key for zone in look.zones), moment())

    def close(self, window_id: str, peer: Peer) -> Closed:
        """The first call counts: what comes after it is not the solver's."""
        handle, inner = self._windows.get(window_id, (None, None))
        if handle is None or handle.window is None:
            raise Refused("unknown_window", f"no window {window_id}")
        self._yours(handle, peer)
        if inner is None:
            self.close_window(handle)
            return Closed(handle.window.closed_at)
        if inner.closed_ns is None:
            inner.closed_ns = self._sampler.mark().at_ns
            self._open.discard(inner.id)
        return Closed(moment())

    def handle(self, handle_id: str, peer: Peer) -> Handle:
        found = self.handles.get(handle_id)
        if found is None:
            raise Refused("unknown_window", f"no handle {handle_id}")
        self._yours(found, peer)
        return found

    # ------------------------------------------------------------------------------------------ ends

    def close_window(self, handle: Handle) -> None:
        window = handle.window
        if window is None or window.closed is not None:
            return
        window.closed = self._sampler.leave(window)
        window.closed_at = moment()
        self._open.discard(window.id)
        for inner in window.inner:
            if inner.closed_ns is None:
                inner.closed_ns = window.closed.at_ns
                self._open.discard(inner.id)
        self._closed.append(handle)

    def write_edges(self) -> None:
        """What an edge leaves to do once whoever asked for it has his answer."""
        self._sampler.write_edges()
        while self._closed:
            handle = self._closed.pop()
            window, solver = handle.window, handle.solver
            if window is None or solver is None:
                continue
            try:
                window.strangers = bool(solver.tasks() - window.tasks_at_open)
            except OSError as error:
                # Cgroups too deep to be listed hide whoever is in them.
                log(f"{handle.run}: who stayed behind cannot be told: {error.strerror}")
                window.strangers = True

    def take_out(self, handle: Handle) -> None:
        """Out of the book and of the columns; its cgroups are still there, its window's blocks too."""
        self.close_window(handle)
        self.write_edges()
        del self.handles[handle.id]
        self._parted.discard(handle.id)
        if handle.window is not None:
            for inner in handle.window.inner:
                self._windows.pop(inner.id, None)
            self._windows.pop(handle.window.id, None)
        self._sampler.change(remove=self._places.give_up(handle.placed, handle.id))

    def forget(self, handle: Handle) -> None:
        """Its blocks."""
        if handle.window is not None:
            self._sampler.store.drop(handle.window)

    def drop(self, handle: Handle) -> None:
        """Nobody will ask for it any more."""
        self.take_out(handle)
        self.forget(handle)
        self._places.remove(handle.placed)

    def client_died(self, connection: int) -> None:
        """Its windows end now; they are kept for a while, for whoever takes the run up."""
        for handle in [one for one in self.handles.values() if one.connection == connection]:
            handle.connection = None
            handle.expires_ns = time.monotonic_ns() + KEPT_NS
            self._parted.add(handle.id)
            if handle.window is not None and handle.window.closed is None:
                handle.window.flags.add("client_died")
                self.close_window(handle)
        self.write_edges()

    def expire(self, now_ns: int) -> None:
        for handle in [self.handles[one] for one in self._parted]:
            if handle.expires_ns is not None and now_ns >= handle.expires_ns:
                self.drop(handle)
        if now_ns < self._aged_ns:
            return
        self._aged_ns = now_ns + _AGED_EVERY_NS
        for handle in self.handles.values():
            if handle.window is not None and handle.window.is_older_than(LONGEST_NS, now_ns):
                handle.window.flags.add("ended_early")
                self.close_window(handle)

    def deadlines(self) -> Iterator[int]:
        for one in self._parted:
            expires_ns = self.handles[one].expires_ns
            if expires_ns is not None:
                yield expires_ns

    def renew(self) -> None:
        """Cgroups that are gone leave the columns; another of the same name takes their place (row C7)."""
        added, removed = self._places.renewed(self._sampler.looker.columns)
        for handle in self.handles.values():
            handle.placed.replace(removed, added)
        self._sampler.change(add=added, remove=removed)

    def _end_widest(self) -> None:
        """Windows that have seen as many cgroups as readings can name."""
        for handle in self.handles.values():
            window = handle.window
            if window is not None and window.closed is None and self._places.made > window.last_column:
                log(f"{handle.run}: a window has seen {MOST_COLUMNS} cgroups come and go: it ends")
                window.flags.add("ended_early")
                self.close_window(handle)

    # ------------------------------------------------------------------------------------------ rules

    def _room(self, peer: Peer, more: int) -> None:
        if len(self._sampler.looker.columns) + more > MOST_AT_ONCE:
            raise Refused("too_many", f"{MOST_AT_ONCE} cgroups are read at once, of all users: release some first")
        of_his = sum(1 for one in self.handles.values() if one.uid == peer.uid)
        if of_his >= MOST_HANDLES_OF_ONE or len(self.handles) >= MOST_HANDLES:
            raise Refused("too_many", f"{of_his} handles of yours, {len(self.handles)} in all: release some first")

    @staticmethod
    def _yours(handle: Handle, peer: Peer) -> None:
        if handle.uid != peer.uid:
            raise Refused("not_yours", "another user's")


def new_id() -> str:
    return os.urandom(8).hex()


def moment(now: Callable[[], float] = time.time) -> str:
    """The wall clock's word, a label only (row W15)."""
    seconds, milliseconds = divmod(int(now() * 1000), 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{milliseconds:03}Z"
