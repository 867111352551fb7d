"""What `appliance meter selftest --validation` prints: this host's rows for docs/validation.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from appliance.meter.faces.probe import Probe
    from appliance.meter.faces.selftest import Findings

_PROBE_SECONDS: Final = 10.0


def validation_rows(
    status: Mapping[str, Any], found: Findings, powercap: Path | None, *, in_containers: bool
) -> list[str]:
    """As root also what a probe of the counters finds; another user's rows do without."""
    from datetime import UTC, datetime

    from appliance.host.facts import read_facts
    from appliance.meter.faces.validation import HEAD, Place, rows

    facts = read_facts()
    parts = [facts.cpu, f"{facts.cores} CPUs", f"Linux {facts.kernel}", f"{facts.cgroups.kind} cgroups"]
    if facts.gpus:
        parts.append(", ".join(facts.gpus))
    parts.append(_engine() if in_containers else "processes in plain cgroups")
    by = f"appliance {status['version']}, {datetime.now(UTC).date().isoformat()}"
    return [*HEAD, *rows(Place(", ".join(parts), by), status, found, _probes(status, powercap))]


def _engine() -> str:
    from appliance.engine.docker import connect

    stamp = connect().stamp()
    return f"{stamp.name} {stamp.version}, {stamp.runtime}, {stamp.cgroup_driver} driver"


def _probes(status: Mapping[str, Any], powercap: Path | None) -> list[Probe]:
    import os
    import time

    from appliance.cli.meter_probe import open_counters_here
    from appliance.cli.output import note
    from appliance.errors import Refusal
    from appliance.meter.faces.probe import probe

    if os.geteuid() != 0 or not status["counters"]:
        return []
    try:
        counters = open_counters_here(powercap)
    except Refusal as refusal:
        note(f"no probe of the counters that the daemon reads: {refusal}")
        return []
    note(f"reading the counters for {_PROBE_SECONDS:g} s")
    try:
        share = _PROBE_SECONDS / 2 / len(counters)
        return [probe(one, time.monotonic_ns, time.sleep, spin_seconds=share, rest_seconds=share) for one in counters]
    finally:
        for one in counters:
            one.close()
