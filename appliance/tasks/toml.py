"""Strict reading of TOML tables: every key is asked for by name, and what nobody asked for is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from appliance.errors import InputRefused
from appliance.reading import read_regular
from attest import toml

MAX_BYTES: Final = 1024 * 1024
_INTEGER_BITS: Final = 64
_BARE: Final = re.compile(r"[A-Za-z0-9_-]{1,80}")
_PLACE = re.compile(r"^(?P<message>.*) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)$", re.S)


def parse_toml(content: bytes, file: str) -> dict[str, Any]:
    """The one TOML parser of every door. Raises InputRefused with line and column, or with the dotted key of a number
    that JSON could not carry on."""
    try:
        values = toml.loads(content.decode("utf-8"))
        _refuse_long_numbers(values, "", file)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputRefused(
            f"not UTF-8 at byte {error.start}", where=f"{file}:{line}", mend="save it as UTF-8"
        ) from error
    except RecursionError as error:
        raise InputRefused("nested too deeply", where=file) from error
    except ValueError as error:  # TOMLDecodeError is one; digits beyond int()'s bound are another
        raise _syntax(str(error), file, last_line=content.rstrip().count(b"\n") + 1) from error
    return values


def _refuse_long_numbers(value: object, place: str, file: str) -> None:
    """TOML promises 64 bits; beyond, `0x...` reads more digits than Python itself prints."""
    if isinstance(value, dict):
        for key, inner in value.items():
            shown = key if _BARE.fullmatch(key) else short(key)
            _refuse_long_numbers(inner, f"{place}.{shown}" if place else shown, file)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _refuse_long_numbers(inner, f"{place}[{index}]", file)
    elif isinstance(value, int) and value.bit_length() >= _INTEGER_BITS:
        raise InputRefused("a whole number of more than 64 bits", where=f"{file}: {place}")


class Table:
    """One table of a file. Every refusal names the file and the dotted key."""

    def __init__(self, values: dict[str, Any], file: str, dotted: str = ""):
        self._values = values
        self._file = file
        self._dotted = dotted

    @classmethod
    def read(cls, path: Path) -> Table:
        """Raises InputRefused with line and column for a syntax error, and for a file over 1 MiB."""
        try:
            content = read_regular(path, MAX_BYTES)
        except OSError as error:
            raise InputRefused(error.strerror or str(error), where=str(path)) from error
        return cls.parse(content, str(path))

    @classmethod
    def parse(cls, content: bytes, file: str) -> Table:
        return cls(parse_toml(content, file), file)

    def refusal(self, key: str, message: str, mend: str | None = None) -> InputRefused:
        return InputRefused(message, where=f"{self._file}: {self.dotted(key)}", mend=mend)

    def dotted(self, key: str) -> str:
        # As TOML would write it: a key with a dot or a space in it is quoted.
        shown = key if _BARE.fullmatch(key) else short(key)
        return f"{self._dotted}.{shown}" if self._dotted else shown

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def only(self, *known: str) -> None:
        """Refuse any other key."""
        for key in self._values:
            if key not in known:
                raise self.refusal(key, "unknown key", mend=f"known here: {', '.join(known)}")

    def table(self, key: str) -> Table:
        """A missing table is an empty one."""
        value = self._values.get(key, {})
        if not isinstance(value, dict):
            raise self._wrong(key, "a table", value)
        return Table(value, self._file, self.dotted(key))

    def required(self, key: str) -> None:
        if key not in self._values:
            raise self.refusal(key, "required key is missing", mend="add it")

    def text(self, key: str, default: str) -> str:
        return self._text(key, self._values.get(key, default))

    def optional_text(self, key: str) -> str | None:
        return self._text(key, self._values[key]) if key in self._values else None

    def word(self, key: str, words: tuple[str, ...], default: str) -> str:
        value = self.text(key, default)
        if value not in words:
            raise self.refusal(key, f"{short(value)} is none of {', '.join(words)}")
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self._values.get(key, default)
        if not isinstance(value, bool):
            raise self._wrong(key, "true or false", value)
        return value

    def number(self, key: str, default: float, least: float, most: float) -> float:
        value = self._values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(key, "a number", value)
        if not least <= value <= most:  # NaN is within nothing
            raise self.refusal(key, f"{short(value)} is not within {least:g} and {most:g}")
        return float(value)

    def whole(self, key: str, default: int, least: int, most: int) -> int:
        value = self._values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._wrong(key, "a whole number", value)
        if not least <= value <= most:
            raise self.refusal(key, f"{short(value)} is not within {least} and {most}")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts without duplicates; a missing one is empty."""
        return self._distinct(key, self._list(key))

    def command(self, key: str) -> tuple[str, ...]:
        """An argv, or one shell line (then `("sh", "-c", line)`)."""
        value = self._values.get(key)
        if isinstance(value, str):
            if not self._text(key, value).strip():
                raise self.refusal(key, "is empty", mend='a list, as ["python3", "-m", "pytest"], or one shell line')
            return ("sh", "-c", value)
        argv = self._list(key)
        if not argv or not argv[0].strip():
            raise self.refusal(
                key, "names no program", mend='a list, as ["python3", "-m", "pytest"], or one shell line'
            )
        return argv

    def _list(self, key: str) -> tuple[str, ...]:
        value = self._values.get(key, [])
        if not isinstance(value, list):
            raise self._wrong(key, "a list of texts", value)
        return tuple(self._text(f"{key}[{index}]", item, quote=False) for index, item in enumerate(value))

    def _distinct(self, key: str, values: tuple[str, ...]) -> tuple[str, ...]:
        seen: set[str] = set()
        for value in values:
            if value in seen:
                raise self.refusal(key, f"{short(value)} stands twice")
            seen.add(value)
        return values

    def _text(self, key: str, value: object, *, quote: bool = True) -> str:
        place = self.dotted(key) if quote else (f"{self._dotted}.{key}" if self._dotted else key)
        where = f"{self._file}: {place}"
        if not isinstance(value, str):
            raise InputRefused(f"{_kind(value)} where a text belongs", where=where)
        if "\0" in value:
            raise InputRefused("holds a NUL, which no command line can carry", where=where)
        return value

    def _wrong(self, key: str, wanted: str, value: object) -> InputRefused:
        return self.refusal(key, f"{_kind(value)} where {wanted} belongs")


def short(value: object) -> str:
    """For messages: one line, ASCII, at most 80 characters of it."""
    shown = ascii(value)
    return shown if len(shown) <= 80 else f"{shown[:77]}..."


def _kind(value: object) -> str:
    kinds = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", list: "a list"}
    return kinds.get(type(value), "a table" if isinstance(value, dict) else "a date or time")


def _syntax(message: str, file: str, last_line: int) -> InputRefused:
    found = _PLACE.match(message)
    if not found:
        return InputRefused(f"not TOML: {message.splitlines()[0][:200]}", where=file)
    place = f":{found['line']}:{found['column']}" if found["line"] else f":{last_line}: at its end"
    return InputRefused(f"not TOML: {found['message'].splitlines()[0][:200]}", where=f"{file}{place}")
