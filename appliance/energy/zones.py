"""Which counters there are, and which of them may be summed.

The processor's energy is the sum of its packages and of their memory. Cores and uncore lie inside the package; psys is
the whole platform, a cross-check that is never added; an mmio zone is the same counter by another road.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

Domain = Literal["package", "core", "uncore", "dram", "psys", "other"]
_PLAIN: Final[dict[str, Domain]] = {"core": "core", "uncore": "uncore", "dram": "dram", "psys": "psys"}
_DECIDED_NJ: Final = 20_000_000_000
# Hexadecimal: the eleventh package is `intel-rapl:a`.
_ZONE: Final = re.compile(r"(intel-rapl|intel-rapl-mmio):([0-9a-f]+)(?::([0-9a-f]+))?")


@dataclass(frozen=True)
class Zone:
    """One counter: `path` is its folder's name and what identifies it, `name` what the kernel calls it."""

    path: str
    name: str
    max_range_uj: int | None = None

    def __post_init__(self) -> None:
        if not _ZONE.fullmatch(self.path):
            raise ValueError(f"{self.path!r} is no zone of powercap")

    @property
    def domain(self) -> Domain:
        return "package" if self.name.startswith("package-") else _PLAIN.get(self.name, "other")

    @property
    def parent(self) -> str | None:
        """The path of the zone that it lies in."""
        return self.path.rpartition(":")[0] if self.path.count(":") == 2 else None

    @property
    def by_mmio(self) -> bool:
        return self.path.startswith("intel-rapl-mmio:")


@dataclass(frozen=True)
class Summable:
    """What a machine's zones come to."""

    zones: dict[str, Zone]
    """Summed, by key: `package-0`, `package-0/dram`."""
    scope: str
    """`package+dram`, `package`, `psys`, or `none`."""
    cross_check: tuple[Zone, ...]
    """psys beside packages: compared, never added."""
    duplicates: tuple[Zone, ...]
    """mmio twins of zones that are summed."""


def summable(zones: Iterable[Zone]) -> Summable:
    """Choose what to sum. A domain that is not there is not invented: the scope says what the figure is of."""
    found = sorted(zones, key=lambda zone: (zone.by_mmio, len(zone.path), zone.path))
    by_path = {zone.path: zone for zone in found}
    chosen: dict[str, Zone] = {}
    duplicates: list[Zone] = []
    for zone in found:
        if zone.domain not in ("package", "dram"):
            continue
        above = by_path.get(zone.parent or "")
        key = f"{above.name}/{zone.name}" if above is not None else zone.name
        if key in chosen and zone.by_mmio:
            duplicates.append(zone)
        elif key in chosen:
            # Two counters of one name by one road: told apart by their paths.
            chosen[f"{key}@{zone.path}"] = zone
        else:
            chosen[key] = zone
    platform = tuple(zone for zone in found if zone.domain == "psys")
    if not any(zone.domain == "package" for zone in chosen.values()):
        if platform:
            return Summable({platform[0].name: platform[0]}, "psys", (), platform[1:])
        return Summable({}, "none", (), ())
    memory = any(zone.domain == "dram" for zone in chosen.values())
    return Summable(chosen, "package+dram" if memory else "package", platform, tuple(duplicates))


def mirrored(first_uj: int, second_uj: int, first_delta_uj: int, second_delta_uj: int) -> bool:
    """Two dies that show one counter: within a joule of one another, and moving alike; counted once, and flagged."""
    return abs(first_uj - second_uj) <= 1_000_000 and first_delta_uj == second_delta_uj


def apart_uj(first_uj: int, second_uj: int, max_range_uj: int | None) -> int:
    """How far two counters of one range stand apart, the short way round: one of two may have wrapped already."""
    apart = abs(first_uj - second_uj)
    return apart if max_range_uj is None else min(apart, max(0, max_range_uj + 1 - apart))


def psys_implausible(psys_nj: int, packages_nj: int) -> bool:
    """Over the same time: the platform holds its packages, and no machine draws twenty times what they do (row ZN8).

    Undecided, and so False, before the packages used 20 J: a unit of a joule, which some machines have, hides less.
    """
    return packages_nj >= _DECIDED_NJ and not packages_nj <= psys_nj <= 20 * packages_nj
