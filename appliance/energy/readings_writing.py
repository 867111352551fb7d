"""Readings as the daemon writes them: lines, and gzip members of whole lines."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from dataclasses import is_dataclass
from functools import cache
from typing import Any

from appliance.energy.readings_shapes import SCHEMA, Event, Header


def header_line(header: Header) -> bytes:
    value = {"schema": SCHEMA, **_to_json(header)}
    if header.gpu_sharing == "device_total":
        # As readings had it before there was another: whoever reads them knows no such key.
        del value["gpuSharing"]
    return _line(value)


def block_line(zones: Iterable[str], cgroups: Iterable[str], raw: Iterable[int | None]) -> bytes:
    """`raw`: zones, machine, cgroups."""
    return block_line_of(block_names(zones, cgroups), raw)


def block_names(zones: Iterable[str], cgroups: Iterable[str]) -> bytes:
    """What heads of the same columns have in common, to the numbers."""
    return _line({"zones": list(zones), "cgroups": list(cgroups)})[:-2]


def block_line_of(names: bytes, raw: Iterable[int | None]) -> bytes:
    """A head with these `block_names`."""
    numbers = ",".join(["null" if value is None else f'"{value}"' for value in raw])
    return b'%b,"raw":[%b]}\n' % (names, numbers.encode())


def sample_line(dt_ns: int, differences: Iterable[int | None]) -> bytes:
    return _line([dt_ns, *differences])


def event_line(event: Event) -> bytes:
    value: dict[str, Any] = {"event": event.kind}
    for name in ("subject", "word", "number"):
        if getattr(event, name) is not None:
            value[name] = getattr(event, name)
    if event.cgroups:
        value["cgroups"] = list(event.cgroups)
    return _line(value)


def pack(lines: bytes) -> bytes:
    """One gzip member with a fixed header: equal lines are equal bytes."""
    # Differences are digits without pattern: to look for short repeats among them makes the stream an eighth longer.
    packer = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL, zlib.Z_FILTERED)
    body = packer.compress(lines) + packer.flush()
    tail = zlib.crc32(lines).to_bytes(4, "little") + (len(lines) & 0xFFFFFFFF).to_bytes(4, "little")
    return b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff" + body + tail


def _line(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode() + b"\n"


def _to_json(value: Any) -> Any:
    """Dataclasses as objects with keys in lowerCamelCase, tuples as lists; nothing is copied on the way."""
    if isinstance(value, tuple):
        return [_to_json(one) for one in value]
    if is_dataclass(value):
        return {camel(name): _to_json(one) for name, one in vars(value).items()}
    return value


@cache
def camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)
