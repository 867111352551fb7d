"""One request of an agent and its answer, as they are recorded: the values that the gateway's parts share."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass
from typing import Final, Literal

from appliance.records.trial import Usage

WireForm = Literal["anthropic", "openai-chat", "openai-responses", "gemini"]
Refused = Literal["model", "route", "malformed", "budget", "run_budget", "diverged", "too_large", "provider"]
"""Why the gateway itself answered: `provider` where every try failed."""
ReplayLevel = Literal["exact", "masked", "structural"]

LEFT: Final = 499
"""The status of an exchange that ended before it was answered."""

CREDENTIAL_HEADERS: Final = frozenset(
    {"authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie"}
)
"""Lower case; they reach no cassette, no log, no upstream."""
CREDENTIAL_QUERY: Final = frozenset({"key", "api_key", "access_token"})
"""Names in a query string that are treated alike."""

Headers = tuple[tuple[str, str], ...]
"""Names in lower case, in the order they came."""


@dataclass(frozen=True)
class Asked:
    """A request as the agent sent it, its credentials removed; `body` as it came, before any decoding."""

    method: str
    target: str
    """Path and query."""
    headers: Headers
    body: bytes


@dataclass(frozen=True)
class Try:
    """One attempt at the upstream; exactly one of `status` and `error` is there."""

    started_ms: float
    """Since the trial's gateway opened, as every moment here."""
    ended_ms: float
    status: int | None
    error: str | None
    """In words: `timed out after 600 s`, `connection refused`."""


@dataclass(frozen=True)
class Exchange:
    """What is recorded of one exchange beside the bytes of its answer."""

    order: int
    """Of arrival within the trial, from 0."""
    asked: Asked
    form: WireForm | None
    """None: no route of ours."""
    act: Literal["generate", "count_tokens", "models"] | None
    stream: bool
    model: str | None
    status: int
    """499 where the agent left before there was an answer."""
    headers: Headers
    """Of the answer."""
    body_bytes: int
    body_sha256: str
    started_ms: float
    first_byte_ms: float | None
    first_token_ms: float | None
    ended_ms: float
    tries: tuple[Try, ...]
    complete: bool
    """The answer came to its protocol's end; False: cut off by upstream or left by the agent."""
    usage: Usage | None
    cost_usd: str | None
    refused: Refused | None
    detail: str | None = None
    replay_level: ReplayLevel | None = None
    replay_of: int | None = None
    """Order of the recorded exchange whose answer this is."""
    cut: bool = False
    """Its transfer ended before its bytes did: what a replay cuts off again. An answer can be incomplete without it, as
    a stream whose last event is the provider's error."""


def left_unanswered(
    *, generates: bool, status: int, refused: Refused | None, tries: Sized, replay_of: int | None
) -> bool:
    """A model was asked, and its agent left before a word of the answer: what that used nobody knows, and it is not 0.

    One that was left before it was asked, waiting for its turn, used nothing.
    """
    return generates and refused is None and status == LEFT and (len(tries) > 0 or replay_of is not None)
