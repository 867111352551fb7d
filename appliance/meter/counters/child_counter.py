"""A counter whose code runs in an unprivileged child: the daemon's side of it, which never waits for it for long.

A read asks the child and waits some milliseconds: a child answers at once, with a reading of this moment or, of a
counter that moves slowly, with its last. A reading that is older than the counter's own update period is the lack
`STALE`. A child that died is the lack `CHILD_DIED`, and is started again after a while that doubles.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, Self

from appliance.energy.counter import AbsentZone, CounterZone, Occupancy, Reading
from appliance.meter.counters.child_process import ChildProcess, Program
from appliance.meter.counters.frames import BadFrame, ReadingsSaid, ZonesSaid
from appliance.meter.counters.pyrapl import energy_files
from appliance.meter.counters.zone_ids import ZONE_IDS

_FIRST_PAUSE_SECONDS: Final = 1.0
_LONGEST_PAUSE_SECONDS: Final = 60.0
_GONE: Final = frozenset({"ENODEV", "ENOENT"})
_APART: Final = frozenset({"gpu"})
"""Domains that no other counter's sum holds."""
_STALE_SECONDS: Final = 5.0
"""A first reading takes a while, and a slow one is late at times: that is no news."""
_OF_THE_CHILD: Final = frozenset({"STARTING", "CHILD_DIED", "BAD_FRAME"})
State = Literal["STARTING", "RUNNING", "CHILD_DIED", "BAD_FRAME"]


@dataclass
class _Failing:
    """A zone that cannot be read."""

    word: str
    since: float
    told: bool = False


class ChildCounter:
    """A `energy.counter.Counter`. Its zones' source begins with what it was started as: it poses as no other."""

    def __init__(
        self,
        program: Program,
        *,
        alone: bool = False,
        ids: Iterator[str] = ZONE_IDS,
        say: Callable[[str], None] = lambda _: None,
        patience_seconds: float = 0.02,
        start_seconds: float = 10.0,
        first_pause_seconds: float = _FIRST_PAUSE_SECONDS,
    ):
        """`alone`: nothing else of this machine is summed; otherwise only GPUs of it are.

        `patience_seconds`: how long a read waits; `start_seconds`: how long this constructor does.
        """
        self.name = program.label
        self._program = program
        self._alone = alone
        self._ids = ids
        self._say = say
        self._patience = patience_seconds
        self._first_pause = first_pause_seconds
        self._child: ChildProcess | None = None
        self._state: State = "STARTING"
        self._zones: tuple[CounterZone, ...] = ()
        self._theirs: tuple[str, ...] = ()
        self._absent: tuple[AbsentZone, ...] = ()
        self._generation = -1
        self._new: ZonesSaid | None = None
        self._answer: ReadingsSaid | None = None
        self._read_ns = 0
        self._asked_ns: int | None = None
        self._pause = first_pause_seconds
        self._start_at = 0.0
        self._started_at = 0.0
        self._closed = False
        self._failing: dict[str, _Failing] = {}
        self._start()
        until = time.monotonic() + start_seconds
        while self._state == "STARTING" and self._new is None and time.monotonic() < until:
            self._hear(max(0.0, until - time.monotonic()))
        if self._new is None and self._state == "STARTING":
            self._absent = (AbsentZone(self.name, f"no answer in {start_seconds:g} s"),)
        self._adopt()

    @classmethod
    def of_plugin(
        cls,
        name: str,
        *,
        alone: bool = False,
        ids: Iterator[str] = ZONE_IDS,
        say: Callable[[str], None] = lambda _: None,
    ) -> Self:
        return cls(Program(f"plugin:{name}", ("plugin", name)), alone=alone, ids=ids, say=say)

    @classmethod
    def of_pyrapl(
        cls,
        *,
        ids: Iterator[str] = ZONE_IDS,
        say: Callable[[str], None] = lambda _: None,
        patience_seconds: float = 0.02,
    ) -> Self:
        """As a cross-check it is given more patience: nothing else waits for it then."""
        program = Program("pyRAPL", ("pyrapl",), energy_files, fixed=True)
        return cls(program, alone=True, ids=ids, say=say, patience_seconds=patience_seconds)

    def zones(self) -> tuple[CounterZone, ...]:
        return self._zones

    def absent(self) -> tuple[AbsentZone, ...]:
        return self._absent

    def read(self) -> Sequence[Reading]:
        found = self._readings()
        self._tell(found)
        return found

    def _readings(self) -> list[Reading]:
        self._revive()
        self._hear(0)
        if self._child is not None and self._asked_ns is None and self._state == "RUNNING":
            asked_ns = self._asked_ns = time.monotonic_ns()
            if self._child.request():
                self._hear(self._patience)
            if self._asked_ns is None and self._read_ns >= asked_ns:
                return [self._reading(number, zone, 0) for number, zone in enumerate(self._zones)]
        age_ns = time.monotonic_ns() - self._read_ns
        return [self._reading(number, zone, age_ns) for number, zone in enumerate(self._zones)]

    def rescan(self) -> bool:
        """Takes over what the child has said of its zones since; it looks for them by itself."""
        before = self._zones
        answer = self._answer
        if self._program.fixed and answer is not None and any(one in _GONE for one in answer.readings):
            # What is there when it runs again is another zone (row W13).
            self._died("CHILD_DIED", "its files are gone")
            self._zones, self._theirs = (), ()
        self._revive()
        self._hear(0)
        self._adopt()
        return self._zones != before

    def occupancy(self) -> Sequence[Occupancy]:
        if self._answer is None or self._state != "RUNNING" or self._answer.generation != self._generation:
            return tuple(Occupancy(zone.id, frozenset(), "unknown") for zone in self._zones if zone.domain == "gpu")
        ours = dict(zip(self._theirs, self._zones, strict=True))
        return tuple(replace(one, zone=ours[theirs].id) for theirs, one in self._answer.occupancy if theirs in ours)

    def close(self) -> None:
        self._closed = True
        self._zones, self._theirs = (), ()
        if self._child is not None:
            self._child.end()
            self._child = None

    def _reading(self, number: int, zone: CounterZone, age_ns: int) -> Reading:
        if self._state != "RUNNING":
            return self._state
        if self._answer is None:
            return "STALE"
        if self._answer.generation != self._generation:
            return "ENODEV"
        return self._answer.readings[number] if age_ns <= zone.update_period_ns else "STALE"

    def _tell(self, found: Sequence[Reading]) -> None:
        """A zone that begins to fail, or reads again, once (row W12); what its child does is told by `_died`."""
        for zone, value in zip(self._zones, found, strict=False):
            before = self._failing.get(zone.key)
            if value in _OF_THE_CHILD:
                continue
            if isinstance(value, int):
                if before is not None:
                    del self._failing[zone.key]
                    if before.told:
                        self._say(f"{zone.key} reads again")
                continue
            now = time.monotonic()
            if before is None or before.word != value:
                before = self._failing[zone.key] = _Failing(value, now)
            if not before.told and (value != "STALE" or now - before.since >= _STALE_SECONDS):
                before.told = True
                self._say(f"{value} {zone.key}")

    def _start(self) -> None:
        self._started_at = time.monotonic()
        try:
            self._child = ChildProcess(self._program)
        except OSError as error:
            self._died("CHILD_DIED", str(error))

    def _revive(self) -> None:
        if self._child is None and not self._closed and time.monotonic() >= self._start_at:
            self._start()

    def _hear(self, patience: float) -> None:
        if self._child is None:
            return
        try:
            messages, ended = self._child.said(patience)
            for one in messages:
                self._take(one)
        except BadFrame as error:
            self._died("BAD_FRAME", str(error))
            return
        if ended:
            self._died("CHILD_DIED", self._child.last_line() or "without a word")

    def _take(self, said: ZonesSaid | ReadingsSaid) -> None:
        if isinstance(said, ZonesSaid):
            self._new = said
            if self._state != "RUNNING" and self._describe(said) == self._bare():
                # Started again with the zones that it had.
                self._adopt()
            return
        expected = self._new if self._new is not None else None
        count = len(expected.zones) if expected is not None else len(self._zones)
        if self._asked_ns is None or len(said.readings) != count:
            raise BadFrame("readings that nobody asked for, or not one a zone")
        self._answer = said
        self._read_ns = min(said.at_ns, time.monotonic_ns())
        self._asked_ns = None

    def _adopt(self) -> None:
        said, self._new = self._new, None
        if said is None:
            return
        described = self._describe(said)
        before = {replace(zone, id=""): zone for zone in self._zones}
        self._zones = tuple(before.get(zone) or replace(zone, id=next(self._ids)) for zone in described)
        self._theirs = tuple(zone.id for zone in said.zones)
        self._absent, self._generation = said.absent, said.generation
        if self._state in ("CHILD_DIED", "BAD_FRAME"):
            self._say(f"{self.name} runs again")
        self._state = "RUNNING"

    def _bare(self) -> tuple[CounterZone, ...]:
        return tuple(replace(zone, id="") for zone in self._zones)

    def _describe(self, said: ZonesSaid) -> tuple[CounterZone, ...]:
        """As we let it be known, without an id."""
        own = self.name.startswith("plugin:")
        return tuple(
            replace(
                zone,
                id="",
                key=f"{self.name.removeprefix('plugin:')}/{zone.key}" if own else zone.key,
                source=zone.source if zone.source.split(" ")[0] == self.name else f"{self.name} ?",
                summed=zone.summed and (self._alone or zone.domain in _APART),
            )
            for zone in said.zones
        )

    def _died(self, state: State, reason: str) -> None:
        self._answer, self._new, self._asked_ns = None, None, None
        if self._child is not None:
            self._child.end()
            self._child = None
        if time.monotonic() - self._started_at > _LONGEST_PAUSE_SECONDS:
            self._pause = self._first_pause
        self._start_at = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS)
        if self._state != state:
            self._say(f"{self.name} ended ({state}): {reason}")
        self._state = state
        if not self._zones:
            self._absent = (AbsentZone(self.name, f"{state}: {reason}"[:200]),)
