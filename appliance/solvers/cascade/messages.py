"""cascade-v1: what is asked of a cascade and what it answers, the same objects over HTTP and over a control socket.

Over the socket each is one line, and a request's members tell what it is: `prompt` is to be resolved, `prompts` are to
be warmed up with, `{}` asks who answers. Over HTTP the path tells.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Self

from pydantic import ConfigDict, Field, TypeAdapter, model_validator
from pydantic.alias_generators import to_camel

from appliance.records.words import Provenance
from appliance.solvers.cascade.client import MAX_LINE
from appliance.wire import Wire

PROTOCOL: Final = "cascade-v1"
MAX_UJ: Final = 2**53 - 1
MAX_PROMPTS: Final = 4096

Microjoules = Annotated[int, Field(ge=0, le=MAX_UJ)]
Tokens = Annotated[int, Field(ge=0, le=MAX_UJ)]
Stage = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,31}$")]
Id = Annotated[str, Field(min_length=1, max_length=512)]
Name = Annotated[str, Field(min_length=1, max_length=128)]
Prompt = Annotated[str, Field(max_length=MAX_LINE)]


class Resolve(Wire):
    """`POST /resolve`."""

    id: Id
    """Of the task or case, for a log; no part of what is asked."""
    prompt: Prompt


class Warm(Wire):
    """`POST /warm`: answer these now, so that a later pass finds the cascade warm."""

    prompts: Annotated[tuple[Prompt, ...], Field(max_length=MAX_PROMPTS)]


class Who(Wire):
    """`GET /healthz`; over the socket an object without members."""


class ClaimedUsage(Wire):
    """Tokens as the cascade counts them; all of the input with the cache's, all of the output with the reasoning."""

    input_tokens: Tokens
    output_tokens: Tokens
    cache_read_tokens: Tokens = 0
    cache_write_tokens: Tokens = 0
    reasoning_tokens: Tokens = 0


class Tier(Wire):
    """One stage that was tried, in the order they were."""

    stage: Stage
    microjoules: Microjoules


class Answer(Wire):
    """Of a `Resolve`."""

    response: str
    stage: Stage
    """The one that answered."""
    microjoules: Microjoules
    """Of all stages that were tried for it, by the cascade's own word."""
    usage: ClaimedUsage | None = None
    tiers: Annotated[tuple[Tier, ...], Field(max_length=64)] = ()
    """Stages tried, with what each took: they add up to `microjoules`, and the last one answered. Empty: not told."""
    provenance: Provenance | None = None
    """How the cascade came by its joules; None: it does not say."""

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        if not self.tiers:
            return self
        whole = sum(tier.microjoules for tier in self.tiers)
        if whole != self.microjoules:
            raise ValueError(f"its tiers make {whole} microjoules, and it says {self.microjoules}")
        if self.tiers[-1].stage != self.stage:
            raise ValueError(f"the last tier is {self.tiers[-1].stage}, and {self.stage} is said to have answered")
        return self


class Health(Wire):
    """Of a `Who`: what is under test, if it answers."""

    protocol: Literal["cascade-v1"]
    name: Name
    version: Name | None = None
    commit: Name | None = None
    synthetic: bool = False
    """Its answers are made up: no model stands behind them (an echo)."""
    stages: Annotated[tuple[Stage, ...], Field(max_length=64)] = ()
    """In the order they are tried."""
    metering: Annotated[str, Field(max_length=256)] | None = None
    """Where its joules come from, in words."""


class Warmed(Wire):
    """Of a `Warm`."""

    warmed: Annotated[int, Field(ge=0, le=MAX_PROMPTS)]


ErrorCode = Literal["bad_message", "too_large", "unknown_route", "overloaded", "failed"]


class Problem(Wire):
    code: ErrorCode
    """`failed`: what stands behind the cascade let it down; the others: the request was not taken."""
    message: Annotated[str, Field(max_length=2000)]


class Refused(Wire):
    """In place of any answer."""

    error: Problem


MESSAGES: Final[TypeAdapter[Any]] = TypeAdapter(
    Annotated[
        Resolve | Warm | Who | Answer | Warmed | Health | Refused,
        Field(description="One line of a cascade's control socket, or one body over HTTP: asked, then answered."),
    ],
    config=ConfigDict(alias_generator=to_camel, extra="forbid", strict=True, use_attribute_docstrings=True),
)
