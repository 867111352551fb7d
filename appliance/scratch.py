"""Scratch folders by which can be told whether their owner lives: locked while in use, so gc removes what a kill left.

Standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PREFIX: Final = "bench-scratch."


def shared_home() -> Path:
    """Where everybody's temporary folders lie: for what belongs to no cache."""
    return Path(tempfile.gettempdir())


@contextlib.contextmanager
def scratch_in(home: Path) -> Iterator[Path]:
    """A folder of our own below `home`, which is made if need be; removed at the end."""
    home.mkdir(parents=True, exist_ok=True)
    folder, descriptor = _taken(home)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


@contextlib.contextmanager
def shared_scratch() -> Iterator[Path]:
    """The same in `shared_home`; what dead programs of our user left there goes first."""
    sweep(shared_home())
    with scratch_in(shared_home()) as folder:
        yield folder


def _taken(home: Path) -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=home))
        # Until it is locked, a sweep takes it for a leaving: then there is another.
        with contextlib.suppress(FileNotFoundError, BlockingIOError):
            descriptor = _lock(folder)
            with contextlib.suppress(FileNotFoundError):
                if folder.stat().st_ino == os.fstat(descriptor).st_ino:
                    return folder, descriptor
            os.close(descriptor)


def sweep(home: Path, *, everyone: bool = False) -> int:
    """Remove what dead programs of our own user, or of `everyone`, left below `home`; how many folders."""
    count = 0
    for folder in home.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            descriptor = _lock(folder)
            try:
                if everyone or os.fstat(descriptor).st_uid == os.geteuid():
                    shutil.rmtree(folder, ignore_errors=True)
                    count += not folder.exists()
            finally:
                os.close(descriptor)
    return count


def _lock(folder: Path) -> int:
    """Raises BlockingIOError where somebody alive holds it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
