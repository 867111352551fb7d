"""A pristine tree, what was changed of it, and the files that come of both: values, read no-follow."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from appliance.ports import TreeEntry

Mode = Literal["644", "755", "link"]


@dataclass(frozen=True)
class Node:
    """A file or a symbolic link; `source` is its bytes (a link's target), or the host's file that holds them."""

    mode: Mode
    source: bytes | Path

    @property
    def content(self) -> bytes:
        return self.source if isinstance(self.source, bytes) else self.source.read_bytes()


@dataclass(frozen=True)
class FileChange:
    """One path that differs; `old` None: created, `new` None: deleted."""

    path: bytes
    old: Node | None
    new: Node | None


def pristine_nodes(root: Path) -> dict[bytes, Node]:
    """Every file and link under `root`, by relative path; anything else was refused when the task was read."""
    nodes: dict[bytes, Node] = {}
    for folder, names, files in os.walk(root):
        links = [name for name in names if (Path(folder) / name).is_symlink()]
        names[:] = [name for name in names if name not in links]
        for name in [*files, *links]:
            path = Path(folder) / name
            mode = path.lstat().st_mode
            relative = os.fsencode(path.relative_to(root))
            if stat.S_ISLNK(mode):
                nodes[relative] = Node("link", os.fsencode(path.readlink()))
            else:
                nodes[relative] = Node("755" if mode & 0o100 else "644", path)
    return nodes


def after(pristine: Mapping[bytes, Node], entries: Iterable[TreeEntry]) -> dict[bytes, Node]:
    """The tree that laying `entries` over the pristine one gives, whatever stood in their way."""
    nodes = dict(pristine)
    folders = folders_of(pristine)
    for entry in sorted(entries, key=lambda entry: (entry.kind != "deleted", entry.path)):
        if entry.kind == "directory":
            nodes.pop(entry.path, None)
            continue
        if entry.path in folders:
            below = entry.path + b"/"
            for path in [path for path in nodes if path.startswith(below)]:
                if entry.kind == "deleted" or path in pristine:
                    del nodes[path]
        if entry.kind == "deleted":
            nodes.pop(entry.path, None)
        else:
            for ancestor in ancestors(entry.path):
                nodes.pop(ancestor, None)
            nodes[entry.path] = node_of(entry)
    return nodes


def node_of(entry: TreeEntry) -> Node:
    if entry.kind == "link":
        return Node("link", entry.content)
    return Node("755" if entry.executable else "644", entry.content)


def file_changes(old: Mapping[bytes, Node], new: Mapping[bytes, Node]) -> tuple[FileChange, ...]:
    """What differs, sorted by path bytes; a path that was touched and is the same again is no change."""
    changes = []
    for path in sorted(old.keys() | new.keys()):
        before, behind = old.get(path), new.get(path)
        if not _same(before, behind):
            changes.append(FileChange(path, before, behind))
    return tuple(changes)


def entries_of(changes: Iterable[FileChange]) -> tuple[TreeEntry, ...]:
    """The entries that turn the old tree into the new one, deletions first."""
    entries = []
    for change in changes:
        if change.new is None:
            entries.append(TreeEntry(change.path, "deleted"))
        elif change.new.mode == "link":
            entries.append(TreeEntry(change.path, "link", content=change.new.source))
        else:
            entries.append(TreeEntry(change.path, "file", change.new.mode == "755", change.new.source))
    return tuple(sorted(entries, key=lambda entry: (entry.kind != "deleted", entry.path)))


def ancestors(path: bytes) -> list[bytes]:
    """`a`, `a/b` of `a/b/c`."""
    parts = path.split(b"/")
    return [b"/".join(parts[:count]) for count in range(1, len(parts))]


def folders_of(paths: Iterable[bytes]) -> set[bytes]:
    return {ancestor for path in paths for ancestor in ancestors(path)}


def shown(path: bytes) -> str:
    """A path for people and for JSON: UTF-8, a byte that is none as `\\xNN`, and so a control character."""
    text = path.decode("utf-8", "backslashreplace")
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in char.encode())


def _same(one: Node | None, other: Node | None) -> bool:
    if one is None or other is None:
        return one is other
    if one.mode != other.mode:
        return False
    if isinstance(one.source, Path) and isinstance(other.source, Path):
        if one.source == other.source:
            return True
        if one.source.stat().st_size != other.source.stat().st_size:
            return False
    return one.content == other.content
