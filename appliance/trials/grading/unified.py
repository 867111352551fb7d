"""Reading somebody else's patch: git's form and plain unified diffs, whatever its line ends (row H20)."""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

MAX_BINARY: Final = 256 * 1024 * 1024


class PatchRejected(Exception):
    """The patch cannot be read or does not fit: `unresolved: patch_rejected`. The message names the first hunk."""


@dataclass
class Hunk:
    """`old` and `new` are whole lines, their newline included but where the patch says that there is none."""

    old_start: int
    old: list[bytes] = field(default_factory=list)
    new: list[bytes] = field(default_factory=list)


@dataclass
class FilePatch:
    old_path: bytes | None
    new_path: bytes | None
    """None: /dev/null."""
    old_mode: bytes | None = None
    new_mode: bytes | None = None
    change: Literal["modify", "create", "delete", "rename", "copy"] = "modify"
    hunks: list[Hunk] = field(default_factory=list)
    binary: tuple[Literal["literal", "delta"], bytes] | None = None

    @property
    def name(self) -> str:
        return (self.new_path or self.old_path or b"?").decode("utf-8", "backslashreplace")


_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_C_UNESCAPES: Final = {b"a": 7, b"b": 8, b"t": 9, b"n": 10, b"v": 11, b"f": 12, b"r": 13, b'"': 34, b"\\": 92}
_QUOTED = re.compile(rb'"((?:[^"\\]|\\.)*)"')
_HEADERS: Final = (b"diff --git ", b"--- ")


def parse(patch: bytes) -> list[FilePatch]:
    """Raises PatchRejected."""
    lines = _Lines(normalised(patch))
    files = []
    while not lines.ended:
        if lines.peek().startswith(b"diff --git "):
            files.append(_git_file(lines))
        elif lines.peek().startswith(b"--- ") and lines.peek(1).startswith(b"+++ "):
            files.append(_with_hunks(lines, FilePatch(None, None)))
        elif _HUNK.match(lines.peek()):
            raise PatchRejected(f"line {lines.number}: a hunk of no file")
        else:
            lines.take()
    if not files and patch.strip():
        raise PatchRejected("no file is named in it")
    return files


def normalised(patch: bytes) -> bytes:
    """With a final newline; without carriage returns where its own header lines have them (a transfer made those)."""
    if patch and not patch.endswith(b"\n"):
        patch += b"\n"
    headers = [line for line in patch.split(b"\n") if line.startswith((*_HEADERS, b"@@ -"))]
    if headers and all(line.endswith(b"\r") for line in headers):
        return patch.replace(b"\r\n", b"\n")
    return patch


class _Lines:
    def __init__(self, patch: bytes):
        self._lines = patch.split(b"\n")[:-1]
        self._at = 0

    @property
    def ended(self) -> bool:
        return self._at >= len(self._lines)

    @property
    def number(self) -> int:
        return self._at + 1

    def peek(self, ahead: int = 0) -> bytes:
        place = self._at + ahead
        return self._lines[place] if place < len(self._lines) else b""

    def take(self) -> bytes:
        line = self.peek()
        self._at += 1
        return line


def _git_file(lines: _Lines) -> FilePatch:
    found = FilePatch(*_git_names(lines.take()))
    for words, line in _extended(lines):
        match words:
            case "old mode":
                found.old_mode = line
            case "new mode":
                found.new_mode = line
            case "new file mode":
                found.change, found.new_mode, found.old_path = "create", line, None
            case "deleted file mode":
                found.change, found.old_mode, found.new_path = "delete", line, None
            case "rename from" | "copy from":
                found.change = "rename" if words == "rename from" else "copy"
                found.old_path = unquoted(line)
            case "rename to" | "copy to":
                found.new_path = unquoted(line)
    if lines.peek().startswith(b"GIT binary patch"):
        lines.take()
        found.binary = _binary(lines, found)
        return found
    if lines.peek().startswith(b"Binary files "):
        raise PatchRejected(f"{found.name}: says that it is binary, and not how it differs (make it with --binary)")
    if lines.peek().startswith(b"--- "):
        return _with_hunks(lines, found)
    return found


_EXTENDED: Final = (
    "old mode", "new mode", "new file mode", "deleted file mode", "rename from", "rename to", "copy from", "copy to",
    "index", "similarity index", "dissimilarity index",
)  # fmt: skip


def _extended(lines: _Lines) -> Iterator[tuple[str, bytes]]:
    while not lines.ended:
        words = next((words for words in _EXTENDED if lines.peek().startswith(words.encode() + b" ")), None)
        if words is None:
            return
        yield words, lines.take()[len(words) + 1 :]


def _git_names(line: bytes) -> tuple[bytes | None, bytes | None]:
    """Of `diff --git a/x b/x`: told apart by that both are the same where nothing else says so."""
    rest = line[len(b"diff --git ") :]
    quoted = _QUOTED.match(rest)
    if quoted:
        return _stripped(unquoted(quoted.group(0))), _stripped(unquoted(rest[quoted.end() :].strip()))
    middle = len(rest) // 2
    if len(rest) % 2 and rest[middle : middle + 1] == b" ":
        return _stripped(rest[:middle]), _stripped(rest[middle + 1 :])
    first, _, second = rest.partition(b" ")
    return _stripped(first), _stripped(second)


def _with_hunks(lines: _Lines, found: FilePatch) -> FilePatch:
    old, new = _name(lines.take()), _name(lines.take())
    if old is None:
        found.change = "create"
    elif new is None:
        found.change = "delete"
    found.old_path, found.new_path = old, new
    while _HUNK.match(lines.peek()):
        found.hunks.append(_hunk(lines, found, len(found.hunks) + 1))
    return found


def _name(line: bytes) -> bytes | None:
    quoted = _QUOTED.match(line, 4)
    name = unquoted(quoted.group(0)) if quoted else line[4:].split(b"\t", 1)[0].strip(b"\r")
    return None if name == b"/dev/null" else _stripped(name)


def _stripped(name: bytes) -> bytes:
    """Without its first component, as `-p1`."""
    return name.partition(b"/")[2] or name


def unquoted(text: bytes) -> bytes:
    whole = _QUOTED.fullmatch(text)
    if whole is None:
        return text
    return re.sub(rb"\\([0-7]{3}|.)", _unescaped, whole.group(1))


def _unescaped(found: re.Match[bytes]) -> bytes:
    word = found.group(1)
    if len(word) == 3:
        return bytes([int(word, 8) & 0xFF])
    return bytes([_C_UNESCAPES.get(word, word[0])])


def _hunk(lines: _Lines, found: FilePatch, number: int) -> Hunk:
    place = f"{found.name}: hunk {number}"
    head = _HUNK.match(lines.take())
    assert head is not None  # noqa: S101 - the caller has looked
    old_left, new_left = (int(head[group]) if head[group] else 1 for group in (2, 4))
    hunk = Hunk(int(head[1]))
    last: tuple[list[bytes], ...] = ()
    while old_left or new_left:
        if lines.ended:
            raise PatchRejected(f"{place} ends too early")
        line = lines.take()
        mark, text = line[:1] or b" ", line[1:] + b"\n"
        if mark == b"\\":
            _without_newline(last)
            continue
        if mark == b" ":
            last = (hunk.old, hunk.new)
        elif mark == b"-":
            last = (hunk.old,)
        elif mark == b"+":
            last = (hunk.new,)
        else:
            raise PatchRejected(f"{place}, line {lines.number - 1} of the patch: neither context nor change")
        for side in last:
            side.append(text)
        old_left -= mark in b" -"
        new_left -= mark in b" +"
    if old_left < 0 or new_left < 0:
        raise PatchRejected(f"{place} has more lines than it says")
    if lines.peek().startswith(b"\\"):
        lines.take()
        _without_newline(last)
    return hunk


def _without_newline(sides: tuple[list[bytes], ...]) -> None:
    for side in sides:
        side[-1] = side[-1].removesuffix(b"\n")


def _binary(lines: _Lines, found: FilePatch) -> tuple[Literal["literal", "delta"], bytes]:
    """The forward half; a backward one is skipped."""
    halves = []
    while (head := re.fullmatch(rb"(literal|delta) (\d{1,12})", lines.peek())) is not None:
        lines.take()
        packed = b"".join(_packed(line, found) for line in iter(lines.take, b""))
        try:
            unpacked = zlib.decompressobj().decompress(packed, MAX_BINARY)
        except zlib.error as error:
            raise PatchRejected(f"{found.name}: its binary hunk does not unpack") from error
        if len(unpacked) != int(head[2]):
            raise PatchRejected(f"{found.name}: its binary hunk is not of the size that it says")
        kind: Literal["literal", "delta"] = "literal" if head[1] == b"literal" else "delta"
        halves.append((kind, unpacked))
    if not halves:
        raise PatchRejected(f"{found.name}: a binary patch without a hunk")
    return halves[0]


def _packed(line: bytes, found: FilePatch) -> bytes:
    first = line[0]
    length = first - 64 if 65 <= first <= 90 else first - 70
    try:
        return base64.b85decode(line[1:])[:length]
    except ValueError as error:
        raise PatchRejected(f"{found.name}: its binary hunk is damaged") from error
