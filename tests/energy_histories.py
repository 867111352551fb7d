"""Histories of a machine, moment by moment, written as readings that are cut into blocks wherever a test wants."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from appliance.energy.counter import CounterZone
from appliance.energy.readings import (
    Event,
    Header,
    ReadCgroup,
    Readings,
    block_line,
    event_line,
    header_line,
    pack,
    sample_line,
    unpack,
)
from tests.readings_builder import header

TENTH_NS = 100_000_000


@dataclass(frozen=True)
class Moment:
    """Raw numbers by id; an id that is not there had no column then."""

    at_ns: int
    zones: Mapping[str, int | None]
    machine: int | None
    cgroups: Mapping[str, int | None]
    events: tuple[Event, ...] = ()


@dataclass(frozen=True)
class History:
    zones: tuple[CounterZone, ...]
    cgroups: tuple[ReadCgroup, ...]
    moments: tuple[Moment, ...]
    head: Mapping[str, Any] = field(default_factory=dict)

    def readings(
        self, cuts: Collection[int] = (), *, since: int = 0, until: int | None = None, **head: Any
    ) -> Readings:
        """The window from one moment to another; `cuts`: where a block begins besides where columns change."""
        last = len(self.moments) - 1 if until is None else until
        moments = self.moments[since : last + 1]
        fields = {"cgroups": self.cgroups, **self.head, **head}
        columns = fields.pop("cgroups")
        length = moments[-1].at_ns - moments[0].at_ns
        made = header(self.zones, columns, length, **fields)
        return unpack(pack(header_line(made)) + written(made, moments, {cut - since for cut in cuts}))


def written(made: Header, moments: Sequence[Moment], cuts: Collection[int]) -> bytes:
    """Blocks, a gzip member each. A column stands in a step where both of its moments have it."""
    members: list[bytes] = []
    lines: list[bytes] = [event_line(event) for event in moments[0].events]
    columns: tuple[list[str], list[str]] | None = None
    read: dict[str, int] = {}
    for at, now in enumerate(moments):
        after = moments[min(at + 1, len(moments) - 1)]
        if at > 0:
            before = moments[at - 1]
            assert columns is not None
            lines += [event_line(event) for event in now.events]
            raws = _raws(now, columns)
            steps = [None if raw is None else raw - read.get(name, 0) for name, raw in raws]
            read.update({name: raw for name, raw in raws if raw is not None})
            lines.append(sample_line(now.at_ns - before.at_ns, steps))
        following = (
            [one.id for one in made.zones if one.id in now.zones and one.id in after.zones],
            [one.id for one in made.cgroups if one.id in now.cgroups and one.id in after.cgroups],
        )
        if at == 0 or (at < len(moments) - 1 and (following != columns or at in cuts)):
            if at > 0:
                members.append(pack(b"".join(lines)))
                lines = []
            columns = following
            raws = _raws(now, columns)
            read.update({name: raw for name, raw in raws if raw is not None})
            lines.append(block_line(*columns, [raw for _, raw in raws]))
    return b"".join([*members, pack(b"".join(lines))])


def _raws(now: Moment, columns: tuple[list[str], list[str]]) -> list[tuple[str, int | None]]:
    zones, cgroups = columns
    return [
        *((one, now.zones[one]) for one in zones),
        ("machine", now.machine),
        *((one, now.cgroups[one]) for one in cgroups),
    ]


def steady(
    zones: Sequence[CounterZone],
    raws: Sequence[Mapping[str, int | None]],
    cgroups: Sequence[ReadCgroup] = (ReadCgroup("c0", "solver", "own"),),
    *,
    step_ns: int = TENTH_NS,
    cpu_ns: int = TENTH_NS,
    events: Mapping[int, tuple[Event, ...]] | None = None,
    **head: Any,
) -> History:
    """Moments `step_ns` apart with these raw numbers; every cgroup uses `cpu_ns` a step, and nobody else any."""
    said = events or {}
    return History(
        zones=tuple(zones),
        cgroups=tuple(cgroups),
        moments=tuple(
            Moment(
                at_ns=at * step_ns,
                zones=raw,
                machine=10**12 + at * cpu_ns * len(cgroups),
                cgroups={one.id: 10**9 + at * cpu_ns for one in cgroups},
                events=said.get(at, ()),
            )
            for at, raw in enumerate(raws)
        ),
        head=head,
    )


def any_cuts(moments: int, seed: int) -> set[int]:
    chance = random.Random(seed)
    return {at for at in range(1, moments) if chance.random() < 0.4}
