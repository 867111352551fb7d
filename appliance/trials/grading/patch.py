"""A patch that `git apply` accepts, written by ourselves: git never runs on a tree that a solver touched (row I28).

The form is `git diff --binary --full-index` (git's Documentation/diff-format and builtin/apply): text hunks with three
lines of context, `literal` binary hunks, C-quoted paths. Equal trees give equal bytes.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher

from appliance.trials.grading.tree import FileChange, Node

CONTEXT = 3
MAX_BYTES = 32 * 1024 * 1024
_LARGE_TEXT = 1024 * 1024
"""Bytes beyond which a text is not taken apart into lines: each line is an object of its own."""
_LINE = 52
"""Bytes of packed content in a line of a binary hunk."""
_CHUNK = 1024 * _LINE
_SMALL_ENOUGH_TO_MATCH = 4_000_000
"""Product of the line counts between common head and tail up to which lines are matched: it is quadratic."""
_GIT_MODE = {"644": b"100644", "755": b"100755", "link": b"120000"}
_NO_BLOB = b"0" * 40
_C_ESCAPES = {7: b"a", 8: b"b", 9: b"t", 10: b"n", 11: b"v", 12: b"f", 13: b"r", 34: b'"', 92: b"\\"}


class PatchTooLarge(Exception):
    """Raised instead of a patch beyond the bound: what a solver writes must not fill the harness's memory (H24)."""


def patch_of(changes: Iterable[FileChange], bound: int = MAX_BYTES) -> bytes:
    """Raises PatchTooLarge for more than `bound` bytes; one file at a time is held beside the patch."""
    patch = bytearray()
    for change in changes:
        for part in _file_patch(change):
            patch += part
            if len(patch) > bound:
                raise PatchTooLarge(f"over {bound // 1024 // 1024} MiB")
    return bytes(patch)


def quoted(path: bytes) -> bytes:
    """As git quotes: as it is where every byte is plain ASCII, else in double quotes with C escapes."""
    if all(0x20 <= byte < 0x7F and byte not in b'"\\' for byte in path):
        return path
    return b'"' + b"".join(_quoted_byte(byte) for byte in path) + b'"'


def _quoted_byte(byte: int) -> bytes:
    if byte in _C_ESCAPES:
        return b"\\" + _C_ESCAPES[byte]
    return bytes([byte]) if 0x20 <= byte < 0x7F else b"\\%03o" % byte


def _file_patch(change: FileChange) -> Iterator[bytes]:
    old, new = change.old, change.new
    if old is not None and new is not None and (old.mode == "link") != (new.mode == "link"):
        # git says a change of type as a deletion and a creation.
        yield from _file_patch(FileChange(change.path, old, None))
        yield from _file_patch(FileChange(change.path, None, new))
        return
    before, behind = _content(old), _content(new)
    yield b"diff --git " + quoted(b"a/" + change.path) + b" " + quoted(b"b/" + change.path) + b"\n"
    yield from _mode_lines(old, new)
    if before != behind or old is None or new is None:
        same_mode = old is not None and new is not None and old.mode == new.mode
        ids = _blob_id(old, before) + b".." + _blob_id(new, behind)
        yield b"index " + ids + (b" " + _GIT_MODE[old.mode] if old is not None and same_mode else b"") + b"\n"
    if before == behind:
        return
    if _is_binary(before) or _is_binary(behind):
        yield b"GIT binary patch\n"
        yield from _literal(behind)
        yield b"\n"
        yield from _literal(before)
        yield b"\n"
        return
    yield b"--- " + (_marked(b"a/" + change.path) if old is not None else b"/dev/null") + b"\n"
    yield b"+++ " + (_marked(b"b/" + change.path) if new is not None else b"/dev/null") + b"\n"
    yield from _hunks(_lines(before), _lines(behind))


def _marked(path: bytes) -> bytes:
    # A tab ends a name that holds a space, or readers take its rest for a time.
    return quoted(path) + (b"\t" if b" " in path else b"")


def _mode_lines(old: Node | None, new: Node | None) -> Iterator[bytes]:
    if old is None and new is not None:
        yield b"new file mode " + _GIT_MODE[new.mode] + b"\n"
    elif new is None and old is not None:
        yield b"deleted file mode " + _GIT_MODE[old.mode] + b"\n"
    elif old is not None and new is not None and old.mode != new.mode:
        yield b"old mode " + _GIT_MODE[old.mode] + b"\nnew mode " + _GIT_MODE[new.mode] + b"\n"


def _content(node: Node | None) -> bytes:
    return b"" if node is None else node.content


def _blob_id(node: Node | None, content: bytes) -> bytes:
    if node is None:
        return _NO_BLOB
    # git names blobs by SHA-1; nothing of ours trusts the name.
    named = hashlib.sha1(b"blob %d\0" % len(content), usedforsecurity=False)
    named.update(content)
    return named.hexdigest().encode()


def _is_binary(content: bytes) -> bool:
    return b"\0" in content or len(content) > _LARGE_TEXT


def _literal(content: bytes) -> Iterator[bytes]:
    yield b"literal %d\n" % len(content)
    packed = bytearray()
    for part in _packed(content):
        packed += part
        whole = len(packed) - len(packed) % _LINE
        yield _encoded(bytes(packed[:whole]))
        del packed[:whole]
    yield _encoded(bytes(packed))


def _packed(content: bytes) -> Iterator[bytes]:
    packer = zlib.compressobj(9)
    view = memoryview(content)
    for start in range(0, len(content), _CHUNK):
        yield packer.compress(view[start : start + _CHUNK])
    yield packer.flush()


def _encoded(packed: bytes) -> bytes:
    lines = []
    for start in range(0, len(packed), _LINE):
        chunk = packed[start : start + _LINE]
        length = len(chunk) + (64 if len(chunk) <= 26 else 70)  # A-Z for 1 - 26, a-z for 27 - 52
        lines.append(bytes([length]) + base64.b85encode(chunk, pad=True) + b"\n")
    return b"".join(lines)


def _lines(content: bytes) -> list[bytes]:
    """Lines with their newline; the last one may lack it."""
    lines = content.split(b"\n")
    whole = [line + b"\n" for line in lines[:-1]]
    return [*whole, lines[-1]] if lines[-1] else whole


def _hunks(old: list[bytes], new: list[bytes]) -> Iterator[bytes]:
    for group in _grouped(_opcodes(old, new)):
        first, last = group[0], group[-1]
        yield b"@@ -%s +%s @@\n" % (_span(first[1], last[2]), _span(first[3], last[4]))
        for tag, old_from, old_to, new_from, new_to in group:
            if tag == "equal":
                yield from (_line(b" ", line) for line in old[old_from:old_to])
                continue
            yield from (_line(b"-", line) for line in old[old_from:old_to])
            yield from (_line(b"+", line) for line in new[new_from:new_to])


def _line(mark: bytes, line: bytes) -> bytes:
    return mark + line if line.endswith(b"\n") else mark + line + b"\n\\ No newline at end of file\n"


def _span(start: int, stop: int) -> bytes:
    count = stop - start
    first = start + 1 if count else start
    return b"%d" % first if count == 1 else b"%d,%d" % (first, count)


Opcode = tuple[str, int, int, int, int]


def _opcodes(old: list[bytes], new: list[bytes]) -> list[Opcode]:
    head = 0
    shorter = min(len(old), len(new))
    while head < shorter and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < shorter - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    old_to, new_to = len(old) - tail, len(new) - tail
    codes: list[Opcode] = [("equal", 0, head, 0, head)] if head else []
    if (old_to - head) * (new_to - head) <= _SMALL_ENOUGH_TO_MATCH:
        matcher = SequenceMatcher(None, old[head:old_to], new[head:new_to], autojunk=False)
        codes += [(tag, a + head, b + head, c + head, d + head) for tag, a, b, c, d in matcher.get_opcodes()]
    else:
        codes.append(("replace", head, old_to, head, new_to))
    if tail:
        codes.append(("equal", old_to, len(old), new_to, len(new)))
    return codes


def _grouped(codes: list[Opcode]) -> Iterator[list[Opcode]]:
    """As `SequenceMatcher.get_grouped_opcodes`: changes with their context, far ones apart."""
    group: list[Opcode] = []
    for index, (tag, a, b, c, d) in enumerate(codes):
        if tag != "equal":
            group.append((tag, a, b, c, d))
            continue
        starts, ends = index == 0, index == len(codes) - 1
        if not starts and not ends and b - a <= 2 * CONTEXT:
            group.append((tag, a, b, c, d))
            continue
        if not starts:
            kept = min(CONTEXT, b - a)
            yield [*group, ("equal", a, a + kept, c, c + kept)]
        kept = min(CONTEXT, b - a)
        group = [("equal", b - kept, b, d - kept, d)] if not ends else []
    if group and any(tag != "equal" for tag, *_ in group):
        yield group
