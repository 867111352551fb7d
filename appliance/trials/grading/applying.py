"""An external patch over a pristine tree, as values: the same as `git apply`, without git, and kinder to line ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from appliance.ports import TreeEntry
from appliance.trials.grading.tree import Node, entries_of, file_changes
from appliance.trials.grading.unified import FilePatch, Hunk, PatchRejected, parse

_MODES = {b"100644": "644", b"100755": "755", b"120000": "link"}


def apply_patch(pristine: Mapping[bytes, Node], patch: bytes) -> tuple[TreeEntry, ...]:
    """The entries that the patch makes of the pristine tree. Raises PatchRejected with the first hunk that fails.

    Context must match to the byte, but for carriage returns at line ends; an offset is allowed, fuzz is not.
    """
    tree = dict(pristine)
    sources = dict(pristine)
    for found in parse(patch):
        for path in (found.old_path, found.new_path):
            _refuse_outside(path)
        node = _patched(sources, tree, found)
        if found.change in ("delete", "rename") and found.old_path is not None:
            tree.pop(found.old_path, None)
            sources.pop(found.old_path, None)
        if node is not None and found.new_path is not None:
            tree[found.new_path] = sources[found.new_path] = node
    return entries_of(file_changes(pristine, tree))


def _refuse_outside(path: bytes | None) -> None:
    parts = (path or b"x").split(b"/")
    if b".." in parts or b"" in parts or b".git" in [part.lower() for part in parts]:
        shown = (path or b"").decode("utf-8", "backslashreplace")
        raise PatchRejected(f"{shown}: not a path inside the workspace")


def _patched(sources: Mapping[bytes, Node], tree: Mapping[bytes, Node], found: FilePatch) -> Node | None:
    """The file after the patch; None where it is deleted."""
    if found.change == "create":
        if found.new_path in tree:
            raise PatchRejected(f"{found.name}: is to be created, and is there already")
        old = None
    else:
        old = sources.get(found.old_path or b"")
        if old is None:
            raise PatchRejected(f"{found.name}: is not there")
    before = b"" if old is None else old.content
    behind = _content(before, found)
    if found.change == "delete":
        if behind and found.hunks:
            raise PatchRejected(f"{found.name}: is to be deleted, and more is left of it")
        return None
    mode = _MODES.get(found.new_mode or b"", old.mode if old is not None else "644")
    return Node(mode, behind)  # type: ignore[arg-type]


def _content(before: bytes, found: FilePatch) -> bytes:
    if found.binary is not None:
        kind, content = found.binary
        return content if kind == "literal" else _undelta(before, content, found)
    lines = _lines(before)
    offset = 0
    for number, hunk in enumerate(found.hunks, 1):
        at, exact = _place(lines, hunk, hunk.old_start - 1 + offset, f"{found.name}: hunk {number}")
        fresh = hunk.new if exact else _with_returns(hunk.new, lines, at, hunk)
        lines[at : at + len(hunk.old)] = fresh
        offset = at - (hunk.old_start - 1) + len(hunk.new) - len(hunk.old)
    return b"".join(lines)


def _lines(content: bytes) -> list[bytes]:
    """At newlines alone: a carriage return belongs to its line."""
    lines = content.split(b"\n")
    whole = [line + b"\n" for line in lines[:-1]]
    return [*whole, lines[-1]] if lines[-1] else whole


def _place(lines: list[bytes], hunk: Hunk, wanted: int, place: str) -> tuple[int, bool]:
    """Where the hunk's old lines are, the nearest to where it says; and whether to the byte."""
    size = len(hunk.old)
    if size == 0:
        return min(max(wanted + 1, 0), len(lines)), True
    for exact in (True, False):
        form = (lambda line: line) if exact else _bare
        old = [form(line) for line in hunk.old]
        here = [form(line) for line in lines]
        for start in _outwards(wanted, len(lines) - size):
            if here[start : start + size] == old:
                return start, exact
    raise PatchRejected(f"{place} does not apply near line {hunk.old_start}")


def _outwards(wanted: int, last: int) -> Iterator[int]:
    for distance in range(max(abs(wanted), abs(last - wanted)) + 1 if last >= 0 else 0):
        for start in {wanted + distance, wanted - distance}:
            if 0 <= start <= last:
                yield start


def _bare(line: bytes) -> bytes:
    return line.rstrip(b"\r\n")


def _with_returns(new: list[bytes], lines: list[bytes], at: int, hunk: Hunk) -> list[bytes]:
    """The hunk's new lines with the file's own line ends; context stays as the file has it."""
    old = lines[at : at + len(hunk.old)]
    returns = sum(line.endswith(b"\r\n") for line in old) * 2 > len(old)
    known = {_bare(line): line for line in old}
    return [known.get(_bare(line), _bare(line) + (b"\r\n" if returns else b"\n")) for line in new]


def _undelta(base: bytes, delta: bytes, found: FilePatch) -> bytes:
    """git's delta: two sizes, then copies from the base and literal runs (git's Documentation/gitformat-pack)."""
    try:
        size, at = _size(delta, 0)
        if size != len(base):
            raise PatchRejected(f"{found.name}: its delta is against another content")
        target, at = _size(delta, at)
        out = bytearray()
        while at < len(delta):
            word = delta[at]
            at += 1
            if word & 0x80:
                start = length = 0
                for bit in range(7):
                    if word & (1 << bit):
                        if bit < 4:
                            start |= delta[at] << (8 * bit)
                        else:
                            length |= delta[at] << (8 * (bit - 4))
                        at += 1
                out += base[start : start + (length or 0x10000)]
            else:
                out += delta[at : at + word]
                at += word
    except IndexError as error:
        raise PatchRejected(f"{found.name}: its delta is cut off") from error
    if len(out) != target:
        raise PatchRejected(f"{found.name}: its delta makes another size than it says")
    return bytes(out)


def _size(delta: bytes, at: int) -> tuple[int, int]:
    size = shift = 0
    while True:
        word = delta[at]
        at += 1
        size |= (word & 0x7F) << shift
        shift += 7
        if not word & 0x80:
            return size, at
