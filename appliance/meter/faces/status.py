"""The daemon's `status` in lines for a person. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from appliance.errors import MeterRefused
from appliance.meter.faces.watching import absent_of, zone_of

_NO_BOARDS: Final = "LIBRARY_NOT_FOUND"
"""NVIDIA's: a host without its boards lacks nothing."""

_DISCOVERY: Final = {"inotify": "told of by the kernel", "looking": "looked for once a second"}
"""While somebody watches; else nothing is said."""


def status_lines(socket: str, found: Mapping[str, Any]) -> Iterator[str]:
    """Raises MeterRefused where it is no status of a daemon that we know."""
    try:
        yield from _lines(socket, found)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise MeterRefused(
            f"no status that this version can read: {error!r}", where=socket, mend="restart the meter"
        ) from error


def refuse_no_counter(found: Mapping[str, Any]) -> None:
    """Raises MeterRefused where this daemon reads no energy."""
    if found.get("counters"):
        return
    lack = next(iter(absent_of(found)), None)
    raise MeterRefused(
        f"no counter: {lack.path}: {lack.reason}" if lack else "no counter: this host has none that the meter knows",
        mend=lack.mend if lack and lack.mend else "--energy estimator needs no calibration",
        reason="NoCounter",
    )


def _lines(socket: str, found: Mapping[str, Any]) -> Iterator[str]:
    began = f", since {found['startedAt']}" if found.get("startedAt") else ""
    yield f"meter     {found['version']} at {socket}{began}"
    zones = [zone_of(one) for one in found["counters"]]
    for place, zone in enumerate(zones):
        claim = f", posing as {zone.claimed}" if zone.claimed else ""
        parts = [f"{zone.key}: {zone.source}, {zone.provenance}{claim}"]
        parts += [] if zone.summed else ["not summed"]
        parts += list(zone.flags)
        yield f"{'counters' if place == 0 else '':<9} {', '.join(parts)}"
    if not zones:
        yield "counters  none: CPU time only"
    for place, lack in enumerate(one for one in absent_of(found) if one.reason != _NO_BOARDS):
        mend = f" ({lack.mend})" if lack.mend else ""
        yield f"{'absent' if place == 0 else '':<9} {lack.path}: {lack.reason}{mend}"
    gaps = ", ".join(f"{count} {reason}" for reason, count in sorted(found["gaps"].items()) if count)
    yield f"windows   {found['windows']} open"
    yield f"gaps      {gaps or 'none'}"
    if found.get("discovery") in _DISCOVERY:
        yield f"watched   containers are {_DISCOVERY[found['discovery']]}"
    yield f"cpu       {float(found['cpuSeconds']):.2f} s of its own"
