"""What a window's zones turn out to be once all of it was seen: which are summed, and which say 0 or less."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from appliance.energy.occupancy import Occupancy
from appliance.energy.readings import Sample
from appliance.energy.tracks import Track
from appliance.energy.zones import apart_uj, psys_implausible

DISAGREE_PERCENT: Final = 10
_CLOSE_UJ: Final = 1_000_000
_DIE: Final = re.compile(r"(package-\d+)-die-\d+")
_PARTS: Final = frozenset({"core", "uncore", "dram"})
# The first of these that a machine has is what its total is of; each of them holds those it would be added to.
_SCOPES: Final[tuple[tuple[str, ...], ...]] = (
    ("package", "dram"),
    ("soc",),
    ("psys",),
    ("module",),
    ("wall",),
    ("other",),
)


@dataclass
class Judged:
    track: Track
    summed: bool
    flags: set[str] = field(default_factory=set)
    unmoved: bool = False
    """A GPU's counter that did not tick: less than can be told, not 0 (row G6)."""
    siblings: bool = False
    """Its 0 is that of a counter which another one reports (row G14)."""
    bounds_uj: tuple[int, int] | None = None
    """Of a broken counter, from the power that was sampled beside it (row G2)."""

    @property
    def key(self) -> str:
        return self.track.zone.key

    @property
    def still(self) -> bool:
        """It stood still all along, where power was expected (row W5): its 0 is no figure of what was used."""
        series = self.track.series
        return "stale" in series.flags and not series.moved and self.track.broken is None


class Dies:
    """Dies of one package that show one counter: within a joule and moving alike, the whole window (row ZN5).

    A reading that falls between two reads of one counter sets two steps apart: a tenth of them may be.
    """

    def __init__(self, tracks: Iterable[Track]):
        packages: dict[str, list[Track]] = {}
        for track in tracks:
            found = _DIE.fullmatch(track.zone.name)
            if found and track.zone.domain == "package":
                packages.setdefault(found[1], []).append(track)
        self._pairs = [(first, other) for first, *others in packages.values() for other in others]
        self._last: dict[str, int] = {}
        self._apart: set[str] = set()
        self._steps: dict[str, list[int]] = {}

    def advance(self, sample: Sample) -> None:
        for first, other in self._pairs:
            one, two = sample.zones.get(first.zone.id), sample.zones.get(other.zone.id)
            if one is None or two is None:
                continue
            if apart_uj(one, two, first.zone.max_range) > _CLOSE_UJ:
                self._apart.add(other.zone.id)
            steps = self._steps.setdefault(other.zone.id, [0, 0])
            steps[0] += 1
            if one - self._last.get(first.zone.id, one) == two - self._last.get(other.zone.id, two):
                steps[1] += 1
            self._last[other.zone.id] = two
        for first, _ in self._pairs:
            one = sample.zones.get(first.zone.id)
            if one is not None:
                self._last[first.zone.id] = one

    def mirrors(self, zone_id: str) -> bool:
        steps, alike = self._steps.get(zone_id, (0, 0))
        return steps > 1 and zone_id not in self._apart and alike * 10 >= steps * 9


def judge(tracks: Sequence[Track], gpus: Occupancy, dies: Dies) -> list[Judged]:
    """In the header's order; a part that only ever read 0 is none of the machine's (row ZN9)."""
    judged: dict[str, Judged] = {}
    for track in tracks:
        if track.zone.domain in _PARTS and track.series.only_zero and track.series.began_ns is not None:
            continue
        if track.zone.key in judged:
            # One that went and came back is another counter (row W13).
            judged[track.zone.key].track.flags.add("source_changed")
            judged[track.zone.key].track.break_off("source_changed")
            continue
        judged[track.zone.key] = Judged(track, track.zone.summed)
    found = list(judged.values())
    for one in found:
        if dies.mirrors(one.track.zone.id):
            one.summed = False
            one.flags.add("mirrored_dies")
    _judge_gpus([one for one in found if one.track.zone.domain == "gpu"], gpus)
    _judge_platform(found)
    _one_scope(found)
    return found


def scope_of(summed: Sequence[Judged]) -> str:
    """`package+dram`, `package+gpu`, `psys`: the domains, in a fixed order."""
    domains = {one.track.zone.domain for one in summed}
    order = [domain for scope in _SCOPES for domain in scope] + ["gpu"]
    return "+".join(domain for domain in order if domain in domains)


def _judge_gpus(found: Sequence[Judged], gpus: Occupancy) -> None:
    counters = {one.track.zone.path: one for one in found if one.track.zone.unit != "mw"}
    for one in found:
        zone, series = one.track.zone, one.track.series
        one.summed = one.summed and zone.id in gpus.touched
        if zone.unit != "mw":
            others = [other for other in found if other is not one and other.track.zone.name == zone.name]
            if series.only_zero and any(not other.track.series.only_zero for other in others):
                one.siblings, one.summed = True, False
                one.flags.add("reported_by_sibling")
            one.unmoved = not series.moved and one.track.broken is None and not one.siblings
        elif zone.path in counters:
            one.summed = False
            _compare(counters[zone.path], one)


def _compare(counter: Judged, power: Judged) -> None:
    if power.track.broken is not None:
        return
    sampled = power.track.gross_uj
    if counter.track.broken == "reset":
        counter.bounds_uj = sampled * 9 // 10, -(-sampled * 11 // 10)
    elif counter.track.broken is None and not counter.unmoved:
        counted = counter.track.gross_uj
        if abs(counted - sampled) * 100 > counted * DISAGREE_PERCENT:
            counter.flags.add("counters_disagree")
            power.flags.add("counters_disagree")


def _judge_platform(found: Sequence[Judged]) -> None:
    packages = [one for one in found if one.track.zone.domain == "package" and one.summed]
    if not packages or any(one.track.broken for one in packages):
        return
    whole_nj = sum(one.track.gross_uj for one in packages) * 1000
    for one in found:
        platform = one.track.zone.domain == "psys" and one.track.broken is None
        if platform and psys_implausible(one.track.gross_uj * 1000, whole_nj):
            one.flags.add("psys_implausible")


def _one_scope(found: Sequence[Judged]) -> None:
    """Scopes that hold one another are never added; a GPU stands beside all but a module and a wall."""
    chosen = next(
        (scope for scope in _SCOPES if any(one.summed and one.track.zone.domain in scope for one in found)), ()
    )
    holds_gpu = not {"module", "wall"}.isdisjoint(chosen)
    for one in found:
        domain = one.track.zone.domain
        one.summed = one.summed and (domain in chosen or (domain == "gpu" and not holds_gpu))
