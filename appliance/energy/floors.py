"""The shortest window that a source resolves: below it a number carries `~` and enters no energy ranking."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from appliance.energy.counter import CounterZone

TICK_NS: Final = 4_000_000
"""Granularity of a cgroup's CPU time for a running loop, at HZ 250 (energy row C11); finer elsewhere."""
SHORTEST_CPU_TICKS: Final = 5


@dataclass(frozen=True)
class Floor:
    shortest_window_ns: int
    update_period_ns: int

    @property
    def wall_ns(self) -> int:
        return max(self.shortest_window_ns, 10 * self.update_period_ns)


RAPL: Final = Floor(shortest_window_ns=10_000_000, update_period_ns=1_000_000)
NVML: Final = Floor(shortest_window_ns=1_000_000_000, update_period_ns=100_000_000)
NONE: Final = Floor(shortest_window_ns=0, update_period_ns=0)
ESTIMATOR: Final = Floor(shortest_window_ns=100_000_000, update_period_ns=0)


def of_zone(zone: CounterZone) -> Floor:
    return Floor(zone.shortest_window_ns, zone.update_period_ns)


def worst(floors: Iterable[Floor]) -> Floor:
    """Of the sources that one figure sums (row J41)."""
    return max(floors, key=lambda floor: floor.wall_ns)


def below(floor: Floor, wall_ns: int, cpu_ns: int | None) -> bool:
    """`cpu_ns` None (not readable) leaves the wall alone to decide."""
    return wall_ns < floor.wall_ns or (cpu_ns is not None and cpu_ns < SHORTEST_CPU_TICKS * TICK_NS)
