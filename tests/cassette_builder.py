"""Exchanges and cassettes for tests: values, in all four forms, each figure settable."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from appliance.gateway.cassette import Cassette, CassetteWriter, read_cassette
from appliance.gateway.exchange import Asked, Exchange, Headers, WireForm
from appliance.gateway.forms.routes import Route, route_of
from appliance.gateway.matching import Replay

PRICES_AT = datetime(2026, 11, 30, 12, tzinfo=UTC)
JSON_HEADERS: Headers = (("content-type", "application/json"), ("user-agent", "agent/1.0"))
TARGETS: dict[WireForm, str] = {
    "anthropic": "/v1/messages",
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "gemini": "/v1beta/models/m:streamGenerateContent?alt=sse",
}


def asked(body: Any, form: WireForm = "anthropic", **changes: Any) -> Asked:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    fields: dict[str, Any] = {"method": "POST", "target": TARGETS[form], "headers": JSON_HEADERS, "body": content}
    return Asked(**{**fields, **changes})


def route(request: Asked) -> Route:
    found = route_of(request.method, request.target)
    assert found is not None
    return found


def exchange(order: int, request: Asked, response: bytes = b"answer", **changes: Any) -> Exchange:
    found = route_of(request.method, request.target)
    fields: dict[str, Any] = {
        "order": order,
        "asked": request,
        "form": found.form if found else None,
        "act": found.act if found else None,
        "stream": True,
        "model": "m",
        "status": 200,
        "headers": (("content-type", "text/event-stream"),),
        "body_bytes": len(response),
        "body_sha256": hashlib.sha256(response).hexdigest(),
        "started_ms": 1.0 + order,
        "first_byte_ms": 1.5 + order,
        "first_token_ms": None,
        "ended_ms": 2.0 + order,
        "tries": (),
        "complete": True,
        "usage": None,
        "cost_usd": None,
        "refused": None,
    }
    return Exchange(**{**fields, **changes})


def written(path: Path, pairs: Iterable[tuple[Exchange, bytes]], secrets: frozenset[bytes] = frozenset()) -> Path:
    writer = CassetteWriter(path, PRICES_AT, secrets)
    for one, response in pairs:
        writer.add(one, response)
    writer.close()
    return path


def cassette(pairs: Iterable[tuple[Exchange, bytes]], folder: Path | None = None) -> Cassette:
    """Written and read again; its bodies lie below `folder`, or in a folder that nobody removes."""
    place = Path(tempfile.mkdtemp(prefix="cassette-", dir=folder))
    return read_cassette(written(place / "cassette.tar.gz", pairs), place)


def replay(*requests: Asked, folder: Path) -> Replay:
    """Of these requests in their order, the answer of each saying which it was."""
    return Replay(
        cassette([(exchange(at, one), f"answer {at}".encode()) for at, one in enumerate(requests)], folder=folder)
    )
