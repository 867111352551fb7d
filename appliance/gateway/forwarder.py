"""The sidecar in a solver's network namespace: 127.0.0.1:PORT, byte by byte, to the gateway's Unix socket and back.

python3 forwarder.py --port 8089 --socket /run/appliance-gateway/gateway.sock

Standard library only, one file. Once it listens it says so over the socket, and keeps that connection: when it ends,
the gateway is gone, and so are we. It reads nothing of what it carries, and holds no more than its buffers.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import errno
import socket
import sys
import typing
from collections.abc import Callable

_CONNECTIONS = 64
"""At a time; further ones wait in the kernel's queue. With all buffers full, ours and the kernel's, they take less than
100 MiB: an agent that floods its forwarder does not end it."""
_BUFFERED = 64 * 1024
"""Of each direction: read at once, and not yet written."""
_KERNEL_BUFFERED = 128 * 1024
_START_SECONDS = 10.0
_SCARCE = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ECONNABORTED}
_READY = b"GET /appliance/ready HTTP/1.1\r\nhost: gateway\r\n\r\n"


class End(asyncio.BufferedProtocol):
    """One end of a relayed connection; what comes in goes out at `peer`, no faster than that is read."""

    transport: asyncio.Transport
    peer: End

    def __init__(self, lost: Callable[[], None]) -> None:
        self._lost = lost
        self._read = memoryview(bytearray(_BUFFERED))
        self.ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport = typing.cast(asyncio.Transport, transport)
        transport.set_write_buffer_limits(high=_BUFFERED)
        # Until both ends are there.
        transport.pause_reading()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  the Protocol's
        return self._read

    def buffer_updated(self, nbytes: int) -> None:
        self.peer.transport.write(bytes(self._read[:nbytes]))

    def eof_received(self) -> bool:
        """Passed on; the other direction lasts until it ends by itself."""
        self.ended = True
        if self.peer.ended:
            self.peer.transport.close()
            return False
        with contextlib.suppress(OSError):
            self.peer.transport.write_eof()
        return True

    def pause_writing(self) -> None:
        self.peer.transport.pause_reading()

    def resume_writing(self) -> None:
        self.peer.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  the Protocol's
        """What came from here before still goes out there."""
        self.peer.transport.close()
        self._lost()


async def relay(client: socket.socket, path: str) -> None:
    """One connection, until both of its ends are gone."""
    loop = asyncio.get_running_loop()
    gone = (asyncio.Event(), asyncio.Event())
    here, there = End(gone[0].set), End(gone[1].set)
    here.peer, there.peer = there, here
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        await loop.create_unix_connection(lambda: there, path)
    except OSError:
        client.close()
        return
    try:
        await loop.connect_accepted_socket(lambda: here, client)
    except OSError:
        there.transport.abort()
        return
    here.transport.resume_reading()
    there.transport.resume_reading()
    for end in gone:
        await end.wait()


async def accept(listener: socket.socket, path: str) -> None:
    loop = asyncio.get_running_loop()
    slots = asyncio.Semaphore(_CONNECTIONS)
    running: set[asyncio.Task[None]] = set()

    def over(task: asyncio.Task[None]) -> None:
        running.discard(task)
        slots.release()

    while True:
        await slots.acquire()
        try:
            client, _ = await loop.sock_accept(listener)
        except OSError as error:
            slots.release()
            if error.errno not in _SCARCE:
                raise
            await asyncio.sleep(0.05)
            continue
        task = loop.create_task(relay(client, path))
        running.add(task)
        task.add_done_callback(over)


async def ready(path: str) -> asyncio.StreamReader:
    """The connection that was said so over; raises OSError where no gateway answers in time."""
    deadline = asyncio.get_running_loop().time() + _START_SECONDS
    while True:
        try:
            reader, writer = await asyncio.open_unix_connection(path)
            break
        except OSError:
            if asyncio.get_running_loop().time() >= deadline:
                raise
            await asyncio.sleep(0.02)
    writer.write(_READY)
    if not (await reader.readline()).startswith(b"HTTP/1.1 204 "):
        raise OSError("what answers there is no gateway")
    # The writer goes with the reader, or the connection would be closed behind it.
    reader.writer = writer  # type: ignore[attr-defined]
    return reader


async def serve(port: int, path: str) -> None:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    for buffer in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        # Those of its connections, which would grow to megabytes each.
        listener.setsockopt(socket.SOL_SOCKET, buffer, _KERNEL_BUFFERED)
    listener.bind(("127.0.0.1", port))
    listener.listen(128)
    gateway = await ready(path)
    accepting = asyncio.ensure_future(accept(listener, path))
    while await gateway.read(1024):
        pass
    accepting.cancel()


def main() -> int:
    words = argparse.ArgumentParser(description="carries a solver's requests to the model gateway")
    words.add_argument("--port", type=int, default=8089)
    words.add_argument("--socket", default="/run/appliance-gateway/gateway.sock")
    asked = words.parse_args()
    try:
        asyncio.run(serve(asked.port, asked.socket))
    except OSError as error:
        sys.stderr.write(f"forwarder: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
