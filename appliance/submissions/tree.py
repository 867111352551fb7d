"""A submission's folder as a stranger sent it: listed within bounds, nothing followed, nothing unpacked; then copied.

```
DIR/records/NAME.json  DIR/records/NAME.sigstore.json  DIR/blobs/sha256/HEX  DIR/challenges/HEX.json
DIR/verdicts/NAME.sigstore.json
```
All else that lies there is counted against the bounds, passed over, and said.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from appliance.errors import InputRefused

_MIB: Final = 1024 * 1024
_CHUNK: Final = 1024 * 1024
_HEX: Final = re.compile(r"[0-9a-f]{64}")
_BUNDLE: Final = ".sigstore.json"
_KINDS: Final[tuple[tuple[Callable[[int], bool], str], ...]] = (
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISCHR, "a device"),
)


@dataclass(frozen=True)
class TreeBounds:
    """What a submission may be at most; lengths count whole, also of a file with holes."""

    files: int = 8192
    """Files and folders together."""
    file_mib: int = 1024
    total_mib: int = 4096
    depth: int = 8
    records: int = 256
    verdicts: int = 1024


@dataclass(frozen=True)
class Listing:
    """Paths relative to `root`, sorted; every one was a regular file with one name when it was looked at."""

    root: Path
    bounds: TreeBounds
    records: tuple[str, ...] = ()
    bundles: tuple[str, ...] = ()
    blobs: tuple[str, ...] = ()
    challenges: tuple[str, ...] = ()
    verdicts: tuple[str, ...] = ()
    passed_over: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        return (*self.records, *self.bundles, *self.blobs, *self.challenges, *self.verdicts)


def list_submission(folder: Path, bounds: TreeBounds = TreeBounds()) -> Listing:
    """Raises InputRefused, naming the bound or what no submission holds: links, names that share a file, devices.

    Nothing is read but folders.
    """
    kept: dict[str, list[str]] = {}
    walk = _Walk(folder, bounds)
    try:
        with _opened_root(folder) as root:
            for path in walk.files(root, ""):
                kept.setdefault(_part_of(path), []).append(path)
    except OSError as error:
        raise InputRefused(error.strerror or str(error), where=str(folder)) from error
    found = {part: tuple(sorted(paths)) for part, paths in kept.items()}
    for part, most in (("records", bounds.records), ("verdicts", bounds.verdicts)):
        if len(found.get(part, ())) > most:
            raise InputRefused(f"over the bound of {most} {part}", where=str(folder))
    return Listing(folder, bounds, **found)


def copy_submission(listing: Listing, into: Path) -> None:
    """Every listed file, once, to the same path below `into`, where nobody but us writes.

    What is judged afterwards is what was copied, whatever its sender does meanwhile. Raises InputRefused for what is
    no longer what was listed, OSError of our own disk.
    """
    left = listing.bounds.total_mib * _MIB
    try:
        with _opened_root(listing.root) as root:
            for path in listing.files:
                left -= _copy(root, path, into / path, min(left, listing.bounds.file_mib * _MIB))
    except _Changed as error:
        raise InputRefused("changed while it was read", where=f"{listing.root}/{error}") from error


def _part_of(path: str) -> str:
    """The field of Listing that a path belongs to."""
    parts = path.split("/")
    name = parts[-1]
    if len(parts) == 2 and parts[0] == "records" and name.endswith(".json"):
        return "bundles" if name.endswith(_BUNDLE) else "records"
    if len(parts) == 3 and parts[:2] == ["blobs", "sha256"] and _HEX.fullmatch(name):
        return "blobs"
    if len(parts) == 2 and parts[0] == "challenges" and name.endswith(".json") and not name.endswith(_BUNDLE):
        return "challenges"
    if len(parts) == 2 and parts[0] == "verdicts" and name.endswith(_BUNDLE):
        return "verdicts"
    return "passed_over"


class _Changed(Exception):
    """A file that is not what it was when it was listed."""


@dataclass
class _Walk:
    folder: Path
    bounds: TreeBounds
    entries: int = 0
    held: int = 0

    def files(self, descriptor: int, below: str, depth: int = 1) -> Iterator[str]:
        if depth > self.bounds.depth:
            raise self._refused(f"over the bound of {self.bounds.depth} folders in each other", below)
        folders: list[str] = []
        with os.scandir(descriptor) as found:
            for entry in found:
                path = f"{below}{entry.name}"
                self.entries += 1
                if self.entries > self.bounds.files:
                    raise self._refused(f"over the bound of {self.bounds.files} files", "")
                self._refuse_name(path)
                state = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(state.st_mode):
                    folders.append(entry.name)
                    continue
                self._refuse_file(path, state)
                yield path
        for name in folders:
            child = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptor)
            try:
                yield from self.files(child, f"{below}{name}/", depth + 1)
            finally:
                os.close(child)

    def _refuse_name(self, path: str) -> None:
        if not path.isprintable():
            raise InputRefused("a name that cannot be printed", where=f"{self.folder}/{ascii(path)[1:-1]}")

    def _refuse_file(self, path: str, state: os.stat_result) -> None:
        if not stat.S_ISREG(state.st_mode):
            kind = next((words for holds, words in _KINDS if holds(state.st_mode)), "no regular file")
            raise self._refused(f"{kind}: a submission holds files and folders", path)
        if state.st_nlink > 1:
            raise self._refused("a file with a second name (hard link): a submission holds copies", path)
        if state.st_size > self.bounds.file_mib * _MIB:
            raise self._refused(
                f"{-(-state.st_size // _MIB)} MiB, over the bound of {self.bounds.file_mib} MiB for one file", path
            )
        self.held += state.st_size
        if self.held > self.bounds.total_mib * _MIB:
            raise self._refused(f"over the bound of {self.bounds.total_mib} MiB for all its files", "")

    def _refused(self, words: str, path: str) -> InputRefused:
        return InputRefused(words, where=f"{self.folder}/{path}".rstrip("/"))


@contextmanager
def _opened_root(folder: Path) -> Iterator[int]:
    """Raises InputRefused for what is no folder: an archive is nothing that we unpack."""
    if not folder.is_dir():
        there = os.path.lexists(folder)
        words = "not a folder: a submission is a folder of files, no archive is unpacked" if there else "no such folder"
        raise InputRefused(words, where=str(folder), mend="appliance submission pack RECORD --to DIR makes one")
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _copy(root: int, path: str, to: Path, most: int) -> int:
    """Bytes copied; never through a link, wherever on the way one was put since."""
    to.parent.mkdir(parents=True, exist_ok=True)
    with _opened_below(root, path) as source, to.open("xb") as out:
        copied = 0
        while chunk := _read(source, path):
            copied += len(chunk)
            if copied > most:
                raise _Changed(path)
            out.write(chunk)
    return copied


def _read(source: int, path: str) -> bytes:
    try:
        return os.read(source, _CHUNK)
    except OSError as error:
        raise _Changed(path) from error


@contextmanager
def _opened_below(root: int, path: str) -> Iterator[int]:
    *folders, name = path.split("/")
    descriptor = os.dup(root)
    try:
        for folder in folders:
            descriptor = _replaced(descriptor, folder, os.O_DIRECTORY)
        descriptor = _replaced(descriptor, name, os.O_NONBLOCK | os.O_NOCTTY)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _Changed(path)
        yield descriptor
    finally:
        os.close(descriptor)


def _replaced(descriptor: int, name: str, flags: int) -> int:
    try:
        below = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags, dir_fd=descriptor)
    except OSError as error:
        raise _Changed(name) from error
    os.close(descriptor)
    return below
