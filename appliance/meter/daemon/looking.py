"""One look: every counter, the machine's CPU time, every cgroup, read in this order. Energy rows W12-W17, C1, T8.

Whose numbers they are stands beside them, so that a look can be written under other columns too.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from collections import Counter as Tally
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from appliance.energy.counter import AbsentZone, Counter, CounterZone, Occupancy, Utilised
from appliance.energy.counters import Scale, safe_period_ns
from appliance.energy.readings import Event
from appliance.meter.daemon.columns import Column, CpuTimes, read_all

CPUS_ONLINE: Final = Path("/sys/devices/system/cpu/online")
_TIGHT_NS: Final = 1_000_000
_LONGEST_LINE: Final = 2048
"""Well below what a pipe takes at once."""
_GPU_DOMAINS: Final = frozenset({"gpu", "module"})


@dataclass(frozen=True, slots=True)
class Look:
    """Raw numbers of one moment."""

    at_ns: int
    """CLOCK_MONOTONIC, the middle of the reading."""
    skew_ns: int
    """From the first counter to the last."""
    offset_ns: int
    """CLOCK_BOOTTIME less CLOCK_MONOTONIC."""
    zones: tuple[CounterZone, ...]
    columns: tuple[Column, ...]
    values: list[int | None]
    """Of the zones, the machine, the columns."""
    gaps: tuple[Event, ...]

    @property
    def lost_column(self) -> bool:
        """A cgroup could not be read: it is gone, or another one has its name."""
        return None in self.values[len(self.zones) + 1 :]

    def under(self, zones: tuple[CounterZone, ...], columns: tuple[Column, ...]) -> list[int | None]:
        """The numbers as a block with these columns has them; None for what was not read."""
        if zones is self.zones and columns is self.columns:
            return self.values
        machine = len(self.zones)
        of_zone = {zone.id: value for zone, value in zip(self.zones, self.values, strict=False)}
        of_column = {one.id: value for one, value in zip(self.columns, self.values[machine + 1 :], strict=True)}
        return [
            *(of_zone.get(zone.id) for zone in zones),
            self.values[machine],
            *(of_column.get(one.id) for one in columns),
        ]


class Looker:
    """What can be read on this host at the moment."""

    def __init__(self, counters: Sequence[Counter], cpu: CpuTimes, cpus_online: Path = CPUS_ONLINE):
        self.cpu = cpu
        self.columns: tuple[Column, ...] = ()
        self.gaps: Tally[str] = Tally()
        """Readings that failed, by the error's name."""
        self._counters = tuple(counters)
        self._online = _Online(cpus_online)
        self.zones: tuple[CounterZone, ...] = self._all_zones()

    @property
    def absent(self) -> tuple[AbsentZone, ...]:
        return tuple(one for counter in self._counters for one in counter.absent())

    @property
    def has_gpus(self) -> bool:
        return any(zone.domain in _GPU_DOMAINS for zone in self.zones)

    def cpus(self) -> int:
        return self._online.count()

    def occupancy(self) -> tuple[Occupancy, ...]:
        return tuple(one for counter in self._counters for one in counter.occupancy())

    def utilised(self) -> tuple[Utilised, ...]:
        """Of the counters that know: NVML's."""
        asked = [getattr(counter, "utilised", None) for counter in self._counters]
        return tuple(one for ask in asked if ask is not None for one in ask())

    def rescan(self) -> bool:
        """True where `zones` has changed."""
        # A list, not any(): every counter is asked.
        if not any([counter.rescan() for counter in self._counters]):  # noqa: C419
            return False
        self.zones = self._all_zones()
        return True

    def look(self) -> Look:
        began = time.monotonic_ns()
        readings: list[int | str | None] = []
        for counter in self._counters:
            readings += counter.read()
        machine = self.cpu.machine
        readings.append(None if machine is None else machine.read())
        readings += read_all(self.columns)
        ended = time.monotonic_ns()
        at_ns = (began + ended) // 2
        values, gaps = self._without_words(readings)
        return Look(at_ns, ended - began, boottime_offset_ns(), self.zones, self.columns, values, gaps)

    def close(self) -> None:
        for counter in self._counters:
            counter.close()
        for column in self.columns:
            column.close()

    def _all_zones(self) -> tuple[CounterZone, ...]:
        return tuple(zone for counter in self._counters for zone in counter.zones())

    def _without_words(self, readings: list[int | str | None]) -> tuple[list[int | None], tuple[Event, ...]]:
        """None where a counter gave an error's name. The counters themselves log their changes of state (row W12)."""
        # Words are said by counters only, which come first.
        if str not in map(type, readings[: len(self.zones)]):
            return readings, ()  # type: ignore[return-value]  # no word is in it
        values: list[int | None] = [None if isinstance(value, str) else value for value in readings]
        gaps: list[Event] = []
        for zone, word in zip(self.zones, readings, strict=False):
            if isinstance(word, str):
                gaps.append(Event("gap", subject=zone.id, word=word))
                self.gaps[word] += 1
        return values, tuple(gaps)


def boottime_offset_ns() -> int:
    """How much longer than CLOCK_MONOTONIC the clock that runs on through a suspension has run."""
    for _ in range(5):
        before = time.monotonic_ns()
        boottime = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        if time.monotonic_ns() - before < _TIGHT_NS:
            # Else somebody else ran between the two, and what he took would look like sleep.
            break
    return boottime - before


def longest_period_ns(zone: CounterZone) -> int | None:
    """In which it cannot go round unseen (T_safe of energy.md 2.1); None where it never does."""
    return None if zone.unit == "mw" else safe_period_ns(Scale(zone.max_range), zone.most_uw)


def counted(zones: int) -> str:
    """How many, for a journal."""
    return "no counter" if zones == 0 else "1 counter" if zones == 1 else f"{zones} counters"


class _Voice:
    """A child of a run shares its standard error: what is no news to the run's user is not said there."""

    quiet = False


def hush() -> None:
    _Voice.quiet = True


def tell(message: str) -> None:
    """What a service's journal should hold, and nobody needs to act on."""
    if not _Voice.quiet:
        log(message)


def log(message: str) -> None:
    """To the journal, or wherever standard error goes; where it goes nowhere any more (a closed pipe, one that nobody
    drains, a full disk), the line is lost and what is measured goes on."""
    line = f"{message}\n"[-_LONGEST_LINE:]
    with contextlib.suppress(OSError):
        if _takes_a_line(sys.stderr.fileno()):
            sys.stderr.write(line)
            sys.stderr.flush()


def _takes_a_line(fd: int) -> bool:
    """Not set to non-blocking: a terminal or a pipe is shared with whoever started us."""
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    return any(event & select.POLLOUT for _, event in poll.poll(0))


class _Online:
    """How many CPUs are online, from a list as `0-3,8`; what is not readable counts as it was."""

    def __init__(self, path: Path):
        self._text = b""
        self._count = os.cpu_count() or 1
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._fd = -1

    def count(self) -> int:
        if self._fd < 0:
            return self._count
        try:
            text = os.pread(self._fd, 4096, 0)
        except OSError:
            return self._count
        if text != self._text:
            self._text = text
            self._count = _listed(text) or self._count
        return self._count


def _listed(text: bytes) -> int:
    count = 0
    for piece in text.decode("ascii", "replace").strip().split(","):
        first, _, last = piece.partition("-")
        if first.isdigit() and (last or first).isdigit():
            count += int(last or first) - int(first) + 1
    return count
