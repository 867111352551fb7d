"""`appliance meter probe`: how often this host's counters change, how long a read takes, how they scatter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from appliance.cli.metering import AsJson, Powercap

if TYPE_CHECKING:
    from pathlib import Path

    from appliance.energy.counter import Counter
    from appliance.meter.faces.probe import Probe, Scatter, Spread, ZoneProbe


def probe(
    seconds: Annotated[float, typer.Option("--seconds", min=1, help="How long; half of it keeps a CPU busy.")] = 20.0,
    powercap: Powercap = None,
    as_json: AsJson = False,
) -> None:
    """Update interval, read latency and scatter of this host's counters, and the shortest window they resolve.

    Reads the counters itself, so it needs root; the meter may go on beside it. Leave the machine alone meanwhile.
    """
    import time

    from appliance.cli.output import emit_json, line, note
    from appliance.meter.faces.probe import probe as probed

    counters = open_counters_here(powercap)
    found = []
    try:
        note(f"reading {', '.join(one.name for one in counters)} for {seconds:g} s: leave the machine alone")
        share = seconds / 2 / len(counters)
        for counter in counters:
            seen = probed(counter, time.monotonic_ns, time.sleep, spin_seconds=share, rest_seconds=share)
            found.append((counter, seen))
    finally:
        for counter in counters:
            counter.close()
    if as_json:
        emit_json({"counters": [_json(counter, seen) for counter, seen in found]})
        return
    for counter, seen in found:
        for text in _lines(counter, seen):
            line(text)


def open_counters_here(powercap: Path | None) -> list[Counter]:
    """Those with zones. Raises HostRefused where only a right lacks, MeterRefused where there is none."""
    from appliance import mends
    from appliance.errors import HostRefused, MeterRefused
    from appliance.meter.counters.powercap_files import POWERCAP
    from appliance.meter.counters.sources import open_counters
    from appliance.meter.fitting import refuse_absent_root

    refuse_absent_root(powercap)
    counters = open_counters(powercap=powercap or POWERCAP, nvml=powercap is None)
    found = [counter for counter in counters if counter.zones()]
    absent = [one for counter in counters for one in counter.absent()]
    for counter in counters:
        if counter not in found:
            counter.close()
    if found:
        return found
    denied = next((one for one in absent if one.reason.startswith(("EACCES", "EPERM"))), None)
    if denied is not None:
        raise HostRefused(
            f"the counters are for root: {denied.path}: {denied.reason}",
            mend=mends.as_root("meter probe"),
            reason="PrivilegeRequired",
        )
    why = f": {absent[0].path}: {absent[0].reason}" if absent else ""
    mend = absent[0].mend if absent and absent[0].mend else "appliance doctor says what this host has"
    raise MeterRefused(f"no counter{why}", mend=mend, reason="NoCounter")


def _json(counter: Counter, seen: Probe) -> dict[str, Any]:
    return {
        "name": counter.name,
        "readLatency": _spread(seen.read),
        "floorNs": seen.floor_ns,
        "zones": [
            {
                "key": one.zone.key,
                "source": one.zone.source,
                "provenance": one.zone.provenance,
                "summed": one.zone.summed,
                "knownUpdateNs": one.zone.update_period_ns,
                "update": _spread(one.update),
                "slowerThanKnown": one.slower,
                "floorNs": one.floor_ns,
                "percentNs": one.percent_ns,
                "scatter": [_scatter(scatter) for scatter in one.scatter],
                "errors": one.errors,
            }
            for one in seen.zones
        ],
    }


def _spread(found: Spread | None) -> dict[str, int] | None:
    return None if found is None else {"medianNs": found.median_ns, "p99Ns": found.p99_ns, "count": found.count}


def _scatter(found: Scatter) -> dict[str, int]:
    return {
        "lengthNs": found.length_ns,
        "meanUj": found.mean_uj,
        "deviationUj": found.deviation_uj,
        "limitUj": found.limit_uj,
        "count": found.count,
    }


def _lines(counter: Counter, seen: Probe) -> Iterator[str]:
    read = seen.read
    yield f"{counter.name}: a read of {len(seen.zones)} zones takes {_time(read.median_ns)} (p99 {_time(read.p99_ns)})"
    for one in seen.zones:
        label = "" if one.zone.provenance == "hw_shunt" else f" ({one.zone.provenance})"
        yield f"{one.zone.key}{label}"
        yield f"  {_update(one)}"
        for scatter in one.scatter:
            energy = f"{scatter.mean_uj / 1e6:.6f} J +- {scatter.deviation_uj / 1e6:.6f}"
            limit = f"less than {scatter.limit_uj / 1e6:.6f} J does not stand out"
            yield f"  at rest over {_time(scatter.length_ns)}: {energy}; {limit}"
        for word, count in sorted(one.errors.items()):
            yield f"  {count} readings were {word}"
    if seen.floor_ns is not None:
        yield f"shortest window that is resolved here: {_time(seen.floor_ns)}"


def _update(one: ZoneProbe) -> str:
    if one.update is None:
        return "did not change while we looked"
    slower = f", slower than the {_time(one.zone.update_period_ns)} that its kind is known for" if one.slower else ""
    edges = "" if one.percent_ns is None else f"; edges blur a window of {_time(one.percent_ns)} by 1 %"
    return f"changes every {_time(one.update.median_ns)} (p99 {_time(one.update.p99_ns)}){slower}{edges}"


def _time(ns: int) -> str:
    for size, unit in ((10**9, "s"), (10**6, "ms"), (10**3, "us")):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns} ns"
