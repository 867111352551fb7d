"""What a watcher sees, a line a second: every column, and every container that runs on the host besides.

Containers are found by the names that engines give their cgroups, in v2's tree, and in v1's where they are in no other.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from appliance.cgroups import Hierarchies, Hierarchy, tasks_below
from appliance.energy.readings import Event
from appliance.meter.daemon.columns import Column
from appliance.meter.daemon.looking import Looker
from appliance.meter.daemon.messages import WatchedCgroup, WatchedEvent, WatchLine
from appliance.meter.daemon.placing import CONTAINER, Places
from appliance.meter.daemon.releasing import TICK_NS, Reader, cpu_seconds

_NAMED: Final = re.compile(r"(?:^|-)[0-9a-f]{64}(?:\.scope)?$")
_DEEPEST: Final = 6


class Watching:
    """The containers that are only watched, while somebody watches."""

    def __init__(self, trees: Hierarchies, looker: Looker, places: Places, reader: Reader, version: str):
        self._trees = trees
        self._looker = looker
        self._places = places
        self._reader = reader
        self._version = version
        self._found: dict[str, Column] = {}

    def line(self, events: tuple[Event, ...], windows: int) -> WatchLine:
        self._look_for_containers()
        look = self._looker.look()
        watched = tuple(self._found.values())
        # Read after the look: no later than its skew again, and of no window.
        values = [*look.values, *(column.read() for column in watched)]
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

    def nobody(self) -> None:
        """The last watcher is gone."""
        for column in self._found.values():
            column.close()
        self._found.clear()

    def _look_for_containers(self) -> None:
        taken = tuple(column.path for column in self._looker.columns)
        running = dict(self._running(taken))
        for path, column in list(self._found.items()):
            if path not in running or column.gone:
                column.close()
                del self._found[path]
        for path, version in running.items():
            if path not in self._found:
                found = self._places.free_column(path, CONTAINER, version)
                if found is not None and not found.gone:
                    self._found[path] = found

    def _running(self, taken: tuple[str, ...]) -> Iterator[tuple[str, int]]:
        """Kernel path and tree of every container with a live task that lies below none of `taken`."""
        seen: set[str] = set()
        for tree in (self._trees.unified, self._trees.v1("cpuacct")):
            if tree is None or not self._places.counts_in(tree.version):
                continue
            for folder in _named_below(tree.mount):
                path = _kernel_path(tree, folder)
                if path in seen or any(path == one or path.startswith(f"{one}/") for one in taken):
                    continue
                if _lives(folder):
                    seen.add(path)
                    yield path, tree.version


def _named_below(folder: Path) -> Iterator[str]:
    """Folders of containers, none below another."""
    at = [(os.fspath(folder), 0)]
    while at:
        place, depth = at.pop()
        try:
            with os.scandir(place) as entries:
                below = [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            continue
        for entry in below:
            if _NAMED.search(entry.name):
                yield entry.path
            elif depth < _DEEPEST:
                at.append((entry.path, depth + 1))


def _lives(folder: str) -> bool:
    """Whether a task is in it; not where its cgroups are deeper than a path is long."""
    try:
        return bool(tasks_below(folder))
    except OSError:
        return False


def _kernel_path(tree: Hierarchy, folder: str) -> str:
    inside = os.path.relpath(folder, tree.mount)
    return f"/{inside}" if tree.root == "/" else f"{tree.root}/{inside}"
