"""Meters by name: ours, and others' by the entry point group `bench_appliance.meters` (row J47).

An entry point names a callable that takes a MeterRequest and returns a `ports.Meter`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Final

from appliance.errors import HostRefused, Refusal, UsageRefused
from appliance.meter.local import CGROUPFS, NAME, HostCgroups, LocalMeter, StatsReader
from appliance.ports import Meter
from appliance.records.plan import PlannedEnergy

GROUP: Final = "bench_appliance.meters"


@dataclass(frozen=True)
class MeterRequest:
    """What a meter is made from."""

    planned: PlannedEnergy
    engine: HostCgroups = CGROUPFS
    stats: StatsReader | None = None


_NEEDED: Final = ("counts", "stamp", "prepare", "harness_cgroup", "model_cgroup", "stored", "idle", "close_run")
MeterFactory = Callable[[MeterRequest], Meter]


def meter_names() -> tuple[str, ...]:
    return tuple(sorted({NAME, *(point.name for point in entry_points(group=GROUP))}))


def refuse_unlike(meter: object, name: str) -> None:
    """Raises HostRefused where a plug-in's meter lacks a member of `ports.Meter`: before any trial, not within one."""
    lacking = [member for member in _NEEDED if not hasattr(meter, member)]
    if lacking:
        raise HostRefused(
            f"is no meter of this version: it lacks {', '.join(lacking)}",
            where=f"meter plug-in {name}",
            mend="see docs/energy.md, or uninstall it",
        )


def open_meter(request: MeterRequest, name: str = NAME) -> Meter:
    """Raises UsageRefused for a name that is not there, MeterRefused where energy cannot be stated as planned."""
    if name == NAME:
        return LocalMeter(request.planned, request.engine, request.stats)
    found = next(iter(entry_points(group=GROUP, name=name)), None)
    if found is None:
        raise UsageRefused(f"no meter is called {name!r}", mend=f"known: {', '.join(meter_names())}")
    try:
        factory: MeterFactory = found.load()
        return factory(request)
    except Refusal:
        raise
    except Exception as error:  # a plug-in may fail in any way: it is named, and ours goes on
        raise HostRefused(
            f"{type(error).__name__}: {error}",
            where=f"meter plug-in {name} ({found.value})",
            mend="mend or uninstall it",
        ) from error
