"""What the meter shows of one moment: watts and joules of zones and cgroups, as values. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from appliance.energy.counter import AbsentZone, CounterZone
from appliance.energy.grades import Provenance, worst_provenance


@dataclass(frozen=True)
class Amount:
    """Of one zone, or of all that may be summed."""

    uj: int
    """Since we began to watch."""
    uw: int
    """Over the last line."""

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.uj + other.uj, self.uw + other.uw)


NOTHING: Final = Amount(0, 0)


@dataclass(frozen=True)
class ZoneView:
    zone: CounterZone
    measured: Amount
    idle: Amount | None
    """None: its idle power is not known; what would be idle is among the containers' and the system's."""
    system: Amount
    shared: bool
    """A GPU whose joules no cgroup can be charged with: several are on it, or somebody foreign; they are `system`."""


@dataclass(frozen=True)
class CgroupView:
    path: str
    role: str
    run: str | None
    trial: int | None
    running: bool
    cpu_seconds: float
    """Since we began to watch."""
    cpu_share: float
    """CPU seconds a second, over the last line."""
    zones: Mapping[str, Amount]
    """By key."""


@dataclass(frozen=True)
class Picture:
    """All of one moment; immutable, so that it may be read while the next is made."""

    version: str
    seconds: float
    """That the last line spans; 0.0: it was the first, nothing has been used yet."""
    zones: tuple[ZoneView, ...]
    cgroups: tuple[CgroupView, ...]
    error_uj: int
    """measured - idle - system - containers, summed as absolute values over all zones: 0, or we are wrong."""
    usage_ratio: float | None
    gaps: Mapping[str, int]
    """The daemon's, and those that we met between lines."""
    absent: tuple[AbsentZone, ...]
    meter_cpu_seconds: float
    windows: int

    @property
    def provenance(self) -> Provenance | None:
        """The worst of what is summed; None without a counter."""
        return worst_provenance(view.zone.provenance for view in self.summed) if self.summed else None

    @property
    def summed(self) -> tuple[ZoneView, ...]:
        return tuple(view for view in self.zones if view.zone.summed)

    def of(self, cgroup: CgroupView) -> Amount:
        keys = {view.zone.key for view in self.summed}
        return sum((amount for key, amount in cgroup.zones.items() if key in keys), NOTHING)

    @property
    def measured(self) -> Amount:
        return sum((view.measured for view in self.summed), NOTHING)

    @property
    def system(self) -> Amount:
        return sum((view.system for view in self.summed), NOTHING)

    @property
    def idle(self) -> Amount | None:
        """None where the idle power of any summed zone is not known: a sum over a lack is a lack."""
        found = [view.idle for view in self.summed]
        known = [amount for amount in found if amount is not None]
        return sum(known, NOTHING) if found and len(known) == len(found) else None
