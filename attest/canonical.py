"""Strict JSON and its RFC 8785 form: the only bytes that are ever signed, stored or believed.

Stored bytes must equal the canonical form of what they parse to; two parsers can then not see two records under one
signature (duplicate keys, `1.0` and `1`, escapes, white space).

Two ways lead to each answer. The slow one walks every value in Python and says what is wrong and where; rfc8785 writes
its form. The quick one is compiled - the interpreter's own JSON, and of what is long a reader and a writer of libraries
that are there anyway (decision 20) - and may only say yes: what it is not sure of goes the slow way. A property test
holds both to the same answers.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any, Final, NamedTuple

import rfc8785

MAX_SAFE_INTEGER: Final = 2**53 - 1
MAX_BYTES: Final = 256 * 1024 * 1024
MAX_DEPTH: Final = 64

_STRING: Final = re.compile(rb'"[^"]*(?:"|\Z)')
_ONE_KIND: Final = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b'[]{}"'))
_ALIKE: Final = bytes.maketrans(b"123456789,[-", b"000000000:::")
_LONG_INTEGER: Final = b":" + b"0" * 16
_LONG: Final = 2 * 1024
"""Bytes, from which on compiled libraries are worth importing."""

Json = Any  # what json.loads gives: None, bool, int, float, str, list, dict
Parts = dict[str, str | tuple[str, ...]]
"""Canonical text by an object's keys: of a member, or of each element of a list."""


class NotCanonical(ValueError):
    """Bytes that are not the RFC 8785 form of a JSON value; `path` is a JSON path where one is known."""

    def __init__(self, message: str, path: str = "$"):
        super().__init__(message)
        self.message = message
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def dumps(value: Json) -> bytes:
    """The RFC 8785 form. Raises NotCanonical for NaN, infinities, integers beyond 2^53 - 1, lone surrogates, and for
    what is nested deeper than `loads` takes."""
    form = _quick_form(value)
    return _slow_form(value) if form is None else form


def _slow_form(value: Json) -> bytes:
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
    if len(content) <= max_bytes:
        quick = _quick_value(content)
        if quick is not None:
            return quick
    value = loads(content, max_bytes=max_bytes)
    form = _slow_form(value)
    if form != content:
        at = next(
            (i for i, (a, b) in enumerate(zip(form, content, strict=False)) if a != b), min(len(form), len(content))
        )
        raise NotCanonical(f"not in canonical form (RFC 8785) from byte {at} on")
    return value


def loads_canonical_parts(content: bytes) -> tuple[Json, Parts]:
    """`loads_canonical` of an object, and the canonical text of all that it holds: of each member, of a list's every
    element. Nothing is written once more for it: joined, they are what the bytes are compared with."""
    compiled = _compiled()
    if compiled is not None and content[:1] == b"{" and len(content) <= MAX_BYTES:
        parts: Parts = {}
        with suppress(TypeError, ValueError, RecursionError):
            value = _compiled_value(
                content, content.decode(), compiled.read, lambda found: _by_parts(found, parts, compiled.write)
            )
            if value is not None:
                return value, parts
    value = loads_canonical(content)
    return value, parts_of(value)


def parts_of(value: Json) -> Parts:
    """The same of a value alone; of what is no object there are none. Raises NotCanonical as `dumps` does."""
    return _parts(value, lambda part: dumps(part).decode()) if isinstance(value, dict) else {}


def _parts(value: dict[str, Json], write: Callable[[Json], str]) -> Parts:
    return {
        key: tuple([write(item) for item in held]) if isinstance(held, list) else write(held)
        for key, held in value.items()
    }


def _by_parts(value: dict[str, Json], parts: Parts, write: Callable[[Json], str]) -> str:
    parts.update(_parts(value, write))
    members = (
        f"{write(key)}:" + (part if isinstance(part, str) else f"[{','.join(part)}]")
        for key, part in sorted(parts.items())
    )
    return f"{{{','.join(members)}}}"


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
    brackets = content.translate(_ONE_KIND, _NO_BRACKETS)
    if brackets.count(b"[") <= MAX_DEPTH:
        return
    if b"\\" in content:
        bare = content.replace(b"\\\\", b"").replace(b'\\"', b"")
        brackets = bare.translate(_ONE_KIND, _NO_BRACKETS)
    # Of a run of quotes two by two stand for nothing: what is left has a string only where brackets are in one.
    brackets = brackets.replace(b'""', b"")
    brackets = _STRING.sub(b"", brackets) if b'"' in brackets else brackets
    for _ in range(MAX_DEPTH):
        # The innermost pairs, all of them at once.
        inside = brackets.replace(b"[]", b"")
        if len(inside) == len(brackets):
            break
        brackets = inside
    # What closes nothing is no JSON, and no deeper for the parser than twice the bound.
    if b"[]" in brackets or len(brackets) > MAX_DEPTH:
        raise NotCanonical(f"nested deeper than {MAX_DEPTH}")


def _check_depth_and_numbers(value: Json) -> None:
    pending: list[tuple[Json, int, str]] = [(value, 0, "$")]
    while pending:
        current, depth, path = pending.pop()
        if depth == MAX_DEPTH and isinstance(current, dict | list | tuple):
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


# --------------------------------------------------------------------------------------------------- the quick way


class _Unsure(ValueError):
    pass


def _quick_value(content: bytes) -> Json | None:
    """What canonical bytes parse to; None where they might be none. Scalars alone go the slow way."""
    if content[:1] not in {b"{", b"["}:
        return None
    try:
        text = content.decode()
        if len(content) >= _LONG and (compiled := _compiled()) is not None:
            return _compiled_value(content, text, *compiled)
        value = _quick_read(content, text, _READER)
        return value if _WRITER.encode(value) == text else None
    except (TypeError, ValueError, RecursionError):
        return None


def _quick_form(value: Json) -> bytes | None:
    """The canonical bytes of a value that they parse to; None where that might not be so."""
    if not isinstance(value, dict | list):
        return None
    try:
        text = _WRITER.encode(value)
        read = _quick_read(text.encode(), text, _MENDER)
        if read != value:
            return None
        return (_WRITER.encode(read) if ".0" in text else text).encode()
    except (TypeError, ValueError, RecursionError):
        return None


def _quick_read(content: bytes, text: str, reader: json.JSONDecoder) -> Json:
    """Raises ValueError for whatever may have another form, or none. A key that stands twice is left to the caller."""
    _refuse_deep_nesting(content)
    value = reader.decode(text)
    if not text.isascii():
        _refuse_other_keys(value)
    return value


def _refuse_other_keys(value: Json) -> None:
    pending = [value]
    while pending:
        current = pending.pop()
        if isinstance(current, dict):
            if not "".join(current).isascii():
                raise _Unsure
            current = current.values()
        pending.extend(child for child in current if isinstance(child, dict | list))


def _same_in_both(text: str) -> float:
    """Python writes a float as RFC 8785 does, but for whole ones and for exponents."""
    if text.endswith(".0") or "e" in text or "E" in text:
        raise _Unsure
    return float(text)


def _whole_as_int(text: str) -> float:
    return _short_int(text[:-2]) if text.endswith(".0") else _same_in_both(text)


def _short_int(text: str) -> int:
    if len(text) > 15:
        raise _Unsure
    return int(text)


class _Compiled(NamedTuple):
    read: Callable[[bytes], Json]
    write: Callable[[Json], str]


@cache
def _compiled() -> _Compiled | None:
    """None where the writer does not write a sample of what matters to us as rfc8785 does."""
    from jsonschema_rs.canonical.json import to_string
    from pydantic_core import from_json

    numbers = [0.1, -1.5, 4, 4.0, 1e-6, 2**53 - 1]
    texts: Any = {"~": '\x00\x1f\b\n"\\/\x7f\u00e9\u2028', "Z": [True, False, None, {}, []]}
    sample: Any = {"b": numbers, "a": texts}
    held = to_string(sample).encode() == rfc8785.dumps(sample)
    return _Compiled(lambda content: from_json(content, allow_inf_nan=False), to_string) if held else None


_TINY: Final = "0.000000"
"""In a number nearer to 0 than 1e-6, which has an exponent by RFC 8785."""


def _compiled_value(
    content: bytes, text: str, read: Callable[[bytes], Json], write: Callable[[Json], str]
) -> Json | None:
    """As `_quick_value`. Whatever the reader is lax in, the writer does not write: of the bytes that come back only
    small floats and integers beyond 2^53 - 1 may be no canonical form, and these are looked for."""
    _refuse_deep_nesting(content)
    value = read(content)
    if write(value) != text or _TINY in text or _has_long_integers(content):
        return None
    if not text.isascii():
        _refuse_other_keys(value)
    return value


def _has_long_integers(content: bytes) -> bool:
    """Or something in a string that looks like one."""
    return _LONG_INTEGER in content.translate(_ALIKE)


_READER: Final = json.JSONDecoder(parse_float=_same_in_both, parse_int=_short_int, parse_constant=_refuse_constant)
_MENDER: Final = json.JSONDecoder(parse_float=_whole_as_int, parse_int=_short_int, parse_constant=_refuse_constant)
"""Of text that `_WRITER` made: 4.0 is read as 4, which is its form."""
_WRITER: Final = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, sort_keys=True, separators=(",", ":")
)
"""Of ASCII keys the order of code points is that of UTF-16; strings are escaped as RFC 8785 says."""
