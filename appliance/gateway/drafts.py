"""An exchange while it happens."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from appliance.gateway.budget import Estimate
from appliance.gateway.exchange import LEFT, Asked, Exchange, Headers, Refused, ReplayLevel, Try, left_unanswered
from appliance.gateway.forms.queries import Query
from appliance.gateway.forms.routes import Route
from appliance.gateway.spool import Spool
from appliance.records.trial import Usage

_NOTHING: Final = Estimate(0, None)
CUT_OFF: Final = "cut off: "
"""So begins the detail of an answer that broke off on our side of it, and not by its agent's leaving."""
LEFT_WORDS: Final = "left while it was under way"
"""Of a try whose agent hung up."""


@dataclass
class Draft:
    """What is known so far; `exchange()` once it is over."""

    order: int
    asked: Asked
    started_ms: float
    spool: Spool
    route: Route | None = None
    query: Query | None = None
    body: bytes = b""
    """Decoded."""
    decoded_bytes: int = 0
    """Of the room for bodies, held beside what came, where that had a content-encoding."""
    estimate: Estimate = _NOTHING
    held: bool = False
    """So much of the budget, now."""
    status: int = LEFT
    headers: Headers = ()
    first_byte_ms: float | None = None
    first_token_ms: float | None = None
    tries: list[Try] = field(default_factory=list)
    complete: bool = False
    cut: bool = True
    """Until its end is written."""
    usage: Usage | None = None
    cost_usd: str | None = None
    refused: Refused | None = None
    detail: str | None = None
    failure: str | None = None
    """Words, where it is the provider's that there was no answer, or not the whole of one."""
    replay_level: ReplayLevel | None = None
    replay_of: int | None = None

    @property
    def generates(self) -> bool:
        return self.route is not None and self.route.act == "generate"

    @property
    def answered(self) -> bool:
        """By the model: at least the beginning of an answer."""
        return self.generates and self.refused is None and 200 <= self.status < 300

    @property
    def left_unanswered(self) -> bool:
        return left_unanswered(
            generates=self.generates,
            status=self.status,
            refused=self.refused,
            tries=self.tries,
            replay_of=self.replay_of,
        )

    def exchange(self, ended_ms: float) -> Exchange:
        return Exchange(
            order=self.order,
            asked=self.asked,
            form=self.route.form if self.route else None,
            act=self.route.act if self.route else None,
            stream=self.query.stream if self.query else False,
            model=self.query.model if self.query else None,
            status=self.status,
            headers=self.headers,
            body_bytes=self.spool.bytes,
            body_sha256=self.spool.sha256,
            started_ms=self.started_ms,
            first_byte_ms=self.first_byte_ms,
            first_token_ms=self.first_token_ms,
            ended_ms=ended_ms,
            tries=tuple(self.tries),
            complete=self.complete,
            usage=self.usage,
            cost_usd=self.cost_usd,
            refused=self.refused,
            detail=self.detail,
            replay_level=self.replay_level,
            replay_of=self.replay_of,
            cut=self.cut,
        )
