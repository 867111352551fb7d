"""How a host's counters behave: how often they change, how long a read takes, how they scatter at rest.

A counter's own steps are seen by reading it again and again till it changes (Haehnel et al. 2012); nothing but the
time that a read takes blurs that. Scatter is looked at with pauses between reads, as the spinning itself takes power.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from appliance.energy.counter import Counter, CounterZone, Reading
from appliance.energy.rest import deviation
from appliance.energy.series import Step, ZoneSeries

MOST_CHANGES: Final = 2000
"""Of each zone: enough for a 99th percentile."""
PIECES_NS: Final = (10_000_000, 100_000_000, 1_000_000_000)
"""Lengths of windows whose scatter is told."""
_PAUSE_NS: Final = 10_000_000
_FEWEST_PIECES: Final = 5
_PERIODS: Final = 10
"""Updates that the shortest window must hold (row J41)."""
_EDGE: Final = 41
"""Updates after which the error of both edges is a percent of the whole: 0.408 P tau / (P T) = 1 % (energy 3.4)."""


@dataclass(frozen=True)
class Spread:
    median_ns: int
    p99_ns: int
    count: int


@dataclass(frozen=True)
class Scatter:
    """Of windows of one length, at rest."""

    length_ns: int
    mean_uj: int
    deviation_uj: int
    count: int

    @property
    def limit_uj(self) -> int:
        """The least energy that stands out of it: three standard deviations."""
        return 3 * self.deviation_uj


@dataclass(frozen=True)
class ZoneProbe:
    zone: CounterZone
    update: Spread | None
    """Between two changes; None: it did not change twice while we looked."""
    scatter: tuple[Scatter, ...]
    errors: dict[str, int] = field(default_factory=dict)
    """Readings that were none, by name."""

    @property
    def floor_ns(self) -> int:
        """The shortest window that this counter resolves here, by what was seen and by what is known of its kind."""
        seen = 0 if self.update is None else _PERIODS * self.update.median_ns
        return max(self.zone.shortest_window_ns, _PERIODS * self.zone.update_period_ns, seen)

    @property
    def percent_ns(self) -> int | None:
        """The window in which the edges blur the energy by a percent, one standard deviation."""
        return None if self.update is None else _EDGE * self.update.median_ns

    @property
    def slower(self) -> bool:
        """Than its kind is known to be, by more than half: the floor of a record would be too short here."""
        return self.update is not None and self.update.median_ns * 2 > 3 * self.zone.update_period_ns


@dataclass(frozen=True)
class Probe:
    read: Spread
    """One read of all zones together."""
    zones: tuple[ZoneProbe, ...]

    @property
    def floor_ns(self) -> int | None:
        """The worst of what is summed (row J41)."""
        return max((one.floor_ns for one in self.zones if one.zone.summed), default=None)


def probe(
    counter: Counter,
    clock_ns: Callable[[], int],
    pause: Callable[[float], None],
    *,
    spin_seconds: float,
    rest_seconds: float,
) -> Probe:
    """Takes `spin_seconds + rest_seconds` at the most; the first part keeps a CPU busy."""
    zones = counter.zones()
    spins = [_Changes() for _ in zones]
    took: list[int] = []
    until = clock_ns() + round(spin_seconds * 1e9)
    before = clock_ns()
    while before < until and not all(len(one.moments) > MOST_CHANGES for one in spins):
        values = counter.read()
        after = clock_ns()
        took.append(after - before)
        for one, value in zip(spins, values, strict=True):
            one.see(value, after)
        before = after
    scatters = _at_rest(counter, zones, clock_ns, pause, rest_seconds)
    return Probe(
        read=spread(took),
        zones=tuple(
            ZoneProbe(zone, one.update, scatter, one.errors)
            for zone, one, scatter in zip(zones, spins, scatters, strict=True)
        ),
    )


def spread(several: Sequence[int]) -> Spread:
    """Of at least one."""
    ordered = sorted(several)
    last = len(ordered) - 1
    return Spread(ordered[last // 2], ordered[-(-last * 99 // 100)], len(ordered))


def pieces(steps: Sequence[Step], length_ns: int) -> list[int]:
    """Energy of windows of `length_ns`, one behind the other; a step across an edge is divided by time."""
    if not steps:
        return []
    origin, total, at_edges = steps[0].since_ns, 0, [0]
    for step in steps:
        while (edge := origin + len(at_edges) * length_ns) <= step.until_ns:
            part = step.energy_uj * (edge - step.since_ns) // (step.until_ns - step.since_ns)
            at_edges.append(total + part)
        total += step.energy_uj
    return [after - before for before, after in pairwise(at_edges)]


class _Changes:
    def __init__(self) -> None:
        self.moments: list[int] = []
        self.errors: dict[str, int] = {}
        self._last: Reading | None = None

    def see(self, value: Reading, at_ns: int) -> None:
        if isinstance(value, str):
            self.errors[value] = self.errors.get(value, 0) + 1
            return
        if self._last is not None and value != self._last:
            self.moments.append(at_ns)
        self._last = value

    @property
    def update(self) -> Spread | None:
        between = [after - before for before, after in pairwise(self.moments)]
        return spread(between) if between else None


def _at_rest(
    counter: Counter,
    zones: Sequence[CounterZone],
    clock_ns: Callable[[], int],
    pause: Callable[[float], None],
    seconds: float,
) -> list[tuple[Scatter, ...]]:
    series = [ZoneSeries(zone, _PAUSE_NS) for zone in zones]
    steps: list[list[Step]] = [[] for _ in zones]
    until = clock_ns() + round(seconds * 1e9)
    while (now := clock_ns()) < until:
        for one, kept, value in zip(series, steps, counter.read(), strict=True):
            step = one.advance(value if isinstance(value, int) else None, now)
            if isinstance(step, Step):
                kept.append(step)
            elif step is not None:
                kept.clear()  # what broke off begins anew
        pause(_PAUSE_NS / 1e9)
    return [tuple(_scatters(kept)) for kept in steps]


def _scatters(steps: Sequence[Step]) -> list[Scatter]:
    found = []
    for length in PIECES_NS:
        energies = pieces(steps, length)
        if len(energies) >= _FEWEST_PIECES:
            found.append(Scatter(length, sum(energies) // len(energies), deviation(energies), len(energies)))
    return found
