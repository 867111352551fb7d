"""A powercap tree like the kernel's, written by a test and changed while somebody reads it."""

from __future__ import annotations

import shutil
from pathlib import Path

INTEL_RANGE_UJ = 262143328850
AMD_RANGE_UJ = 65532610987
DRAM_RANGE_UJ = 65712999613


class PowercapTree:
    """`root` stands for /sys/class/powercap. Zones by path: `intel-rapl:0`, `intel-rapl:0:1`."""

    def __init__(self, root: Path):
        self.root = root
        root.mkdir(parents=True, exist_ok=True)

    def zone(
        self,
        path: str,
        name: str,
        uj: int = 0,
        *,
        max_range_uj: int | None = INTEL_RANGE_UJ,
        max_power_uw: int | None = None,
    ) -> Path:
        """As the kernel lays it: zones lie side by side in the class's folder, a child also inside its parent."""
        folder = self.root / path
        folder.mkdir()
        (folder / "name").write_text(f"{name}\n")
        (folder / "energy_uj").write_text(f"{uj}\n")
        if max_range_uj is not None:
            (folder / "max_energy_range_uj").write_text(f"{max_range_uj}\n")
        if max_power_uw is not None:
            (folder / "constraint_0_max_power_uw").write_text(f"{max_power_uw}\n")
            (folder / "constraint_0_name").write_text("long_term\n")
        return folder

    def packages(self, count: int = 1, *, dram: bool = False) -> None:
        for number in range(count):
            self.zone(f"intel-rapl:{number:x}", f"package-{number}", 1_000_000)
            if dram:
                self.zone(f"intel-rapl:{number:x}:0", "dram", 1_000_000, max_range_uj=DRAM_RANGE_UJ)

    def set(self, path: str, uj: int) -> None:
        """In place, so that an open file sees it, as with sysfs."""
        with (self.root / path / "energy_uj").open("r+") as file:
            file.write(f"{uj}\n")
            file.truncate()

    def get(self, path: str) -> int:
        return int((self.root / path / "energy_uj").read_text())

    def add(self, path: str, uj: int) -> None:
        """Energy used, with the wrap that the zone's range means."""
        limit = int((self.root / path / "max_energy_range_uj").read_text())
        self.set(path, (self.get(path) + uj) % (limit + 1))

    def spoil(self, path: str, text: str = "") -> None:
        """What reads as no number; an empty file reads as the kernel's ENODATA would."""
        (self.root / path / "energy_uj").write_text(text)

    def remove(self, path: str) -> None:
        """Whoever has its counter open reads no number any more, as the kernel's ENODEV."""
        self.spoil(path)
        shutil.rmtree(self.root / path)
