"""The unprivileged process in which somebody else's counter runs; it feeds the daemon over a pipe.

    python -P -m appliance.meter.counters.plugin_child REQUESTS ANSWERS plugin NAME
    python -P -m appliance.meter.counters.plugin_child REQUESTS ANSWERS pyrapl [PATH=FD ...]

What the counter raises ends the process: the daemon sees a dead child, its last line, and starts it again.
"""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from appliance.energy.counter import AbsentZone, Counter, CounterZone, Occupancy, Reading
from appliance.meter.counters.child_process import SETTINGS
from appliance.meter.counters.frames import readings_frame, zones_frame

GROUP: Final = "bench_appliance.counters"
"""Entry points: a callable without arguments that returns a `Counter`."""
UNKNOWN_PLUGIN: Final = "no counter plug-in has this name"
MOVES_FAST_NS: Final = 50_000_000
_LONGEST_PACE_SECONDS: Final = 1.0
_RESCAN_SECONDS: Final = 30.0
_RESCAN_AFTER_LACK_SECONDS: Final = 1.0


class PluginCounter:
    """A plug-in's counter; where it could not be made, no zone and the reason, till a later look makes it."""

    def __init__(self, name: str):
        self.name = name
        self._counter: Counter | None = None
        self._absent: tuple[AbsentZone, ...] = ()
        found = list(entry_points(group=GROUP, name=name))
        self._point: EntryPoint | None = found[0] if found else None
        self.source = f"plugin:{name} {found[0].dist.version if found and found[0].dist else '?'}"
        if not found:
            known = ", ".join(sorted(point.name for point in entry_points(group=GROUP))) or "none"
            self._absent = (AbsentZone(f"plugin:{name}", UNKNOWN_PLUGIN, f"known: {known}"),)
        self.rescan()

    def zones(self) -> tuple[CounterZone, ...]:
        return self._counter.zones() if self._counter else ()

    def absent(self) -> tuple[AbsentZone, ...]:
        return self._counter.absent() if self._counter else self._absent

    def read(self) -> Sequence[Reading]:
        return self._counter.read() if self._counter else ()

    def rescan(self) -> bool:
        if self._counter is not None or self._point is None:
            return self._counter is not None and self._counter.rescan()
        try:
            self._counter = _load(self._point)
        except _Failed as error:
            self._absent = (AbsentZone(f"plugin:{self.name}", str(error)),)
        return self._counter is not None

    def occupancy(self) -> Sequence[Occupancy]:
        return self._counter.occupancy() if self._counter else ()

    def close(self) -> None:
        if self._counter:
            self._counter.close()


class _Failed(Exception):
    """A plug-in could not be made: the message is one line."""


def _load(point: EntryPoint) -> Counter:
    try:
        made: Counter = point.load()()
    except Exception as error:  # a plug-in may fail in any way: it is named with its reason, and ours go on
        raise _Failed(_why(error)) from error
    return made


def _why(error: Exception) -> str:
    name = error.args[0] if isinstance(error, KeyError) and error.args else None
    if isinstance(name, str) and name.startswith(SETTINGS):
        return f"it needs the variable {name}: was it exported? (sudo keeps it with -E)"
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


class Serving:
    """Answers requests until the daemon's end of `requests` is closed.

    A counter that moves faster than `MOVES_FAST_NS` is read when it is asked for. A slower one is read all the time at
    half its own period, and the last reading is the answer: a window may open at any moment, and a plug on the network
    takes longer to answer than a window can wait.
    """

    def __init__(self, counter: Counter, source: str, requests: int, answers: int):
        self._counter = counter
        self._source = source
        self._requests = requests
        self._answers = answers
        self._generation = 0
        self._scanned_at = time.monotonic()
        self._lacking = False
        self._writing = threading.Lock()
        self._read_once = threading.Event()
        self._latest = b""

    def serve(self) -> None:
        self._tell_zones()
        while self._period_ns() < MOVES_FAST_NS:
            if not os.read(self._requests, 1):
                return
            self._rescan()
            self._write(self._look())
        threading.Thread(target=self._answer_from_memory, daemon=True).start()
        while True:
            self._rescan()
            self._latest = self._look()
            self._read_once.set()
            time.sleep(min(max(self._period_ns(), MOVES_FAST_NS) / 2e9, _LONGEST_PACE_SECONDS))

    def _period_ns(self) -> int:
        """Of the fastest; 0 while there is no zone."""
        return min((zone.update_period_ns for zone in self._counter.zones()), default=0)

    def _answer_from_memory(self) -> None:
        while os.read(self._requests, 1):
            answered = False
            while not answered:
                self._read_once.wait()
                with self._writing:
                    # Zones that were told meanwhile have no reading yet.
                    answered = self._read_once.is_set()
                    if answered:
                        self._write(self._latest)

    def _look(self) -> bytes:
        at_ns = time.monotonic_ns()
        readings = self._counter.read()
        self._lacking = any(isinstance(one, str) for one in readings)
        return readings_frame(readings, at_ns, self._counter.occupancy(), self._generation)

    def _rescan(self) -> None:
        wait = _RESCAN_AFTER_LACK_SECONDS if self._lacking else _RESCAN_SECONDS
        if time.monotonic() - self._scanned_at < wait:
            return
        self._scanned_at = time.monotonic()
        if self._counter.rescan():
            with self._writing:
                self._generation += 1
                self._read_once.clear()
                self._tell_zones()

    def _tell_zones(self) -> None:
        labelled = [replace(zone, source=self._source) for zone in self._counter.zones()]
        self._write(zones_frame(labelled, self._counter.absent(), self._generation))

    def _write(self, content: bytes) -> None:
        while content:
            content = content[os.write(self._answers, content) :]


def _end_with(requests: int) -> None:
    """Also where the counter is stuck in a reading when the daemon goes."""
    poll = select.poll()
    poll.register(requests, 0)
    while True:
        if any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll()):
            os._exit(0)


def main(arguments: list[str]) -> None:
    requests, answers, kind, *rest = arguments
    counter: Counter
    threading.Thread(target=_end_with, args=(int(requests),), daemon=True).start()
    if kind == "pyrapl":
        from appliance.meter.counters.pyrapl import open_pyrapl

        files = dict(one.rsplit("=", 1) for one in rest)
        counter = open_pyrapl({path: int(fd) for path, fd in files.items()})
        source = counter.source
    else:
        counter = PluginCounter(rest[0])
        source = counter.source
    try:
        Serving(counter, source, int(requests), int(answers)).serve()
    except BrokenPipeError:
        return
    finally:
        counter.close()


if __name__ == "__main__":
    main(sys.argv[1:])
