"""pyRAPL's hard-coded paths, met by a bind mount in a private mount namespace: /sys/class is a folder of the test's."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from appliance.energy.counter import Reading
from appliance.meter.counters.child_counter import ChildCounter
from appliance.meter.counters.cross_check import cross_check
from appliance.meter.counters.powercap import PowercapCounter
from tests.sysfs_tree import DRAM_RANGE_UJ, INTEL_RANGE_UJ, PowercapTree

POWERCAP = Path("/sys/class/powercap")


class ClassTree:
    """As the kernel lays it: the devices one in another below `intel-rapl`, links to them all side by side."""

    def __init__(self, folder: Path):
        self.folder = folder
        (folder / "powercap").mkdir(parents=True)
        self.zones = PowercapTree(folder / "powercap" / "intel-rapl")

    def sockets(self, *, dram: bool, max_range_uj: int = INTEL_RANGE_UJ) -> None:
        """One zone for each socket that this machine really has: pyRAPL counts those."""
        for number in range(len(_sockets())):
            package = self.zones.zone(f"intel-rapl:{number}", f"package-{number}", 1_000_000, max_range_uj=max_range_uj)
            (self.folder / "powercap" / package.name).symlink_to(f"intel-rapl/{package.name}")
            if dram:
                memory = self.zones.zone(f"intel-rapl:{number}:0", "dram", 2_000_000, max_range_uj=DRAM_RANGE_UJ)
                memory.rename(package / memory.name)
                link = self.folder / "powercap" / memory.name
                link.symlink_to(f"intel-rapl/{package.name}/{memory.name}")

    def as_links(self) -> PowercapTree:
        return PowercapTree(self.folder / "powercap")

    def within(self) -> tuple[str, ...]:
        """The command that runs another one where this is /sys/class."""
        return ("unshare", "-m", "sh", "-c", 'mount --bind "$0" /sys/class && exec "$@"', str(self.folder))


def _sockets() -> set[int]:
    cpus = Path("/sys/devices/system/cpu")
    return {int(file.read_text()) for file in cpus.glob("cpu[0-9]*/topology/physical_package_id")}


def main(rise_uj: int, meanwhile_uj: int) -> None:
    """Cross-checks both counters here while the tree rises, and at each edge by `meanwhile_uj` as theirs is read."""
    tree = PowercapTree(POWERCAP)
    ours = PowercapCounter(POWERCAP)

    class Rising(ChildCounter):
        def read(self) -> Sequence[Reading]:
            raised(meanwhile_uj)
            return super().read()

    def raised(uj: int) -> None:
        for zone in ours.zones():
            tree.add(zone.path, uj)

    def pause() -> None:
        raised(rise_uj)
        time.sleep(0.3)

    theirs = Rising.of_pyrapl(patience_seconds=5.0)
    found = cross_check(ours, theirs, pause)
    sys.stdout.write(json.dumps([{**asdict(one), "agrees": one.agrees} for one in found]))
    theirs.close()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
