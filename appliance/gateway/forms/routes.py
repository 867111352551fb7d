"""Which wire form a request speaks, by its method and path alone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import parse_qs, unquote

from appliance.gateway.exchange import WireForm

Act = Literal["generate", "count_tokens", "models"]

_POSTED: Final[dict[str, tuple[WireForm, Act]]] = {
    "/messages": ("anthropic", "generate"),
    "/messages/count_tokens": ("anthropic", "count_tokens"),
    "/chat/completions": ("openai-chat", "generate"),
    "/responses": ("openai-responses", "generate"),
    "/responses/input_tokens": ("openai-responses", "count_tokens"),
}
"""Less a leading `/v1`: some agents are told of a base with it, some add it themselves."""
_GEMINI: Final = re.compile(
    r"(?:/v1(?:beta|alpha)?)?/(?:models/|(?=tunedModels/))(?P<model>[^?]+):(?P<act>generateContent|streamGenerateContent|countTokens)"
)
"""A tuned model of some account is called by its whole name: it is not the one that its last part names."""
_LISTED: Final = re.compile(r"(?P<version>/v1(?:beta|alpha)?)?/models(?:/(?P<model>[^?:]+))?")


@dataclass(frozen=True)
class Route:
    """`model`, `stream`, `sse`: what the path says of them, which only Gemini's does."""

    form: WireForm
    act: Act
    model: str | None = None
    stream: bool = False
    sse: bool = True
    """False: a stream that is one JSON array, as Gemini's without `alt=sse`."""


def route_of(method: str, target: str) -> Route | None:
    """None where no form has such a route. `/v1/models` is in three forms; openai-chat stands for them."""
    path, _, query = target.partition("?")
    if method in {"GET", "HEAD"}:
        return _listing(path)
    if method != "POST":
        return None
    if found := _POSTED.get(path.removeprefix("/v1")):
        return Route(*found)
    if gemini := _GEMINI.fullmatch(path):
        stream = gemini["act"] == "streamGenerateContent"
        return Route(
            "gemini",
            "count_tokens" if gemini["act"] == "countTokens" else "generate",
            unquote(gemini["model"]),
            stream,
            not stream or parse_qs(query).get("alt") == ["sse"],
        )
    return None


def _listing(path: str) -> Route | None:
    found = _LISTED.fullmatch(path)
    if found is None:
        return None
    gemini = found["version"] not in {None, "/v1"}
    return Route("gemini" if gemini else "openai-chat", "models", unquote(found["model"]) if found["model"] else None)
