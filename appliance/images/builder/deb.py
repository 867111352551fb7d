"""Reading Debian packages without dpkg: an ar archive of two compressed tars."""

from __future__ import annotations

import gzip
import io
import lzma
import posixpath
import tarfile
from dataclasses import dataclass

from appliance.errors import InputRefused
from appliance.images.builder.tar import Entry

_MAGIC = b"!<arch>\n"


@dataclass(frozen=True)
class Deb:
    """A package as it unpacks: members still have the paths that its author gave them (`bin/sh`, not `usr/bin/sh`)."""

    name: str
    control: dict[str, bytes]
    entries: tuple[Entry, ...]
    paths: tuple[str, ...]
    """What dpkg writes into its .list file, in the package's own order."""

    @property
    def multi_arch_same(self) -> bool:
        return b"\nMulti-Arch: same\n" in b"\n" + self.control["control"]


def read_deb(content: bytes, name: str) -> Deb:
    """Raises InputRefused where the bytes are not a package that we can read."""
    try:
        members = _ar(content)
        with tarfile.open(fileobj=io.BytesIO(_member(members, "control.tar")), mode="r:") as tar:
            control = {posixpath.normpath(m.name): _content(tar, m) for m in tar if m.isfile()}
        with tarfile.open(fileobj=io.BytesIO(_member(members, "data.tar")), mode="r:") as tar:
            entries, paths = _entries(tar)
    except (ValueError, KeyError, lzma.LZMAError, EOFError, OSError, tarfile.TarError) as error:
        raise InputRefused(f"not a Debian package that can be read: {error}", where=name) from error
    return Deb(name, control, entries, paths)


def _ar(content: bytes) -> dict[str, bytes]:
    if not content.startswith(_MAGIC):
        raise ValueError("no ar magic")
    members, at = {}, len(_MAGIC)
    while at + 60 <= len(content):
        header = content[at : at + 60]
        size = int(header[48:58])
        members[header[:16].decode("ascii").strip().rstrip("/")] = content[at + 60 : at + 60 + size]
        at += 60 + size + (size & 1)
    return members


def _member(members: dict[str, bytes], stem: str) -> bytes:
    if stem in members:
        return members[stem]
    if f"{stem}.xz" in members:
        return lzma.decompress(members[f"{stem}.xz"])
    if f"{stem}.gz" in members:
        return gzip.decompress(members[f"{stem}.gz"])
    raise ValueError(f"no {stem} in a compression that Debian uses (found {', '.join(sorted(members))})")


def _entries(tar: tarfile.TarFile) -> tuple[tuple[Entry, ...], tuple[str, ...]]:
    entries, paths = [], []
    for member in tar:
        path = posixpath.normpath(member.name).lstrip("/")
        if path.startswith("../") or path == "..":
            raise ValueError(f"a path that leads out of the image: {member.name}")
        paths.append("/." if path in (".", "") else f"/{path}")
        if path in (".", ""):
            continue
        mode, mtime = member.mode & 0o7777, max(0, int(member.mtime))
        if member.isdir():
            entries.append(Entry(path, "directory", mode, member.uid, member.gid, mtime))
        elif member.issym():
            entries.append(Entry(path, "symlink", 0o777, member.uid, member.gid, mtime, member.linkname))
        elif member.islnk():
            target = posixpath.normpath(member.linkname).lstrip("/")
            entries.append(Entry(path, "hardlink", mode, member.uid, member.gid, mtime, target))
        elif member.isfile():
            content = _content(tar, member)
            entries.append(Entry(path, "file", mode, member.uid, member.gid, mtime, content=content))
        # Device nodes and pipes are left out: the container's runtime supplies /dev.
    return tuple(entries), tuple(paths)


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    stream = tar.extractfile(member)
    return stream.read() if stream else b""
