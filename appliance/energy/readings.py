"""readings-v1: what was read during one window, raw, as JSON lines in gzip; from it every joule is recomputed.

    {header}                                   who, when, which zones and cgroups
    {"zones": [ids], "cgroups": [ids], "raw": [...]}     a block: raw numbers as decimal strings, or null
    [dt, ...]                                  a sample: differences to the one before
    {"event": ...}                             what the next sample has to say beside numbers

A block's columns are its zones, the machine's CPU time, its cgroups, in this order. A block repeats the moment of the
sample before it with other columns: no time passes at its head, and whoever joins there has its baseline. The first
block stands at the window's opening. Differences are signed and refer to the column's last number that was read (a
null is passed over); `dt` is nanoseconds since the sample before. Nothing passes 2^53 but the decimal strings. Several
gzip members in a row are one stream of whole lines each: blocks that several windows share are compressed once.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, get_args

from appliance.energy.readings_header import header_of
from appliance.energy.readings_shapes import (
    MAX_BYTES,
    MAX_EVENTS,
    MAX_LINE_BYTES,
    SCHEMA,
    CpuUnit,
    Event,
    EventKind,
    GpuSharing,
    Header,
    InnerWindow,
    Malformed,
    ReadCgroup,
    Sample,
)
from appliance.energy.readings_writing import (
    block_line,
    block_line_of,
    block_names,
    event_line,
    header_line,
    pack,
    sample_line,
)

__all__ = [
    "MAX_BYTES",
    "MAX_LINE_BYTES",
    "SCHEMA",
    "CpuUnit",
    "Event",
    "EventKind",
    "GpuSharing",
    "Header",
    "InnerWindow",
    "Malformed",
    "ReadCgroup",
    "Readings",
    "Sample",
    "block_line",
    "block_line_of",
    "block_names",
    "event_line",
    "header_line",
    "pack",
    "sample_line",
    "unpack",
]

_PIECE: Final = 64 * 1024
_MOST: Final = 2**53
_DECIMAL: Final = re.compile(r"-?[0-9]{1,24}")
# Of an error or a way of sharing: it comes into records.
_WORD: Final = re.compile("[ -~]{1,128}")
_EVENTS: Final = frozenset(get_args(EventKind))
_EVENT_KEYS: Final = frozenset({"event", "subject", "word", "number", "cgroups"})
_Column = tuple[str, str]
"""(`zone` | `machine` | `cgroup`, id)"""


@dataclass(frozen=True)
class Readings:
    """A header and its samples; `samples()` unpacks anew each time and holds one at a time."""

    header: Header
    content: bytes = field(repr=False)
    most_bytes: int = MAX_BYTES

    def samples(self) -> Iterator[Sample]:
        """In order of time; the first stands at 0, the last at the header's length. Raises Malformed."""
        lines = _lines(self.content, self.most_bytes)
        next(lines)
        return _samples(lines, self.header)


def unpack(content: bytes, most_bytes: int = MAX_BYTES) -> Readings:
    """Only the header is read here; `most_bytes` bounds all lines once unpacked. Raises Malformed, naming the line."""
    first = next(_lines(content, most_bytes), None)
    if first is None:
        raise Malformed("line 1: empty")
    return Readings(header_of(_parsed(first, 1)), content, most_bytes)


def _samples(lines: Iterator[bytes], header: Header) -> Iterator[Sample]:
    reader = _Reader(header)
    number = 1
    for number, raw in enumerate(lines, start=2):
        sample = reader.take(_parsed(raw, number), number)
        if sample is not None:
            yield sample
    if not reader.columns or reader.events:
        raise Malformed(f"line {number}: no sample follows")
    if reader.at_ns != header.length_ns:
        raise Malformed(f"line {number}: the last sample stands at {reader.at_ns}, lengthNs is {header.length_ns}")


class _Reader:
    """From one line to the next: the columns of the block, their last numbers, and events that wait for a sample."""

    def __init__(self, header: Header):
        self.columns: list[_Column] = []
        self.events: list[Event] = []
        self.at_ns = 0
        self._zones = {zone.id for zone in header.zones}
        self._cgroups = {one.id for one in header.cgroups}
        self._last: dict[_Column, int] = {}
        """Of every column of the blocks before, the last number that was read."""
        self._numbers: list[int] = []
        """The same of this block's, beside its columns; 0 where none was read yet."""
        self._before: list[int | None] = []
        """The sample before, beside its columns."""
        self._zone_ids: list[str] = []
        self._cgroup_ids: list[str] = []

    def take(self, value: Any, number: int) -> Sample | None:
        """None: an event, which belongs to the sample that follows."""
        if isinstance(value, list) and self.columns:
            read = self._differences(value, number)
        elif isinstance(value, dict) and "event" in value:
            if len(self.events) >= MAX_EVENTS:
                raise Malformed(f"line {number}: over {MAX_EVENTS} events before one sample")
            self.events.append(_event(value, number))
            return None
        elif isinstance(value, dict):
            read = self._block(value, number)
        else:
            raise Malformed(f"line {number}: neither a block nor a sample of one")
        self._before = read
        events, self.events = tuple(self.events), []
        at = len(self._zone_ids)
        return Sample(
            at_ns=self.at_ns,
            zones=dict(zip(self._zone_ids, read[:at], strict=True)),
            machine=read[at],
            cgroups=dict(zip(self._cgroup_ids, read[at + 1 :], strict=True)),
            events=events,
        )

    def _block(self, value: dict[str, Any], number: int) -> list[int | None]:
        if set(value) != {"zones", "cgroups", "raw"} or not all(isinstance(one, list) for one in value.values()):
            raise Malformed(f"line {number}: a block has zones, cgroups and raw")
        zones = _known(value["zones"], self._zones, "zone", number)
        columns = [*zones, ("machine", ""), *_known(value["cgroups"], self._cgroups, "cgroup", number)]
        numbers = [_decimal(text, number) for text in value["raw"]]
        if len(numbers) != len(columns):
            raise Malformed(f"line {number}: {len(columns)} columns and {len(numbers)} numbers")
        befores = dict(zip(self.columns, self._before, strict=True))
        for column, one in zip(columns, numbers, strict=True):
            # The sample before is of the same moment; what one of the two could not read, the other may have.
            before = befores.get(column)
            if one is not None and before is not None and one != before:
                raise Malformed(f"line {number}: {column[1] or 'machine'} is not where the sample before left it")
        self._last.update(zip(self.columns, self._numbers, strict=True))
        self.columns = columns
        self._numbers = [
            self._last.get(column, 0) if one is None else one for column, one in zip(columns, numbers, strict=True)
        ]
        self._zone_ids = [name for _, name in zones]
        self._cgroup_ids = [name for _, name in columns[len(zones) + 1 :]]
        return numbers

    def _differences(self, value: list[Any], number: int) -> list[int | None]:
        if len(value) != len(self.columns) + 1:
            raise Malformed(f"line {number}: {len(value) - 1} numbers for {len(self.columns)} columns")
        dt_ns = value[0]
        if type(dt_ns) is not int or not 0 <= dt_ns <= _MOST:
            raise Malformed(f"line {number}: no time since the sample before")
        self.at_ns += dt_ns
        last = self._numbers
        read: list[int | None] = []
        for at, step in enumerate(value[1:]):
            if type(step) is int and -_MOST <= step <= _MOST:
                # A column that was never read before begins with its first number.
                last[at] += step
                read.append(last[at])
            elif step is None:
                read.append(None)
            else:
                raise Malformed(f"line {number}: no difference in column {self.columns[at][1] or 'machine'}")
        return read


def _known(names: list[Any], known: set[str], kind: str, number: int) -> list[_Column]:
    for name in names:
        if not isinstance(name, str) or name not in known:
            raise Malformed(f"line {number}: a {kind} that the header does not have")
    if len(set(names)) != len(names):
        raise Malformed(f"line {number}: a {kind} stands there twice")
    return [(kind, name) for name in names]


def _event(value: dict[str, Any], number: int) -> Event:
    kind, cgroups = value["event"], value.get("cgroups", [])
    if not isinstance(kind, str) or kind not in _EVENTS:
        raise Malformed(f"line {number}: no event of ours")
    if not set(value) <= _EVENT_KEYS:
        raise Malformed(f"line {number}: an event has event, subject, word, number and cgroups")
    if "subject" in value and not isinstance(value["subject"], str):
        raise Malformed(f"line {number}: subject of an event is an id")
    if "word" in value and not (isinstance(value["word"], str) and _WORD.fullmatch(value["word"])):
        raise Malformed(f"line {number}: word of an event is a word")
    count = value.get("number", 0)
    if type(count) is not int or not 0 <= count <= _MOST:
        raise Malformed(f"line {number}: number of an event counts something")
    if not isinstance(cgroups, list) or not all(isinstance(one, str) for one in cgroups):
        raise Malformed(f"line {number}: cgroups of an event are ids")
    return Event(kind, value.get("subject"), value.get("word"), value.get("number"), tuple(cgroups))  # type: ignore[arg-type]  # looked up above


def _decimal(text: Any, number: int) -> int | None:
    if text is None:
        return None
    if not isinstance(text, str) or not _DECIMAL.fullmatch(text):
        raise Malformed(f"line {number}: raw numbers are decimal strings")
    return int(text)


def _no_float(text: str) -> Any:
    raise ValueError(f"{text} is no whole number")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands there twice")
    return found


_DECODER: Final = json.JSONDecoder(parse_float=_no_float, parse_constant=_no_float, object_pairs_hook=_once)


def _parsed(raw: bytes, number: int) -> Any:
    try:
        text = raw.decode()
        if text[:1] in ("[", "{"):
            value, end = _DECODER.raw_decode(text)
            if end == len(text):
                return value
        # White space around it is JSON too, and what is no value of ours is told by the same words.
        return _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"line {number}: {error}") from error


def _lines(content: bytes, most_bytes: int) -> Iterator[bytes]:
    """Lines of all members, one after another; bounded in a line and in all. No line reaches over a member's end."""
    number, total, at = 1, 0, 0
    view = memoryview(content)
    while at < len(view):
        unpacker, rest, piece, before = zlib.decompressobj(16 + zlib.MAX_WBITS), b"", b"", total
        while not unpacker.eof:
            chunk = unpacker.unconsumed_tail
            # A full piece may leave output behind that needs no further input.
            if not chunk and len(piece) < _PIECE:
                chunk = bytes(view[at : at + _PIECE])
                at += len(chunk)
                if not chunk:
                    raise Malformed(f"line {number}: cut off")
            try:
                piece = unpacker.decompress(chunk, _PIECE)
            except zlib.error as error:
                raise Malformed(f"line {number}: no gzip: {error}") from error
            total += len(piece)
            if total > most_bytes:
                raise Malformed(f"line {number}: over {most_bytes} bytes in all")
            *whole, rest = (rest + piece).split(b"\n")
            if len(rest) > MAX_LINE_BYTES:
                raise Malformed(f"line {number}: over {MAX_LINE_BYTES} bytes")
            for line in whole:
                yield line
                number += 1
        if rest or total == before:
            raise Malformed(f"line {number}: a gzip member that does not hold whole lines")
        at -= len(unpacker.unused_data)
