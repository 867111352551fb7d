"""What the meter was seen to do on one host, as rows of docs/validation.md. Pure; nothing here is judged.

What was not seen makes no row: a host without a counter says nothing of counters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from appliance.energy.counter import CounterZone
from appliance.meter.faces.probe import Probe
from appliance.meter.faces.selftest import Additivity, Findings
from appliance.meter.faces.watching import zone_of

HEAD: Final = ("| what | machine | came to | by |", "|---|---|---|---|")


@dataclass(frozen=True)
class Place:
    """Where it was seen, in words."""

    machine: str
    """Processor, CPUs, kernel, kind of cgroups, what the loads ran in."""
    by: str
    """Version and day."""


def rows(place: Place, status: Mapping[str, Any], found: Findings, probes: Sequence[Probe]) -> Iterator[str]:
    """Of CPU time, then one for each source of counters; `status` is the daemon's."""
    counted = "cgroup v2" if status["cpuUnit"] == "us" else "cgroup v1"
    yield _row(f"CPU time, {counted}", place, _cpu(found))
    zones = [zone_of(one) for one in status["counters"]]
    for source in dict.fromkeys(zone.source for zone in zones):
        of_it = [zone for zone in zones if zone.source == source]
        keys = ", ".join(f"{zone.key} ({zone.provenance})" for zone in of_it)
        yield _row(f"{source}: {keys}", place, "; ".join(_energy(of_it, found, probes)))


def _cpu(found: Findings) -> str:
    errors = [(piece.name, piece.burnt.cpu_ns, piece.cpu_error_ns) for piece in found.pieces]
    return "; ".join(
        f"{name}: {burnt / 1e9:.3f} s burnt, " + ("not counted" if error is None else f"{error / 1e6:+.1f} ms")
        for name, burnt, error in errors
    )


def _energy(zones: Sequence[CounterZone], found: Findings, probes: Sequence[Probe]) -> Iterator[str]:
    keys = {zone.key for zone in zones}
    if any(zone.provenance == "simulated" for zone in zones):
        yield "no hardware: counters under another root than the kernel's"
    if found.conserves is not None:
        yield f"conservation {'exact' if found.conserves else 'broken'}"
    for one in found.additivity:
        if one.key in keys:
            yield f"{one.key}: {_additivity(one)}"
    for probe in probes:
        for seen in probe.zones:
            if seen.zone.key in keys:
                every = (
                    "did not change" if seen.update is None else f"changes every {seen.update.median_ns / 1e6:.3g} ms"
                )
                yield f"{seen.zone.key} {every}, a read of all takes {probe.read.median_ns / 1e3:.3g} us"
    flags = sorted({flag for zone in zones for flag in zone.flags})
    if flags:
        yield f"flags {', '.join(flags)}"


def _additivity(one: Additivity) -> str:
    if one.difference_uj is None or one.alone_uj is None:
        return f"additivity not known ({one.missing})"
    spread = "" if one.uncertainty_uj is None else f" +- {one.uncertainty_uj / 1e6:.3f}"
    return f"apart by {one.difference_uj / 1e6:.3f}{spread} J (k=2) of {one.alone_uj / 1e6:.3f} J alone"


def _row(what: str, place: Place, outcome: str) -> str:
    return f"| {' | '.join(one.replace('|', '/') for one in (what, place.machine, outcome, place.by))} |"
