"""This machine as a `ports.Host`."""

from __future__ import annotations

import threading
import time
from typing import Final

from appliance.host.facts import Roots, host_stamp, read_facts
from appliance.host.fitness import changes, static_checks
from appliance.host.looks import between, look
from appliance.host.timers import systemd_timers
from appliance.records.record import Check, EngineStamp, HostStamp

_FIRST_LOOK_SECONDS: Final = 0.25
"""Shortest time over which a load is told from a tick."""


class LocalHost:
    """Facts are read once; `fitness` looks at what happened since it was last asked."""

    def __init__(self, roots: Roots = Roots(), *, dirty: bool | None = None):  # noqa: B008  # frozen, only paths
        self._roots = roots
        self._dirty = dirty
        self.facts: Final = read_facts(roots)
        self._clock_origin = look(roots, self.facts.cgroups)
        self._lock = threading.Lock()

    def stamp(self, engine: EngineStamp, fitness: tuple[Check, ...]) -> HostStamp:
        return host_stamp(self.facts, engine, fitness)

    def fitness(self) -> tuple[Check, ...]:
        """Load is what stands beside us now, over a quarter of a second; sleep and clock steps since the last call."""
        with self._lock:
            first = look(self._roots, self.facts.cgroups)
            time.sleep(_FIRST_LOOK_SECONDS)
            last = look(self._roots, self.facts.cgroups)
            now = {check.name: check for check in changes(between(first, last))}
            since = {check.name: check for check in changes(between(self._clock_origin, last))}
            self._clock_origin = last
        lasting = {name: since[name] for name in ("suspend", "clock_step")}
        static = static_checks(self._roots, dirty=self._dirty, systemd=systemd_timers())
        return (*(now | lasting).values(), *static)
