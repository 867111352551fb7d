"""macOS: the whole chip's energy as `powermetrics` models it (row D4). Untested on hardware.

Its samples are property lists with a NUL between them. Their energies are added up to a counter that never decreases;
a program that ended leaves a gap, and its zone is another one when it runs again. IOReport, from which powermetrics
takes its numbers, is a private interface that may change with any release: it is not read (row J40).
"""

from __future__ import annotations

import os
import plistlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final
from xml.parsers.expat import ExpatError

from appliance.energy.counter import AbsentZone, CounterZone, Occupancy, Reading
from appliance.energy.grades import Grade, grade_of
from appliance.meter.counters.zone_ids import ZONE_IDS

COMMAND: Final = ("/usr/bin/powermetrics", "--samplers", "cpu_power", "-f", "plist", "-i", "100")
IOREPORT: Final = AbsentZone("IOReport", "a private interface of macOS that may change with any release: not read")
_PERIOD_NS: Final = 100_000_000
_SHORTEST_WINDOW_NS: Final = 1_000_000_000
_MOST_UW: Final = 1_000_000_000
_MOST_BYTES: Final = 1024 * 1024
_PIECE: Final = 64 * 1024
_STALE_NS: Final = 10 * _PERIOD_NS
_PARTS: Final = ("cpu", "gpu", "ane")


@dataclass(frozen=True)
class ChipEnergy:
    """One sample: energy of the whole chip over `elapsed_ns`."""

    energy_uj: int
    elapsed_ns: int


def parse_sample(content: bytes) -> ChipEnergy | str:
    """Millijoules of its parts where they are given, else milliwatts of the whole over the time; or the lack's name."""
    try:
        value = plistlib.loads(content.strip(b"\0\r\n "), fmt=plistlib.FMT_XML)
    except (plistlib.InvalidFileException, ExpatError, ValueError, IndexError, AttributeError, TypeError):
        return "NOT_A_SAMPLE"
    chip = value.get("processor") if isinstance(value, dict) else None
    elapsed = value.get("elapsed_ns") if isinstance(value, dict) else None
    if not isinstance(chip, dict) or type(elapsed) is not int or elapsed <= 0:
        return "NOT_A_SAMPLE"
    parts = [_number(chip.get(f"{part}_energy")) for part in _PARTS]
    known = [part for part in parts if part is not None]
    if parts[0] is not None:
        return ChipEnergy(round(sum(known) * 1000), elapsed)
    power = _number(chip.get("combined_power"))
    if power is None:
        # An Intel Mac's.
        joules = _number(chip.get("package_joules"))
        return "NO_ENERGY" if joules is None else ChipEnergy(round(joules * 1e6), elapsed)
    return ChipEnergy(round(power * elapsed / 1e6), elapsed)


def _number(value: Any) -> float | None:
    return float(value) if type(value) in (int, float) and 0 <= value < 1e9 else None


class PowermetricsCounter:
    """A `energy.counter.Counter`. Needs root on macOS; elsewhere it has no zone and says why."""

    name = "powermetrics"

    def __init__(
        self,
        command: Sequence[str] = COMMAND,
        *,
        platform: str = sys.platform,
        ids: Iterator[str] = ZONE_IDS,
        say: Callable[[str], None] = lambda _: None,
    ):
        self._command = tuple(command)
        self._ids = ids
        self._say = say
        self._program: subprocess.Popen[bytes] | None = None
        self._zones: tuple[CounterZone, ...] = ()
        self._absent: tuple[AbsentZone, ...] = (IOREPORT,)
        self._rest = b""
        self._total_uj = 0
        self._lack: str | None = "ENODATA"
        self._heard_ns = 0
        self._here = platform == "darwin"
        if self._here:
            self.rescan()
        else:
            self._absent = (AbsentZone(self.name, f"a program of macOS, this is {platform}"), IOREPORT)

    def zones(self) -> tuple[CounterZone, ...]:
        return self._zones

    def absent(self) -> tuple[AbsentZone, ...]:
        return self._absent

    def read(self) -> Sequence[Reading]:
        if not self._zones:
            return ()
        self._hear()
        if self._lack is None and time.monotonic_ns() - self._heard_ns > _STALE_NS:
            return ("STALE",)
        return (self._total_uj if self._lack is None else self._lack,)

    def rescan(self) -> bool:
        """Starts the program again where it ended."""
        if not self._here or (self._program is not None and self._program.poll() is None):
            return False
        before = self._zones
        self._end()
        try:
            # Its standard error goes where ours does: what it refuses, it says there.
            self._program = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        except OSError as error:
            self._zones = ()
            self._absent = (AbsentZone(self.name, f"{type(error).__name__}: {self._command[0]}"), IOREPORT)
            self._say(f"{self.name} is not used: {error}")
            return before != ()
        assert self._program.stdout is not None  # noqa: S101  # it is a pipe, we just said so
        os.set_blocking(self._program.stdout.fileno(), False)
        self._zones, self._absent = (self._describe(),), (IOREPORT,)
        self._rest, self._total_uj, self._lack = b"", 0, "ENODATA"
        return True

    def occupancy(self) -> Sequence[Occupancy]:
        return ()

    def close(self) -> None:
        self._here, self._zones = False, ()
        self._end()

    def _describe(self) -> CounterZone:
        claim = grade_of(None, "powermetrics")
        grade = claim if self._command[0] == COMMAND[0] else Grade("simulated", claimed=claim.provenance)
        return CounterZone(
            id=next(self._ids),
            key="soc",
            path="powermetrics",
            name="whole chip",
            domain="soc",
            unit="uj",
            max_range=None,
            most_uw=_MOST_UW,
            update_period_ns=_PERIOD_NS,
            shortest_window_ns=_SHORTEST_WINDOW_NS,
            source=self.name,
            provenance=grade.provenance,
            claimed=grade.claimed,
        )

    def _hear(self) -> None:
        program = self._program
        if program is None or program.stdout is None:
            return
        for _ in range(_MOST_BYTES // _PIECE):
            try:
                piece = os.read(program.stdout.fileno(), _PIECE)
            except BlockingIOError:
                return
            if not piece:
                self._lack = "ENODEV"
                return
            *whole, self._rest = (self._rest + piece).split(b"\0")
            # A NUL stands before each sample but the first: the last one is whole when its list is closed.
            if self._rest.rstrip().endswith(b"</plist>"):
                whole, self._rest = [*whole, self._rest], b""
            for one in whole:
                self._add(one)
            if len(self._rest) > _MOST_BYTES:
                self._break("NOT_A_SAMPLE")
            if self._program is None:
                return

    def _add(self, content: bytes) -> None:
        if not content.strip():
            return
        sample = parse_sample(content)
        if isinstance(sample, str):
            self._break(sample)
            return
        self._total_uj += sample.energy_uj
        self._lack, self._heard_ns = None, time.monotonic_ns()

    def _break(self, lack: str) -> None:
        """What a sample held that could not be read is lost: no number may go on as if nothing were."""
        self._lack = lack
        self._say(f"{lack} {self.name}")
        self._end()

    def _end(self) -> None:
        program, self._program = self._program, None
        if program is None:
            return
        program.kill()
        program.wait()
        if program.stdout is not None:
            program.stdout.close()
