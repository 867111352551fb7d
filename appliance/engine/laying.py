"""Putting entries over a tree of ours on this host, below a descriptor and never through a link."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from appliance.engine.descriptors import FOLDER, NEW_FILE, names_in
from appliance.engine.places import WORKSPACE_UID
from appliance.ports import EngineFailed, TreeEntry

_CHUNK = 1 << 20


def refuse_unsafe(entries: Sequence[TreeEntry]) -> None:
    """Raises EngineFailed for a path that leaves the tree, is laid twice, or lies below a link or file laid here."""
    kinds: dict[bytes, str] = {}
    for entry in entries:
        parts = entry.path.split(b"/")
        if not entry.path or b"\0" in entry.path or any(part in {b"", b".", b".."} for part in parts):
            raise EngineFailed(f"{entry.path!r} is no path within a workspace")
        if entry.kind != "deleted":
            if entry.path in kinds:
                raise EngineFailed(f"{entry.path!r} is laid twice")
            kinds[entry.path] = entry.kind
    for path in kinds:
        parts = path.split(b"/")
        for depth in range(1, len(parts)):
            if kinds.get(b"/".join(parts[:depth]), "directory") != "directory":
                raise EngineFailed(f"{path!r} lies below something that is no folder")


def lay_entries(root: Path, entries: Sequence[TreeEntry]) -> None:
    """Deletions first, then the rest; emptied folders go, as `git apply` has it. Raises EngineFailed."""
    refuse_unsafe(entries)
    top = os.open(root, FOLDER)
    try:
        for entry in sorted(entries, key=lambda entry: entry.path, reverse=True):
            if entry.kind == "deleted":
                _delete(top, entry.path)
        for entry in sorted(entries, key=lambda entry: entry.path):
            if entry.kind != "deleted":
                _lay(top, entry)
    except OSError as error:
        raise EngineFailed(f"the workspace could not be laid: {error}") from error
    finally:
        os.close(top)


def content_chunks(content: bytes | Path) -> Iterator[bytes]:
    if isinstance(content, bytes):
        yield content
        return
    descriptor = os.open(content, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        while chunk := stream.read(_CHUNK):
            yield chunk


def _delete(top: int, path: bytes) -> None:
    parts = path.split(b"/")
    folders = [os.dup(top)]
    try:
        for part in parts[:-1]:
            try:
                folders.append(os.open(part, FOLDER, dir_fd=folders[-1]))
            except (FileNotFoundError, NotADirectoryError):
                return
        with contextlib.suppress(FileNotFoundError, IsADirectoryError):
            os.unlink(parts[-1], dir_fd=folders[-1])
        for depth in range(len(parts) - 2, -1, -1):
            try:
                os.rmdir(parts[depth], dir_fd=folders[depth])
            except OSError:
                # Not empty: so is nothing above it.
                return
    finally:
        for folder in folders:
            os.close(folder)


def _lay(top: int, entry: TreeEntry) -> None:
    parts = entry.path.split(b"/")
    folder = os.dup(top)
    try:
        for part in parts[:-1]:
            inner = _entered(folder, part)
            os.close(folder)
            folder = inner
        name = parts[-1]
        if entry.kind == "directory":
            os.close(_entered(folder, name))
            return
        _clear(folder, name)
        if entry.kind == "link":
            target = entry.content if isinstance(entry.content, bytes) else os.fsencode(entry.content)
            os.symlink(target, name, dir_fd=folder)
        else:
            descriptor = os.open(name, NEW_FILE, 0o600, dir_fd=folder)
            with os.fdopen(descriptor, "wb") as stream:
                for chunk in content_chunks(entry.content):
                    stream.write(chunk)
                os.fchmod(descriptor, 0o755 if entry.executable else 0o644)
        os.chown(name, WORKSPACE_UID, WORKSPACE_UID, dir_fd=folder, follow_symlinks=False)
    finally:
        os.close(folder)


def _entered(folder: int, name: bytes) -> int:
    """The folder `name`, made if need be; a link or file in its place is refused by the kernel (ENOTDIR, ELOOP)."""
    made = False
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o755, dir_fd=folder)
        made = True
    inner = os.open(name, FOLDER, dir_fd=folder)
    if made:
        os.fchown(inner, WORKSPACE_UID, WORKSPACE_UID)
        os.fchmod(inner, 0o755)
    return inner


def _clear(folder: int, name: bytes) -> None:
    """Whatever file or link is there; a folder only if nothing but folders is in it."""
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(mode):
        os.unlink(name, dir_fd=folder)
        return
    inner = os.open(name, FOLDER, dir_fd=folder)
    try:
        for child in names_in(inner):
            if not stat.S_ISDIR(os.stat(child, dir_fd=inner, follow_symlinks=False).st_mode):
                break
            _clear(inner, child)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=folder)
