"""The powercap counter on trees like the kernel's."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.energy.counter import CounterZone
from appliance.meter.counters.filesystems import filesystem_type
from appliance.meter.counters.powercap import MachineFiles, PowercapCounter
from tests.sysfs_tree import AMD_RANGE_UJ, DRAM_RANGE_UJ, INTEL_RANGE_UJ, PowercapTree


@pytest.fixture
def tree(tmp_path: Path) -> PowercapTree:
    return PowercapTree(tmp_path / "powercap")


_OPEN: list[PowercapCounter] = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Whatever a test opened."""
    yield
    while _OPEN:
        _OPEN.pop().close()


def opened(tree: PowercapTree, machine: MachineFiles | None = None, said: list[str] | None = None) -> PowercapCounter:
    counter = PowercapCounter(
        tree.root,
        machine=machine or MachineFiles(),
        ids=(f"z{number}" for number in itertools.count()),
        say=(said if said is not None else []).append,
    )
    _OPEN.append(counter)
    return counter


def by_key(counter: PowercapCounter) -> dict[str, CounterZone]:
    return {zone.key: zone for zone in counter.zones()}


def summed(counter: PowercapCounter) -> set[str]:
    return {zone.key for zone in counter.zones() if zone.summed}


def reasons(counter: PowercapCounter) -> dict[str, str]:
    return {one.path: one.reason for one in counter.absent()}


def kernels(tree: PowercapTree, tmp_path: Path, cpuinfo: str = "", dev: Path | None = None) -> MachineFiles:
    """A machine whose mountinfo calls the tree's device sysfs."""
    device = tree.root.stat().st_dev
    mountinfo = tmp_path / "mountinfo"
    mountinfo.write_text(f"22 27 {os.major(device)}:{os.minor(device)} / /sys rw - sysfs sysfs rw\n")
    (tmp_path / "cpuinfo").write_text(cpuinfo)
    return MachineFiles(mountinfo, tmp_path / "cpuinfo", dev or tmp_path / "dev")


def test_twelve_packages_are_read_and_summed(tree: PowercapTree) -> None:
    """The eleventh is `intel-rapl:a` (ZN1 J45)."""
    tree.packages(12)
    tree.set("intel-rapl:b", 77)
    counter = opened(tree)
    assert summed(counter) == {f"package-{number}" for number in range(12)}
    assert dict(zip([zone.path for zone in counter.zones()], counter.read(), strict=True))["intel-rapl:b"] == 77
    counter.close()


def test_psys_cores_and_uncore_are_read_and_never_added(tree: PowercapTree) -> None:
    """Two sockets' memory keeps two keys (ZN2 ZN3 ZN6 J45)."""
    tree.packages(2, dram=True)
    tree.zone("intel-rapl:0:1", "core", 5)
    tree.zone("intel-rapl:0:2", "uncore", 5)
    tree.zone("intel-rapl:2", "psys", 5)
    counter = opened(tree)
    zones = by_key(counter)
    assert summed(counter) == {"package-0", "package-1", "package-0/dram", "package-1/dram"}
    assert not zones["package-0/core"].summed
    assert not zones["package-0/uncore"].summed
    assert (zones["psys"].summed, zones["psys"].domain) == (False, "psys")
    assert zones["package-1/dram"].max_range == DRAM_RANGE_UJ
    counter.close()


def test_without_a_package_the_platform_is_summed(tree: PowercapTree) -> None:
    """(ZN7)"""
    tree.zone("intel-rapl:0", "psys", 5)
    assert summed(opened(tree)) == {"psys"}


def test_amds_core_is_no_part_of_the_sum_and_no_memory_is_invented(tree: PowercapTree) -> None:
    """(ZN6)"""
    tree.zone("intel-rapl:0", "package-0", 5, max_range_uj=AMD_RANGE_UJ)
    tree.zone("intel-rapl:0:0", "core", 5, max_range_uj=AMD_RANGE_UJ)
    counter = opened(tree)
    assert summed(counter) == {"package-0"}
    assert set(by_key(counter)) == {"package-0", "package-0/core"}


def test_a_counter_seen_by_two_roads_is_read_once(tree: PowercapTree) -> None:
    """The mmio twins, of a package and of what lies in it, are absent with their reason (ZN4)."""
    for road in ("intel-rapl", "intel-rapl-mmio"):
        tree.zone(f"{road}:0", "package-0", 5)
        tree.zone(f"{road}:0:0", "dram", 5)
        tree.zone(f"{road}:0:1", "uncore", 5)
    counter = opened(tree)
    assert {zone.path for zone in counter.zones()} == {"intel-rapl:0", "intel-rapl:0:0", "intel-rapl:0:1"}
    assert reasons(counter) == {
        "intel-rapl-mmio:0": "duplicate of package-0",
        "intel-rapl-mmio:0:0": "duplicate of package-0/dram",
        "intel-rapl-mmio:0:1": "duplicate of package-0/uncore",
    }


def test_by_mmio_alone_it_is_counted(tree: PowercapTree) -> None:
    """(ZN4)"""
    tree.zone("intel-rapl-mmio:0", "package-0", 5)
    assert summed(opened(tree)) == {"package-0"}


def test_children_that_stand_only_in_their_parents_are_found(tree: PowercapTree) -> None:
    """As below /sys/devices, which some mount into a container (ZN3)."""
    tree.zone("intel-rapl:0", "package-0", 5)
    child = tree.zone("intel-rapl:0:0", "dram", 5)
    child.rename(tree.root / "intel-rapl:0" / "intel-rapl:0:0")
    assert summed(opened(tree)) == {"package-0", "package-0/dram"}


def test_a_sub_zone_that_stands_at_zero_is_dropped_till_it_moves(tree: PowercapTree) -> None:
    """The package is kept (ZN9)."""
    tree.packages()
    tree.zone("intel-rapl:0:0", "core", 0)
    counter = opened(tree)
    assert set(by_key(counter)) == {"package-0"}
    assert reasons(counter) == {"intel-rapl:0:0": "reads 0"}
    tree.set("intel-rapl:0:0", 61)
    assert counter.rescan()
    assert set(by_key(counter)) == {"package-0", "package-0/core"}


def dies(tree: PowercapTree, first: int, second: int) -> None:
    tree.zone("intel-rapl:0", "package-0-die-0", first)
    tree.zone("intel-rapl:1", "package-0-die-1", second)


def test_dies_that_show_one_counter_are_counted_once_and_flagged(tree: PowercapTree) -> None:
    """(ZN5)"""
    dies(tree, 5_000_000_000, 5_000_900_000)
    counter = opened(tree)
    assert summed(counter) == {"package-0-die-0"}
    assert counter.zones()[0].flags == ("mirrored_dies",)
    assert reasons(counter) == {"intel-rapl:1": "mirrors package-0-die-0"}


def test_dies_that_stand_apart_are_two(tree: PowercapTree) -> None:
    """(ZN5)"""
    dies(tree, 5_000_000_000, 5_001_000_001)
    counter = opened(tree)
    assert summed(counter) == {"package-0-die-0", "package-0-die-1"}
    assert not any(zone.flags for zone in counter.zones())


@pytest.mark.parametrize("one", [True, False])
def test_dies_that_move_are_told_by_their_steps(tree: PowercapTree, one: bool) -> None:
    """Close together just after the machine began, they still move differently where they are two (ZN5)."""
    dies(tree, 5_000_000, 5_000_000)
    if one:
        shown = tree.root / "intel-rapl:1" / "energy_uj"
        shown.unlink()
        shown.symlink_to("../intel-rapl:0/energy_uj")
    ended = threading.Event()

    def burn() -> None:
        while not ended.wait(0.0015):
            if not one:
                tree.add("intel-rapl:1", 90)
            tree.add("intel-rapl:0", 100)

    burner = threading.Thread(target=burn)
    burner.start()
    try:
        counter = opened(tree)
    finally:
        ended.set()
        burner.join()
    assert len(summed(counter)) == (1 if one else 2)


def test_dies_that_drift_apart_are_two_from_then_on(tree: PowercapTree) -> None:
    """One reading apart may fall between two steps; two on end do not (ZN5)."""
    dies(tree, 5_000_000_000, 5_000_000_000)
    counter = opened(tree)
    tree.set("intel-rapl:0", 5_002_000_000)
    counter.read()
    tree.set("intel-rapl:1", 5_002_000_000)
    counter.read()
    assert not counter.rescan()
    tree.set("intel-rapl:0", 5_004_000_000)
    first = counter.zones()[0].id
    counter.read()
    counter.read()
    assert counter.rescan()
    assert summed(counter) == {"package-0-die-0", "package-0-die-1"}
    assert first not in {zone.id for zone in counter.zones()}


def test_dies_of_which_one_has_wrapped_already_are_still_one(tree: PowercapTree) -> None:
    """(ZN5)"""
    dies(tree, INTEL_RANGE_UJ - 1000, INTEL_RANGE_UJ - 1000)
    counter = opened(tree)
    tree.set("intel-rapl:0", 5)
    counter.read()
    counter.read()
    assert not counter.rescan()


def test_a_platform_below_its_packages_is_never_used(tree: PowercapTree) -> None:
    """Sapphire Rapids' unit on an old kernel (ZN8)."""
    tree.zone("intel-rapl:0", "package-0", 1_000_000)
    tree.zone("intel-rapl:1", "psys", 1_000)
    tree.set("intel-rapl:0", 1_000_000)
    (tree.root / "intel-rapl:0" / "constraint_0_max_power_uw").write_text("9999000000\n")
    counter = opened(tree)
    for _ in range(40):
        # As much as is plausible: nothing is decided from a step that is none.
        tree.add("intel-rapl:0", 1_000_000)
    tree.add("intel-rapl:1", 20_000)
    wait_for_plausible()
    assert counter.rescan()
    assert set(by_key(counter)) == {"package-0"}
    assert reasons(counter) == {"intel-rapl:1": "psys_implausible"}


def wait_for_plausible() -> None:
    """40 J at twice 10 kW take 2 ms."""
    time.sleep(0.02)


def test_a_platform_that_holds_its_packages_stays(tree: PowercapTree) -> None:
    """And one that was set back is not judged (ZN8)."""
    tree.zone("intel-rapl:0", "package-0", 1_000_000)
    tree.zone("intel-rapl:1", "psys", 1_000_000)
    (tree.root / "intel-rapl:0" / "constraint_0_max_power_uw").write_text("9999000000\n")
    (tree.root / "intel-rapl:1" / "constraint_0_max_power_uw").write_text("9999000000\n")
    counter = opened(tree)
    tree.add("intel-rapl:0", 40_000_000)
    tree.add("intel-rapl:1", 60_000_000)
    wait_for_plausible()
    assert not counter.rescan()
    tree.add("intel-rapl:0", 40_000_000)
    tree.set("intel-rapl:1", 5)
    wait_for_plausible()
    assert not counter.rescan()


def test_an_unreadable_range_leaves_the_zone_without_one(tree: PowercapTree) -> None:
    """(W10)"""
    tree.zone("intel-rapl:0", "package-0", 5, max_range_uj=None)
    tree.zone("intel-rapl:1", "package-1", 5, max_range_uj=2**63 - 1)
    zones = by_key(opened(tree))
    assert (zones["package-0"].max_range, zones["package-0"].summed) == (None, True)
    assert zones["package-1"].max_range is None


@pytest.fixture
def open_to_all() -> Iterator[PowercapTree]:
    """A tree that an ordinary user may walk."""
    folder = Path(tempfile.mkdtemp(prefix="powercap-"))
    folder.chmod(0o755)
    yield PowercapTree(folder / "powercap")
    shutil.rmtree(folder)


def test_a_denied_zone_is_absent_with_its_mend_and_the_others_are_measured(open_to_all: PowercapTree) -> None:
    """Said once, however often it is looked for (W11)."""
    tree = open_to_all
    tree.packages(2)
    (tree.root / "intel-rapl:0" / "energy_uj").chmod(0o000)
    said: list[str] = []
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        counter = opened(tree, said=said)
        counter.rescan()
        counter.rescan()
    finally:
        if root:
            os.seteuid(0)
    assert summed(counter) == {"package-1"}
    denied = counter.absent()[0]
    assert (denied.path, denied.reason) == ("intel-rapl:0", "EACCES")
    assert denied.mend is not None
    assert "CAP_DAC_READ_SEARCH" in denied.mend
    assert len(said) == 1
    (tree.root / "intel-rapl:0" / "energy_uj").chmod(0o444)
    assert counter.rescan()
    assert summed(counter) == {"package-0", "package-1"}
    assert counter.absent() == ()


@pytest.mark.parametrize("name", ["EACCES", "EPERM", "EINVAL", "EIO", "ENODEV", "ENODATA", "ENOENT"])
def test_every_failed_read_is_a_lack_by_name(tree: PowercapTree, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Never 0; the other zones are read on, and it is said once till it changes (W12)."""
    tree.packages(2)
    said: list[str] = []
    counter = opened(tree, said=said)
    bad = counter.zones()[0]
    real, broken = os.pread, counter._described[0][0].fd

    def failing(fd: int, length: int, offset: int) -> bytes:
        if fd == broken:
            raise OSError(getattr(errno, name), "injected")
        return real(fd, length, offset)

    monkeypatch.setattr(os, "pread", failing)
    assert [list(counter.read()) for _ in range(3)] == [[name, 1_000_000]] * 3
    assert not counter.rescan()
    monkeypatch.undo()
    assert list(counter.read()) == [1_000_000, 1_000_000]
    assert counter.zones()[0] == bad
    assert said == [f"{name} intel-rapl:0 (package-0)", "intel-rapl:0 (package-0) reads again"]


@pytest.mark.parametrize(
    ("text", "lack"),
    [
        ("", "ENODATA"),
        ("\n", "ENODATA"),
        ("many\n", "NOT_A_NUMBER"),
        ("1_000\n", "NOT_A_NUMBER"),
        ("+1000\n", "NOT_A_NUMBER"),
        ("-1\n", "SENTINEL"),
        ("4294967295\n", "SENTINEL"),
        ("4294967295000\n", "SENTINEL"),
        ("18446744073709551615\n", "SENTINEL"),
    ],
)
def test_what_is_no_number_of_a_counter_is_a_lack(tree: PowercapTree, text: str, lack: str) -> None:
    """(W12 ZN10)"""
    tree.packages()
    counter = opened(tree)
    tree.spoil("intel-rapl:0", text)
    assert list(counter.read()) == [lack]
    tree.set("intel-rapl:0", 65_535)
    assert list(counter.read()) == [65_535]
    tree.spoil("intel-rapl:0", "7")
    assert list(counter.read()) == [7]


def test_a_zone_that_went_and_came_back_is_another_one(tree: PowercapTree) -> None:
    """(W13)"""
    tree.packages(2)
    counter = opened(tree)
    ids = {zone.key: zone.id for zone in counter.zones()}
    tree.remove("intel-rapl:0")
    assert isinstance(counter.read()[0], str)
    assert counter.rescan()
    assert summed(counter) == {"package-1"}
    tree.zone("intel-rapl:0", "package-0", 3)
    assert counter.rescan()
    again = {zone.key: zone.id for zone in counter.zones()}
    assert again["package-1"] == ids["package-1"]
    assert again["package-0"] not in ids.values()
    assert not counter.rescan()


def test_a_zone_made_anew_between_two_looks_is_another_one(tree: PowercapTree) -> None:
    """Its path and name are the same, its file is not (W13)."""
    tree.packages()
    counter = opened(tree)
    before = counter.zones()[0].id
    tree.remove("intel-rapl:0")
    tree.zone("intel-rapl:0", "package-0", 3)
    assert counter.rescan()
    assert counter.zones()[0].id != before
    assert list(counter.read()) == [3]


def test_the_greatest_plausible_power_is_twice_the_limit_and_a_kilowatt_at_least(tree: PowercapTree) -> None:
    """A limit that no socket has is firmware's noise (W6)."""
    tree.zone("intel-rapl:0", "package-0", 5, max_power_uw=700_000_000)
    tree.zone("intel-rapl:1", "package-1", 5, max_power_uw=95_000_000)
    tree.zone("intel-rapl:2", "package-2", 5, max_power_uw=2**32 - 1)
    tree.zone("intel-rapl:3", "package-3", 5, max_power_uw=20_000_000_000)
    assert [zone.most_uw // 10**6 for zone in opened(tree).zones()] == [1400, 1000, 1000, 1000]


def test_a_tree_that_is_not_the_kernels_is_simulated(tree: PowercapTree, tmp_path: Path) -> None:
    """By the file system's type, not by its name (J34)."""
    tree.packages()
    fake = opened(tree).zones()[0]
    assert (fake.provenance, fake.claimed) == ("simulated", "hw_shunt")
    real = opened(tree, kernels(tree, tmp_path)).zones()[0]
    assert (real.provenance, real.claimed) == ("hw_shunt", None)
    unknown = opened(tree, MachineFiles(tmp_path / "no-such-file")).zones()[0]
    assert unknown.provenance == "simulated"


def test_one_file_from_elsewhere_makes_its_zone_simulated(tree: PowercapTree, tmp_path: Path) -> None:
    """A symbolic link out of the kernel's folder (J34)."""
    tree.packages(2)
    machine = kernels(tree, tmp_path)
    elsewhere = Path("/dev/shm") / f"energy-{os.getpid()}"
    elsewhere.write_text("5\n")
    energy = tree.root / "intel-rapl:0" / "energy_uj"
    energy.unlink()
    energy.symlink_to(elsewhere)
    try:
        zones = by_key(opened(tree, machine))
    finally:
        elsewhere.unlink()
    assert {key: zone.provenance for key, zone in zones.items()} == {
        "package-0": "simulated",
        "package-1": "hw_shunt",
    }


@pytest.mark.parametrize(
    ("mountinfo", "kind"),
    [
        ("22 27 0:22 / /sys rw,relatime - sysfs sysfs rw", "sysfs"),
        ("22 27 0:22 / /sys rw shared:7 master:1 - sysfs sysfs rw\n23 22 0:22 / /mnt rw - sysfs none rw", "sysfs"),
        ("22 27 0:22 / /sys rw - fuse.sysfs sysfs rw", "fuse.sysfs"),
        ("22 27 0:23 / /sys rw - sysfs sysfs rw", None),
        ("22 27 0:22 / /sys - sysfs rw - tmpfs sysfs rw", "sysfs"),
        ("22 27 0:22 / /sys rw - sysfs a rw\n23 22 0:22 / /mnt rw - tmpfs b rw", None),
        ("0:22 sysfs\n\n - \n", None),
        ("", None),
    ],
)
def test_the_type_of_a_file_system_is_that_of_its_device(mountinfo: str, kind: str | None) -> None:
    """Where two mounts contradict one another nothing is known (J34)."""
    assert filesystem_type(mountinfo, os.makedev(0, 22)) == kind


def test_sgx_flags_the_kernels_zones(tree: PowercapTree, tmp_path: Path) -> None:
    """By its devices or the processor's word; a simulated tree is not this machine's (energy 1)."""
    tree.packages()
    flagged = ("sgx_energy_filtering_possible",)
    word = "processor\t: 0\nflags\t\t: fpu vme sgx sgx_lc\n"
    assert opened(tree, kernels(tree, tmp_path, word)).zones()[0].flags == flagged
    assert opened(tree, kernels(tree, tmp_path, "flags\t: fpu sgxx\n")).zones()[0].flags == ()
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "sgx_enclave").touch()
    assert opened(tree, kernels(tree, tmp_path)).zones()[0].flags == flagged


def test_a_machine_without_counters_says_why(tmp_path: Path) -> None:
    """(J40)"""
    counter = PowercapCounter(tmp_path / "powercap")
    assert counter.zones() == ()
    assert list(counter.read()) == []
    assert [one.reason for one in counter.absent()] == ["absent"]
    (tmp_path / "powercap").mkdir()
    (tmp_path / "powercap" / "dtpm").mkdir()
    assert not counter.rescan()
    assert [one.reason for one in counter.absent()] == ["no intel-rapl zone"]
    tree = PowercapTree(tmp_path / "powercap")
    tree.packages()
    assert counter.rescan()
    assert counter.absent() == ()


def test_closing_leaves_no_file_open(tree: PowercapTree) -> None:
    """Of those that went as well (W13)."""
    tree.packages(4)
    before = len(list(Path("/proc/self/fd").iterdir()))
    counter = opened(tree)
    tree.remove("intel-rapl:2")
    counter.rescan()
    counter.close()
    counter.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert counter.zones() == ()
