"""The raw connection of an exec: opened by our own few lines of HTTP, then bytes both ways."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass

from appliance.ports import EngineFailed

SILENCE_SECONDS = 300
CHUNK = 256 * 1024
_HEAD_LIMIT = 1 << 20


@dataclass
class Wire:
    """Non-blocking, after the response's head."""

    socket: socket.socket
    early: bytes
    """What came along with the head (what docker-py loses)."""

    def fileno(self) -> int:
        return self.socket.fileno()

    def pending(self) -> bool:
        """TLS holds bytes that poll does not know of."""
        return isinstance(self.socket, ssl.SSLSocket) and self.socket.pending() > 0

    def send(self, unsent: memoryview) -> memoryview:
        """What is left to send; empty also when nobody reads it any more. At the end the input is closed."""
        try:
            left = unsent[self.socket.send(unsent[:CHUNK]) :]
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            return unsent
        except (BrokenPipeError, ConnectionResetError):
            return unsent[:0]
        if not left:
            self.close_input()
        return left

    def close_input(self) -> None:
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)

    def receive(self) -> bytes | None:
        """A chunk, `b""` at the end, None where nothing was there yet."""
        try:
            return self.socket.recv(CHUNK)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None
        except ConnectionResetError:
            return b""

    def close(self) -> None:
        self.socket.close()


def start_exec(dial: Callable[[], socket.socket], api: str, execution: str) -> Wire:
    """Start a created exec and take its connection over. Raises EngineFailed in the engine's own words."""
    body = json.dumps({"Detach": False, "Tty": False}).encode()
    request = (
        f"POST /v{api}/exec/{execution}/start HTTP/1.1\r\nHost: engine\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    wire: socket.socket | None = None
    try:
        wire = dial()
        wire.settimeout(SILENCE_SECONDS)
        wire.sendall(request.encode() + body)
        early = _after_head(wire)
        wire.setblocking(False)
    except BaseException as error:
        if wire is not None:
            wire.close()
        if isinstance(error, OSError):
            raise EngineFailed(f"the engine dropped the exec's connection: {error}") from error
        raise
    return Wire(wire, early)


def _after_head(wire: socket.socket) -> bytes:
    received = b""
    while b"\r\n\r\n" not in received:
        part = wire.recv(65536)
        if not part or len(received) > _HEAD_LIMIT:
            raise EngineFailed("the engine closed the exec's connection before it started")
        received += part
    head, early = received.split(b"\r\n\r\n", 1)
    status = head.split(None, 2)[1]
    if status not in {b"101", b"200"}:
        said = " ".join(early.decode(errors="backslashreplace").split())[:400]
        raise EngineFailed(f"the engine could not start the exec (HTTP {status.decode()}): {said}")
    return early
