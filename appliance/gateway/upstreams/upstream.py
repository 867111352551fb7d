"""What answers: a provider, or a llama-server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from appliance.gateway.exchange import Asked, Headers
from appliance.gateway.forms.routes import Route


class UpstreamFailed(Exception):
    """No answer, or the rest of one: in words, without anything secret."""


@dataclass(frozen=True)
class Sent:
    """An answer whose body is on its way, without content-encoding; `chunks` raises UpstreamFailed where it breaks."""

    status: int
    headers: Headers
    """All that came, names in lower case."""
    chunks: AsyncIterator[bytes]


class Upstream(Protocol):
    """Lives on the gateway's loop, for all trials of a run."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """What may be seen nowhere."""
        ...

    @property
    def remote(self) -> bool:
        """A provider's: that it is silent for minutes is an outage, not a slow machine of our own."""
        ...

    def slot(self) -> AbstractAsyncContextManager[object]:
        """Held through all tries of an exchange: what answers one at a time lets the others wait here."""
        ...

    def sending(self, asked: Asked, route: Route, *, stream: bool = False) -> AbstractAsyncContextManager[Sent]:
        """`stream`: its answer begins before it is made, so that silence is soon an outage. `asked`: without
        credentials and content-encoding. Raises UpstreamFailed; leaving it early hangs up.
        """
        ...

    async def close(self) -> None: ...
