"""A disk that is full or not ours to write, said in one line: the folder and what mends it (status 4)."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from appliance import bundle
from appliance.errors import HostRefused
from appliance.files import disk_of
from appliance.ports import EngineFailed

_ELSEWHERE: Final = "or name another place in XDG_CACHE_HOME"
MEND: Final = f"free some space there, {_ELSEWHERE}"


@contextmanager
def writing_to(folder: Callable[[], Path] = bundle.cache_home) -> Iterator[None]:
    """Failures of a write below `folder` as HostRefused; whatever was half-written is its writer's to remove."""
    place = folder()
    with disk_of(place, MEND):
        try:
            yield
        except EngineFailed as failure:
            # The engine's adapter translates what befell the file that it was writing for us, too.
            cause = failure.__cause__
            if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT):
                raise OSError(cause.errno, cause.strerror) from failure
            raise
        except PermissionError as error:
            raise HostRefused(
                (error.strerror or str(error)).lower(),
                where=str(error.filename or place),
                mend=f"see to its owner and mode, {_ELSEWHERE}",
                reason="permission",
            ) from error
