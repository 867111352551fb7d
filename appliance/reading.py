"""Reading what somebody else put there: a regular file, of bounded size, or an OSError whose words say why not.

A FIFO, a socket or a device in a file's place neither blocks nor feeds us without end. Standard library only.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path
from typing import Final

_KINDS: Final[tuple[tuple[Callable[[int], bool], str], ...]] = (
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
)
_MIB: Final = 1024 * 1024
_KIB: Final = 1024


def open_regular(path: Path, *, follow: bool = True) -> BufferedReader:
    """`follow`: whether the last part of the path may be a symbolic link. Raises OSError, never waits for a writer."""
    try:
        # Asked before it is opened: to open a device is to use it.
        _refuse_other(path, path.stat(follow_symlinks=follow).st_mode)
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        descriptor = os.open(path, flags if follow else flags | os.O_NOFOLLOW)
    except ValueError as error:  # a NUL, or a character that no file's name can hold
        raise OSError(errno.EINVAL, "no name that a file can have", str(path)) from error
    try:
        _refuse_other(path, os.fstat(descriptor).st_mode)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: Path, most: int, *, follow: bool = True) -> bytes:
    """The whole file. Raises OSError also where it has more than `most` bytes, of which no more are read."""
    with open_regular(path, follow=follow) as stream:
        size = os.fstat(stream.fileno()).st_size
        # A buffer is made as large as what is asked for: of a small file never the whole bound. What has grown since,
        # and what has no size, as the files of /proc, gives a byte more, and is then asked for the rest.
        content = stream.read(size + 1) if size <= most else None
        if content is not None and size < len(content) <= most:
            content += stream.read(most + 1 - len(content))
    if content is None or len(content) > most:
        bound = f"{most // _MIB} MiB" if most >= _MIB else f"{most // _KIB} KiB" if most >= _KIB else f"{most} bytes"
        raise OSError(errno.EINVAL, f"over the bound of {bound}", str(path))
    return content


def _refuse_other(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = next((words for holds, words in _KINDS if holds(mode)), "a device")
        raise OSError(errno.EINVAL, f"{kind}, not a regular file", str(path))
