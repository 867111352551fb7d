"""Who is on each GPU, from one reading to the next (rows G8, G10, G11)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from appliance.energy.exchanges import SERVER
from appliance.energy.readings import Event

_STRANGER: Final = "\0"
_UNREADABLE: Final = "unknown"


class Occupancy:
    """A state that holds until the next `gpu` event of its zone; a step's holders are those at either of its ends."""

    def __init__(self, trials: Mapping[str, str | None]):
        """`trials`: of each cgroup by id, `own` for the window's own."""
        self.touched: set[str] = set()
        """Zones that the trial itself was on."""
        self.unclear: set[str] = set()
        """Zones whose visitors could not be read at some moment."""
        self._trials = trials
        self._before: dict[str, frozenset[str]] = {}
        self._now: dict[str, frozenset[str]] = {}
        self._visitors: dict[str, set[str]] = {}
        self._ever: dict[str, set[str]] = {}
        self._percent: dict[str, dict[str, int]] = {}
        self._untold: set[str] = set()
        """Zones whose utilisation was not told, or not by process, at some moment."""

    def advance(self, events: Iterable[Event]) -> None:
        """At each reading, also one without events."""
        if self._before is not self._now:
            self._before = self._now
        for event in events:
            if event.kind == "sm" and event.subject is not None:
                self._use(event, event.subject)
            if event.kind != "gpu" or event.subject is None:
                continue
            if event.word is not None:
                self._untold.add(event.subject)
            ours = frozenset(one for one in event.cgroups if one in self._trials)
            self._now = {**self._now, event.subject: ours}
            if event.word == _UNREADABLE:
                self.unclear.add(event.subject)
            self._note(event, ours)

    def on(self, zone: str) -> tuple[str, ...]:
        """Cgroups that were on it at either end of the step that ends now, in the order of their ids."""
        nobody: frozenset[str] = frozenset()
        return tuple(sorted(self._before.get(zone, nobody) | self._now.get(zone, nobody)))

    def ever_on(self, zone: str) -> tuple[str, ...]:
        """Cgroups that were on it at any moment so far, in the order of their ids."""
        return tuple(sorted(self._ever.get(zone, ())))

    def shared(self, zone: str) -> bool:
        """Somebody else was on it in this window, at whatever moment, beside the trial (row G8)."""
        return zone in self.touched and len(self._visitors[zone]) > 1

    def utilisation(self, zone: str) -> tuple[dict[str, int], int]:
        """Percent by cgroup, and of processes of none of ours, summed over the driver's samples of this window; nothing
        where some of it was not told."""
        percent = {} if zone in self._untold else self._percent.get(zone, {})
        return {one: of_it for one, of_it in percent.items() if one != _STRANGER}, percent.get(_STRANGER, 0)

    def _use(self, event: Event, zone: str) -> None:
        if event.word is not None:
            self._untold.add(zone)
        percent = self._percent.setdefault(zone, {})
        whose = next((one for one in event.cgroups if one in self._trials), _STRANGER)
        percent[whose] = percent.get(whose, 0) + (event.number or 0)

    def _note(self, event: Event, ours: frozenset[str]) -> None:
        zone = event.subject or ""
        seen = self._visitors.setdefault(zone, set())
        if event.number or event.word is not None or len(ours) < len(set(event.cgroups)):
            seen.add(_STRANGER)
        self._ever.setdefault(zone, set()).update(ours)
        for one in ours:
            trial = self._trials[one]
            # What belongs to no trial is a visitor of its own; the run's model server is no stranger to its trials.
            served = "own" if trial == SERVER else trial
            seen.add(f"cgroup {one}" if served is None else f"trial {served}")
            if served == "own":
                self.touched.add(zone)
