"""Lines of the daemon's `watch`, through its own encoder and our own parser, of a machine that a test describes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from appliance.energy.counter import CounterZone
from appliance.meter.daemon.messages import WatchedCgroup, WatchedEvent, WatchLine, encode
from appliance.meter.faces.watching import Watched, watched
from tests.readings_builder import BOOT

CONTAINER = "/docker/" + "ab" * 32


def line(
    seconds: float,
    zones: Mapping[CounterZone, int | None],
    machine: int | None = 0,
    cgroups: Mapping[str, int | None] | None = None,
    *,
    events: Sequence[WatchedEvent] = (),
    **changes: Any,
) -> Watched:
    """At `seconds` after an hour of uptime; raw numbers by zone and by cgroup path, CPU times in microseconds."""
    used = dict(cgroups or {})
    fields: dict[str, Any] = {
        "version": "0.1.0",
        "boot_id": BOOT,
        "boottime_ns": str(3600 * 10**9 + round(seconds * 1e9)),
        "monotonic_ns": str(3600 * 10**9 + round(seconds * 1e9)),
        "skew_ns": 100_000,
        "cpus": 2,
        "tick_ns": 4_000_000,
        "cpu_unit": "us",
        "period_ns": 100_000_000,
        "zones": tuple(zones),
        "absent": (),
        "cgroups": tuple(_cgroup(path) for path in used),
        "raw": tuple(None if one is None else str(one) for one in (*zones.values(), machine, *used.values())),
        "events": tuple(events),
        "gaps": {},
        "cpu_seconds": 0.5,
        "windows": 0,
    }
    return watched(json.loads(encode(WatchLine(**{**fields, **changes}))))


def _cgroup(path: str) -> WatchedCgroup:
    """`/bench-appliance/r1/00003/solver` is a trial's; a name with `#2` behind it is the same path with another id."""
    bare = path.partition("#")[0]
    parts = bare.strip("/").split("/")
    if parts[0] == "bench-appliance" and len(parts) == 4:
        return WatchedCgroup(f"c-{path}", parts[3], parts[1], int(parts[2]), bare)
    return WatchedCgroup(f"c-{path}", "meter" if bare.endswith("/meter") else "container", None, None, bare)
