"""JSON among whatever else a program prints: warnings before it, bytes that are no text, a middle that was not kept."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from appliance.records.trial import Usage

Json = dict[str, Any]

_GAP: Final = re.compile(r"\n\[\.\.\. (\d+) bytes not kept \.\.\.\]\n")
"""What stands between head and tail of a capture (`ports.Captured.kept`)."""
_HALF_ESCAPE: Final = re.compile(r"(?<!\\)(?:\\\\)*(\\(?:u[0-9a-fA-F]{0,3})?)\Z")
_STARTS: Final = re.compile(r"^[{\[]", re.MULTILINE)
_MAX_TRIES: Final = 16
_MAX_DETAIL: Final = 300
_MAX_COUNT: Final = 2**53 - 1
_MAX_USD: Final = Decimal(10**12)
_FLOAT_NOISE: Final = Decimal("1e-12")
_PROVIDER: Final = re.compile(
    r"API[ _]?(?:Connection)?Error|ECONN|ETIMEDOUT|ENOTFOUND|connection (?:error|refused|reset)|fetch failed"
    r"|rate.?limit|overloaded|quota|status(?: code)?:? ?(?:401|403|429|5\d\d)|\b(?:401|403|429|5\d\d) "
    r"|stream (?:disconnected|error)|timed? ?out",
    re.IGNORECASE,
)


class Printed:
    """`text`: UTF-8 with a replacement where it is none. `cut`: the middle was not kept."""

    def __init__(self, stdout: bytes):
        text = stdout.decode(errors="replace")
        gap = _GAP.search(text)
        self.cut = gap is not None
        self.gap_at = gap.start() if gap else len(text)
        self._mark = ""
        if gap:
            # Mostly in the middle of a long string, which stays one: no line may end there, no escape be half said.
            head = text[: gap.start()]
            half = _HALF_ESCAPE.search(head)
            head = head[: half.start(1)] if half else head
            self._mark = f"[... {gap[1]} bytes not kept ...]"
            text = f"{head}{self._mark}{text[gap.end() :]}"
        self.text = text

    def events(self) -> Iterator[Json]:
        """Objects that are a line each; other lines are passed over."""
        for line in self.text.split("\n"):
            value = _loaded(line)
            if value is None and self._mark and self._mark in line:
                value = _loaded(line.rpartition(self._mark)[2])  # where the tail begins with a line
            if value is not None:
                yield value

    def documents(self) -> Iterator[Any]:
        """What begins at a line's first character and is whole, the last one first, the quickest few of them."""
        starts = [found.start() for found in _STARTS.finditer(self.text)][-_MAX_TRIES:]
        end = 0
        found: list[Any] = []
        for start in starts:
            if start < end:
                continue
            try:
                value, end = json.JSONDecoder().raw_decode(self.text, start)
            except (ValueError, RecursionError):
                continue
            found.append(value)
        yield from reversed(found)

    def missing(self, what: str) -> str:
        """Words for an output that never ended."""
        return f"its output has no {what}" + (", and its middle was not kept" if self.cut else "")


def _loaded(line: str) -> Json | None:
    if not line.lstrip().startswith("{"):
        return None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def obj(value: object) -> Json:
    """Itself where it is an object; else an empty one."""
    return value if isinstance(value, dict) else {}


def string(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def detail(*candidates: object) -> str | None:
    """The first that is a text, on one line, as long as a line may be."""
    for candidate in candidates:
        if isinstance(candidate, str) and candidate.strip():
            line = " ".join(candidate[: 4 * _MAX_DETAIL].split())
            line = line if len(line) <= _MAX_DETAIL else f"{line[: _MAX_DETAIL - 3]}..."
            return "".join(char if char.isprintable() else "?" for char in line.encode(errors="replace").decode())
    return None


def blames_provider(text: str | None) -> bool:
    """Whether an agent's words for its failure speak of the model's server: most of them have no code for it."""
    return text is not None and _PROVIDER.search(text) is not None


def count(counts: object, name: str) -> int:
    """0 where it is not said; -1, which `usage` refuses, where it is no count."""
    found = obj(counts).get(name)
    if found is None:
        return 0
    return found if isinstance(found, int) and not isinstance(found, bool) and 0 <= found <= _MAX_COUNT else -1


def usage(*, inputs: int, read: int = 0, written: int = 0, output: int, reasoning: int = 0) -> Usage | None:
    """In the normal form (row M4); None where the figures are none, or contradict each other."""
    if min(inputs, read, written, output, reasoning) < 0 or read + written > inputs or reasoning > output:
        return None
    if max(inputs, output) > _MAX_COUNT:
        return None
    return Usage(
        input_tokens=inputs,
        cache_read_tokens=read,
        cache_write_tokens=written,
        output_tokens=output,
        reasoning_tokens=reasoning,
    )


def summed(usages: list[Usage | None]) -> Usage | None:
    """None as soon as one is None, and of none at all."""
    known = [found for found in usages if found is not None]
    if not known or len(known) < len(usages):
        return None
    total: Mapping[str, int] = {name: sum(getattr(one, name) for one in known) for name in Usage.model_fields}
    return Usage(**total)


def usd(amount: object) -> str | None:
    """A decimal string; a sum of floats loses what is beyond the twelfth place: that is its noise."""
    if isinstance(amount, bool) or not isinstance(amount, int | float | str):
        return None
    try:
        exact = Decimal(str(amount))
        if not exact.is_finite() or not 0 <= exact < _MAX_USD:
            return None
        text = format(exact.quantize(_FLOAT_NOISE), "f")
    except InvalidOperation:
        return None
    return text.rstrip("0").rstrip(".")
