"""A picture a second from a daemon that may go and come back: what `watch` and `export` have in common."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from appliance.errors import HostRefused, MeterRefused
from appliance.meter.client import MeterClient
from appliance.meter.faces.ledger import IdlePower, Ledger
from appliance.meter.faces.naming import Known, container_of
from appliance.meter.faces.picture import Picture
from appliance.meter.faces.watching import Watched, watched

_AGAIN_SECONDS: Final = 1.0
_NAMES_EVERY_SECONDS: Final = 2.0
_IDLE_EVERY_SECONDS: Final = 60.0
# What the other end says where it is gone; anything else it says will not change by asking again.
_GONE: Final = frozenset({"no_meter", "gone"})


@dataclass(frozen=True)
class Lost:
    """The daemon does not answer; we ask again."""

    why: str


@dataclass(frozen=True)
class Seen:
    picture: Picture
    names: Mapping[str, Known]
    """Of containers, by id."""


Names = Callable[[], Mapping[str, Known]]
"""Asks the engine for its running containers, by id; never raises."""


@dataclass
class Follower:
    """`connect` raises HostRefused where nobody listens; `idle` is asked anew every minute: it is made, and lapses."""

    connect: Callable[[], MeterClient]
    idle: Callable[[Watched], IdlePower | None] = field(default=lambda _line: None)
    names: Names = field(default=dict)
    pause: Callable[[float], None] = time.sleep
    client: MeterClient | None = None

    def follow(self, *, patient: bool = True) -> Iterator[Seen | Lost]:
        """Without end. Not `patient`: raises what the first connection raises; later losses are told, and outlived."""
        ledger = Ledger()
        names: Mapping[str, Known] = {}
        named_at = idle_at = float("-inf")
        while True:
            try:
                for line in self._lines():
                    one = watched(line)
                    patient, now = True, time.monotonic()
                    if now - idle_at >= _IDLE_EVERY_SECONDS:
                        ledger.idle, idle_at = self.idle(one), now
                    picture = ledger.take(one)
                    if now - named_at >= _NAMES_EVERY_SECONDS:
                        names, named_at = _still_shown({**names, **self.names()}, picture), now
                    yield Seen(picture, names)
            except (HostRefused, MeterRefused) as refusal:
                if not patient or refusal.reason not in _GONE:
                    raise
                yield Lost(str(refusal))
            ledger.interrupt()
            idle_at = float("-inf")  # another daemon may have other counters
            self.pause(_AGAIN_SECONDS)

    def _lines(self) -> Iterator[dict[str, Any]]:
        self.client = self.connect()
        try:
            yield from self.client.watch()
        finally:
            self.client.close_connection()
            self.client = None


def _still_shown(names: Mapping[str, Known], picture: Picture) -> dict[str, Known]:
    """A container that is gone keeps its name for as long as its joules are told."""
    shown = {container_of(view.path) for view in picture.cgroups}
    return {container: name for container, name in names.items() if container in shown}
