"""The last thing that runs with rights before somebody else's code does: drops them all, then becomes that program.

    python -I -S plugin_drop.py USER PATH... -- PROGRAM ...

Run by its own path, isolated and without site: nothing that the environment names is imported while rights are held.
Whatever cannot be dropped ends it. PATHs are what the program is made of (interpreter, libraries): where they lie below
a folder that USER may not enter, as a Python in root's home does, they alone are shown to it, in a mount namespace of
its own.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import resource
import stat
import sys
from pathlib import Path

_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_CAPABILITY_VERSION_3 = 0x20080522
_CLONE_NEWNS = 0x00020000
_MS_NOSUID, _MS_NODEV, _MS_BIND, _MS_REC, _MS_PRIVATE = 2, 4, 4096, 16384, 1 << 18
_LIMITS = (
    (resource.RLIMIT_CORE, 0),
    (resource.RLIMIT_FSIZE, 0),  # it writes no file
    (resource.RLIMIT_MEMLOCK, 0),
    (resource.RLIMIT_NOFILE, 256),
    (resource.RLIMIT_NPROC, 512),  # counted over all of this user's, containers' too
    (resource.RLIMIT_AS, 1024**3),
)
_LIBC = ctypes.CDLL(None, use_errno=True)


def drop(user: str, paths: list[str]) -> None:
    """Raises OSError or KeyError where that fails."""
    os.umask(0o022)
    os.chdir("/")
    if os.geteuid() == 0:
        entry = pwd.getpwnam(user)
        _show(paths)
        os.setgroups([])
        os.setresgid(entry.pw_gid, entry.pw_gid, entry.pw_gid)
        os.setresuid(entry.pw_uid, entry.pw_uid, entry.pw_uid)
    for kind, most in _LIMITS:
        hard = resource.getrlimit(kind)[1]
        allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (allowed, allowed))
    if sys.platform == "linux":
        _drop_capabilities()


def _drop_capabilities() -> None:
    """A daemon that is not root may hold some as ambient ones, which an exec would hand on."""
    empty = (ctypes.c_uint32 * 6)()
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    _checked(_LIBC.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0))
    _checked(_LIBC.capset(header, empty))
    _checked(_LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def _show(paths: list[str]) -> None:
    """Open the way to those that lie below a folder closed to others: an empty folder stands there, with them in it."""
    wanted: dict[Path, list[Path]] = {}
    for path in sorted({Path(one).resolve() for one in paths if one.startswith("/")}, key=lambda one: len(one.parts)):
        closed = next((one for one in reversed(path.parents) if not _enters(one)), None)
        if closed is None or not path.is_dir():
            continue
        below = wanted.setdefault(closed, [])
        if not any(path.is_relative_to(other) for other in below):
            below.append(path)
    if not wanted:
        return
    if _LIBC.unshare(_CLONE_NEWNS):
        why = os.strerror(ctypes.get_errno())
        places = ", ".join(str(one) for one in wanted)
        sys.exit(f"{places}: closed to others ({why} to open it); install the appliance where everybody may enter")
    _mount("none", Path("/"), "", _MS_REC | _MS_PRIVATE)
    for closed, folders in wanted.items():
        # Opened in the new namespace: of another one's mounts there is no binding.
        opened = [(path, os.open(path, os.O_PATH | os.O_CLOEXEC)) for path in folders]
        _mount("none", closed, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=0755,size=64k")
        for path, fd in opened:
            path.mkdir(parents=True, exist_ok=True)
            _mount(f"/proc/self/fd/{fd}", path, "", _MS_BIND | _MS_REC)


def _enters(folder: Path) -> bool:
    return bool(folder.stat().st_mode & stat.S_IXOTH)


def _mount(source: str, target: Path, kind: str, flags: int, options: str = "") -> None:
    _checked(_LIBC.mount(source.encode(), str(target).encode(), kind.encode(), flags, options.encode()))


def _checked(failed: int) -> None:
    if failed:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def main(arguments: list[str]) -> None:
    user, *rest = arguments
    end = rest.index("--")
    try:
        drop(user, rest[:end])
    except (OSError, KeyError, ValueError) as error:
        sys.exit(f"rights could not be dropped: {error!r}")
    try:
        os.execv(rest[end + 1], rest[end + 1 :])  # noqa: S606  # the daemon's own words, no shell wanted
    except OSError as error:
        sys.exit(f"user {user} cannot run {rest[end + 1]}: {error.strerror}; install it where everybody may enter")


if __name__ == "__main__":
    main(sys.argv[1:])
