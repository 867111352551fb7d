"""A request's body as its form means it: its content-encoding undone, its JSON parsed, both within bounds."""

from __future__ import annotations

import json
import zlib
from typing import Any, Final

from appliance.gateway.exchange import Asked

MAX_BYTES: Final = 64 * 1024 * 1024
"""Of a decoded request: a context window of ten million tokens, or some thirty images."""
_WINDOW: Final = {"gzip": 31, "x-gzip": 31, "deflate": 15}
"""zlib's window bits: with a gzip header; with zlib's own."""


_MOST_MEMBERS: Final = 1000
"""Of a gzip body: each costs a copy of what follows it."""
_LARGE: Final = 256 * 1024
_MOST_PARTS: Final = 400_000
"""Of a large body, counted by the bytes that begin or part them, also those within texts. The parser takes 100 bytes a
part and holds the interpreter until it is done: a thread of its own would help nobody."""


class Malformed(ValueError):
    """A request that no upstream could take, in words that its sender can act on."""


class TooLarge(Malformed):
    """Its body is over the bound once it is decoded."""


def decoded(asked: Asked, most: int = MAX_BYTES) -> bytes:
    """The body without its content-encoding. Raises TooLarge before more than `most` bytes are held, else Malformed."""
    names = [
        name.strip().lower() for key, value in asked.headers if key == "content-encoding" for name in value.split(",")
    ]
    codings = [name for name in names if name not in {"", "identity"}]
    if len(codings) > 1:
        raise Malformed(f"content-encoding {', '.join(codings)[:80]}: one coding at most is read here")
    body = asked.body if not codings else _inflated(asked.body, codings[0], most)
    if len(body) > most:
        raise TooLarge(f"the request has {len(body)} bytes; at most {most} are taken")
    return body


def _inflated(body: bytes, coding: str, most: int) -> bytes:
    if coding not in _WINDOW:
        raise Malformed(f"content-encoding {coding[:40]!r} is not read here: send gzip, deflate or nothing")
    window = _WINDOW[coding]
    if coding == "deflate" and not (body[:1] and body[0] & 0x0F == 8 and int.from_bytes(body[:2], "big") % 31 == 0):
        window = -15  # what some senders call deflate: without zlib's header
    found = bytearray()
    rest = body
    members = 0
    try:
        while rest:
            members += 1
            if members > _MOST_MEMBERS:
                raise Malformed(f"the request's {coding} body has too many members")
            inflater = zlib.decompressobj(window)
            found += inflater.decompress(rest, most + 1 - len(found))
            if len(found) > most:
                raise TooLarge(f"the request's {coding} body is over {most} bytes once it is decoded")
            if not inflater.eof:
                raise Malformed(f"the request's {coding} body ends too early")
            rest = inflater.unused_data if window == 31 else b""  # gzip's members may follow each other
    except zlib.error as error:
        raise Malformed(f"the request's {coding} body cannot be read: {error}") from error
    return bytes(found)


def read_object(body: bytes) -> dict[str, Any]:
    """Raises Malformed for what is no JSON object."""
    try:
        value = json.loads(body, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"the request's body is not JSON: {short(str(error))}") from error
    if not isinstance(value, dict):
        raise Malformed("the request's body is not a JSON object")
    return value


def read_strictly(body: bytes) -> dict[str, Any]:
    """As nobody can read it otherwise: UTF-8, no name twice in an object. Raises Malformed, or TooLarge."""
    if len(body) > _LARGE and sum(body.count(mark) for mark in b"[{,") > _MOST_PARTS:
        raise TooLarge(f"the request's body has more than {_MOST_PARTS} parts")
    try:
        value = json.loads(body.decode(), parse_constant=_refuse, object_pairs_hook=_once)
    except UnicodeDecodeError as error:
        raise Malformed("the request's body is not UTF-8") from error
    except Malformed:
        raise
    except (ValueError, RecursionError) as error:
        raise Malformed(f"the request's body is not JSON: {short(str(error))}") from error
    if not isinstance(value, dict):
        raise Malformed("the request's body is not a JSON object")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Malformed("an object in the request's body has the same name twice")
    return found


def _refuse(word: str) -> Any:
    raise Malformed(f"{word} is not a JSON number")


def short(text: str, most: int = 200) -> str:
    """What stands in a message: no more than `most` characters, none that cannot be written as UTF-8."""
    return clean(text if len(text) <= most else f"{text[: most - 3]}...")


def clean(text: str) -> str:
    """Lone surrogates, which JSON can spell and UTF-8 cannot, become `?`."""
    return text.encode(errors="replace").decode()
