"""A zone whose files the kernel took away: ENODEV by its own word, not by a mock."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.meter.counters.powercap import PowercapCounter
from tests.removable import removable_file
from tests.sysfs_tree import PowercapTree


@pytest.mark.root
def test_a_removed_zone_is_enodev_and_comes_back_as_another(tmp_path: Path) -> None:
    """(W12 W13 C1)"""
    tree = PowercapTree(tmp_path / "powercap")
    tree.packages(2)
    energy = tree.root / "intel-rapl:0" / "energy_uj"
    said: list[str] = []
    with removable_file() as (file, remove):
        energy.unlink()
        energy.symlink_to(file)
        counter = PowercapCounter(tree.root, say=said.append)
        first, second = (zone.id for zone in counter.zones())
        assert all(isinstance(one, int) for one in counter.read())
        remove()
        assert list(counter.read()) == ["ENODEV", 1_000_000]
        assert counter.rescan()
        assert [zone.id for zone in counter.zones()] == [second]
        assert [(one.path, one.reason) for one in counter.absent()] == [("intel-rapl:0", "ENOENT")]
        energy.unlink()
        energy.write_text("3\n")
        assert counter.rescan()
        assert list(counter.read()) == [3, 1_000_000]
        assert first not in {zone.id for zone in counter.zones()}
        counter.close()
    assert said == ["ENODEV intel-rapl:0 (package-0)", "intel-rapl:0 is not used: ENOENT"]
