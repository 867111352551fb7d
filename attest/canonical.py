"""Strict JSON and its RFC 8785 form: the only bytes that are ever signed, stored or believed.

Stored bytes must equal the canonical form of what they parse to; two parsers can then not see two records under one
signature (duplicate keys, `1.0` and `1`, escapes, white space).
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

import rfc8785

MAX_SAFE_INTEGER: Final = 2**53 - 1
MAX_BYTES: Final = 256 * 1024 * 1024
MAX_DEPTH: Final = 64

Json = Any  # what json.loads gives: None, bool, int, float, str, list, dict


class NotCanonical(ValueError):
    """Bytes that are not the RFC 8785 form of a JSON value; `path` is a JSON path where one is known."""

    def __init__(self, message: str, path: str = "$"):
        super().__init__(message)
        self.message = message
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def dumps(value: Json) -> bytes:
    """The RFC 8785 form. Raises NotCanonical for NaN, infinities, integers beyond 2^53 - 1, lone surrogates."""
    _check_depth_and_numbers(value)
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError, RecursionError) as error:
        raise NotCanonical(str(error)) from error


def loads(content: bytes, *, max_bytes: int = MAX_BYTES) -> Json:
    """Parse strictly: UTF-8 without a byte order mark, no duplicate keys, finite numbers, bounded size and depth."""
    if len(content) > max_bytes:
        raise NotCanonical(f"{len(content)} bytes, over the bound of {max_bytes}")
    if content.startswith(b"\xef\xbb\xbf"):
        raise NotCanonical("starts with a byte order mark")
    _refuse_deep_nesting(content)
    try:
        value = json.loads(
            content.decode("utf-8"),
            object_pairs_hook=_object_without_duplicates,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            parse_int=_bounded_int,
        )
    except UnicodeDecodeError as error:
        raise NotCanonical(f"not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise NotCanonical(f"not JSON at line {error.lineno}, column {error.colno}: {error.msg}") from error
    except RecursionError as error:
        raise NotCanonical("nested too deeply") from error
    _check_depth_and_numbers(value)
    return value


def loads_canonical(content: bytes, *, max_bytes: int = MAX_BYTES) -> Json:
    """`loads`, and the bytes must be their own canonical form."""
    value = loads(content, max_bytes=max_bytes)
    form = dumps(value)
    if form != content:
        at = next(
            (i for i, (a, b) in enumerate(zip(form, content, strict=False)) if a != b), min(len(form), len(content))
        )
        raise NotCanonical(f"not in canonical form (RFC 8785) from byte {at} on")
    return value


def _object_without_duplicates(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for key, value in pairs:
        if key in found:
            raise NotCanonical(f"key {key!r} stands twice in one object")
        found[key] = value
    return found


def _refuse_constant(word: str) -> Json:
    raise NotCanonical(f"{word} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise NotCanonical(f"number out of range: {text[:40]}")
    return number


def _bounded_int(text: str) -> int:
    # Compared by length first: int() of a million digits is an attack.
    if len(text) > 17 or abs(int(text)) > MAX_SAFE_INTEGER:
        raise NotCanonical(f"integer beyond 2^53 - 1: {text[:40]}")
    return int(text)


def _refuse_deep_nesting(content: bytes) -> None:
    """Bounds depth before the recursive parser sees it; brackets inside strings do not count."""
    if content.count(b"[") + content.count(b"{") <= MAX_DEPTH:
        return
    depth = 0
    in_string = escaped = False
    for byte in content:
        if in_string:
            if escaped:
                escaped = False
            elif byte == 0x5C:
                escaped = True
            elif byte == 0x22:
                in_string = False
        elif byte == 0x22:
            in_string = True
        elif byte in (0x5B, 0x7B):
            depth += 1
            if depth > MAX_DEPTH:
                raise NotCanonical(f"nested deeper than {MAX_DEPTH}")
        elif byte in (0x5D, 0x7D):
            depth -= 1


def _check_depth_and_numbers(value: Json) -> None:
    pending: list[tuple[Json, int, str]] = [(value, 0, "$")]
    while pending:
        current, depth, path = pending.pop()
        if depth > MAX_DEPTH:
            raise NotCanonical(f"nested deeper than {MAX_DEPTH}", path)
        if isinstance(current, dict):
            for key, child in current.items():
                if not isinstance(key, str) or not key.isascii():
                    raise NotCanonical(f"key {key!r} is not ASCII", path)
                pending.append((child, depth + 1, f"{path}.{key}"))
        elif isinstance(current, list | tuple):
            pending.extend((child, depth + 1, f"{path}[{i}]") for i, child in enumerate(current))
        elif isinstance(current, float):
            if not math.isfinite(current) or (current.is_integer() and abs(current) > MAX_SAFE_INTEGER):
                raise NotCanonical(f"number that JSON parsers disagree on: {current!r}", path)
        elif isinstance(current, int) and not isinstance(current, bool) and abs(current) > MAX_SAFE_INTEGER:
            raise NotCanonical("integer beyond 2^53 - 1", path)
        elif isinstance(current, str):
            try:
                current.encode()
            except UnicodeEncodeError as error:
                raise NotCanonical("text holds a lone surrogate", path) from error
