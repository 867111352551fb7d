"""What changed against the pristine tree, collected path by path; the same rules for every kind of workspace (I28)."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from appliance.engine.pristine import Pristine
from appliance.ports import Changes, TreeEntry

INLINE_BYTES = 64 * 1024
"""Larger contents stay on disk."""
INLINE_TOTAL_BYTES = 8 * 1024 * 1024
FILE_BYTES = 64 * 1024 * 1024
TOTAL_BYTES = 512 * 1024 * 1024
MAX_ENTRIES = 50_000
MAX_DROPPED = 1_000
MAX_DEPTH = 100
MAX_PATH_BYTES = 2_048

Chunks = Callable[[], Iterator[bytes]]


class Collector:
    """Fed the paths of a workspace in order, each folder's names sorted; holds no more than the caps above.

    Path by path it is told what is there (`file`, `link`, `special`, `folder`) and, by `gone_below`, where pristine
    paths may be missing; `changes` then says which of those are.
    """

    def __init__(self, pristine: Pristine):
        self._pristine = pristine
        self._entries: list[TreeEntry] = []
        self._dropped: list[tuple[bytes, str]] = []
        self._unlisted = 0
        self._suspects: set[bytes] = set()
        self._present: set[bytes] = set()
        self._altered: set[bytes] = set()
        self._inline = 0
        self._total = 0
        self._git: set[bytes] = set()

    # ------------------------------------------------------------------------------------------ what is there

    def file(self, path: bytes, mode: int, size: int, chunks: Chunks, keep: Callable[[], Path]) -> bool:
        """A regular file; whether it is taken as a change.

        `chunks` reads it, more than once; `keep` gives a path that holds it as long as the workspace is open.
        """
        self._present.add(path)
        if mode & (stat.S_ISUID | stat.S_ISGID):
            self._drop(path, "setuid")
        known = self._pristine.entries.get(path)
        executable = bool(mode & stat.S_IXUSR)
        if known is not None and known.kind == ("755" if executable else "644") and size <= FILE_BYTES:
            digest = hashlib.sha256()
            for chunk in chunks():
                digest.update(chunk)
            if digest.hexdigest() == known.content:
                return False
        if known is not None:
            self._altered.add(path)
        if self._in_git(path):
            return False
        if size > FILE_BYTES or self._total + size > TOTAL_BYTES or not self._room(path):
            self._drop(path, "too_large")
            return False
        self._total += size
        content: bytes | Path
        if size <= INLINE_BYTES and self._inline + size <= INLINE_TOTAL_BYTES:
            self._inline += size
            content = b"".join(chunks())
        else:
            content = keep()
        self._entries.append(TreeEntry(path, "file", executable, content))
        return True

    def is_unchanged(self, path: bytes) -> bool:
        """A pristine file that was seen, and was what it should be."""
        return path in self._pristine.entries and path in self._present and path not in self._altered

    def link(self, path: bytes, target: bytes) -> None:
        self._present.add(path)
        known = self._pristine.entries.get(path)
        if known is not None and known.kind == "link" and known.content.encode() == target:
            return
        if self._in_git(path):
            return
        if not self._room(path):
            self._drop(path, "too_large")
            return
        self._entries.append(TreeEntry(path, "link", content=target))

    def special(self, path: bytes, mode: int) -> None:
        """A FIFO, a socket or a device; what it replaced is gone."""
        self._suspects.add(path)
        self._suspects.update(self._pristine.below(path))
        if not self._in_git(path):
            word = "fifo" if stat.S_ISFIFO(mode) else "socket" if stat.S_ISSOCK(mode) else "device"
            self._drop(path, word)

    def folder(self, path: bytes, *, empty: bool) -> bool:
        """Whether to look into it."""
        if path in self._pristine.entries:
            self._suspects.add(path)
        if path.split(b"/").pop().lower() == b".git" and not self._pristine.has_folder(path):
            self._in_git(path)
            return False
        if path.count(b"/") >= MAX_DEPTH or len(path) > MAX_PATH_BYTES:
            self._present.update(self._pristine.below(path))
            self._drop(path, "too_large")
            return False
        if empty and not self._in_git(path):
            self._drop(path, "empty_directory")
        return True

    def gone_below(self, path: bytes) -> None:
        """The pristine `path` and all under it are gone, except what is reported as there."""
        if path in self._pristine.entries:
            self._suspects.add(path)
        self._suspects.update(self._pristine.below(path))

    def cut_off(self) -> None:
        """The rest of the workspace was not read; nothing is said of what is not known to be there."""
        self._suspects.clear()
        self._drop(b".", "too_large")

    # ------------------------------------------------------------------------------------------ what it comes to

    def changes(self) -> Changes:
        deleted = []
        for path in self._suspects - self._present:
            if path in self._pristine.entries and not self._in_git(path):
                deleted.append(TreeEntry(path, "deleted"))
        dropped = sorted(self._dropped)
        if self._unlisted:
            dropped.append((f"and {self._unlisted} more".encode(), "not_listed"))
        return Changes(tuple(sorted([*self._entries, *deleted], key=lambda entry: entry.path)), tuple(dropped))

    def _room(self, path: bytes) -> bool:
        return len(self._entries) < MAX_ENTRIES and len(path) <= MAX_PATH_BYTES

    def _drop(self, path: bytes, why: str) -> None:
        if len(self._dropped) < MAX_DROPPED:
            self._dropped.append((path, why))
        else:
            self._unlisted += 1

    def _in_git(self, path: bytes) -> bool:
        """Paths under .git are named once, by the .git that holds them; git itself refuses any case of the name."""
        parts = path.split(b"/")
        for depth, part in enumerate(parts, 1):
            if part.lower() == b".git":
                top = b"/".join(parts[:depth])
                if top not in self._git and len(self._git) < MAX_DROPPED:
                    self._git.add(top)
                    self._drop(top, "git")
                return True
        return False
