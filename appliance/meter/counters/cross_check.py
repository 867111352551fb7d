"""Two counters of the same zones set against one another: whether they tell the same energy (row D3).

At both edges ours is read before and after theirs. What theirs says must lie between the least and the most that ours
allows, give or take one count: the room between is the power times the skew of the reading, nothing else is granted.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from appliance.energy.counter import Counter, CounterZone, Reading
from appliance.energy.counters import Gap, Scale, difference

_Look = tuple[int, dict[str, Reading]]


@dataclass(frozen=True)
class Agreement:
    """Of one zone that both have."""

    key: str
    theirs_nj: int | None
    least_nj: int | None
    """Of ours: from after the first reading of theirs to before the second."""
    most_nj: int | None
    count_nj: int
    lack: str | None
    """Why nothing can be said; None: figures are there."""

    @property
    def agrees(self) -> bool:
        if self.theirs_nj is None or self.least_nj is None or self.most_nj is None:
            return False
        return self.least_nj - self.count_nj <= self.theirs_nj <= self.most_nj + self.count_nj


def cross_check(ours: Counter, theirs: Counter, pause: Callable[[], None]) -> tuple[Agreement, ...]:
    """Of every zone of microjoules that both have by key; empty where they share none. `pause` is the time between."""
    before, first, after = _look(ours), _look(theirs), _look(ours)
    pause()
    later, second, last = _look(ours), _look(theirs), _look(ours)
    known = {zone.key: zone for zone in ours.zones() if zone.unit == "uj"}
    found: list[Agreement] = []
    for zone in theirs.zones():
        if zone.key in known and zone.unit == "uj":
            mine = known[zone.key]
            steps = [
                _step(mine, after, later),
                _step(mine, before, last),
                _step(mine, first, second),
            ]
            lack = next((one for one in steps if isinstance(one, str)), None)
            least, most, told = (None if isinstance(one, str) else one for one in steps)
            found.append(Agreement(zone.key, told, least, most, Scale(mine.max_range).unit_nj, lack))
    return tuple(found)


def _look(counter: Counter) -> _Look:
    readings = counter.read()
    at_ns = time.monotonic_ns()
    return at_ns, dict(zip([zone.key for zone in counter.zones()], readings, strict=True))


def _step(zone: CounterZone, begun: _Look, ended: _Look) -> int | str:
    """By our arithmetic whoever read it, so that a wrap is one to both."""
    (began_ns, first), (ended_ns, second) = begun, ended
    one, two = first.get(zone.key, "ENODEV"), second.get(zone.key, "ENODEV")
    if isinstance(one, str) or isinstance(two, str):
        return one if isinstance(one, str) else str(two)
    step = difference(
        Scale(zone.max_range), one, two, max(1, ended_ns - began_ns) + zone.update_period_ns, zone.most_uw
    )
    return step.reason if isinstance(step, Gap) else step.energy_nj
