"""A cassette in the model's place: no model, no key, no money."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from appliance.gateway.cassette import Cassette
from appliance.gateway.cassette_shapes import RecordedExchange
from appliance.gateway.drafts import CUT_OFF, LEFT_WORDS
from appliance.gateway.exchange import LEFT, Asked, Headers, Refused, ReplayLevel
from appliance.gateway.forms.routes import Route
from appliance.gateway.matching import Diverged, Match, Replay
from appliance.gateway.upstreams.upstream import Sent

_CHUNK: Final = 64 * 1024


@dataclass(frozen=True)
class Replayed:
    """A recorded answer, and what was said of it when it was recorded."""

    sent: Sent
    order: int
    level: ReplayLevel
    refused: Refused | None
    answered: bool
    """False: its agent left before there was anything."""
    broken: str | None
    """Why its bytes end before its transfer does: then they end there again."""
    left: bool
    """Its agent left, by itself or with its trial's end: it is held open until that happens again."""
    failure: str | None
    """The provider's, as it was judged then."""
    detail: str | None
    differences: tuple[str, ...]
    covered: tuple[str, ...]
    """By the masks."""


class Cassettes:
    """The exchanges of one trial, each answered once, as fast as the agent takes them."""

    remote = False
    secrets: tuple[str, ...] = ()

    def __init__(self, cassette: Cassette):
        self._replay = Replay(cassette)

    @property
    def unused(self) -> int:
        return len(self._replay.unused)

    async def answer(self, asked: Asked, route: Route) -> Replayed | str:
        """A text where no recorded exchange is this one: the difference to the closest."""
        # It may have to compare many: the other trials' exchanges go on meanwhile.
        found = await asyncio.to_thread(self._replay.answer, asked, route)
        if isinstance(found, Diverged):
            return found.diff
        if not isinstance(found, Match):
            raise TypeError(f"a cassette has no part in {route}")
        told = found.recorded.told
        return Replayed(
            Sent(told.status, (*told.response_headers, *_framing(told)), _chunks(found.recorded.response)),
            found.order,
            found.level,
            told.refused,
            told.status != LEFT,
            (told.detail or LEFT_WORDS).removeprefix(CUT_OFF) if told.cut else None,
            told.cut and not (told.detail or "").startswith(CUT_OFF),
            _failure(told),
            told.detail,
            found.differences,
            found.covered,
        )


def _framing(told: RecordedExchange) -> Headers:
    """Of what did not stream its length was said; of what breaks off nobody knows it any more."""
    return () if told.stream or told.cut else (("content-length", str(told.response.bytes)),)


def _failure(told: RecordedExchange) -> str | None:
    if told.refused == "provider":
        return told.detail or "every try failed"
    tried = [one.error or f"status {one.status}" for one in told.tries if one.error != LEFT_WORDS]
    left_waiting = told.status == LEFT and tried
    cut_off = told.cut and told.status != LEFT and told.tries and told.tries[-1].error != LEFT_WORDS
    return tried[-1] if left_waiting or cut_off else None


async def _chunks(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            yield chunk
