"""A folder that we write in, and that others may have put something into: what is ours there has to be what we made."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

from appliance.errors import UsageRefused


def refuse_foreign(root: Path, folders: Iterable[str], files: Iterable[str]) -> None:
    """Nothing is written, read or removed through a symbolic link below `root`, which may be one itself.

    Raises UsageRefused where one of the `folders` is there and no folder, or one of the `files` no regular file.
    """
    parts = dict.fromkeys(part for name in folders for part in _from_above(name))
    for name in parts:
        _refuse(root / name, stat.S_ISDIR, "a folder")
    for name in files:
        _refuse(root / name, stat.S_ISREG, "a file")


def _from_above(name: str) -> tuple[str, ...]:
    """`blobs`, then `blobs/sha256`."""
    parts = name.split("/")
    return tuple("/".join(parts[: end + 1]) for end in range(len(parts)))


def _refuse(path: Path, wanted: Callable[[int], bool], words: str) -> None:
    if not os.path.lexists(path):
        return
    mode = path.lstat().st_mode
    if not wanted(mode):
        found = f"a symbolic link to {str(path.readlink())!r}" if stat.S_ISLNK(mode) else "something else"
        raise UsageRefused(
            f"wanted {words}, found {found}", where=str(path), mend="move it away, or name another folder"
        )
