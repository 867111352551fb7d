"""Real measured runs for tests: this machine's engine, the real daemon, and a tree of counters that the test moves."""

from __future__ import annotations

import json
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from appliance.energy.idle import Idle
from appliance.energy.readings import Header, unpack
from appliance.meter.opening import Wish, decide
from appliance.ports import Host, Meter
from appliance.records import journal
from appliance.records.plan import PlannedEnergy
from appliance.records.trial import TrialResult
from appliance.records.words import EnergyMode
from appliance.solvers.definition import SolverDefinition
from appliance.tasks.model import Suite
from appliance.trials.adapters import this_machine
from appliance.trials.session import RunEnded, RunOptions, run_plans
from appliance.trials.stamps import Subject
from tests.sysfs_tree import PowercapTree
from tests.trials_bench import Watched, blob, lines, plans_for

PLAIN_RANGE_UJ = 10**12 - 1
"""No range of a 32-bit count: the microjoules of a tree are then taken as they are."""
PACKAGE = "intel-rapl:0"
CHECKOUT = Path(__file__).parents[1]


def plain_tree(root: Path) -> PowercapTree:
    """One package that stands still till it is told to move: a machine whose rest takes nothing."""
    tree = PowercapTree(root)
    tree.zone(PACKAGE, "package-0", 1_000_000, max_range_uj=PLAIN_RANGE_UJ)
    return tree


_FEED = """
import contextlib, os, select, sys, time
from pathlib import Path
from tests.sysfs_tree import PowercapTree

tree, path, watts = PowercapTree(Path(sys.argv[1])), sys.argv[2], int(sys.argv[3])
with contextlib.suppress(OSError):
    # A package goes on whatever else there is to do.
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
print(flush=True)
last = time.monotonic_ns()
while not select.select([sys.stdin], [], [], 0.01)[0]:
    now = time.monotonic_ns()
    tree.add(path, watts * (now - last) // 1000)
    last = now
"""


@contextmanager
def feeding(tree: PowercapTree, watts: int) -> Iterator[None]:
    """The package takes `watts` all the while: by a program of its own, that waits for nothing that happens here."""
    argv = [sys.executable, "-c", _FEED, str(tree.root), PACKAGE, str(watts)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=CHECKOUT) as feed:
        assert feed.stdin is not None
        assert feed.stdout is not None
        assert feed.stdout.readline()
        try:
            yield
        finally:
            feed.stdin.close()
            assert feed.wait(30) == 0


@dataclass
class Ran:
    ended: RunEnded
    notes: list[str]


def measured_run(
    out: Path,
    suite: Suite,
    *solvers: SolverDefinition,
    wish: Wish,
    mode: EnergyMode = "measured",
    scheduling: str = "exclusive",
    jobs: int = 1,
    idle_seconds: float = 2.0,
    meter: Callable[[Meter], Any] = lambda real: real,
    host: Callable[[Host], Any] = lambda real: real,
    watched: Watched | None = None,
    **run_options: Any,
) -> Ran:
    """As `appliance run` does it; `meter` and `host` may put something between the run and its own."""
    notes: list[str] = []
    energy = PlannedEnergy(mode=mode, active_watts=None, scheduling=scheduling)  # type: ignore[arg-type]
    plans = plans_for(suite, *solvers, energy=energy)
    with decide(mode, wish, watts_set=False) as decided:
        here = this_machine(plans, notes.append, decided)
        ended = run_plans(
            plans,
            suite,
            solvers={one.name: one for one in solvers},
            adapters=replace(here, meter=meter(here.meter), host=host(here.host)),
            out=out,
            options=RunOptions(
                subjects={one.name: Subject(None, None, "unknown") for one in solvers},
                jobs=jobs,
                keep_suite=False,
                idle_seconds=idle_seconds,
                report=notes.append,
                **run_options,
            ),
            watcher=watched or Watched(),
        )
    return Ran(ended, notes)


class Between:
    """A meter that calls back right after a window has opened and right before it closes."""

    def __init__(self, real: Meter, opened: Callable[[], None], closing: Callable[[], None]):
        self._real, self._opened, self._closing = real, opened, closing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def prepare(self, *words: Any, **more: Any) -> Any:
        return _Trial(self._real.prepare(*words, **more), self._opened, self._closing)


class _Trial:
    def __init__(self, real: Any, opened: Callable[[], None], closing: Callable[[], None]):
        self._real, self._opened, self._closing = real, opened, closing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def open(self) -> None:
        self._real.open()
        self._opened()

    def close(self) -> None:
        self._closing()
        self._real.close()


def readings_of(out: Path, result: TrialResult) -> bytes:
    assert result.energy is not None
    assert result.energy.readings is not None
    return (out / "blobs" / "sha256" / result.energy.readings.sha256).read_bytes()


def header_of(out: Path, result: TrialResult) -> Header:
    return unpack(readings_of(out, result)).header


def span_of(header: Header) -> tuple[int, int]:
    """Nanoseconds of the kernel's clock at which the window opened and closed."""
    opened = int(header.opened_boottime_ns)
    return opened, opened + header.length_ns


def raw_samples(content: bytes) -> list[dict[str, Any]]:
    """Readings by hand: columns and absolute numbers of every sample, read with nothing of ours but the form's own
    words."""
    text, rest = b"", content
    while rest:
        unpacker = zlib.decompressobj(31)
        text += unpacker.decompress(rest)
        rest = unpacker.unused_data
    columns: list[str] = []
    values: list[int | None] = []
    found: list[dict[str, Any]] = []
    at_ns = 0
    for line in text.splitlines()[1:]:
        said = json.loads(line)
        if isinstance(said, dict) and "raw" in said:
            columns = [*said["zones"], "machine", *said["cgroups"]]
            values = [None if one is None else int(one) for one in said["raw"]]
        elif isinstance(said, list):
            at_ns += said[0]
            values = [old if step is None else (old or 0) + step for old, step in zip(values, said[1:], strict=True)]
        else:
            continue
        found.append({"at": at_ns, **dict(zip(columns, values, strict=True))})
    return found


def journal_kinds(out: Path) -> list[str]:
    return [line.kind for line in lines(out)]


def idle_words(out: Path) -> list[str]:
    return [line.idle.when for line in lines(out) if isinstance(line, journal.IdleLine)]


def idle_from(ended: RunEnded, meter: Any) -> Idle | None:
    from appliance.records.metered import idle_of

    return idle_of(meter, lambda ref: blob(ended, ref.sha256))


def trial_lines(out: Path) -> list[TrialResult]:
    with suppress(FileNotFoundError):
        return [line.result for line in lines(out) if isinstance(line, journal.TrialLine)]
    return []
