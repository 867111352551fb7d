"""What a counter's child and the daemon say to one another: JSON in frames of a stated length, bounded and checked.

    child   {"zones": [...], "absent": [...], "generation": n}          first, and when its zones have changed
            {"readings": [...], "at": ns, "occupancy": [...], "generation": n}     to a request
    daemon  one byte a request; the end of its pipe ends the child

The child is not trusted: a frame that is too long or not of this form is `BadFrame`, and whatever else it says is
bounded in length and kind.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, get_args

from appliance.energy.counter import AbsentZone, CounterDomain, CounterZone, Occupancy, Reading, Unit
from appliance.energy.grades import Provenance

REQUEST: Final = b"r"
MOST_BYTES: Final = 256 * 1024
MOST_ZONES: Final = 64
_MOST_PIDS: Final = 4096
_MOST_NUMBER: Final = 2**64
_HEAD: Final = struct.Struct(">I")
_WORD: Final = re.compile(r"[A-Z][A-Z0-9_]{0,39}")
_TEXT: Final = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]{1,200}")
_FLAGS: Final = frozenset({"mirrored_dies", "power_averaged"})


class BadFrame(ValueError):
    """Not what a child may say: the message names it."""


@dataclass(frozen=True)
class ZonesSaid:
    zones: tuple[CounterZone, ...]
    """With the child's own ids."""
    absent: tuple[AbsentZone, ...]
    generation: int


@dataclass(frozen=True)
class ReadingsSaid:
    readings: tuple[Reading, ...]
    at_ns: int
    """The child's word for when it began to read (CLOCK_MONOTONIC)."""
    occupancy: tuple[tuple[str, Occupancy], ...]
    """By the child's id of the zone."""
    generation: int


# ------------------------------------------------------------------------------------------------- writing


def frame(value: dict[str, Any]) -> bytes:
    body = json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
    if len(body) > MOST_BYTES:
        raise BadFrame(f"{len(body)} bytes in a frame")
    return _HEAD.pack(len(body)) + body


def zones_frame(zones: Sequence[CounterZone], absent: Sequence[AbsentZone], generation: int) -> bytes:
    return frame(
        {
            "zones": [asdict(zone) for zone in zones],
            "absent": [asdict(one) for one in absent],
            "generation": generation,
        }
    )


def readings_frame(readings: Sequence[Reading], at_ns: int, occupancy: Sequence[Occupancy], generation: int) -> bytes:
    found = [{"zone": one.zone, "pids": sorted(one.pids)[:_MOST_PIDS], "sharing": one.sharing} for one in occupancy]
    return frame({"readings": list(readings), "at": at_ns, "occupancy": found, "generation": generation})


# ------------------------------------------------------------------------------------------------- reading


class Frames:
    """Pieces in, frames out."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> Iterator[ZonesSaid | ReadingsSaid]:
        """Raises BadFrame."""
        self._rest += piece
        while len(self._rest) >= _HEAD.size:
            (length,) = _HEAD.unpack_from(self._rest)
            if length > MOST_BYTES:
                raise BadFrame(f"{length} bytes in a frame")
            if len(self._rest) < _HEAD.size + length:
                return
            body = self._rest[_HEAD.size : _HEAD.size + length]
            self._rest = self._rest[_HEAD.size + length :]
            yield _said(body)


def _said(body: bytes) -> ZonesSaid | ReadingsSaid:
    try:
        value = json.loads(body)
        generation = _whole(value["generation"], _MOST_NUMBER)
        if "zones" in value:
            zones = tuple(_zone(one) for one in _listed(value["zones"], MOST_ZONES))
            if len({zone.id for zone in zones}) != len(zones) or len({zone.key for zone in zones}) != len(zones):
                raise BadFrame("two zones of one name")
            return ZonesSaid(zones, tuple(_absent(one) for one in _listed(value["absent"], MOST_ZONES)), generation)
        return ReadingsSaid(
            tuple(_reading(one) for one in _listed(value["readings"], MOST_ZONES)),
            _whole(value["at"], _MOST_NUMBER),
            tuple(_occupancy(one) for one in _listed(value["occupancy"], MOST_ZONES)),
            generation,
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise error if isinstance(error, BadFrame) else BadFrame(f"{type(error).__name__}: {error}") from error


def _zone(value: dict[str, Any]) -> CounterZone:
    zone = CounterZone(**{**value, "flags": tuple(_listed(value.get("flags", []), 8))})
    for name in ("id", "key", "path", "name", "source"):
        _text(getattr(zone, name))
    for name, words in (("domain", CounterDomain), ("unit", Unit), ("provenance", Provenance)):
        if getattr(zone, name) not in get_args(words):
            raise BadFrame(f"{name} {getattr(zone, name)!r:.60}")
    if zone.claimed is not None and zone.claimed not in get_args(Provenance):
        raise BadFrame(f"claimed {zone.claimed!r:.60}")
    if zone.max_range is not None:
        _whole(zone.max_range, _MOST_NUMBER, least=1)
    _whole(zone.most_uw, _MOST_NUMBER, least=1)
    _whole(zone.update_period_ns, 3600 * 10**9)
    _whole(zone.shortest_window_ns, 24 * 3600 * 10**9)
    if type(zone.summed) is not bool or not _FLAGS.issuperset(zone.flags):
        raise BadFrame(f"summed {zone.summed!r:.60}, flags {zone.flags!r:.60}")
    return zone


def _absent(value: dict[str, Any]) -> AbsentZone:
    absent = AbsentZone(**value)
    _text(absent.path)
    _text(absent.reason)
    if absent.mend is not None:
        _text(absent.mend)
    return absent


def _reading(value: Any) -> Reading:
    """What is neither a number of 64 bits nor an error's name is a lack like any other."""
    if type(value) is int and 0 <= value < _MOST_NUMBER:
        return value
    return value if isinstance(value, str) and _WORD.fullmatch(value) else "NOT_A_NUMBER"


def _occupancy(value: dict[str, Any]) -> tuple[str, Occupancy]:
    pids = frozenset(_whole(pid, 2**31) for pid in _listed(value["pids"], _MOST_PIDS))
    sharing = value["sharing"]
    if sharing not in (None, "mig", "mps", "unknown"):
        raise BadFrame(f"sharing {sharing!r:.60}")
    zone = _text(value["zone"])
    return zone, Occupancy(zone, pids, sharing)


def _listed(value: Any, most: int) -> list[Any]:
    if not isinstance(value, list) or len(value) > most:
        raise BadFrame(f"no list of {most} at the most")
    return value


def _whole(value: Any, most: int, *, least: int = 0) -> int:
    if type(value) is not int or not least <= value < most:
        raise BadFrame(f"no number of ours: {value!r:.60}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or not _TEXT.fullmatch(value):
        raise BadFrame(f"no text of ours: {value!r:.60}")
    return value
