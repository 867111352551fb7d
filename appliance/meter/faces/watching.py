"""One line of the daemon's `watch`, taken apart: raw numbers of one moment, whole by itself. Never joules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Literal

from appliance.energy.counter import AbsentZone, CounterZone
from appliance.energy.readings import Event
from appliance.errors import MeterRefused

# A daemon of a later version may say more than we know.
_ZONE_FIELDS: Final = {one.name for one in fields(CounterZone)}


@dataclass(frozen=True)
class WatchedCgroup:
    id: str
    role: str
    """`solver`, `harness`, `meter`, ...; `container` for one that is none of ours."""
    run: str | None
    trial: int | None
    path: str
    """The kernel's."""


@dataclass(frozen=True)
class Watched:
    version: str
    boot_id: str
    boottime_ns: int
    monotonic_ns: int
    cpus: int
    cpu_unit: Literal["us", "ns"]
    zones: tuple[CounterZone, ...]
    cgroups: tuple[WatchedCgroup, ...]
    raw: tuple[int | None, ...]
    """Zones, the machine's CPU time, cgroups."""
    events: tuple[Event, ...]
    absent: tuple[AbsentZone, ...]
    gaps: Mapping[str, int]
    """By reason, since the daemon began."""
    cpu_seconds: float
    """The daemon's own."""
    windows: int

    def __post_init__(self) -> None:
        if len(self.raw) != len(self.zones) + 1 + len(self.cgroups):
            raise ValueError(f"{len(self.raw)} numbers for {len(self.zones)} zones and {len(self.cgroups)} cgroups")

    @property
    def machine(self) -> int | None:
        return self.raw[len(self.zones)]

    def zone(self, place: int) -> int | None:
        return self.raw[place]

    def cpu(self, place: int) -> int | None:
        """CPU time of `cgroups[place]`."""
        return self.raw[len(self.zones) + 1 + place]


def watched(line: Mapping[str, Any]) -> Watched:
    """Raises MeterRefused where it is no line of a daemon that we know."""
    try:
        return Watched(
            version=str(line["version"]),
            boot_id=str(line["bootId"]),
            boottime_ns=int(line["boottimeNs"]),
            monotonic_ns=int(line["monotonicNs"]),
            cpus=int(line["cpus"]),
            cpu_unit="ns" if line["cpuUnit"] == "ns" else "us",
            zones=tuple(zone_of(one) for one in line["zones"]),
            cgroups=tuple(_cgroup(one) for one in line["cgroups"]),
            raw=tuple(None if one is None else int(one) for one in line["raw"]),
            events=tuple(_event(one) for one in line.get("events", ())),
            absent=absent_of(line),
            gaps={str(reason): int(count) for reason, count in line.get("gaps", {}).items()},
            cpu_seconds=float(line.get("cpuSeconds", 0.0)),
            windows=int(line.get("windows", 0)),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise MeterRefused(
            f"no line that this version can read: {error!r}",
            mend="restart the meter, so that both ends are of one version",
            reason="bad_message",
        ) from error


def zone_of(value: Mapping[str, Any]) -> CounterZone:
    """From the daemon's JSON. Raises TypeError, KeyError, ValueError."""
    found = {_snake(key): one for key, one in value.items()}
    known = {key: one for key, one in found.items() if key in _ZONE_FIELDS}
    known["flags"] = tuple(known.get("flags") or ())
    return CounterZone(**known)


def absent_of(line: Mapping[str, Any]) -> tuple[AbsentZone, ...]:
    return tuple(AbsentZone(str(one["path"]), str(one["reason"]), one.get("mend")) for one in line.get("absent", ()))


def _cgroup(value: Mapping[str, Any]) -> WatchedCgroup:
    trial = value.get("trial")
    return WatchedCgroup(
        id=str(value["id"]),
        role=str(value["role"]),
        run=value.get("run"),
        trial=None if trial is None else int(trial),
        path=str(value.get("path") or value["id"]),
    )


def _event(value: Mapping[str, Any]) -> Event:
    return Event(
        value["event"], value.get("subject"), value.get("word"), value.get("number"), tuple(value.get("cgroups", ()))
    )


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
