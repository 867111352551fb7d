"""Private files that survive a crash: written beside, synced, renamed; and a lock between processes."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def write_atomically(path: Path, content: bytes, mode: int = 0o600) -> None:
    """A reader sees the old content or the new one, also after a power cut."""
    descriptor, draft = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
        Path(draft).replace(path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def read_bounded(path: Path, most: int, *, follow: bool = True) -> bytes:
    """At most `most` bytes and one more. Raises OSError for what is no regular file: a FIFO would block, a device
    never end. `follow`: whether the last part of the path may be a symbolic link."""
    if not stat.S_ISREG(path.stat(follow_symlinks=follow).st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    with os.fdopen(os.open(path, flags), "rb") as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        # A buffer is made as large as what is asked for: the rest only of what has grown, or has no size, as in /proc.
        size = min(os.fstat(stream.fileno()).st_size, most)
        content = stream.read(size + 1)
        return content if len(content) <= size else content + stream.read(most + 1 - len(content))


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds `path` exclusively among processes and threads; the kernel lets go when the holder dies. A symbolic link
    is not followed: no file is made where it leads."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
