"""The NVML counter: the real binding over a stub of the library, in a process of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.counter_driver import CounterElsewhere, counter_elsewhere
from tests.nvml_stub import StubGpus, compile_stub, uuid

TARGET = "appliance.meter.counters.nvml:NvmlCounter"
NOT_SUPPORTED, NOT_FOUND, DRIVER_NOT_LOADED, GPU_IS_LOST = 3, 6, 9, 15


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_stub(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def gpus(tmp_path: Path) -> StubGpus:
    return StubGpus(tmp_path / "nvml.txt")


@pytest.fixture
def opening(library: Path) -> Any:
    def opened(gpus: StubGpus, *, power: bool = False, **arguments: Any) -> Any:
        """`power`: boards tell it beside their counter, as real ones do; else a board is one zone."""
        if not power and "0.energy " in gpus.file.read_text():
            for key in ("0.instant", "0.power", "1.instant", "1.power"):
                gpus.forget(key)
        return counter_elsewhere(TARGET, {"renew_seconds": 0, **arguments}, environment=gpus.environment(library))

    return opened


@pytest.fixture
def counter(gpus: StubGpus, opening: Any) -> Iterator[CounterElsewhere]:
    with opening(gpus) as one:
        yield one


def test_the_total_energy_counter_comes_first(counter: CounterElsewhere, gpus: StubGpus) -> None:
    """In millijoules, without a range to wrap at (G1 J40)."""
    zone = counter.zones()[0]
    assert (zone.key, zone.path, zone.unit, zone.max_range) == (f"gpu-{uuid(0)[4:].lower()}", uuid(0), "mj", None)
    assert (zone.domain, zone.summed, zone.source) == ("gpu", True, "nvml 13.580.65.06")
    assert zone.most_uw == 1_400_000_000
    assert (zone.update_period_ns, zone.shortest_window_ns) == (100_000_000, 1_000_000_000)
    assert counter.read() == [1_000_000]
    gpus.set("0.energy", 1_075_000)
    assert counter.read() == [1_075_000]


def test_a_library_without_the_kernels_driver_is_simulated(opening: Any, gpus: StubGpus) -> None:
    """The driver that the kernel has loaded must name the same version, in the kernel's own file system (J34 J40)."""
    with opening(gpus) as counter:
        assert (counter.zones()[0].provenance, counter.zones()[0].claimed) == ("simulated", "hw_shunt")
    gpus.set("driver", os.uname().release)
    with opening(gpus, kernel_driver_path="/proc/version") as counter:
        assert (counter.zones()[0].provenance, counter.zones()[0].claimed) == ("hw_shunt", None)
    copied = gpus.file.with_name("version")
    copied.write_text(Path("/proc/version").read_text())
    with opening(gpus, kernel_driver_path=str(copied)) as counter:
        assert counter.zones()[0].provenance == "simulated"


def test_a_reloaded_driver_keeps_the_board_and_shows_its_decrease(counter: CounterElsewhere, gpus: StubGpus) -> None:
    """What a decrease means is decided where the numbers are judged (G2)."""
    gpus.set("0.energy", 100)
    assert counter.read() == [100]
    assert not counter.rescan()


def test_a_driver_that_was_unloaded_is_begun_anew(counter: CounterElsewhere, gpus: StubGpus) -> None:
    """The board that comes back is another zone (G2 W13)."""
    before = counter.zones()[0].id
    gpus.fail("0.energy", DRIVER_NOT_LOADED)
    gpus.fail("init", DRIVER_NOT_LOADED)
    assert counter.read() == ["DRIVER_NOT_LOADED"]
    assert counter.rescan()
    assert counter.zones() == ()
    assert [one.reason for one in counter.absent()] == ["DRIVER_NOT_LOADED"]
    assert counter.read() == []
    gpus.set("0.energy", 55)
    gpus.forget("init")
    assert counter.rescan()
    assert counter.zones()[0].id != before
    assert counter.read() == [55]


@pytest.mark.parametrize("number", [1, 2, NOT_SUPPORTED, 4, 6, 10, 15, 16, 17, 24, 999, 77])
def test_every_error_is_a_lack_by_name(counter: CounterElsewhere, gpus: StubGpus, number: int) -> None:
    """And the board keeps its counter through it (G3 G12)."""
    gpus.fail("0.energy", number)
    lack = counter.read()[0]
    assert isinstance(lack, str)
    assert lack == {NOT_SUPPORTED: "NOT_SUPPORTED", GPU_IS_LOST: "GPU_IS_LOST", 77: "NVML_77"}.get(number, lack)
    before = counter.zones()
    counter.rescan()
    gpus.set("0.energy", 1_150_000)
    counter.rescan()
    assert (counter.zones(), counter.read()) == (before, [1_150_000])
    assert counter.said == [f"{lack} {before[0].key}", f"{before[0].key} reads again"]


def test_without_a_counter_power_is_sampled(opening: Any, gpus: StubGpus) -> None:
    """Instant power before GetPowerUsage (G4)."""
    gpus.forget("0.energy")
    with opening(gpus) as counter:
        assert (counter.zones()[0].unit, counter.zones()[0].flags) == ("mw", ())
        assert counter.read() == [121_000]
    gpus.forget("0.instant")
    gpus.set("0.arch", 5)
    with opening(gpus) as counter:
        assert (counter.zones()[0].unit, counter.zones()[0].flags) == ("mw", ())
        assert counter.read() == [120_000]


@pytest.mark.parametrize(
    ("name", "architecture", "averaged"),
    [
        ("NVIDIA H100 80GB HBM3", 9, True),
        ("NVIDIA GeForce RTX 3090", 7, True),
        ("NVIDIA A100-SXM4-40GB", 7, False),
        ("Tesla V100-SXM2-16GB", 5, False),
        ("A board that is not told", "!3", True),
    ],
)
def test_power_that_is_an_average_is_known_for_one(
    opening: Any, gpus: StubGpus, name: str, architecture: object, averaged: bool
) -> None:
    """Of one second, so that ten are the shortest window (G5)."""
    for key in ("0.energy", "0.instant"):
        gpus.forget(key)
    gpus.set("0.name", name)
    gpus.set("0.arch", architecture)
    with opening(gpus) as counter:
        zone = counter.zones()[0]
    assert zone.flags == (("power_averaged",) if averaged else ())
    assert zone.update_period_ns == (1_000_000_000 if averaged else 100_000_000)


def test_power_stands_beside_the_counter_and_is_never_added(opening: Any, gpus: StubGpus) -> None:
    """Under the board's own path, by which the two are compared (energy 1b, report 18)."""
    with opening(gpus, power=True) as counter:
        board, power = counter.zones()
        assert (power.key, power.path, power.unit, power.summed) == (f"{board.key}/power", board.path, "mw", False)
        assert counter.read() == [1_000_000, 121_000]
        gpus.forget("0.instant")
        assert counter.read() == [1_000_000, "NOT_SUPPORTED"]
        assert not counter.rescan()
        assert [one.zone for one in counter.occupancy()] == [board.id]


def test_a_sentinel_is_no_power(opening: Any, gpus: StubGpus) -> None:
    """(ZN10)"""
    gpus.forget("0.energy")
    with opening(gpus) as counter:
        gpus.set("0.instant", 2**32 - 1)
        assert counter.read() == ["SENTINEL"]
        gpus.set("0.instant", 65_535)
        assert counter.read() == ["SENTINEL"]


def test_a_module_is_labelled_and_never_added(opening: Any, gpus: StubGpus) -> None:
    """Grace-Hopper, where the GPU's own scope is not supported (G13)."""
    for key in ("0.energy", "0.instant", "0.power"):
        gpus.forget(key)
    gpus.set("0.module", 400_000)
    with opening(gpus) as counter:
        zone = counter.zones()[0]
        assert (zone.domain, zone.summed, zone.key) == ("module", False, f"module-{uuid(0)[4:].lower()}")
        assert counter.read() == [400_000]


def test_a_chip_whose_sibling_reports_for_it_is_no_zero(opening: Any, tmp_path: Path) -> None:
    """(G14)"""
    gpus = StubGpus(tmp_path / "two.txt", count=2)
    for key, value in (("0.board", 7), ("1.board", 7), ("0.several", 1), ("1.several", 1), ("1.energy", 0)):
        gpus.set(key, value)
    with opening(gpus) as counter:
        assert [zone.path for zone in counter.zones()] == [uuid(0)]
        absent = counter.absent()[0]
        assert (absent.path, absent.reason) == (uuid(1), f"reported by its sibling gpu-{uuid(0)[4:].lower()}")


def test_boards_are_known_by_uuid_whatever_their_order(opening: Any, tmp_path: Path) -> None:
    """(G15)"""
    gpus = StubGpus(tmp_path / "two.txt", count=2)
    gpus.set("0.energy", 10)
    gpus.set("1.energy", 20)
    with opening(gpus) as counter:
        before = counter.zones()
        assert counter.read() == [10, 20]
        gpus.set("0.uuid", uuid(1))
        gpus.set("1.uuid", uuid(0))
        assert not counter.rescan()
        assert counter.zones() == before
        assert counter.read() == [20, 10]


def test_a_lost_board_is_absent_and_the_other_is_read(opening: Any, tmp_path: Path) -> None:
    """(G12)"""
    gpus = StubGpus(tmp_path / "two.txt", count=2)
    with opening(gpus) as counter:
        gpus.fail("0.energy", GPU_IS_LOST)
        gpus.fail("0.handle", GPU_IS_LOST)
        assert counter.read() == ["GPU_IS_LOST", 1_000_000]
        assert counter.rescan()
        assert [zone.path for zone in counter.zones()] == [uuid(1)]
        assert [(one.path, one.reason) for one in counter.absent()] == [("GPU 0", "GPU_IS_LOST")]


def test_who_is_on_a_board_is_told_by_pid(counter: CounterElsewhere, gpus: StubGpus) -> None:
    """Computing and drawing alike (G8)."""
    (one,) = counter.occupancy()
    assert (one.zone, one.pids, one.sharing) == (counter.zones()[0].id, frozenset(), None)
    gpus.set("0.compute", "4000001,4000002")
    gpus.set("0.graphics", "4000003")
    assert counter.occupancy()[0].pids == {4_000_001, 4_000_002, 4_000_003}


def test_a_list_that_cannot_be_read_is_not_nobody(counter: CounterElsewhere, gpus: StubGpus) -> None:
    """(G8)"""
    gpus.fail("0.compute", 4)
    assert counter.occupancy()[0].sharing == "unknown"


def test_the_parts_of_a_board_are_not_told_apart(counter: CounterElsewhere, gpus: StubGpus) -> None:
    """MIG: the parent's counter, shared (G10)."""
    gpus.set("0.mig", 1)
    gpus.set("0.compute", "4000001")
    assert counter.occupancy()[0].sharing == "mig"
    assert [zone.path for zone in counter.zones()] == [uuid(0)]


def test_clients_of_mps_are_not_told_apart(gpus: StubGpus, opening: Any, tmp_path: Path) -> None:
    """By their list, or by the server's process (G11)."""
    (tmp_path / "proc" / "4000001").mkdir(parents=True)
    (tmp_path / "proc" / "4000001" / "comm").write_text("nvidia-cuda-mps\n")
    with opening(gpus, proc_path=str(tmp_path / "proc")) as counter:
        gpus.set("0.mps", "4000009")
        assert (counter.occupancy()[0].sharing, counter.occupancy()[0].pids) == ("mps", {4_000_009})
        gpus.set("0.mps", "")
        gpus.set("0.compute", "4000001")
        assert counter.occupancy()[0].sharing == "mps"
        gpus.set("0.compute", "4000002")
        assert counter.occupancy()[0].sharing is None


def test_utilisation_of_nobody_is_no_error(counter: CounterElsewhere, gpus: StubGpus) -> None:
    """NOT_FOUND is 0; the moment is given in microseconds (G9)."""
    zone = counter.zones()[0].id
    gpus.fail("0.util", NOT_FOUND)
    assert counter.ask("utilisation", zone, 0) == {}
    gpus.set("0.util", "4000001:50,4000002:7")
    gpus.set("0.util_at_us", 1_000_000)
    assert counter.ask("utilisation", zone, 999_999) == {"4000001": 50, "4000002": 7}
    assert counter.ask("utilisation", zone, 1_000_000) == {}
    gpus.fail("0.util", 4)
    assert counter.ask("utilisation", zone, 0) == "NO_PERMISSION"
    assert counter.ask("utilisation", "z999", 0) == "GPU_NOT_FOUND"


def test_a_name_that_is_no_text_does_not_end_the_counter(opening: Any, gpus: StubGpus) -> None:
    """(J40)"""
    gpus.file.write_bytes(gpus.file.read_bytes().replace(b"NVIDIA H100 80GB HBM3", b"\xff\xfe"))
    with opening(gpus, power=True) as counter:
        assert (counter.read()[0], counter.zones()[0].name) == (1_000_000, "NOT_TEXT")


@pytest.mark.parametrize("key", ["count", "0.handle", "0.uuid", "init"])
def test_a_driver_that_fails_leaves_no_zone_and_its_reason(opening: Any, gpus: StubGpus, key: str) -> None:
    """(J40 G12)"""
    gpus.fail(key, 999)
    with opening(gpus) as counter:
        assert counter.zones() == ()
        assert [one.reason for one in counter.absent()] == ["UNKNOWN"]
        assert counter.said


def test_a_host_without_the_library_says_so_and_loads_no_binding() -> None:
    """(J40)"""
    with counter_elsewhere(TARGET) as counter:
        if counter.zones():
            pytest.skip("this host has NVIDIA's library")
        assert [one.reason for one in counter.absent()] in (["LIBRARY_NOT_FOUND"], ["DRIVER_NOT_LOADED"])
        assert counter.read() == []
        assert counter.occupancy() == []
        counter.close()
