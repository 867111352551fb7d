"""The header of readings from its JSON, every field looked at: what it was made of may come from a stranger."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, Final, TypeVar, get_args

from appliance.energy.counter import AbsentZone, CounterDomain, CounterZone, Unit
from appliance.energy.grades import Provenance
from appliance.energy.readings_shapes import (
    MAX_CGROUPS,
    MAX_INNER,
    MAX_INNER_AT_ONCE,
    MAX_ZONES,
    SCHEMA,
    CpuUnit,
    GpuSharing,
    Header,
    InnerWindow,
    Malformed,
    ReadCgroup,
)
from appliance.energy.readings_writing import camel
from appliance.moments import is_moment

_T = TypeVar("_T")
_Check = Callable[[Any], bool]
_MOST: Final = 2**53
_WIDE: Final = 2**64
"""Of a counter's own range and power, which are no times."""


def header_of(value: Any) -> Header:
    """Raises Malformed, naming line 1 and the key."""
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:
        raise Malformed(f"line 1: no header of {SCHEMA}")
    for key in ("zones", "cgroups"):
        if key not in value:
            raise Malformed(f"line 1: header lacks {key}")
    given = {key: one for key, one in value.items() if key != "schema"}
    several: dict[str, tuple[Any, ...]] = {}
    for key, kind, checks, most in (
        ("zones", CounterZone, _ZONE, MAX_ZONES),
        ("cgroups", ReadCgroup, _CGROUP, MAX_CGROUPS),
        ("absent", AbsentZone, _ABSENT, MAX_ZONES),
        ("inner", InnerWindow, _INNER, MAX_INNER),
    ):
        found = given.pop(key, [])
        if not isinstance(found, list) or len(found) > most:
            raise Malformed(f"line 1: {key} is no list of at most {most}")
        several[key] = tuple(_made(kind, one, checks, f"{key}[{at}]") for at, one in enumerate(found))
    header = _made(Header, given, _HEADER, "header", several)
    for key, ids in (("zones", [one.id for one in header.zones]), ("cgroups", [one.id for one in header.cgroups])):
        if len(set(ids)) != len(ids):
            raise Malformed(f"line 1: an id stands twice in {key}")
    _check_inner(header)
    return header


def _made(
    kind: Callable[..., _T],
    value: Any,
    checks: Mapping[str, _Check],
    where: str,
    known: Mapping[str, tuple[Any, ...]] | None = None,
) -> _T:
    """`known`: fields that are made already."""
    if not isinstance(value, dict):
        raise Malformed(f"line 1: {where} is no object")
    made: dict[str, Any] = dict(known or {})
    keys = _keys(kind)
    for name, key, needed in keys:
        if name in made:
            continue
        if key not in value:
            if needed:
                raise Malformed(f"line 1: {where} lacks {key}")
            continue
        one = value[key]
        if not checks[name](one):
            raise Malformed(f"line 1: {key} of {where} is none of ours")
        made[name] = tuple(one) if isinstance(one, list) else one
    unknown = set(value) - {key for name, key, _ in keys if name in checks}
    if unknown:
        raise Malformed(f"line 1: {where} has a key that is none of ours: {min(unknown)[:40]!r}")
    return kind(**made)


@cache
def _keys(kind: Callable[..., Any]) -> tuple[tuple[str, str, bool], ...]:
    """Of each field: its name, its key in the file, whether the key has to be there."""
    several = fields(kind)  # type: ignore[arg-type]  # all of them are dataclasses
    return tuple((one.name, camel(one.name), one.default is MISSING) for one in several)


def _check_inner(header: Header) -> None:
    edges: list[tuple[int, int]] = []
    for at, one in enumerate(header.inner):
        if not one.opened_ns <= one.closed_ns <= header.length_ns:
            raise Malformed(f"line 1: inner[{at}] does not lie in the window")
        edges += [(one.opened_ns, 1), (one.closed_ns, -1)]
    depth = 0
    for _, step in sorted(edges):
        depth += step
        if depth > MAX_INNER_AT_ONCE:
            raise Malformed(f"line 1: over {MAX_INNER_AT_ONCE} inner windows at once")


def _text(value: Any) -> bool:
    """Half a surrogate pair is no text: it cannot be written again."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _flag(value: Any) -> bool:
    return type(value) is bool


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(_text(one) for one in value)


def _whole(least: int, most: int) -> _Check:
    return lambda value: type(value) is int and least <= value <= most


def _maybe(check: _Check) -> _Check:
    return lambda value: value is None or check(value)


def _word(words: Sequence[str]) -> _Check:
    return lambda value: isinstance(value, str) and value in words


def _matches(pattern: str) -> _Check:
    expected = re.compile(pattern)
    return lambda value: isinstance(value, str) and expected.fullmatch(value) is not None


_time = _whole(0, _MOST)
_provenance = _word(get_args(Provenance))
_HEADER: Final[dict[str, _Check]] = {
    "run": _text,
    "trial": _maybe(_whole(0, _MOST)),
    "meter": _text,
    "opened_at": is_moment,
    "boot_id": _text,
    "opened_boottime_ns": _matches("[0-9]{1,24}"),
    "length_ns": _time,
    "open_skew_ns": _time,
    "close_skew_ns": _time,
    "period_ns": _time,
    "cpus": _whole(1, 2**20),
    "tick_ns": _time,
    "cpu_unit": _word(get_args(CpuUnit)),
    "strangers_at_close": _flag,
    "cpu_after_close_ns": _maybe(_time),
    "flags": _texts,
    "gpu_sharing": _word(get_args(GpuSharing)),
}
_ZONE: Final[dict[str, _Check]] = {
    "id": _text,
    "key": _text,
    "path": _text,
    "name": _text,
    "domain": _word(get_args(CounterDomain)),
    "unit": _word(get_args(Unit)),
    "max_range": _maybe(_whole(1, _WIDE)),
    "most_uw": _whole(1, _WIDE),
    "update_period_ns": _time,
    "shortest_window_ns": _time,
    "source": _text,
    "provenance": _provenance,
    "claimed": _maybe(_provenance),
    "summed": _flag,
    "flags": _texts,
}
_CGROUP: Final[dict[str, _Check]] = {"id": _text, "role": _text, "trial": _maybe(_text)}
_ABSENT: Final[dict[str, _Check]] = {"path": _text, "reason": _text, "mend": _maybe(_text)}
_INNER: Final[dict[str, _Check]] = {"label": _text, "opened_ns": _time, "closed_ns": _time}
