"""Writing files so that a reader never sees half of one."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from appliance.errors import HostRefused

_TAKES_NO_MORE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO})


@contextmanager
def disk_of(place: Path, mend: str) -> Iterator[None]:
    """A disk that takes no more becomes HostRefused; every other OSError stays what it is."""
    try:
        yield
    except OSError as error:
        if error.errno not in _TAKES_NO_MORE:
            raise
        words = (error.strerror or str(error)).lower()
        raise HostRefused(words, where=str(place), mend=mend, reason="disk_full") from error


def write_atomically(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Write beside `path`, fsync, rename over it, fsync the folder. Parents are made; a failure leaves the old file.

    Only a file is ever replaced: raises OSError (EINVAL) where a device, a pipe or a folder lies there.
    """
    with writing_atomically(path, mode) as stream:
        stream.write(content)


@contextmanager
def writing_atomically(path: Path, mode: int = 0o644) -> Iterator[BinaryIO]:
    """As `write_atomically`, for content that is never held whole: it takes its place when the block ends."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    make_folder(path.parent)
    with made_in(path.parent):
        descriptor, draft = tempfile.mkstemp(prefix=f".{path.name[:60]}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
        Path(draft).replace(path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
    fsync_folder(path.parent)


def make_folder(path: Path) -> None:
    """With its parents. Raises OSError: PermissionError also of a file system that takes no names, as /proc."""
    with made_in(path):
        path.mkdir(parents=True, exist_ok=True)


@contextmanager
def made_in(folder: Path) -> Iterator[None]:
    """To make a name cannot fail for want of it: such a file system says `no such file`, and means `not allowed`."""
    try:
        yield
    except FileNotFoundError as error:
        raise PermissionError(errno.EACCES, "nothing can be made here", str(folder)) from error


def fsync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def store_blob(blobs: Path, content: bytes, digest: str) -> Path:
    """Keep `content` as `blobs/sha256/<digest>`; a blob that is there already is left alone."""
    path = blobs / "sha256" / digest
    if not path.exists():
        write_atomically(path, content)
    return path
