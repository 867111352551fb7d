"""The power of the machine at rest: measured before and after a batch, drawn as a line between the two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from appliance.energy.rest import UNFIT_PERCENT, Rest, ZoneRest, rest_of

__all__ = ["Idle", "Line", "Rest", "Unfit", "ZoneRest", "rest_of"]


@dataclass(frozen=True)
class Line:
    """Power at rest over one window: between two moments on a line, before and after them level."""

    from_ns: int
    from_uw: int
    to_ns: int
    to_uw: int
    rest: ZoneRest
    """What its scatter and its limit of detection are taken from."""
    drift_uw: int
    at_work: bool = False
    """A look that it is drawn from was at a machine at work: flag `idle_busy`."""

    def at(self, boottime_ns: int) -> int:
        """Microwatts at one moment, rounded down."""
        if boottime_ns <= self.from_ns or self.from_uw == self.to_uw:
            return self.from_uw
        if boottime_ns >= self.to_ns:
            return self.to_uw
        run = self.to_ns - self.from_ns
        return (self.from_uw * (self.to_ns - boottime_ns) + self.to_uw * (boottime_ns - self.from_ns)) // run


@dataclass(frozen=True)
class Unfit:
    reason: str
    drift: bool = False
    """Looks disagree: flag `idle_drift`."""


@dataclass(frozen=True)
class Idle:
    """What a window's idle power is taken from: looks of one boot, and whether they agree."""

    looks: tuple[Rest, ...]
    stored: Rest | None = None
    """A calibration made earlier and still valid: its means are taken, and the looks only check it."""
    _by_boot: dict[str, tuple[Rest, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _lines: dict[tuple[str, str, int], Line | Unfit] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """By key, boot, and how many looks lie before: between two looks every window has the same line."""

    def power_uw(self, key: str, boot_id: str, boottime_ns: int) -> int | None:
        """At one moment: on the line between the look before and the look after it, or the only one there is."""
        found = self.line(key, boot_id, boottime_ns)
        return None if isinstance(found, Unfit) else found.at(boottime_ns)

    def unfit(self, key: str, boot_id: str, boottime_ns: int) -> str | None:
        """Why there is no idle power for a window around this moment; None: there is."""
        found = self.line(key, boot_id, boottime_ns)
        return found.reason if isinstance(found, Unfit) else None

    def line(self, key: str, boot_id: str, boottime_ns: int) -> Line | Unfit:
        """For a window around this moment."""
        looks = self._by_boot.get(boot_id)
        if looks is None:
            of_boot = (look for look in self.looks if look.boot_id == boot_id)
            looks = self._by_boot[boot_id] = tuple(sorted(of_boot, key=lambda one: one.middle_boottime_ns))
        past = sum([look.middle_boottime_ns <= boottime_ns for look in looks])
        known = self._lines.get((key, boot_id, past))
        if known is None:
            known = self._lines[key, boot_id, past] = self._line(key, boot_id, looks[max(0, past - 1) : past + 1])
        return known

    def _line(self, key: str, boot_id: str, around: Sequence[Rest]) -> Line | Unfit:
        stored = [self.stored] if self.stored is not None and self.stored.boot_id == boot_id else []
        if not around and not stored:
            other = self.looks or self.stored
            return Unfit("idle power was measured in another boot" if other else "no idle power was measured")
        zones: list[ZoneRest] = []
        for look in (*stored, *around):
            zone = look.zones.get(key)
            reason = look.unfit or (f"{key} was not read at rest" if zone is None else zone.unfit)
            if zone is None or reason is not None:
                return Unfit(reason or f"{key} was not read at rest")
            zones.append(zone)
        least, most = min(zone.mean_uw for zone in zones), max(zone.mean_uw for zone in zones)
        if (most - least) * 100 > zones[0].mean_uw * UNFIT_PERCENT:
            return Unfit(f"{key} at rest took {least / 1e6:.2f} W and {most / 1e6:.2f} W", drift=True)
        at_work = any(look.at_work for look in (*stored, *around))
        if stored:
            moment, zone = stored[0].middle_boottime_ns, zones[0]
            drift = max(most - least, abs(zone.drift_uw))
            return Line(moment, zone.mean_uw, moment, zone.mean_uw, zone, drift, at_work)
        first, last = zones[0], zones[-1]
        drift = abs(last.mean_uw - first.mean_uw) if len(zones) > 1 else abs(first.drift_uw)
        noisier = max(zones, key=lambda zone: zone.deviation_uw)
        moments = around[0].middle_boottime_ns, around[-1].middle_boottime_ns
        return Line(moments[0], first.mean_uw, moments[1], last.mean_uw, noisier, drift, at_work)
