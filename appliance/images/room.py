"""A disk that is full or not ours to write, said in one line: the folder and what mends it (status 4)."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from appliance import bundle
from appliance.errors import HostRefused
from appliance.ports import EngineFailed

_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_BARRED: Final = (errno.EACCES, errno.EPERM, errno.EROFS)
_ELSEWHERE: Final = "or name another place in XDG_CACHE_HOME"


def full(folder: Path, what: str = "the disk is full") -> HostRefused:
    return HostRefused(what, where=str(folder), mend=f"free some space there, {_ELSEWHERE}", reason="disk_full")


@contextmanager
def writing_to(folder: Callable[[], Path] = bundle.cache_home) -> Iterator[None]:
    """Failures of a write below `folder` as HostRefused; whatever was half-written is its writer's to remove."""
    try:
        yield
    except (OSError, EngineFailed) as error:
        # The engine's adapter translates what befell the file that it was writing for us, too.
        cause = error if isinstance(error, OSError) else error.__cause__
        number = cause.errno if isinstance(cause, OSError) else None
        if number in _FULL:
            raise full(folder()) from error
        if isinstance(error, OSError) and number in _BARRED:
            at = error.filename or str(folder())
            raise HostRefused(
                (error.strerror or str(error)).lower(),
                where=str(at),
                mend=f"see to its owner and mode, {_ELSEWHERE}",
                reason="disk",
            ) from error
        raise
