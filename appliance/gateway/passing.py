"""An answer on its way from the upstream to the agent: passed on, kept, and read as it passes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from appliance.gateway.connections import AgentConnection
from appliance.gateway.credentials import Scrub, kept_of_answer
from appliance.gateway.drafts import Draft
from appliance.gateway.exchange import Headers
from appliance.gateway.forms.answers import AnswerReader
from appliance.gateway.own_answers import Wanted
from appliance.gateway.upstreams.upstream import Sent, UpstreamFailed
from appliance.gateway.usage import Counted

_FRAMING: Final = "content-length"
_LENGTH: Final = re.compile(r"[0-9]{1,15}")


class Passing:
    """Of one answer; its bytes stay in the draft's spool, whatever becomes of it."""

    def __init__(self, draft: Draft, wanted: Wanted, agent: AgentConnection, scrub: Scrub, clock: Callable[[], float]):
        self._wanted = wanted
        self._draft, self._agent, self._scrub, self._clock = draft, agent, scrub, clock
        self._reader: AnswerReader | None = None
        self.last = b""
        """The end of an answer whose length was said; the caller's to send, as the end is."""
        self._length = -1
        self.begun = False
        """Something went to the agent: from here on nothing can be tried again."""

    @property
    def reads(self) -> bool:
        """It has begun, and is an answer of the model's."""
        return self.begun and self._reader is not None

    async def run(self, sent: Sent, most: int) -> None:
        """To the last byte, but not the end, which is the caller's to write.

        Raises UpstreamFailed where it breaks or is over `most` bytes, Lost where the agent takes nothing any more.
        """
        if self._wanted.route.act == "generate" and 200 <= sent.status < 300:
            self._reader = AnswerReader(self._wanted.route, self._wanted.stream)
        held = b""
        self._length = int(dict(_framing(sent.headers)).get("content-length", "-1"))
        async for chunk in sent.chunks:
            clean, held = self._scrub.split(held + chunk)
            await self._pass(sent, clean)
            if self._draft.spool.bytes > most:
                raise UpstreamFailed(f"an answer of more than {most} bytes")
        await self._pass(sent, self._scrub.whole(held))
        if not self.begun:
            self._begin(sent)

    def counted(self) -> Counted | None:
        """Ends the reading: whether the answer is whole, and what it used. None: its usage is unknown."""
        if self._reader is None:
            return None
        answer = self._reader.finish()
        self._draft.complete = answer.complete
        self._draft.usage = answer.usage
        self._draft.detail = self._draft.detail or answer.why
        return answer.counted

    async def _pass(self, sent: Sent, chunk: bytes) -> None:
        if not chunk:
            return
        if not self.begun:
            self._begin(sent)
        draft = self._draft
        draft.spool.add(chunk)
        # Read before it is sent, where the agent may be lost: what is counted is what is kept, as verify counts it.
        if self._reader is not None:
            self._reader.feed(chunk)
            if draft.first_token_ms is None and self._reader.first_token:
                draft.first_token_ms = self._clock()
        if draft.spool.bytes == self._length:
            # With it the agent has all, and may go or ask again: what it used is counted before.
            self.last = chunk
        else:
            await self._agent.send(chunk)

    def _begin(self, sent: Sent) -> None:
        draft = self._draft
        self.begun = True
        draft.first_byte_ms, draft.failure = self._clock(), None
        draft.status, draft.headers = sent.status, kept_of_answer(sent.headers, self._scrub)
        self._agent.begin(sent.status, (*draft.headers, *_framing(sent.headers)))


def _framing(headers: Headers) -> Headers:
    """Its length where it was said; else it goes in chunks. Nothing that was taken out of a body made it shorter."""
    return tuple((name, value) for name, value in headers if name == _FRAMING and _LENGTH.fullmatch(value))
