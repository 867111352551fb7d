"""What a watcher sees, a line a second and one when a container came: every column, and every container besides.

Containers are found by the names that engines give their cgroups, in v2's tree, and in v1's where they are in no other.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Final

from appliance.cgroups import Hierarchies, Hierarchy, tasks_below
from appliance.energy.readings import Event
from appliance.meter.daemon.columns import Column
from appliance.meter.daemon.finding import Discovery, Finder
from appliance.meter.daemon.looking import Looker
from appliance.meter.daemon.messages import WatchedCgroup, WatchedEvent, WatchLine
from appliance.meter.daemon.placing import CONTAINER, Places
from appliance.meter.daemon.releasing import TICK_NS, Reader, cpu_seconds

_YOUNG_NS: Final = 2_000_000_000
"""An engine makes a cgroup a while before somebody lives in it."""


class Watching:
    """The containers that are only watched, while somebody watches."""

    def __init__(self, trees: Hierarchies, looker: Looker, places: Places, reader: Reader, version: str):
        self._trees = trees
        self._looker = looker
        self._places = places
        self._reader = reader
        self._version = version
        self._found: dict[str, Column] = {}
        self._columns: tuple[Column, ...] = ()
        self._last: dict[str, int] = {}
        """What was read of each; the counter of one that is gone says nothing more."""
        self._young: dict[str, int] = {}
        """Till when one is told of that nobody was seen in yet."""
        self._ended: set[str] = set()
        """Told of for the last time."""
        self._seen: set[str] = set()
        """Folders, so that one that came is told from one that was there."""
        trees_read = (trees.unified, trees.v1("cpuacct"))
        self._finder = Finder([os.fspath(one.mount) for one in trees_read if one is not None])

    def line(self, events: tuple[Event, ...], windows: int) -> WatchLine:
        self._look_for_containers()
        look = self._looker.look()
        watched = self._columns
        # Read after the look: no later than its skew again, and of no window.
        values = [*look.values, *(self._read(path, column) for path, column in self._found.items())]
        return WatchLine(
            version=self._version,
            boot_id=self._reader.boot_id,
            boottime_ns=str(look.at_ns + look.offset_ns),
            monotonic_ns=str(look.at_ns),
            skew_ns=look.skew_ns,
            cpus=self._looker.cpus(),
            tick_ns=TICK_NS,
            cpu_unit=self._looker.cpu.unit,
            period_ns=self._reader.period_ns,
            zones=look.zones,
            absent=self._looker.absent,
            cgroups=tuple(
                WatchedCgroup(one.id, one.role, one.run, one.trial, one.path) for one in look.columns + watched
            ),
            raw=tuple(None if value is None else str(value) for value in values),
            events=tuple(
                WatchedEvent(event.kind, event.subject, event.word, event.number, event.cgroups)
                for event in (*look.gaps, *events)
            ),
            gaps=dict(self._looker.gaps),
            cpu_seconds=cpu_seconds(),
            windows=windows,
        )

    @property
    def discovery(self) -> Discovery:
        return self._finder.how

    @property
    def fd(self) -> int | None:
        """Readable when there is something to `take`."""
        return self._finder.fd

    @property
    def columns(self) -> tuple[Column, ...]:
        """Of the containers; the same tuple as long as they are the same."""
        return self._columns

    def take(self) -> bool:
        """What the kernel tells of cgroups; True where a container came that nobody prepared: it is read from now on,
        though nobody lives in it yet."""
        if not self._finder.take():
            return False
        came = False
        tree = self._trees.unified if self._places.counts_in(2) else self._trees.v1("cpuacct")
        if tree is not None and self._finder.how == "inotify":
            taken = tuple(column.path for column in self._looker.columns)
            for folder in self._finder.folders(os.fspath(tree.mount)):
                path = _kernel_path(tree, folder)
                if folder not in self._seen and path not in self._found and not _is_in(path, taken):
                    came = self._read_from_now_on(path, tree.version) or came
                self._seen.add(folder)
        self._columns = tuple(self._found.values())
        return came

    def read_again(self) -> None:
        """Somebody's last process ended: its cgroup goes away in a moment, and what it counted with it."""
        for path, column in self._found.items():
            self._keep(path, column.read())

    def nobody(self) -> None:
        """The last watcher is gone."""
        for column in self._found.values():
            column.close()
        for kept in (self._found, self._last, self._young, self._seen):
            kept.clear()
        self._columns = ()
        self._finder.end()

    def _look_for_containers(self) -> None:
        self._finder.begin()
        taken = tuple(column.path for column in self._looker.columns)
        running = dict(self._running(taken))
        for path in [one for one in self._found if one in self._ended or _is_in(one, taken)]:
            self._found.pop(path).close()
            self._last.pop(path, None)
        self._ended.clear()
        now = time.monotonic_ns()
        for path, column in list(self._found.items()):
            if path in running and running[path] == column.file.version and not column.gone:
                self._young.pop(path, None)
            elif path in running:
                # Another one of that name, or its tasks are in the other tree.
                self._found.pop(path).close()
            elif self._keep(path, column.read()) or now >= self._young.get(path, 0):
                # Told once more, with what was read last.
                self._ended.add(path)
        for path, version in running.items():
            if path not in self._found:
                self._read_from_now_on(path, version)
        for path in self._young.keys() - self._found.keys():
            del self._young[path]
        self._columns = tuple(self._found.values())

    def _read_from_now_on(self, path: str, version: int) -> bool:
        found = self._places.free_column(path, CONTAINER, version)
        if found is None or found.gone:
            return False
        self._found[path] = found
        self._young[path] = time.monotonic_ns() + _YOUNG_NS
        self._keep(path, found.read())
        return True

    def _keep(self, path: str, number: int | None) -> bool:
        """True where there is none to keep: its cgroup is gone."""
        if number is not None:
            self._last[path] = number
        return number is None

    def _read(self, path: str, column: Column) -> int | None:
        number = column.read()
        self._keep(path, number)
        return self._last.get(path) if number is None else number

    def _running(self, taken: tuple[str, ...]) -> Iterator[tuple[str, int]]:
        """Kernel path and tree of every container with a live task that lies below none of `taken`."""
        seen: set[str] = set()
        for tree in (self._trees.unified, self._trees.v1("cpuacct")):
            if tree is None or not self._places.counts_in(tree.version):
                continue
            for folder in self._finder.folders(os.fspath(tree.mount)):
                self._seen.add(folder)
                path = _kernel_path(tree, folder)
                if path in seen or _is_in(path, taken):
                    continue
                if _lives(folder):
                    seen.add(path)
                    yield path, tree.version


def _is_in(path: str, taken: tuple[str, ...]) -> bool:
    return any(path == one or path.startswith(f"{one}/") for one in taken)


def _lives(folder: str) -> bool:
    """Whether a task is in it; not where its cgroups are deeper than a path is long."""
    try:
        return bool(tasks_below(folder))
    except OSError:
        return False


def _kernel_path(tree: Hierarchy, folder: str) -> str:
    inside = os.path.relpath(folder, tree.mount)
    return f"/{inside}" if tree.root == "/" else f"{tree.root}/{inside}"
