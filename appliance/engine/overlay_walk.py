"""Harvest of an overlay: the upper folder says where to look, the merged view says what is there (row I28).

No process of the solver lives any more, every open is no-follow and below a descriptor of ours, and nothing of the
upper folder's own language is interpreted beyond "look closer here": a folder that is opaque, was renamed, or carries
any other mark of the overlay is compared whole.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from appliance.engine.descriptors import FILE, FOLDER, names_in
from appliance.engine.harvest import Collector
from appliance.engine.pristine import Pristine
from appliance.ports import Changes

_CHUNK = 1 << 20
_MARKS = "trusted.overlay."
_HARMLESS_MARKS = frozenset({"trusted.overlay.origin", "trusted.overlay.impure", "trusted.overlay.uuid"})


def overlay_changes(upper: Path, merged: Path, pristine: Pristine) -> Changes:
    """Raises OSError where the file system itself fails."""
    walk = _Walk(merged, pristine)
    upper_fd = os.open(upper, FOLDER)
    try:
        merged_fd = os.open(merged, FOLDER)
        try:
            walk.folder(b"", merged_fd, upper_fd)
        finally:
            os.close(merged_fd)
    finally:
        os.close(upper_fd)
    return walk.collector.changes()


class _Walk:
    def __init__(self, merged: Path, pristine: Pristine):
        self._merged = os.fsencode(merged)
        self._pristine = pristine
        self.collector = Collector(pristine)

    def folder(self, path: bytes, merged: int, upper: int | None) -> None:
        """`upper` None: compare all that is in here."""
        there = names_in(merged)
        if path and not self.collector.folder(path, empty=not there):
            return
        if upper is None:
            self.collector.gone_below(path)
            for name in there:
                self._entry(path, name, merged, None)
            return
        for name in names_in(upper):
            state = os.stat(name, dir_fd=upper, follow_symlinks=False)
            below = _joined(path, name)
            if stat.S_ISCHR(state.st_mode) and state.st_rdev == 0:
                self.collector.gone_below(below)
            else:
                self._entry(path, name, merged, upper)

    def _entry(self, path: bytes, name: bytes, merged: int, upper: int | None) -> None:
        state = os.stat(name, dir_fd=merged, follow_symlinks=False)
        below = _joined(path, name)
        if stat.S_ISDIR(state.st_mode):
            self._descend(below, name, merged, upper)
            return
        if self._pristine.has_folder(below):
            self.collector.gone_below(below)
        if stat.S_ISREG(state.st_mode):
            self.collector.file(
                below,
                state.st_mode,
                state.st_size,
                lambda: _read(name, merged),
                lambda: Path(os.fsdecode(self._merged + b"/" + below)),
            )
        elif stat.S_ISLNK(state.st_mode):
            self.collector.link(below, os.readlink(name, dir_fd=merged))
        else:
            self.collector.special(below, state.st_mode)

    def _descend(self, below: bytes, name: bytes, merged: int, upper: int | None) -> None:
        inner = os.open(name, FOLDER, dir_fd=merged)
        try:
            inner_upper: int | None = None
            if upper is not None and self._pristine.has_folder(below):
                inner_upper = os.open(name, FOLDER, dir_fd=upper)
            try:
                plain = inner_upper is not None and not _marked(inner_upper)
                self.folder(below, inner, inner_upper if plain else None)
            finally:
                if inner_upper is not None:
                    os.close(inner_upper)
        finally:
            os.close(inner)


def _joined(path: bytes, name: bytes) -> bytes:
    return path + b"/" + name if path else name


def _marked(folder: int) -> bool:
    marks = {name for name in os.listxattr(folder) if name.startswith(_MARKS)}
    return bool(marks - _HARMLESS_MARKS)


def _read(name: bytes, folder: int) -> Iterator[bytes]:
    descriptor = os.open(name, FILE, dir_fd=folder)
    try:
        while chunk := os.read(descriptor, _CHUNK):
            yield chunk
    finally:
        os.close(descriptor)
