"""What the readings of one record say of one machine: its counters are the same ones in every window of a boot, each is
summed as its kind is, and nothing of ours ran while the machine was looked at, at rest.

No single window tells these: a cheat who makes each of them consistent may still leave a package out of a sum, raise
the power at rest by a counter that is none of the machine's, or call work rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final

from appliance.energy.counter import CounterZone
from appliance.energy.readings import Header
from appliance.energy.zones import Zone, summable
from attest.errors import Refused

_KERNEL: Final = "powercap"
"""The counter whose zones are summed by their names alone (rows ZN)."""
_SUBJECT: Final = "solver"


@dataclass(frozen=True)
class Seen:
    """One window, or one look at the machine at rest, and where the record names its readings."""

    path: str
    header: Header

    @property
    def span(self) -> tuple[int, int]:
        """Nanoseconds of the kernel's clock since its boot."""
        opened = int(self.header.opened_boottime_ns)
        return opened, opened + self.header.length_ns


def has_its_solver(header: Header, path: str) -> None:
    """What is charged to a trial is charged to the cgroup of its solver; without one nothing would be."""
    if not any(one.trial == "own" and one.role == _SUBJECT for one in header.cgroups):
        raise Refused("energy", "readings of a trial, without its solver's cgroup", where=path)


def sums_as_its_kind_is(header: Header, path: str) -> None:
    """The kernel's own zones: what may be summed follows from all their paths and names (rows ZN1 to ZN6).

    A zone that changed within the window stands there twice, and then has no figure at all.
    """
    misfit = _misfit(header.zones)
    if misfit is not None:
        raise Refused("energy", misfit, where=path)


@lru_cache(maxsize=16)
def _misfit(several: tuple[CounterZone, ...]) -> str | None:
    """The same zones stand in every window of a record."""
    zones = [zone for zone in several if zone.source == _KERNEL]
    if len({zone.path for zone in zones}) != len(zones):
        return None
    try:
        known = [(zone, Zone(zone.path, zone.name, zone.max_range)) for zone in zones]
    except ValueError as error:
        return str(error)
    summed = {one.path for one in summable(one for _, one in known).zones.values()}
    for zone, one in known:
        if zone.domain != one.domain:
            return f"{zone.key} is no {zone.domain}: it is called {one.name}"
        if zone.summed != (zone.path in summed):
            return f"{zone.key} is {'' if zone.summed else 'not '}summed"
    return None


def of_one_machine(seen: Iterable[Seen]) -> None:
    """One counter, one description, as long as the machine is up."""
    first: dict[tuple[str, str, str], tuple[CounterZone, str]] = {}
    for one in seen:
        for zone in one.header.zones:
            before, where = first.setdefault((one.header.boot_id, zone.source, zone.path), (zone, one.path))
            for name in ("name", "domain", "unit", "max_range", "provenance", "claimed"):
                if getattr(zone, name) != getattr(before, name):
                    words = (
                        f"{zone.path} is {getattr(zone, name)} by its {name}, and {getattr(before, name)} in {where}"
                    )
                    raise Refused("energy", words, where=one.path)


def at_rest_alone(looks: Sequence[Seen], windows: Iterable[Seen]) -> None:
    """Looks stand in the order they were taken; no window of a trial lies over one."""
    for one, other in pairwise(looks):
        if one.header.boot_id == other.header.boot_id and other.span[0] < one.span[1]:
            raise Refused("energy", f"it began before {one.path} had ended", where=other.path)
    for window in windows:
        for look in looks:
            (opened, closed), (began, ended) = window.span, look.span
            if window.header.boot_id == look.header.boot_id and opened < ended and began < closed:
                raise Refused("energy", f"its window lies over {look.path}", where=window.path)
