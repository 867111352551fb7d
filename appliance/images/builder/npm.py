"""Unpacking npm packages: the tarball's files at the place that npm's own tree gives them, no script ever run."""

from __future__ import annotations

import posixpath
import tarfile
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from appliance.errors import InputRefused
from appliance.images.builder.spool import Spool
from appliance.images.builder.tar import Entry


def read_npm(stream: BinaryIO, name: str, place: str, mtime: int, spool: Spool) -> Iterator[Entry]:
    """Every file of the package below `place`. Raises InputRefused where it cannot be read or leads out of it.

    The first part of a member's path is dropped, whatever it is called, as npm does; links are left out, as npm does.
    """
    try:
        with tarfile.open(fileobj=stream, mode="r|gz") as tar:
            for member in tar:
                if not member.isfile():
                    continue
                inner = _inner(member.name)
                content = tar.extractfile(member)
                if not inner or content is None:
                    continue
                mode = 0o755 if member.mode & 0o111 else 0o644
                yield Entry(f"{place}/{inner}", mode=mode, mtime=mtime, content=spool.keep(content))
    except (ValueError, tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise InputRefused(f"not an npm package that can be read: {error}", where=name) from error


def _inner(name: str) -> str:
    path = posixpath.normpath(name)
    if path.startswith(("/", "../")) or "\0" in path:
        raise ValueError(f"a path that leads out of the package: {name}")
    return path.partition("/")[2]
