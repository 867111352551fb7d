"""pyRAPL as a named backend, in the unprivileged child, over a tree that is bound over its hard-coded paths."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from appliance.energy.counters import Delta, Scale, difference
from tests.counter_driver import counter_elsewhere
from tests.counter_plugins import until
from tests.pyrapl_bench import ClassTree
from tests.removable import removable_file
from tests.sysfs_tree import AMD_RANGE_UJ, DRAM_RANGE_UJ, INTEL_RANGE_UJ

pytestmark = pytest.mark.root
TARGET = "appliance.meter.counters.child_counter:ChildCounter.of_pyrapl"
ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def tree(tmp_path: Path) -> ClassTree:
    return ClassTree(tmp_path / "class")


def opened(tree: ClassTree) -> Any:
    return counter_elsewhere(TARGET, {"patience_seconds": 5.0}, within=tree.within())


def test_its_raw_counters_through_our_arithmetic_give_the_vector(tree: ClassTree) -> None:
    """A wrap of 150 counts, where pyRAPL itself gives None; the files are root's alone, the child is nobody (D3 W1)."""
    tree.sockets(dram=True)
    for file in tree.folder.rglob("energy_uj"):
        file.chmod(0o400)
    tree.zones.set("intel-rapl:0", 262143322807)
    with opened(tree) as counter:
        zone = counter.zones()[0]
        assert (zone.key, zone.source, zone.max_range) == ("package-0", "pyRAPL 0.2.3.1", INTEL_RANGE_UJ)
        assert (zone.provenance, zone.claimed, zone.summed) == ("simulated", "hw_shunt", True)
        before = next(iter(counter.read()))
        tree.zones.set("intel-rapl:0", 3051)
        after = next(iter(counter.read()))
    assert difference(Scale(zone.max_range), before, after, 100_000_000, zone.most_uw) == Delta(9_155_250, 100_000_000)


def test_memory_is_a_zone_beside_the_package(tree: ClassTree) -> None:
    """(D3 ZN3)"""
    tree.sockets(dram=True)
    with opened(tree) as counter:
        memory = next(zone for zone in counter.zones() if zone.key == "package-0/dram")
        assert (memory.domain, memory.max_range, memory.path) == ("dram", DRAM_RANGE_UJ, "intel-rapl:0:0")
        assert (
            dict(zip([zone.key for zone in counter.zones()], list(counter.read()), strict=True))["package-0/dram"]
            == 2_000_000
        )


def test_a_machine_without_memorys_counter_works(tree: ClassTree) -> None:
    """AMD (D3 ZN6)."""
    tree.sockets(dram=False, max_range_uj=AMD_RANGE_UJ)
    with opened(tree) as counter:
        assert {zone.domain for zone in counter.zones()} == {"package"}
        assert list(counter.read()) == [1_000_000] * len(counter.zones())


def test_a_file_that_reads_no_number_is_a_lack(tree: ClassTree) -> None:
    """(D3 W12)"""
    tree.sockets(dram=False)
    with opened(tree) as counter:
        tree.zones.spoil("intel-rapl:0")
        assert set(counter.read()) == {"NOT_A_NUMBER"}
        tree.zones.set("intel-rapl:0", 5)
        assert next(iter(counter.read())) == 5


def test_files_that_are_gone_are_opened_anew(tree: ClassTree) -> None:
    """The kernel's own ENODEV; what is there again is another zone (D3 W13)."""
    tree.sockets(dram=False)
    energy = tree.zones.root / "intel-rapl:0" / "energy_uj"
    with removable_file() as (file, remove):
        energy.unlink()
        energy.symlink_to(file)
        with opened(tree) as counter:
            before = counter.zones()[0].id
            assert isinstance(next(iter(counter.read())), int)
            remove()
            assert next(iter(counter.read())) == "ENODEV"
            energy.unlink()
            energy.write_text("5\n")
            assert counter.rescan()
            assert until(lambda: counter.rescan() or bool(counter.zones()), bool)
            assert counter.zones()[0].id != before
            assert next(iter(counter.read())) == 5


def test_without_rapl_it_is_absent_and_says_so() -> None:
    """By the folder that pyRAPL looks in, and by no class of its errors (D3 J40)."""
    if Path("/sys/class/powercap/intel-rapl/intel-rapl:0").exists():
        pytest.skip("this machine has RAPL")
    with counter_elsewhere(TARGET) as counter:
        assert counter.zones() == ()
        assert [one.reason for one in counter.absent()] == ["/sys/class/powercap/intel-rapl absent"]


@pytest.mark.parametrize("begin", [1_000_000, INTEL_RANGE_UJ - 3_000_000])
@pytest.mark.parametrize("meanwhile", [0, 50_000])
def test_as_a_cross_check_it_agrees(tree: ClassTree, begin: int, meanwhile: int) -> None:
    """Within one count and what the counter moved while both were read, over a wrap too (D3 W1)."""
    tree.sockets(dram=True)
    tree.zones.set("intel-rapl:0", begin)
    ran = subprocess.run(
        [*tree.within(), sys.executable, "-m", "tests.pyrapl_bench", "7000000", str(meanwhile)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(ran.stdout)
    assert {one["key"] for one in found} >= {"package-0", "package-0/dram"}
    for one in found:
        assert (one["lack"], one["agrees"]) == (None, True), one
        # Microjoules were added: of the raw counts behind them one is lost or won at each edge and at the wrap.
        assert one["theirs_nj"] == pytest.approx((7_000_000 + meanwhile) * 1000, abs=3 * one["count_nj"])
