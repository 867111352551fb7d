"""JSON of any length, from which a few small values are wanted: read as it comes, never held.

It is no validator: it finds where values begin and end. What was cut off, or was no JSON, never gets `ended`.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any, Final

Path = tuple[str, ...]
"""Keys from the top; `*` is any element of an array."""

_MAX_LEVELS: Final = 12
_MAX_KEY: Final = 64
_MAX_VALUE: Final = 64 * 1024
_MAX_WORDS: Final = 64
_IN_STRING: Final = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_PLAIN: Final = re.compile(rb'[^"{}\[\],:]*+')
_SPACE: Final = b" \t\r\n"


class Scan:
    """`found` holds the last value seen at each wanted path; `seen`, those of them whose value was longer than a bound
    and is not kept, or is kept no more than its being there."""

    def __init__(self, wanted: frozenset[Path], most: int = _MAX_VALUE):
        self._wanted = wanted
        self._most = most
        self.found: dict[Path, Any] = {}
        self.seen: set[Path] = set()
        self.words: dict[Path, set[str]] = {}
        """All short texts that stood at a wanted path with a `*` in it, of which `found` has the last."""
        self.ended = False
        """The top value is closed."""
        self.broken = False
        """Something after the top value, or a bracket that closes none."""
        self._keys: list[str | None] = []
        self._arrays: list[bool] = []
        self._depth = 0
        self._string = False
        self._escaped = False
        self._key: bytearray | None = None
        self._at_key = False
        self._begun = False
        self._taking: Path | None = None
        self._taken = bytearray()
        self._taken_depth = 0
        self._over = False

    def feed(self, chunk: bytes) -> None:
        at = 0
        while at < len(chunk):
            at = self._in_string(chunk, at) if self._string else self._between(chunk, at)

    # Strings: to their end in one step, whatever is in them.

    def _in_string(self, chunk: bytes, at: int) -> int:
        start = at
        if self._escaped:
            self._escaped = False
            at += 1
        at = _end(_IN_STRING, chunk, at)
        if at < len(chunk) and chunk[at] == 0x5C:  # a backslash that is the chunk's last byte
            self._escaped = True
            at += 1
        ends = at < len(chunk)
        at += ends
        self._keep(chunk, start, at)
        if self._key is not None and len(self._key) <= _MAX_KEY:
            self._key += chunk[start:at]
        if ends:
            self._string = False
            self._string_ended()
        return at

    def _string_ended(self) -> None:
        if self._key is not None:
            if self._depth <= _MAX_LEVELS:
                self._keys[-1] = _text(self._key) if len(self._key) <= _MAX_KEY else None
            self._key = None
            self._at_key = False
        elif self._depth == 0:
            self.ended = True

    # Everything else.

    def _between(self, chunk: bytes, at: int) -> int:
        end = _end(_PLAIN, chunk, at)
        if end > at:
            self._plain(chunk, at, end)
            if end == len(chunk):
                return end
        sign = chunk[end]
        if sign == 0x22:
            self._opens_string(chunk, end)
        elif sign in b"{[":
            self._opens(chunk, end, array=sign == 0x5B)
        elif sign in b"}]":
            self._closes(chunk, end)
        elif sign == 0x2C:
            self._comma()
            self._keep(chunk, end, end + 1)
        else:
            self._keep(chunk, end, end + 1)
        return end + 1

    def _plain(self, chunk: bytes, at: int, end: int) -> None:
        """Numbers, words and space."""
        if self._taking is None and not self._begun and not self._at_key:
            stripped = chunk[at:end].lstrip(_SPACE)
            if not stripped:
                return
            self._value_begins()
            at = end - len(stripped)
        self._keep(chunk, at, end)

    def _opens_string(self, chunk: bytes, at: int) -> None:
        self._string = True
        if self._at_key:
            self._key = bytearray(b'"')
        else:
            self._value_begins()
        self._keep(chunk, at, at + 1)

    def _opens(self, chunk: bytes, at: int, *, array: bool) -> None:
        self._value_begins()
        self._keep(chunk, at, at + 1)
        self._depth += 1
        self._begun = False
        self._at_key = not array
        if self._depth <= _MAX_LEVELS:
            self._keys.append("*" if array else None)
            self._arrays.append(array)

    def _closes(self, chunk: bytes, at: int) -> None:
        self._taken_to(self._depth)
        self._keep(chunk, at, at + 1)
        if self._depth == 0:
            self.broken = True
            return
        if self._depth <= _MAX_LEVELS:
            self._keys.pop()
            self._arrays.pop()
        self._depth -= 1
        self._at_key = False
        self._begun = True
        self._taken_to(self._depth)
        if self._depth == 0:
            self.ended = True

    def _comma(self) -> None:
        self._taken_to(self._depth)
        self._begun = False
        self._at_key = 0 < self._depth <= _MAX_LEVELS and not self._arrays[-1]
        if self._at_key:
            self._keys[-1] = None

    def _value_begins(self) -> None:
        if self._depth == 0 and self.ended:
            self.broken = True
        self._begun = True
        if self._taking is not None or self._depth > _MAX_LEVELS or None in self._keys:
            return
        path = tuple(key for key in self._keys if key is not None)
        if path in self._wanted:
            self._taking, self._taken_depth, self._over = path, self._depth, False
            self._taken.clear()

    def _keep(self, chunk: bytes, at: int, end: int) -> None:
        if self._taking is None or self._over:
            return
        if len(self._taken) + end - at > self._most:
            self._over = True
            self._taken.clear()
        else:
            self._taken += chunk[at:end]

    def _taken_to(self, depth: int) -> None:
        """The wanted value that is being kept, if any, is over where its own level is met again."""
        if self._taking is None or depth != self._taken_depth:
            return
        path, self._taking = self._taking, None
        self.seen.add(path)
        self.found.pop(path, None)
        if not self._over:
            try:
                self.found[path] = json.loads(bytes(self._taken))
            except (ValueError, RecursionError):
                self.broken = True
        self.note(path)
        self._taken.clear()

    def note(self, path: Path) -> None:
        """Keep what was found there among the words."""
        value = self.found.get(path)
        if isinstance(value, str) and len(value) <= _MAX_KEY and "*" in path:
            words = self.words.setdefault(path, set())
            if len(words) < _MAX_WORDS:
                words.add(value)


def scanned(content: bytes, wanted: frozenset[Path]) -> Scan:
    """What a scan of the whole of a short text gives, several times as fast where it is a JSON object.

    Of a key that stands twice in one object the last counts with all that is below it.
    """
    scan = Scan(wanted)
    try:
        value = json.loads(content.decode()) if content.lstrip(_SPACE)[:1] == b"{" else None
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        _pick(value, _tree(wanted), scan)
        scan.ended = True
    else:
        scan.feed(content)
    return scan


Node = dict[str, Any]
"""By key; a leaf is the path that ends there."""


@lru_cache(maxsize=16)
def _tree(wanted: frozenset[Path]) -> Node:
    top: Node = {}
    for path in wanted:
        node = top
        for key in path[:-1]:
            node = node.setdefault(key, {})
        node[path[-1]] = path
    return top


def _pick(value: Any, node: Node | Path, scan: Scan) -> None:
    if isinstance(node, tuple):
        scan.seen.add(node)
        scan.found[node] = value
        scan.note(node)
    elif isinstance(value, dict):
        for key, below in node.items():
            if key in value:
                _pick(value[key], below, scan)
    elif isinstance(value, list) and "*" in node:
        for item in value:
            _pick(item, node["*"], scan)


def _end(pattern: re.Pattern[bytes], chunk: bytes, at: int) -> int:
    found = pattern.match(chunk, at)
    return at if found is None else found.end()


def _text(quoted: bytearray) -> str | None:
    try:
        value = json.loads(bytes(quoted))
    except ValueError:
        return None
    return value if isinstance(value, str) else None
