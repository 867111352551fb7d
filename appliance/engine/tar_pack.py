"""Trees as tar streams for the engine: owner 1000, modes 644 and 755, one fixed time."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from appliance.engine.laying import content_chunks
from appliance.engine.places import WORKSPACE_UID
from appliance.engine.pristine import MTIME, Pristine
from appliance.ports import TreeEntry

_END = bytes(1024)


def pristine_entries(pristine: Pristine) -> Iterator[TreeEntry]:
    for path, entry in pristine.entries.items():
        if entry.kind == "link":
            yield TreeEntry(path, "link", content=entry.content.encode())
        else:
            yield TreeEntry(path, "file", entry.kind == "755", pristine.source / os.fsdecode(path))


def packed(entries: Iterable[TreeEntry]) -> Iterator[bytes]:
    """Entries but deletions, parents first. Contents are read as they are sent."""
    folders: set[bytes] = set()
    for entry in entries:
        if entry.kind == "deleted":
            continue
        parts = entry.path.split(b"/")
        for depth in range(1, len(parts)):
            parent = b"/".join(parts[:depth])
            if parent not in folders:
                folders.add(parent)
                yield _header(parent + b"/", tarfile.DIRTYPE, 0o755)
        if entry.kind == "directory":
            folders.add(entry.path)
            yield _header(entry.path + b"/", tarfile.DIRTYPE, 0o755)
        elif entry.kind == "link":
            target = entry.content if isinstance(entry.content, bytes) else os.fsencode(entry.content)
            yield _header(entry.path, tarfile.SYMTYPE, 0o777, link=target)
        else:
            yield from _file(entry)
    yield _END


def _file(entry: TreeEntry) -> Iterator[bytes]:
    size = len(entry.content) if isinstance(entry.content, bytes) else _size(entry.content)
    yield _header(entry.path, tarfile.REGTYPE, 0o755 if entry.executable else 0o644, size=size)
    yield from content_chunks(entry.content)
    if size % 512:
        yield bytes(512 - size % 512)


def _size(path: Path) -> int:
    return path.lstat().st_size


def _header(path: bytes, kind: bytes, mode: int, *, size: int = 0, link: bytes = b"") -> bytes:
    member = tarfile.TarInfo(os.fsdecode(path))
    member.type, member.mode, member.size, member.mtime = kind, mode, size, MTIME
    member.uid = member.gid = WORKSPACE_UID
    member.linkname = os.fsdecode(link)
    return member.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def deletions(entries: Sequence[TreeEntry]) -> bytes:
    """NUL-separated paths, as `xargs -0` reads them."""
    return b"".join(b"./" + entry.path + b"\0" for entry in entries if entry.kind == "deleted")
