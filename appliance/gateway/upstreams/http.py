"""An HTTP upstream: headers there, headers back, a body in pieces, and errors in our words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import httpx2

from appliance.gateway.credentials import is_credential
from appliance.gateway.exchange import Asked, Headers
from appliance.gateway.upstreams.upstream import Sent, UpstreamFailed

_OF_THE_CONNECTION: Final = frozenset(
    {
        "accept-encoding", "connection", "content-encoding", "content-length", "expect", "host", "keep-alive",
        "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "http2-settings",
    }
)  # fmt: skip
_UNDONE_HERE: Final = frozenset({"", "identity", "gzip", "deflate"})

_LAST_STATUS: Final = 599
_BATCH: Final = 4 * 1024

CONNECT_SECONDS: Final = 10.0
SILENCE_SECONDS: Final = 600.0
"""What the providers' own clients wait for an answer that does not stream."""


HEAD_SECONDS: Final = 120.0
"""For a stream's head, which comes before its answer is made. A silence after it may be a model that thinks."""


def client(transport: httpx2.AsyncBaseTransport | None = None) -> httpx2.AsyncClient:
    """Proxies and certificates are the environment's, as everybody's clients take them (HTTPS_PROXY, SSL_CERT_FILE)."""
    return httpx2.AsyncClient(
        transport=transport,
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=30),
    )


def passed_on(headers: Headers) -> list[tuple[str, str]]:
    """What an upstream gets of a request's headers: none of its connection's, none that looks like a credential."""
    named = {name.strip().lower() for key, value in headers if key == "connection" for name in value.split(",")}
    return [
        (name, value)
        for name, value in headers
        if name not in _OF_THE_CONNECTION and name not in named and not is_credential(name)
    ]


@asynccontextmanager
async def sent_to(
    client: httpx2.AsyncClient,
    asked: Asked,
    url: str,
    added: list[tuple[str, str]],
    *,
    silence_seconds: float = SILENCE_SECONDS,
    head_seconds: float | None = None,
) -> AsyncIterator[Sent]:
    """Bytes are asked for as they are (identity), so that what is recorded can be read.

    `head_seconds`: until the answer's head is there; None: as long as any other silence.
    """
    timeout = httpx2.Timeout(silence_seconds, connect=CONNECT_SECONDS, pool=None)
    request = httpx2.Request(
        asked.method,
        url,
        headers=[
            (name.encode("latin-1"), value.encode("latin-1"))
            for name, value in (*passed_on(asked.headers), ("accept-encoding", "identity"), *added)
        ],
        content=asked.body,
        extensions={"timeout": timeout.as_dict()},
    )
    try:
        async with asyncio.timeout(head_seconds):
            response = await client.send(request, stream=True)
    except TimeoutError as error:
        raise UpstreamFailed(f"silent for {head_seconds:g} s") from error
    except httpx2.TransportError as error:
        raise UpstreamFailed(words(error, silence_seconds)) from error
    try:
        if response.status_code > _LAST_STATUS:
            raise UpstreamFailed(f"answered with the status {response.status_code}, which HTTP does not have")
        coding = response.headers.get("content-encoding", "").strip().lower()
        if coding not in _UNDONE_HERE:
            raise UpstreamFailed(f"answered in the encoding {coding[:40]!r}, which was not asked for")
        reading = _Reading(response)
        try:
            yield Sent(response.status_code, _headers(response, coding), reading.chunks(silence_seconds))
        finally:
            await reading.stop()
    finally:
        await response.aclose()


def _headers(response: httpx2.Response, coding: str) -> Headers:
    pairs = [(name.lower().decode("latin-1"), value.decode("latin-1")) for name, value in response.headers.raw]
    changed = {"content-encoding", "content-length"} if coding not in {"", "identity"} else frozenset[str]()
    return tuple((name, value) for name, value in pairs if name not in changed)


class _Reading:
    """A body as it arrives. What came at once is given at once: a provider packs each event of a stream on its own, and
    some send many of them in one go."""

    def __init__(self, response: httpx2.Response):
        self._response = response
        self._held = bytearray()
        self._arrived, self._taken = asyncio.Event(), asyncio.Event()
        self._task = asyncio.create_task(self._read())
        self._task.add_done_callback(lambda _: self._arrived.set())

    async def _read(self) -> None:
        batch = 1
        async for chunk in self._response.aiter_bytes():
            self._held += chunk
            self._arrived.set()
            while len(self._held) >= batch:
                self._taken.clear()
                await self._taken.wait()
                # The first piece goes at once, whatever came with it.
                batch = _BATCH

    async def chunks(self, silence_seconds: float) -> AsyncIterator[bytes]:
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            chunk, self._held = bytes(self._held), bytearray()
            self._taken.set()
            if chunk:
                yield chunk
            elif self._task.done():
                break
            if self._task.done():
                self._arrived.set()
        try:
            self._task.result()
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            raise UpstreamFailed(words(error, silence_seconds)) from error

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.wait((self._task,))
        if not self._task.cancelled():
            # Looked at, whoever hung up before.
            self._task.exception()


def words(error: Exception, silence_seconds: float) -> str:
    match error:
        case httpx2.ConnectTimeout():
            return f"no connection within {CONNECT_SECONDS:g} s"
        case httpx2.TimeoutException():
            return f"silent for {silence_seconds:g} s"
        case httpx2.ConnectError() | httpx2.ProxyError():
            return f"no connection: {str(error)[:200] or type(error).__name__}"
        case _:
            return f"the connection broke: {str(error)[:200] or type(error).__name__}"
