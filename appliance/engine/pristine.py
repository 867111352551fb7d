"""A task's before/ as every container sees it: one tree a digest, owner 1000, modes 644 and 755."""

from __future__ import annotations

import bisect
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from appliance.digests import digest_of_entries, tree_entries
from appliance.engine.places import WORKSPACE_UID

MTIME = 1_577_836_800
"""2020-01-01T00:00:00Z: the same for all, so that no build tool sees one of them as newer than another."""


@dataclass(frozen=True)
class PristineEntry:
    kind: Literal["644", "755", "link"]
    content: str
    """sha256, or the link's target."""


class Pristine:
    """The index of a pristine tree: files and links by path, and quick looks below a folder."""

    def __init__(self, source: Path, entries: list[tuple[str, str, str]]):
        self.source = source
        self.digest = digest_of_entries(entries)
        self.entries: Mapping[bytes, PristineEntry] = {
            os.fsencode(path): PristineEntry(kind, content)  # type: ignore[arg-type]  # tree_entries' three words
            for path, kind, content in entries
        }
        self._sorted = sorted(self.entries)

    def below(self, folder: bytes) -> Iterator[bytes]:
        """Paths under `folder`; all of them for `b""`."""
        prefix = folder + b"/" if folder else b""
        for path in self._sorted[bisect.bisect_left(self._sorted, prefix) :]:
            if not path.startswith(prefix):
                return
            yield path

    def has_folder(self, folder: bytes) -> bool:
        return next(self.below(folder), None) is not None


class PristineTrees:
    """Reads each before/ once; before/ never changes while we run. Thread-safe."""

    def __init__(self) -> None:
        self._known: dict[Path, Pristine] = {}
        self._guard = threading.Lock()

    def of(self, source: Path) -> Pristine:
        """Raises InputRefused for what no tree of ours may hold."""
        with self._guard:
            if source not in self._known:
                self._known[source] = Pristine(source, tree_entries(source) if source.is_dir() else [])
            return self._known[source]


def materialised(pristine: Pristine, trees: Path) -> Path:
    """The tree under `trees`, made on first use and never changed after; two makers at a time are fine."""
    final = trees / pristine.digest
    if final.is_dir():
        return final
    trees.mkdir(parents=True, exist_ok=True, mode=0o711)
    draft = Path(tempfile.mkdtemp(prefix=".draft.", dir=trees))
    try:
        _copy(pristine, draft)
        try:
            draft.rename(final)
        except OSError:
            # Someone else was first: a folder is only ever renamed into place whole.
            if not final.is_dir():
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return final


def _copy(pristine: Pristine, target: Path) -> None:
    folders: set[Path] = {target}
    for path, entry in pristine.entries.items():
        relative = os.fsdecode(path)
        place = target / relative
        place.parent.mkdir(parents=True, exist_ok=True)
        folders.update(target / parent for parent in Path(relative).parents)
        if entry.kind == "link":
            place.symlink_to(entry.content)
        else:
            shutil.copyfile(pristine.source / relative, place, follow_symlinks=False)
            place.chmod(0o755 if entry.kind == "755" else 0o644)
        _own(place)
    for folder in sorted(folders, reverse=True):
        folder.chmod(0o755)
        _own(folder)


def _own(place: Path) -> None:
    os.chown(place, WORKSPACE_UID, WORKSPACE_UID, follow_symlinks=False)
    os.utime(place, (MTIME, MTIME), follow_symlinks=False)
