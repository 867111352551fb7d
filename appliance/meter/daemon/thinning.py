"""Blocks made coarser: several become one, with samples further apart. Nothing that was counted is lost, only when.

A block that came of it has a head, the marks of inner windows, and its end where they were; its events come with the
next sample that is kept.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from appliance.energy.readings import Event
from appliance.meter.daemon.blocks import Block, BlockWriter


@dataclass(frozen=True, slots=True)
class _Moment:
    at_ns: int
    numbers: dict[str, int | None]
    """By the column's id; the machine's is empty."""
    events: tuple[Event, ...]
    mark: bool
    head: bool


def thinned(blocks: Sequence[Block], spacing_ns: int) -> Block:
    """Of blocks that follow each other, of the same zones, with no window's edge between them."""
    columns = tuple({one.id: one for block in blocks for one in block.columns}.values())
    ids = [*(zone.id for zone in blocks[0].zones), "", *(one.id for one in columns)]
    moments = list(_moments(blocks))
    head = [_first(moments, name) for name in ids]
    writer = BlockWriter(blocks[0].zones, columns, head, 0, moments[0].events)
    since: dict[str, int] = {}
    events: list[Event] = []
    for place, moment in enumerate(moments[1:], start=1):
        since.update({name: number for name, number in moment.numbers.items() if number is not None})
        _gather(events, moment.events)
        last = place == len(moments) - 1
        if last or moment.mark or (moment.at_ns - writer.last_ns >= spacing_ns and not moment.head):
            writer.sample(moment.at_ns, [since.get(name) for name in ids], events, moment.mark)
            since, events = {}, []
    return writer.finish(level=blocks[0].level + 1)


def _gather(events: list[Event], more: Sequence[Event]) -> None:
    """What is said twice is said once; percentages of SMs add up."""
    for event in more:
        same = (event.kind, event.subject, event.word, event.cgroups)
        at = next((at for at, one in enumerate(events) if (one.kind, one.subject, one.word, one.cgroups) == same), None)
        if event.kind == "sm" and at is not None:
            events[at] = replace(event, number=(events[at].number or 0) + (event.number or 0) or None)
        elif event not in events:
            events.append(event)


def _first(moments: Sequence[_Moment], name: str) -> int | None:
    """A column that joins later stands from the head on where it began."""
    numbers = (moment.numbers.get(name) for moment in moments)
    return next((number for number in numbers if number is not None), None)


def _moments(blocks: Sequence[Block]) -> Iterator[_Moment]:
    """In order; the head of a later block stands at the moment of the sample before it."""
    at_ns = 0
    for block in blocks:
        ids = [*(zone.id for zone in block.zones), "", *(one.id for one in block.columns)]
        base: list[int | None] = []
        events: list[Event] = []
        place = -1
        for line in zlib.decompress(block.content, 16 + zlib.MAX_WBITS).splitlines():
            value = json.loads(line)
            if isinstance(value, dict) and "event" in value:
                events.append(_event(value))
                continue
            if isinstance(value, dict):
                base = [None if text is None else int(text) for text in value["raw"]]
                now = base
            else:
                at_ns += value[0]
                now = [_sum(before, step) for before, step in zip(base, value[1:], strict=True)]
                base = [before if number is None else number for before, number in zip(base, now, strict=True)]
            yield _Moment(at_ns, dict(zip(ids, now, strict=True)), tuple(events), place in block.marks, place < 0)
            events, place = [], place + 1


def _sum(before: int | None, step: int | None) -> int | None:
    return None if before is None or step is None else before + step


def _event(value: dict[str, Any]) -> Event:
    return Event(
        value["event"], value.get("subject"), value.get("word"), value.get("number"), tuple(value.get("cgroups", ()))
    )
