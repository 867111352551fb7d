"""The meter measured against what is known: additivity, conservation, the CPU time of known burns.

Two loads run alone, alone, and together. The energy of both together should be the sum of the two alone; nothing says
that it is (turbo, shared caches, a fan), so the difference is a figure of this host, published and never judged.
Conservation is judged: it holds to the microjoule, or the meter is wrong.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from appliance.cgroups import CgroupDriver
from appliance.energy.idle import Idle, Rest, rest_of
from appliance.energy.readings import Readings, unpack
from appliance.energy.windows import Window, ZoneEnergy, window_of
from appliance.errors import MeterRefused
from appliance.meter.calibration import measure_rest
from appliance.meter.faces.burning import Burnt, StartLoad

_ROLE: Final = "solver"


class Meter(Protocol):
    """`MeterClient`."""

    def prepare(self, run: str, trial: int | None, roles: Sequence[str], *, driver: CgroupDriver = ...) -> Any: ...
    def open(self, handle: str) -> Any: ...
    def close(self, window: str) -> Any: ...
    def release(self, handle: str) -> Any: ...


@dataclass(frozen=True)
class Piece:
    """One load's window."""

    name: str
    """`a alone`, `b alone`, `a together`, `b together`."""
    burnt: Burnt
    window: Window
    split: Window | None
    """The same reckoned with the idle power as it was measured, fit or not: what conservation is tested on."""

    @property
    def cpu_error_ns(self) -> int | None:
        """What the cgroup counted beyond what the load says that it used: starting and ending it are in there."""
        counted = self.window.cpu_ns.get(_ROLE)
        return None if counted is None else counted - self.burnt.cpu_ns

    def conservation_error_uj(self) -> int | None:
        """Summed as absolute values over all zones; None where no zone has all its figures."""
        if self.split is None:
            return None
        errors = [
            abs(zone.gross_uj - (zone.idle_uj or 0) - zone.system_uj - zone.others_uj - sum(zone.own_uj.values()))
            for zone in self.split.zones
            if zone.gross_uj is not None and zone.system_uj is not None and zone.others_uj is not None and zone.own_uj
        ]
        return sum(errors) if errors else None


@dataclass(frozen=True)
class Additivity:
    """Of one zone, in microjoules."""

    key: str
    alone_uj: int | None
    """E(A) + E(B)."""
    together_uj: int | None
    """Of A and B, each by its own share, while both ran."""
    uncertainty_uj: int | None
    """Expanded (k = 2), of the difference, where every figure has one."""
    missing: str | None

    @property
    def difference_uj(self) -> int | None:
        return None if self.alone_uj is None or self.together_uj is None else abs(self.alone_uj - self.together_uj)

    @property
    def percent(self) -> float | None:
        difference = self.difference_uj
        return None if difference is None or not self.alone_uj else 100 * difference / self.alone_uj


@dataclass(frozen=True)
class Findings:
    pieces: tuple[Piece, ...]
    additivity: tuple[Additivity, ...]
    """Of the zones; empty where there is no counter."""
    untested: Mapping[str, str]
    """What could not be tested here, and why: `additivity`, `conservation`."""

    @property
    def conserves(self) -> bool | None:
        """None: there was nothing to conserve."""
        errors = [piece.conservation_error_uj() for piece in self.pieces]
        known = [error for error in errors if error is not None]
        return all(error == 0 for error in known) if known else None

    @property
    def cpu_together_error_ns(self) -> int | None:
        """Of the CPU time of both together against what both say that they used."""
        errors = [piece.cpu_error_ns for piece in self.pieces if piece.name.endswith("together")]
        known = [error for error in errors if error is not None]
        return sum(known) if known and len(known) == len(errors) else None


def selftest(
    meter: Meter,
    load: StartLoad,
    *,
    run: str,
    driver: CgroupDriver,
    counted: str | None,
    cpu_seconds: tuple[float, float],
    rest_seconds: float,
    pause: Callable[[float], None],
    say: Callable[[str], None],
) -> Findings:
    """`driver`: of whatever puts the loads into their cgroups. `counted`: why this meter has no counter; None: it has
    one. Raises MeterRefused, HostRefused."""
    looks: list[Readings] = []

    def rest() -> None:
        if counted is None:
            say(f"the machine at rest ({rest_seconds:g} s)")
            looks.append(unpack(measure_rest(meter, run, lambda: pause(rest_seconds))))

    first, second = cpu_seconds
    rest()
    ran: list[tuple[str, Burnt, Readings]] = []
    for name, loads in (
        ("a alone", (("a alone", first),)),
        ("b alone", (("b alone", second),)),
        ("a and b together", (("a together", first), ("b together", second))),
    ):
        say(f"{name} ({', '.join(f'{seconds:g} s of CPU' for _, seconds in loads)})")
        ran += _run(meter, load, loads, _Place(run, len(ran), driver))
    rest()
    rests = tuple(rest_of(look) for look in looks)
    found = tuple(_piece(name, burnt, readings, rests) for name, burnt, readings in ran)
    untested = {} if counted is None else dict.fromkeys(("additivity", "conservation"), counted)
    return Findings(found, tuple(additivity(found)) if counted is None else (), untested)


def _piece(name: str, burnt: Burnt, readings: Readings, rests: tuple[Rest, ...]) -> Piece:
    if not rests:
        return Piece(name, burnt, window_of(readings, None), None)
    zones = {key: replace(zone, unfit=None) for key, zone in rests[0].zones.items()}
    as_measured = Idle((replace(rests[0], zones=zones, unfit=None),))
    return Piece(name, burnt, window_of(readings, Idle(rests)), window_of(readings, as_measured))


@dataclass(frozen=True)
class _Place:
    run: str
    trial: int
    """The first; loads that run together take the next ones."""
    driver: CgroupDriver


def _run(
    meter: Meter, load: StartLoad, loads: Sequence[tuple[str, float]], place: _Place
) -> list[tuple[str, Burnt, Readings]]:
    """All at once, each in a window of its own from right before it starts to right after it ended."""
    prepared = []
    try:
        for number in range(len(loads)):
            prepared.append(meter.prepare(place.run, place.trial + number, [_ROLE], driver=place.driver))
        ready = []
        try:
            for one, (_, seconds) in zip(prepared, loads, strict=True):
                ready.append(load(one.cgroups[_ROLE], seconds))

            def timed(number: int) -> Burnt:
                window = meter.open(prepared[number].handle).window
                burnt = ready[number].burn()
                meter.close(window)
                return burnt

            with ThreadPoolExecutor(len(loads)) as pool:
                burnt = list(pool.map(timed, range(len(loads))))
        finally:
            for one in ready:
                one.close()
    except BaseException:
        for one in prepared:
            with contextlib.suppress(MeterRefused):  # what went wrong first is what is told
                meter.release(one.handle)
        raise
    released = [meter.release(one.handle) for one in prepared]
    return [(name, used, unpack(one.readings)) for (name, _), used, one in zip(loads, burnt, released, strict=True)]


def additivity(found: Sequence[Piece]) -> Iterator[Additivity]:
    """Zone by zone, of the zones that every window has."""
    by_name = {piece.name: {zone.key: zone for zone in piece.window.zones} for piece in found}
    keys = [key for key in next(iter(by_name.values()), {}) if all(key in zones for zones in by_name.values())]
    for key in keys:
        zones = {name: by_name[name][key] for name in by_name}
        alone = [zone for name, zone in zones.items() if name.endswith("alone")]
        together = [zone for name, zone in zones.items() if name.endswith("together")]
        missing = next((zone.missing or "no idle power" for zone in zones.values() if zone.net_uj is None), None)
        yield Additivity(key, _net(alone), _net(together), _uncertainty(list(zones.values())), missing)


def _net(zones: Sequence[ZoneEnergy]) -> int | None:
    known = [zone.net_uj for zone in zones if zone.net_uj is not None]
    return sum(known) if len(known) == len(zones) else None


def _uncertainty(zones: Sequence[ZoneEnergy]) -> int | None:
    """Independent windows: squares add."""
    known = [zone.uncertainty_uj for zone in zones if zone.uncertainty_uj is not None]
    return round(sum(one**2 for one in known) ** 0.5) if len(known) == len(zones) else None
