"""One flock a run: whoever finds something of a run can tell whether that run is alive (rows H12, H13)."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from appliance.engine.places import RUN_ID, Places, places
from appliance.errors import HostRefused

_CLEARING_SECONDS = 30.0
"""How long a run waits for the reaper of an earlier attempt of the same id."""


def lock_path(where: Places, run: str) -> Path:
    return where.locks / f"{run}.lock"


def is_locked(path: Path) -> bool:
    """Whether someone alive holds it. A file that is gone is not locked; one that we may not open counts as locked."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def take(path: Path, wait_seconds: float) -> int | None:
    """The locked descriptor of `path`, made if need be; None where another holds it all the while."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    if path.parent.lstat().st_uid != os.geteuid():
        # In /tmp anybody could have made it first.
        raise PermissionError(f"{path.parent} belongs to another user")
    deadline = time.monotonic() + wait_seconds
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            if time.monotonic() >= deadline:
                return None
            time.sleep(0.05)
            continue
        with contextlib.suppress(FileNotFoundError):
            # Whoever held it before may have removed the file: then ours is a lock on nothing.
            if os.fstat(descriptor).st_ino == path.stat().st_ino:
                return descriptor
        os.close(descriptor)


class RunLocks:
    """`ports.Locks`, and the lock of measured windows."""

    def __init__(self, where: Places | None = None):
        self._where = where or places()

    @contextlib.contextmanager
    def hold(self, run: str) -> Iterator[Path]:
        """The lock's path, for the label. Raises HostRefused where a living process runs this run.

        Left by an exception, the file stays: by it the next verb knows of a run that died.
        """
        if not RUN_ID.match(run):
            raise ValueError(f"{run!r} is no run id: letters, digits and underscores, at most 64")
        path = lock_path(self._where, run)
        try:
            descriptor = take(path, _CLEARING_SECONDS)
        except PermissionError as error:
            raise HostRefused(f"no run's lock here: {error}", where=str(path), mend=f"rm -r {path.parent}") from error
        if descriptor is None:
            raise HostRefused(f"run {run} is under way in another process", where=str(path), mend="wait for its end")
        try:
            yield path
            # While it is still ours: another may take the path at once.
            path.unlink(missing_ok=True)
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def exclusive(self, on_wait: Callable[[], None] | None = None) -> Iterator[Path]:
        """The host's one lock for measured windows; `on_wait` is called once if another run has it.

        One file for all users of the host; where only root could make it, a user's runs take turns among themselves.
        """
        path = self._exclusive_path()
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                if on_wait is not None:
                    on_wait()
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield path
        finally:
            os.close(descriptor)

    def _exclusive_path(self) -> Path:
        host_wide = Path("/run/bench-appliance/exclusive.lock")
        if os.geteuid() != 0 and host_wide.exists():
            return host_wide
        path = self._where.locks / "exclusive.lock"
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        # Never removed, never written: anybody may read it, and a flock asks for no more.
        os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644))
        return path
