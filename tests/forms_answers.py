"""Answers of the four forms as they come over the wire, for the tests of what reads them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from appliance.gateway.forms.answers import Answer, AnswerReader
from appliance.gateway.forms.routes import Route, route_of
from tests.scripted_forms import Spoken, Tokens, events, whole

STREAMS = {
    "anthropic": "/v1/messages",
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "gemini": "/v1beta/models/m:streamGenerateContent?alt=sse",
}
WHOLE = STREAMS | {"gemini": "/v1beta/models/m:generateContent"}
TOKENS = Tokens(2150, 800, 0, 37, 5)


def route(target: str) -> Route:
    found = route_of("POST", target)
    assert found is not None
    return found


def said(
    *pieces: str, tool: str | None = None, tokens: Tokens | None = TOKENS, usage: dict[str, Any] | None = None
) -> Spoken:
    return Spoken(pieces, tool, {"command": "ls"} if tool else {}, tokens, usage, 1, "m")


def stream(form: str, spoken: Spoken, *, usage_asked: bool = True) -> bytes:
    """As server-sent events."""
    return b"".join(
        (f"event: {name}\n" if name else "").encode() + f"data: {data}\n\n".encode()
        for name, data in events(form, spoken, usage_asked=usage_asked)
    )


def array(spoken: Spoken) -> bytes:
    """Gemini's stream without `alt=sse`."""
    return b"[" + b",\r\n".join(data.encode() for _, data in events("gemini", spoken)) + b"]"


def document(form: str, spoken: Spoken) -> bytes:
    return json.dumps(whole(form, spoken)).encode()


def read(target: str, chunks: Iterable[bytes], *, stream: bool = True) -> Answer:
    reader = AnswerReader(route(target), stream)
    for chunk in chunks:
        reader.feed(chunk)
    return reader.finish()


def cut(content: bytes, places: Iterable[int]) -> list[bytes]:
    """At each place, in any order and as often as it is named."""
    edges = [0, *sorted(min(place, len(content)) for place in places), len(content)]
    return [content[start:end] for start, end in pairwise(edges)]
