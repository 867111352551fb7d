"""What every counter keeps, whoever wrote it: the kernel's files, the stub of NVML, pyRAPL, a plug-in, powermetrics."""

from __future__ import annotations

import contextlib
import os
import plistlib
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import pytest

from appliance.energy.counter import NANOJOULES, Counter, CounterDomain, Occupancy, Unit
from appliance.energy.grades import Provenance
from appliance.meter.counters.child_counter import ChildCounter
from appliance.meter.counters.child_process import Program
from appliance.meter.counters.powercap import PowercapCounter
from appliance.meter.counters.powermetrics import PowermetricsCounter
from tests.counter_driver import counter_elsewhere
from tests.counter_plugins import Loopback, installed, until
from tests.nvml_stub import StubGpus, compile_stub
from tests.pyrapl_bench import ClassTree
from tests.sysfs_tree import PowercapTree


@dataclass(frozen=True)
class Bench:
    """A counter, and what a test may do to what it reads."""

    counter: Counter
    spoil: Callable[[], None]
    """Its first zone gives no number any more."""
    mend: Callable[[], None]
    more: Callable[[], object] | None = None
    """One more zone appears; None: it never looks for any."""


def powercap(stack: ExitStack, folder: Path) -> Bench:
    tree = PowercapTree(folder / "powercap")
    tree.packages(2, dram=True)
    return Bench(
        PowercapCounter(tree.root),
        lambda: tree.spoil("intel-rapl:0"),
        lambda: tree.set("intel-rapl:0", 7),
        lambda: tree.zone("intel-rapl:2", "package-2", 5).exists(),
    )


def nvml(stack: ExitStack, folder: Path) -> Bench:
    gpus = StubGpus(folder / "nvml.txt", count=2)
    library = compile_stub(folder / "library")
    counter = stack.enter_context(
        counter_elsewhere("appliance.meter.counters.nvml:NvmlCounter", environment=gpus.environment(library))
    )

    def more() -> None:
        for key, value in (("uuid", "GPU-ffffffff"), ("name", "another"), ("energy", 5)):
            gpus.set(f"2.{key}", value)
        gpus.set("count", 3)

    return Bench(counter, lambda: gpus.fail("0.energy", 3), lambda: gpus.set("0.energy", 7), more)


def pyrapl(stack: ExitStack, folder: Path) -> Bench:
    if os.geteuid() != 0:
        pytest.skip("not root")
    tree = ClassTree(folder / "class")
    tree.sockets(dram=True)
    target = "appliance.meter.counters.child_counter:ChildCounter.of_pyrapl"
    counter = stack.enter_context(counter_elsewhere(target, {"patience_seconds": 5.0}, within=tree.within()))
    return Bench(counter, lambda: tree.zones.spoil("intel-rapl:0"), lambda: tree.zones.set("intel-rapl:0", 7))


def plugin(stack: ExitStack, folder: Path) -> Bench:
    plugins = stack.enter_context(installed(scripted="0.1"))
    server = stack.enter_context(Loopback())
    patch = stack.enter_context(pytest.MonkeyPatch.context())
    patch.setenv("PYTHONPATH", str(plugins))
    patch.setenv("BENCH_APPLIANCE_COUNTER_SCRIPT_URL", server.url)
    first: list[object] = [7]
    server.answers = {"begin": {}, "rescan": {}, "read": lambda: {"readings": first}}
    counter = ChildCounter(Program("plugin:scripted", ("plugin", "scripted")), patience_seconds=5.0)
    return Bench(counter, lambda: first.__setitem__(0, "EIO"), lambda: first.__setitem__(0, 9))


def powermetrics(stack: ExitStack, folder: Path) -> Bench:
    sample = plistlib.dumps({"elapsed_ns": 10_000_000, "processor": {"cpu_energy": 5}})
    switch = folder / "broken"
    program = folder / "powermetrics"
    program.write_text(
        f"#!{sys.executable}\nimport os, sys, time\n"
        f"while True:\n"
        f"    sys.stdout.buffer.write(b'junk' if os.path.exists({str(switch)!r}) else {sample!r})\n"
        f"    sys.stdout.buffer.write(b'\\0'); sys.stdout.flush(); time.sleep(0.01)\n"
    )
    program.chmod(0o755)
    return Bench(PowermetricsCounter([str(program)], platform="darwin"), switch.touch, switch.unlink)


@pytest.fixture(params=[powercap, nvml, pyrapl, plugin, powermetrics], ids=lambda made: made.__name__)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    with contextlib.ExitStack() as stack:
        made: Bench = request.param(stack, tmp_path)
        stack.callback(made.counter.close)
        until(made.counter.read, lambda found: all(isinstance(one, int) for one in found))
        yield made


def test_its_zones_are_described_in_words_of_ours(bench: Bench) -> None:
    """(J47)"""
    zones = bench.counter.zones()
    assert zones
    for zone in zones:
        assert zone.domain in get_args(CounterDomain)
        assert zone.unit in get_args(Unit)
        assert zone.provenance in get_args(Provenance)
        assert zone.provenance == "simulated" or zone.source.startswith("plugin:")
        assert zone.most_uw > 0
        assert zone.max_range is None or zone.max_range > 0
        assert zone.summed is False or zone.unit in NANOJOULES
        assert zone.source
        assert zone.path


def test_its_ids_and_keys_are_unique_and_stay(bench: Bench) -> None:
    """(W13 ZN3)"""
    zones = bench.counter.zones()
    assert len({zone.id for zone in zones}) == len({zone.key for zone in zones}) == len(zones)
    bench.counter.read()
    assert not bench.counter.rescan()
    assert bench.counter.zones() == zones


def test_it_gives_one_reading_a_zone(bench: Bench) -> None:
    """(J47)"""
    assert len(bench.counter.read()) == len(bench.counter.zones())


def test_an_error_is_a_word_and_never_a_number(bench: Bench) -> None:
    """No method raises meanwhile (W12)."""
    bench.spoil()
    found = until(bench.counter.read, lambda found: isinstance(found[0], str))
    assert isinstance(found[0], str)
    assert found[0].isupper()
    assert len(found) == len(bench.counter.zones())
    bench.counter.occupancy()
    bench.counter.absent()


def test_what_is_mended_reads_numbers_again(bench: Bench) -> None:
    """(W12)"""
    bench.spoil()
    until(bench.counter.read, lambda found: isinstance(found[0], str))
    bench.mend()

    def found() -> list[object]:
        bench.counter.rescan()
        return list(bench.counter.read())

    again = until(found, lambda one: bool(one) and all(isinstance(number, int) for number in one))
    assert again
    assert all(isinstance(number, int) and number > 0 for number in again)


def test_a_new_zone_is_found_by_a_new_look_and_not_before(bench: Bench) -> None:
    """Those that were there keep their ids; one that never finds any says so (W13)."""
    before = bench.counter.zones()
    if bench.more is None:
        assert not bench.counter.rescan()
        return
    bench.more()
    assert bench.counter.zones() == before
    assert len(bench.counter.read()) == len(before)
    assert bench.counter.rescan()
    assert set(before) < set(bench.counter.zones())
    assert len(bench.counter.read()) == len(bench.counter.zones())


def test_who_is_on_a_board_is_told_of_boards_alone(bench: Bench) -> None:
    """(G8)"""
    boards = {zone.id for zone in bench.counter.zones() if zone.domain in ("gpu", "module")}
    for one in bench.counter.occupancy():
        assert isinstance(one, Occupancy)
        assert one.zone in boards


def test_closing_twice_is_closing_once(bench: Bench) -> None:
    """And leaves nothing to read."""
    bench.counter.close()
    bench.counter.close()
    assert bench.counter.zones() == ()
    assert list(bench.counter.read()) == []
    assert list(bench.counter.occupancy()) == []
    assert not bench.counter.rescan()


def test_two_counters_of_one_process_share_no_id(tmp_path: Path) -> None:
    """(W13)"""
    tree = PowercapTree(tmp_path / "powercap")
    tree.packages(2)
    first, second = PowercapCounter(tree.root), PowercapCounter(tree.root)
    assert not {zone.id for zone in first.zones()} & {zone.id for zone in second.zones()}
    first.close()
    second.close()
