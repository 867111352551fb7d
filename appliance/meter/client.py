"""The other end of the meter's socket (formats 5). Standard library only, so that a plain user's program may use it."""

from __future__ import annotations

import contextlib
import grp
import hashlib
import os
import socket
import stat
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from appliance import mends
from appliance.cgroups import CgroupDriver
from appliance.energy.readings import GpuSharing
from appliance.errors import HostRefused, MeterRefused
from appliance.meter import channel
from appliance.meter.channel import Channel, close_all, gone, strange
from appliance.meter.daemon.messages import Closed, Opened, Prepared

VERSION: Final = channel.VERSION
SOCKET: Final = Path("/run/bench-appliance/meter.sock")


@dataclass(frozen=True)
class Released:
    readings: bytes | None
    """readings-v1; None where no window was opened on this handle."""
    flags: tuple[str, ...]


class MeterClient:
    """Two connections, so that a release, which waits for its cgroups to go, keeps no window's edge waiting; threads
    take turns on each. Every method raises MeterRefused, whose `reason` is the meter's code, or `gone` where it does
    not answer any more, or not as a meter would."""

    def __init__(
        self,
        sock: socket.socket,
        child: subprocess.Popen[bytes] | None = None,
        *,
        beside: Callable[[], socket.socket] | None = None,
    ):
        """`beside` makes the second connection when it is first needed; without it there is one."""
        self._main = Channel(sock)
        self._child = child
        self._make_beside = beside
        self._beside: Channel | None = None
        self._lock = threading.Lock()

    @classmethod
    def connect(cls, path: Path = SOCKET, timeout_seconds: float = 5.0) -> MeterClient:
        """Raises HostRefused from the OSError (no such file, nobody listens, not in the group)."""
        return cls(_connected(path, timeout_seconds), beside=lambda: _connected(path, timeout_seconds))

    @classmethod
    def start(
        cls, arguments: Sequence[str] = (), timeout_seconds: float = 10.0, *, stderr: IO[bytes] | None = None
    ) -> MeterClient:
        """The same daemon as a child of ours over socket pairs; it ends, and removes its cgroups, when we do.

        `stderr` takes what it says of itself; None: ours.
        """
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(2)]
        command = [sys.executable, "-I", "-m", "appliance.meter.daemon.serve", *arguments]
        for _, its in pairs:
            command += ["--fd", str(its.fileno())]
        handed = [its.fileno() for _, its in pairs]
        child = subprocess.Popen(
            command, pass_fds=handed, stdin=subprocess.DEVNULL, stderr=stderr, start_new_session=True
        )
        for ours, its in pairs:
            its.close()
            ours.settimeout(timeout_seconds)
        (main, _), (second, _) = pairs
        client = cls(main, child)
        client._beside = Channel(second)
        try:
            client.status()
        except MeterRefused:
            client.close_connection()
            raise
        return client

    def prepare(
        self, run: str, trial: int | None, roles: Sequence[str], *, driver: CgroupDriver = "cgroupfs"
    ) -> Prepared:
        """Before the containers are created. `trial: None` with role `harness` or `model`: the run's own; without
        roles: a window on the machine at rest."""
        return _prepared(self._main.ask("prepare", run=run, trial=trial, roles=list(roles), driver=driver))

    def adopt(self, run: str, pid: int) -> Prepared:
        """The running container that `pid` lives in; its cgroup is never removed."""
        return _prepared(self._main.ask("prepare", run=run, trial=None, adopt={"pid": pid}))

    def open(
        self,
        handle: str,
        label: str | None = None,
        inside: str | None = None,
        *,
        gpu_sharing: GpuSharing = "device_total",
    ) -> Opened:
        asked: dict[str, Any] = {"handle": handle}
        if gpu_sharing != "device_total":
            asked["gpuSharing"] = gpu_sharing
        if label is not None:
            asked["label"] = label
        if inside is not None:
            asked["inside"] = inside
        answer = self._main.ask("open", **asked)
        with _ours(answer):
            return Opened(answer["window"], tuple(answer["counters"]), answer["openedAt"])

    def close(self, window: str) -> Closed:
        answer = self._main.ask("close", window=window)
        with _ours(answer):
            return Closed(answer["closedAt"])

    def release(self, handle: str) -> Released:
        """Closes what is still open; once the containers are gone."""
        answer, fds = self._second().exchange("release", {"handle": handle})
        try:
            with _ours(answer):
                named, flags = answer["readings"], tuple(answer["flags"])
                if named is None:
                    return Released(None, flags)
                digest, length = named["sha256"], named["bytes"]
            if not fds:
                raise strange("readings without a file descriptor")
            content = _whole(fds[0], length)
        finally:
            close_all(fds)
        if len(content) != length or hashlib.sha256(content).hexdigest() != digest:
            raise strange("readings that are not the bytes it named")
        return Released(content, flags)

    def status(self) -> dict[str, Any]:
        return self._main.ask("status")

    def watch(self) -> Iterator[dict[str, Any]]:
        """A line a second till the connection is closed; nothing else can be asked on it any more."""
        return self._main.lines("watch")

    def shutdown(self) -> None:
        """Ends a `watch` in another thread."""
        with contextlib.suppress(OSError):
            self._main.socket.shutdown(socket.SHUT_RDWR)

    def close_connection(self) -> None:
        self._main.socket.close()
        if self._beside is not None:
            self._beside.socket.close()
        if self._child is not None:
            try:
                self._child.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()

    def __enter__(self) -> MeterClient:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close_connection()

    def _second(self) -> Channel:
        with self._lock:
            if self._beside is None and self._make_beside is not None:
                try:
                    self._beside = Channel(self._make_beside())
                except HostRefused as refused:
                    raise gone(refused) from refused
            return self._beside or self._main


def _connected(path: Path, timeout_seconds: float) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # A blocking connect waits where many connect at once; one with Python's timeout is refused then (EAGAIN).
    patience = struct.pack("ll", *divmod(int(timeout_seconds * 1e6), 10**6))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, patience)
    try:
        sock.connect(os.fspath(path))
    except OSError as error:
        sock.close()
        raise unreached(path, error) from error
    sock.settimeout(timeout_seconds)
    return sock


def unreached(path: Path, error: OSError) -> HostRefused:
    """Why nobody answers at the socket, and what mends it: the same to whoever asks."""
    if isinstance(error, PermissionError):
        return _not_admitted(path)
    if isinstance(error, FileNotFoundError):
        words = "no meter is running"
    elif isinstance(error, ConnectionRefusedError):
        words = "the meter that made this socket has ended"
    else:
        words = f"the meter does not answer: {error.strerror or error}"
    mend = mends.start_meter(None if path == SOCKET else path)
    return HostRefused(words, where=str(path), mend=mend, reason="no_meter")


def _not_admitted(path: Path) -> HostRefused:
    """PrivilegeRequired, with the group that the socket was given to."""
    words, reason = "this user may not ask the meter", "PrivilegeRequired"
    try:
        status = path.stat()
    except OSError:
        return HostRefused(
            f"{words}: its folder is closed to it",
            where=str(path),
            mend=mends.as_root("meter serve --socket PATH, in a folder that all may enter"),
            reason=reason,
        )
    if not status.st_mode & stat.S_IWGRP:
        return HostRefused(
            f"{words}: only its own user may (no group was given to it)",
            where=str(path),
            mend=f"start it again: {mends.start_meter(path)} --group GROUP",
            reason=reason,
        )
    try:
        group = grp.getgrgid(status.st_gid).gr_name
    except KeyError:
        group = str(status.st_gid)
    return HostRefused(
        f"{words}: it is for the group {group}",
        where=str(path),
        mend=f"sudo usermod -aG {group} {mends.user()}, and log in again",
        reason=reason,
    )


def _whole(fd: int, length: int) -> bytes:
    pieces, at = [], 0
    while at <= length:
        piece = os.pread(fd, 1024 * 1024, at)
        if not piece:
            break
        pieces.append(piece)
        at += len(piece)
    return b"".join(pieces)


def _prepared(answer: dict[str, Any]) -> Prepared:
    with _ours(answer):
        return Prepared(answer["handle"], dict(answer["cgroups"]))


@contextlib.contextmanager
def _ours(answer: dict[str, Any]) -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        raise strange(f"{error!r} in {str(answer)[:200]}") from error
