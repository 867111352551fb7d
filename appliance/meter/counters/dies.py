"""Two looks at zones that only time tells apart: dies that show one counter, and a platform counter of a wrong unit."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from typing import Final

from appliance.energy.counters import Gap, Scale, difference
from appliance.energy.zones import apart_uj, mirrored, psys_implausible
from appliance.meter.counters.powercap_files import OpenZone, reading_of

_DIE: Final = re.compile(r"(package-\d+)-die-\d+")
_PATIENCE: Final = 50
_PAUSE_SECONDS: Final = 0.001
"""RAPL's own update period."""
_CLOSE_UJ: Final = 1_000_000
_Identity = tuple[int, int]
_Pair = tuple[OpenZone, OpenZone]


class Watch:
    """Which dies mirror which (row ZN5). Decided by their steps; where nothing moves, by how close they stand.

    Two counters that are not one drift apart: a pair that was held for one and is over a joule apart in two readings
    on end is two from the next `mirrors` on.
    """

    def __init__(self) -> None:
        self._verdicts: dict[tuple[_Identity, _Identity], bool] = {}
        self._one: list[_Pair] = []
        self._apart: dict[tuple[_Identity, _Identity], int] = {}

    def mirrors(self, zones: Iterable[OpenZone]) -> dict[str, str]:
        """Path of a die that is not counted -> name of the die that shows the same."""
        packages: dict[str, list[OpenZone]] = {}
        for one in zones:
            found = _DIE.fullmatch(one.zone.name)
            if found and one.zone.parent is None and not one.zone.by_mmio:
                packages.setdefault(found[1], []).append(one)
        self._one = []
        shown: dict[str, str] = {}
        for first, *others in packages.values():
            for other in others:
                pair = (first.identity, other.identity)
                if pair not in self._verdicts:
                    self._verdicts[pair] = _show_one(first, other)
                if self._verdicts[pair]:
                    self._one.append((first, other))
                    shown[other.zone.path] = first.zone.name
        return shown

    def look(self) -> None:
        for first, other in self._one:
            one, two = reading_of(first.fd), reading_of(other.fd)
            pair = (first.identity, other.identity)
            if isinstance(one, str) or isinstance(two, str):
                continue
            far = apart_uj(one, two, first.zone.max_range_uj) > _CLOSE_UJ
            self._apart[pair] = self._apart.get(pair, 0) + 1 if far else 0
            if self._apart[pair] > 1:
                self._verdicts[pair] = False


def _show_one(first: OpenZone, other: OpenZone) -> bool:
    before = _both(first, other)
    after = before
    for _ in range(_PATIENCE):
        time.sleep(_PAUSE_SECONDS)
        after = _both(first, other)
        if before is None or after is None or after[0] != before[0]:
            break
    if before is None or after is None:
        return False
    return mirrored(*after, after[0] - before[0], after[1] - before[1])


def _both(first: OpenZone, other: OpenZone) -> tuple[int, int] | None:
    """Of one moment: the first reads the same before and after the other. None where that never was."""
    for _ in range(_PATIENCE):
        one, two, again = reading_of(first.fd), reading_of(other.fd), reading_of(first.fd)
        if isinstance(one, int) and isinstance(two, int) and one == again:
            return one, two
    return None


class PlatformWatch:
    """Whether psys can be what it says, against the packages over a while (row ZN8).

    On Sapphire Rapids older kernels read its unit wrongly; what is found so is never used again.
    """

    def __init__(self) -> None:
        self._began: dict[_Identity, tuple[OpenZone, int]] = {}
        self._began_ns = 0
        self._bad: set[_Identity] = set()

    def begin(self, zones: Sequence[OpenZone]) -> None:
        """Zones that are summed or compared from now on."""
        found = ((one, reading_of(one.fd)) for one in zones if one.zone.domain in ("package", "psys"))
        self._began = {one.identity: (one, value) for one, value in found if isinstance(value, int)}
        self._began_ns = time.monotonic_ns()

    def judge(self) -> None:
        """Over the time since `begin`; where any of them was set back meanwhile, or cannot be read, there is none."""
        packages, platforms = 0, []
        dt_ns = time.monotonic_ns() - self._began_ns
        for one, before in self._began.values():
            value = reading_of(one.fd)
            if isinstance(value, str) or dt_ns <= 0:
                return
            step = difference(Scale(one.zone.max_range_uj), before, value, dt_ns, one.most_uw)
            if isinstance(step, Gap):
                return
            if one.zone.domain == "psys":
                platforms.append((one.identity, step.energy_nj))
            else:
                packages += step.energy_nj
        self._bad.update(identity for identity, energy_nj in platforms if psys_implausible(energy_nj, packages))

    def implausible(self, zones: Iterable[OpenZone]) -> tuple[str, ...]:
        return tuple(one.zone.path for one in zones if one.identity in self._bad)
