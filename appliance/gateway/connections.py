"""HTTP/1.1 with an agent, which may be anybody: every wait, every size and every count has its bound.

h11 decides what is HTTP; here stand the bytes, the clocks and the flow. One request at a time is answered on a
connection; what is sent meanwhile waits, unread as soon as it is more than a little.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, cast

import h11

from appliance.gateway.exchange import Headers

_UNREAD: Final = 256 * 1024
"""More than it is not taken from the socket before somebody wants it."""
_NAME: Final = re.compile(r"[-!#$%&'*+.^_`|~0-9a-zA-Z]+")
_VALUE: Final = re.compile(r"(?:[!-~\x80-\xff](?:[\t -~\x80-\xff]*[!-~\x80-\xff])?)?")
"""Its bytes are bytes, read as latin-1: nobody says in which letters they are meant."""
_DISCARDED: Final = 64 * 1024 * 1024
"""Of a body that was refused, read so that the refusal is not lost with it."""


@dataclass(frozen=True)
class Bounds:
    """What one trial may take of the harness."""

    connections: int = 128
    head_bytes: int = 64 * 1024
    body_bytes: int = 8 * 1024 * 1024
    """Of one request, as it comes and decoded: a full context window is a fourth of it."""
    bodies_bytes: int = 64 * 1024 * 1024
    """Of all requests in flight, as they came, and decoded beside it where that is another."""
    answer_bytes: int = 200 * 1024 * 1024
    exchanges: int = 20_000
    recorded_bytes: int = 1024 * 1024 * 1024
    """Bodies of a trial, there and back."""
    idle_seconds: float = 300.0
    """Longer than the agents' own clients keep a connection."""
    stalled_seconds: float = 60.0
    """Of a request that has begun and of an answer that nobody takes."""


def fits(name: str, value: str) -> bool:
    """Whether HTTP can carry it, as everything that came by it; a cassette may hold what somebody wrote by hand."""
    return _NAME.fullmatch(name) is not None and _VALUE.fullmatch(value) is not None


class Room:
    """How many bytes of bodies may yet be held."""

    def __init__(self, free: int):
        self._free = free

    def take(self, size: int) -> bool:
        if size > self._free:
            return False
        self._free -= size
        return True

    def give(self, size: int) -> None:
        self._free += size


@dataclass(frozen=True)
class Incoming:
    """A whole request. `too_large`: why its body was not taken, which is empty then."""

    method: str
    target: str
    headers: Headers
    body: bytes
    too_large: str | None = None


class Lost(Exception):
    """The agent is gone, or takes nothing any more."""


class _Unfinished(Exception):
    """A request that does not come to its end: too slow, or left."""


class AgentConnection(asyncio.Protocol):
    """`answer` is called for each request; its task is cancelled as soon as the agent hangs up.

    `ended` is called once, when the connection is no more; `broken` for a request that never came whole.
    """

    def __init__(
        self,
        bounds: Bounds,
        room: Room,
        answer: Callable[[Incoming, AgentConnection], Awaitable[None]],
        ended: Callable[[AgentConnection], None],
        broken: Callable[[str], None],
    ):
        self._bounds, self._room = bounds, room
        self._answer, self._ended, self._broken = answer, ended, broken
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=bounds.head_bytes)
        self._arrived, self._writable = asyncio.Event(), asyncio.Event()
        self._writable.set()
        self._unread = 0
        self._left = self._answering = self._paused = False
        self._head = b""
        self.lifeline = False
        """No request is awaited on it in any time: it tells the other side that we are there."""
        self.task: asyncio.Task[None] | None = None

    # ------------------------------------------------------------------------------- what the transport says

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.task = asyncio.get_running_loop().create_task(self._serve())

    def data_received(self, data: bytes) -> None:
        self._http.receive_data(data)
        self._unread += len(data)
        if self._unread > _UNREAD and not self._paused:
            self._paused = True
            self._transport.pause_reading()
        self._arrived.set()

    def eof_received(self) -> bool:
        self._leave()
        return True

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  the Protocol's
        self._leave()
        self._writable.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _leave(self) -> None:
        if self._left:
            return
        self._left = True
        with contextlib.suppress(h11.RemoteProtocolError):
            self._http.receive_data(b"")
        self._arrived.set()
        if self._answering and self.task is not None:
            self.task.cancel()

    # ------------------------------------------------------------------------------- requests

    async def _serve(self) -> None:
        try:
            while (incoming := await self._request()) is not None:
                self._answering = True
                try:
                    await self._answer(incoming, self)
                finally:
                    self._answering = False
                    self._room.give(len(incoming.body))
                if incoming.too_large is not None:
                    await self._linger()
                if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
                    break
                self._http.start_next_cycle()
        except (Lost, _Unfinished) as error:
            if isinstance(error, _Unfinished):
                self._broken(str(error))
        except h11.RemoteProtocolError as error:
            self._broken(f"no HTTP: {str(error)[:100]}")
            self._refuse(error.error_status_hint)
        finally:
            self._transport.close()
            self._ended(self)

    async def _request(self) -> Incoming | None:
        """None where the agent left between two requests."""
        event = await self._event(None if self.lifeline else self._bounds.idle_seconds, idle=True)
        if not isinstance(event, h11.Request):
            return None
        # h11 bounds what it waits for, not what came at once.
        size = len(event.target) + sum(len(name) + len(value) + 4 for name, value in event.headers)
        if size > self._bounds.head_bytes:
            raise h11.RemoteProtocolError(f"a head of more than {self._bounds.head_bytes} bytes", 431)
        if event.http_version not in {b"1.0", b"1.1"}:
            raise h11.RemoteProtocolError("another version of HTTP", 505)
        headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in event.headers)
        method, target = event.method.decode("latin-1"), event.target.decode("latin-1")
        body, too_large = await self._body(dict(headers).get("content-length"))
        return Incoming(method, target, headers, body, too_large)

    async def _body(self, announced: str | None) -> tuple[bytes, str | None]:
        most = self._bounds.body_bytes
        if announced is not None and int(announced) > most:
            return b"", f"the request has {announced} bytes; at most {most} are taken"
        if self._http.they_are_waiting_for_100_continue:
            self._write(self._http.send(h11.InformationalResponse(status_code=100, headers=[])))
        parts: list[bytes] = []
        taken = 0
        try:
            while isinstance(event := await self._event(self._bounds.stalled_seconds), h11.Data):
                if taken + len(event.data) > most:
                    return b"", f"the request has over {most} bytes, which is all that is taken"
                if not self._room.take(len(event.data)):
                    return b"", f"requests of more than {self._bounds.bodies_bytes} bytes at the same time"
                taken += len(event.data)
                parts.append(bytes(event.data))
            body = b"".join(parts)
            taken = 0
            return body, None
        finally:
            self._room.give(taken)

    async def _event(self, seconds: float | None, *, idle: bool = False) -> object:
        while True:
            event = self._http.next_event()
            if event is not h11.NEED_DATA:
                return event
            if self._left:
                raise _Unfinished("left before the request was whole")
            begun = not idle or self._http.trailing_data[0] != b""
            self._arrived.clear()
            self._read_on()
            try:
                async with asyncio.timeout(self._bounds.stalled_seconds if begun else seconds):
                    await self._arrived.wait()
            except TimeoutError as error:
                if not begun:
                    raise Lost from error
                raise _Unfinished("stalled before the request was whole") from error

    def _read_on(self) -> None:
        self._unread = 0
        if self._paused:
            self._paused = False
            self._transport.resume_reading()

    async def _linger(self) -> None:
        """Take what is still on its way, and throw it away: else the refusal is lost with the connection."""
        with contextlib.suppress(OSError):
            self._transport.write_eof()
        left = _DISCARDED
        self._http = h11.Connection(h11.SERVER)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(5.0, self._bounds.stalled_seconds)):
                while left > 0 and not self._left:
                    left -= self._unread
                    self._arrived.clear()
                    self._http = h11.Connection(h11.SERVER)
                    self._read_on()
                    await self._arrived.wait()

    # ------------------------------------------------------------------------------- answers

    def begin(self, status: int, headers: Headers) -> None:
        """Written with the first bytes of the body. A length among `headers` frames it, else chunks do."""
        pairs = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers if fits(name, value)]
        try:
            response = h11.Response(status_code=status, headers=pairs)
        except h11.LocalProtocolError as error:
            raise Lost from error
        self._head = self._send(response)

    async def send(self, chunk: bytes) -> None:
        """Raises Lost where the agent takes nothing for too long."""
        if chunk:
            self._write(self._head + self._send(h11.Data(data=chunk)))
            self._head = b""
        if not self._writable.is_set():
            try:
                async with asyncio.timeout(self._bounds.stalled_seconds):
                    await self._writable.wait()
            except TimeoutError as error:
                raise Lost from error
        if self._transport.is_closing():
            raise Lost

    def end(self) -> None:
        self._write(self._head + self._send(h11.EndOfMessage()))
        self._head = b""

    def cut(self) -> None:
        """Hang up in the middle: the agent sees that this was not all."""
        self._head = b""
        if not self._transport.is_closing():
            # What was written before still goes out; only the end of the answer is missing.
            self._transport.close()

    def _send(self, event: h11.Event) -> bytes:
        try:
            return self._http.send(event) or b""
        except h11.LocalProtocolError as error:
            # More or fewer bytes than its length said: the upstream's doing, and for the agent a cut.
            raise Lost from error

    def _write(self, content: bytes | None) -> None:
        if content and not self._transport.is_closing():
            self._transport.write(content)

    def _refuse(self, status: int) -> None:
        with contextlib.suppress(h11.LocalProtocolError):
            headers = [("content-length", "0"), ("connection", "close")]
            self._write(self._http.send(h11.Response(status_code=status, headers=headers)))
            self._write(self._http.send(h11.EndOfMessage()))
