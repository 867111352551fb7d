"""Edits that leave JSON JSON: a value exchanged, a key dropped, an item repeated, in a document or in one of its lines.

Bytes that are changed anywhere are mostly no JSON any more, and reach no check behind the parser.
"""

from __future__ import annotations

import gzip
import json
import zlib
from copy import deepcopy
from random import Random
from typing import Any, Final

ODD: Final[tuple[Any, ...]] = (
    None, True, False, 0, 1, -1, 2, 1.5, -0.5, 1e300, -1e300, 5e-324, 2**53 - 1, -(2**53 - 1), 2**63, 10**30,
    "", "0", "-1", "x", "\0", "\n", "\ud800", "9" * 40, "NaN", "Infinity", "../../x", "sha256:" + "0" * 64, "0" * 64,
    "2026-01-02T03:04:05Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "resolved", "excluded", "timeout",
    [], {}, [None], [[]], {"": None}, ["x"] * 40,
)  # fmt: skip
_ROUNDS: Final = 3


def edited(content: bytes, random: Random) -> bytes:
    """One to three edits. What is no JSON is changed as bytes."""
    packed = content.startswith(b"\x1f\x8b")
    if packed:
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error):
            return _as_bytes(content, random)
    lines = content.split(b"\n") if b"\n" in content.rstrip(b"\n") else [content]
    at = random.randrange(len(lines))
    try:
        value = json.loads(lines[at])
    except (ValueError, RecursionError):
        after = _as_bytes(content, random)
    else:
        for _ in range(random.randint(1, _ROUNDS)):
            value = _edit(value, random)
        lines[at] = json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
        after = b"\n".join(lines)
    return gzip.compress(after, mtime=0) if packed else after


def _edit(value: Any, random: Random) -> Any:
    places = list(_places(value))
    if not places:
        return _odd(random)
    inner, key = random.choice(places)
    match random.randrange(8):
        case 0:
            del inner[key]
        case 1 if isinstance(inner, list):
            inner.insert(random.randrange(len(inner) + 1), deepcopy(inner[key]))
        case 2 if isinstance(inner, dict):
            inner[f"{key}{random.choice(['', 'x', '_'])}"] = _odd(random)
        case 3:
            other, name = random.choice(places)
            inner[key] = deepcopy(other[name]) if _holds(other, name) else _odd(random)
        case 4 if isinstance(inner[key], int | float):
            inner[key] = inner[key] + random.choice((1, -1, 0.5, 10**6, -(10**6)))
        case 5 if isinstance(inner[key], str) and inner[key]:
            text = inner[key]
            cut = random.randrange(len(text))
            inner[key] = text[:cut] + random.choice(("", text[cut] * 2, "\u00e9", "=", "A")) + text[cut + 1 :]
        case _:
            inner[key] = _odd(random)
    return value


def _odd(random: Random) -> Any:
    return deepcopy(random.choice(ODD))


def _places(value: Any) -> Any:
    """Every (container, key), however deep."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])


def _holds(container: Any, key: Any) -> bool:
    return key in container if isinstance(container, dict) else key < len(container)


def _as_bytes(content: bytes, random: Random) -> bytes:
    at = random.randrange(len(content) + 1)
    end = min(len(content), at + random.randrange(9))
    return content[:at] + random.randbytes(random.randrange(9)) + content[end:]
