"""The run's own llama-server, on a Unix socket: one exchange in each slot, the others wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import httpx2

from appliance.gateway.exchange import Asked
from appliance.gateway.forms.routes import Route
from appliance.gateway.upstreams import http
from appliance.gateway.upstreams.provider import placed
from appliance.gateway.upstreams.upstream import Sent


class LlamaUpstream:
    """One slot by default: two requests at the same time give other answers than one after the other (row M10)."""

    remote = False
    secrets: tuple[str, ...] = ()

    def __init__(self, socket: Path, slots: int = 1, *, silence_seconds: float = http.SILENCE_SECONDS):
        self._slots = asyncio.Semaphore(slots)
        self._silence_seconds = silence_seconds
        # Each request on a connection of its own: one that was hung up on tells the server to stop, at once.
        transport = httpx2.AsyncHTTPTransport(uds=str(socket), limits=httpx2.Limits(max_keepalive_connections=0))
        self._client = http.client(transport)

    def slot(self) -> AbstractAsyncContextManager[object]:
        return self._slots

    @asynccontextmanager
    async def sending(
        self,
        asked: Asked,
        route: Route,
        *,
        stream: bool = False,  # noqa: ARG002  a slow machine of our own is no outage
    ) -> AsyncIterator[Sent]:
        url = placed("http://llama-server", route.form, asked.target)
        async with http.sent_to(self._client, asked, url, [], silence_seconds=self._silence_seconds) as sent:
            yield sent

    async def close(self) -> None:
        await self._client.aclose()
