"""The meter's socket and those who are connected to it: bytes in, lines out, nothing that waits.

A line is at most 64 KiB; what is longer is refused and passed over to its end, and the connection stays.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import grp
import os
import socket
import stat
import struct
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from appliance.errors import HostRefused
from appliance.meter.daemon.looking import log
from appliance.meter.daemon.messages import MAX_BYTES

_PIECE: Final = 64 * 1024
_MOST_WAITING_LINES: Final = 64
_MOST_WAITING: Final = 2 * MAX_BYTES
"""Bytes of requests, whole or not."""
_MOST_UNSENT: Final = 1024 * 1024
_CREDENTIALS: Final = struct.Struct("3i")
BACKLOG: Final = 1024


@dataclass(frozen=True)
class TooLong:
    """Stands for a line of more than 64 KiB."""


class Connection:
    """One client."""

    def __init__(self, sock: socket.socket, number: int):
        sock.setblocking(False)
        self.socket = sock
        self.number = number
        self.uid = _uid(sock)
        self.lines: deque[bytes | TooLong] = deque()
        """Requests that wait for their turn."""
        self.watching = False
        self.stuck_since_ns: int | None = None
        """A watcher that does not read, since when."""
        self.ended = False
        self._rest = bytearray()
        self._waiting = 0
        self._passing_over = False
        self._out: deque[tuple[memoryview, int | None]] = deque()
        self._unsent = 0

    @property
    def wants_to_write(self) -> bool:
        return bool(self._out)

    @property
    def takes_more(self) -> bool:
        """False where it asks faster than it is answered, or does not read its answers."""
        return (
            len(self.lines) < _MOST_WAITING_LINES
            and self._waiting + len(self._rest) < _MOST_WAITING
            and self._unsent < _MOST_UNSENT
        )

    def receive(self) -> None:
        """What is there now; `ended` where the client is gone."""
        try:
            piece = self.socket.recv(_PIECE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            piece = b""
        if not piece:
            self.ended = True
            return
        self._rest += piece
        self._split()

    def next_line(self) -> bytes | TooLong:
        """The first that waits, which it does no more."""
        line = self.lines.popleft()
        if isinstance(line, bytes):
            self._waiting -= len(line)
        self._split()
        return line

    def _split(self) -> None:
        """No more lines than may wait: a line of one byte costs fifty as an object."""
        while len(self.lines) < _MOST_WAITING_LINES:
            end = self._rest.find(b"\n")
            if end < 0:
                break
            line = bytes(self._rest[:end])
            del self._rest[: end + 1]
            if self._passing_over:
                self._passing_over = False
            elif end > MAX_BYTES:
                self.lines.append(TooLong())
            elif line.strip():
                self.lines.append(line)
                self._waiting += end
        else:
            return
        if len(self._rest) > MAX_BYTES:
            self._rest.clear()
            if not self._passing_over:
                self._passing_over = True
                self.lines.append(TooLong())

    def send(self, line: bytes, fd: int | None = None) -> None:
        """`fd` goes with the line's first byte, and is closed then."""
        self._out.append((memoryview(line), fd))
        self._unsent += len(line)
        self.flush()

    def flush(self) -> None:
        while self._out and not self.ended:
            line, fd = self._out[0]
            try:
                sent = self.socket.send(line) if fd is None else socket.send_fds(self.socket, [line], [fd])
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                self.ended = True
                return
            if fd is not None:
                os.close(fd)
            self._unsent -= sent
            if sent == len(line):
                self._out.popleft()
            else:
                self._out[0] = (line[sent:], None)

    def close(self) -> None:
        for _, fd in self._out:
            if fd is not None:
                os.close(fd)
        self._out.clear()
        self.socket.close()


class Listener:
    """The socket at its path, ours alone while we live: a lock beside it tells a stale one from a living one's."""

    def __init__(self, path: Path, group: str):
        """Raises HostRefused where another meter lives, or the path cannot be had."""
        self.path = path
        self.admits = ""
        """Whom its rights admit, in words."""
        self._lock_path = path.with_name(f"{path.name}.lock")
        try:
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            self._lock = _locked(self._lock_path)
        except BlockingIOError as error:
            raise HostRefused(
                "another meter serves here", where=str(path), mend="stop it, or give --socket another path"
            ) from error
        except OSError as error:
            raise HostRefused(f"no socket can be made: {error.strerror}", where=str(path)) from error
        try:
            self.socket = self._bound(path, group)
        except BaseException:
            self._unlock()
            raise
        self._inode = path.stat().st_ino

    def _bound(self, path: Path, group: str) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        before = os.umask(0o777)
        try:
            _clear(path)
            sock.bind(os.fspath(path))
            self.admits = _admit(path, group)
            sock.listen(BACKLOG)
        except OSError as error:
            sock.close()
            raise HostRefused(f"no socket can be made: {error.strerror or error}", where=str(path)) from error
        except HostRefused:
            sock.close()
            raise
        finally:
            os.umask(before)
        return sock

    def accept(self) -> socket.socket | None:
        """None where nobody waits. Raises OSError where no descriptor is left for him (EMFILE, ENFILE)."""
        try:
            return self.socket.accept()[0]
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS):
                raise
            return None

    def close(self) -> None:
        """May be called again."""
        if self._lock < 0:
            return
        self.socket.close()
        with contextlib.suppress(OSError):
            # Somebody may have put another one there.
            if self.path.lstat().st_ino == self._inode:
                self.path.unlink()
        self._unlock()

    def _unlock(self) -> None:
        with contextlib.suppress(OSError):
            self._lock_path.unlink()
        os.close(self._lock)
        self._lock = -1


def _locked(path: Path) -> int:
    """A descriptor that holds the lock of the file that is at `path` now. Raises BlockingIOError where it is held."""
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists() and os.fstat(fd).st_ino == path.stat().st_ino:
                return fd
        except BaseException:
            os.close(fd)
            raise
        # Its holder removed it between our open and our lock.
        os.close(fd)


def _clear(path: Path) -> None:
    """Of a stale socket: nobody holds its lock, so whoever made it was killed."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise HostRefused("is there, and no socket", where=str(path))
    path.unlink()


def _admit(path: Path, group: str) -> str:
    """0660 for the group where it exists and we may give it; else ours alone, and said. Whom it admits, in words."""
    try:
        os.chown(path, -1, grp.getgrnam(group).gr_gid)
    except KeyError:
        path.chmod(0o600)
        log(f"{path}: no group {group} here: only uid {os.geteuid()} may connect (groupadd --system {group})")
    except PermissionError:
        path.chmod(0o600)
        log(f"{path}: cannot be given to the group {group}: only uid {os.geteuid()} may connect")
    else:
        path.chmod(0o660)
        return f" for the group {group}"
    return ""


def _uid(sock: socket.socket) -> int:
    size = _CREDENTIALS.size
    _, uid, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return int(uid)
