"""The documents of a cassette: its head, and what stands beside each exchange's two bodies (docs/replay.md)."""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from appliance.gateway.exchange import Asked, Exchange, Refused, ReplayLevel, Try, WireForm
from appliance.pins import Sha256
from appliance.records.money import Usd
from appliance.records.trial import Usage
from appliance.wire import Moment, Wire

MASKS: Final = "masks-v1"
"""The rules of `masks.py`: another rule, or another pattern of one, is another version."""
MAX_EXCHANGES: Final = 100_000

Header = tuple[str, str]


class CassetteHead(Wire):
    """cassette.json, the first member."""

    schema_: Annotated[Literal["cassette-v1"], Field(alias="schema")] = "cassette-v1"
    masks: Literal["masks-v1"] = "masks-v1"
    """By which its requests were meant to be compared."""
    prices_at: Moment
    """The prices of this moment count for all its exchanges; of a replay, those of what it replays."""


class Body(Wire):
    """The member beside it: `request` or `response`."""

    bytes: int = Field(ge=0)
    sha256: Sha256


class RecordedTry(Wire):
    """Exactly one of `status` and `error` is there."""

    started_ms: float = Field(ge=0)
    ended_ms: float = Field(ge=0)
    status: int | None
    error: str | None

    @classmethod
    def of(cls, one: Try) -> Self:
        return cls(started_ms=_ms(one.started_ms), ended_ms=_ms(one.ended_ms), status=one.status, error=one.error)

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.status is None) == (self.error is None):
            raise ValueError("a status or an error, and not both")
        return self


class RecordedExchange(Wire):
    """NNNNN/exchange.json. Every moment is in milliseconds since the trial's gateway opened."""

    order: int = Field(ge=0, lt=MAX_EXCHANGES)
    """Of arrival, from 0."""
    method: str
    target: str
    """Path and query, without credentials."""
    headers: tuple[Header, ...]
    """Of the request, names in lower case, without credentials."""
    request: Body
    form: WireForm | None
    act: Literal["generate", "count_tokens", "models"] | None
    stream: bool
    model: str | None
    status: int = Field(ge=100, le=599)
    response_headers: tuple[Header, ...]
    response: Body
    started_ms: float = Field(ge=0)
    first_byte_ms: float | None = Field(ge=0)
    first_token_ms: float | None = Field(ge=0)
    ended_ms: float = Field(ge=0)
    tries: tuple[RecordedTry, ...]
    """At the upstream; empty where the gateway answered by itself."""
    complete: bool
    """The answer came to its protocol's end."""
    cut: bool
    """Its transfer ended before its bytes did, which a replay does again."""
    usage: Usage | None
    cost_usd: Usd | None
    refused: Refused | None
    """Why the gateway answered instead of the model."""
    detail: str | None
    replay_level: ReplayLevel | None
    replay_of: int | None = Field(ge=0)
    """Order of the recorded exchange whose answer this is."""
    redacted: int = Field(ge=0)
    """Places where a key was taken out of this exchange."""

    @classmethod
    def of(cls, exchange: Exchange, request: Body, response: Body, redacted: int = 0) -> Self:
        asked = exchange.asked
        return cls(
            order=exchange.order,
            method=asked.method,
            target=asked.target,
            headers=asked.headers,
            request=request,
            form=exchange.form,
            act=exchange.act,
            stream=exchange.stream,
            model=exchange.model,
            status=exchange.status,
            response_headers=exchange.headers,
            response=response,
            started_ms=_ms(exchange.started_ms),
            first_byte_ms=None if exchange.first_byte_ms is None else _ms(exchange.first_byte_ms),
            first_token_ms=None if exchange.first_token_ms is None else _ms(exchange.first_token_ms),
            ended_ms=_ms(exchange.ended_ms),
            tries=tuple(map(RecordedTry.of, exchange.tries)),
            complete=exchange.complete,
            cut=exchange.cut,
            usage=exchange.usage,
            cost_usd=exchange.cost_usd,
            refused=exchange.refused,
            detail=exchange.detail,
            replay_level=exchange.replay_level,
            replay_of=exchange.replay_of,
            redacted=redacted,
        )

    def asked(self, body: bytes) -> Asked:
        return Asked(method=self.method, target=self.target, headers=self.headers, body=body)

    def exchange(self, body: bytes) -> Exchange:
        """`body`: the request's."""
        return Exchange(
            order=self.order,
            asked=self.asked(body),
            form=self.form,
            act=self.act,
            stream=self.stream,
            model=self.model,
            status=self.status,
            headers=self.response_headers,
            body_bytes=self.response.bytes,
            body_sha256=self.response.sha256,
            started_ms=self.started_ms,
            first_byte_ms=self.first_byte_ms,
            first_token_ms=self.first_token_ms,
            ended_ms=self.ended_ms,
            tries=tuple(
                Try(started_ms=one.started_ms, ended_ms=one.ended_ms, status=one.status, error=one.error)
                for one in self.tries
            ),
            complete=self.complete,
            cut=self.cut,
            usage=self.usage,
            cost_usd=self.cost_usd,
            refused=self.refused,
            detail=self.detail,
            replay_level=self.replay_level,
            replay_of=self.replay_of,
        )


def _ms(moment: float) -> float:
    """To the microsecond."""
    return round(moment, 3)
