"""A gateway over a scripted provider, and an agent at its socket: what the tests of the gateway share."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import httpx2

from appliance.gateway.cassette import Cassette, read_cassette
from appliance.gateway.doors import SOCKET, Door
from appliance.gateway.exchange import WireForm
from appliance.gateway.retries import RetryPolicy
from appliance.gateway.serving import ModelGateway
from appliance.gateway.upstreams.provider import ProviderName, ProviderUpstream, provider_upstream
from appliance.ports import DUMMY_KEY
from tests.scripted_model import ScriptedModel

FORMS: Final[tuple[WireForm, ...]] = ("anthropic", "openai-chat", "openai-responses", "gemini")
SELLERS: Final[dict[WireForm, ProviderName]] = {
    "anthropic": "anthropic",
    "openai-chat": "openai",
    "openai-responses": "openai",
    "gemini": "google",
}
KEY: Final = "sk-planted-5dVq0xZ7pQ2mWn8Ls4Tr"
PRICES_AT: Final = datetime(2026, 11, 1, 12, tzinfo=UTC)
QUICK: Final = RetryPolicy(tries=3, first_wait_seconds=0.01, longest_wait_seconds=2.0)


def target_of(form: WireForm, *, stream: bool = False, model: str = "scripted") -> str:
    match form:
        case "anthropic":
            return "/v1/messages"
        case "openai-chat":
            return "/v1/chat/completions"
        case "openai-responses":
            return "/v1/responses"
        case _:
            act = "streamGenerateContent?alt=sse" if stream else "generateContent"
            return f"/v1beta/models/{model}:{act}"


def body_of(form: WireForm, text: str = "Hello.", *, stream: bool = False, model: str = "scripted") -> dict[str, Any]:
    said = [{"role": "user", "content": text}]
    match form:
        case "anthropic":
            return {"model": model, "max_tokens": 64, "stream": stream, "messages": said}
        case "openai-chat":
            options = {"stream_options": {"include_usage": True}} if stream else {}
            return {"model": model, "stream": stream, "messages": said, **options}
        case "openai-responses":
            return {"model": model, "stream": stream, "input": said}
        case _:
            return {"contents": [{"role": "user", "parts": [{"text": text}]}]}


def credentials_of(form: WireForm, key: str = DUMMY_KEY) -> dict[str, str]:
    match form:
        case "anthropic":
            return {"x-api-key": key, "anthropic-version": "2023-06-01"}
        case "gemini":
            return {"x-goog-api-key": key}
        case _:
            return {"authorization": f"Bearer {key}"}


def provider_of(model: ScriptedModel, form: WireForm = "anthropic", *, key: str = KEY, **more: Any) -> ProviderUpstream:
    url = f"{model.url}/v1" if form.startswith("openai") else model.url
    environment = {"PLANTED_KEY": key}
    return provider_upstream(SELLERS[form], url=url, key_variable="PLANTED_KEY", environment=environment, **more)


@contextmanager
def gateway_of(model: ScriptedModel | None, /, form: WireForm = "anthropic", **more: Any) -> Iterator[ModelGateway]:
    """`more`: of ModelGateway; its upstream is a provider's at `model`, or none where that is None."""
    upstream = more.pop("upstream", None) or (provider_of(model, form) if model else None)
    settings: dict[str, Any] = {"model": "scripted", "provider": SELLERS[form], "prices_at": PRICES_AT, "policy": QUICK}
    with ModelGateway(upstream, **(settings | more)) as gateway:
        yield gateway


@contextmanager
def agent_of(door: Door) -> Iterator[httpx2.Client]:
    """A client of the door's own socket: as the forwarder, without the forwarder."""
    with _short(door) as path:
        transport = httpx2.HTTPTransport(uds=path)
        with httpx2.Client(transport=transport, base_url="http://gateway", timeout=60) as client:
            yield client


def ask(
    client: httpx2.Client, form: WireForm = "anthropic", text: str = "Hello.", *, stream: bool = False, **more: Any
) -> httpx2.Response:
    return client.post(
        target_of(form, stream=stream),
        json=body_of(form, text, stream=stream),
        headers={**credentials_of(form), **more.pop("headers", {})},
        **more,
    )


def raw(door: Door) -> socket.socket:
    """A bare connection to the door."""
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    found.settimeout(30)
    with _short(door) as path:
        found.connect(path)
    return found


@contextmanager
def _short(door: Door) -> Iterator[str]:
    """The socket's name, however deep it lies."""
    folder = os.open(door.folder, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{SOCKET}"
    finally:
        os.close(folder)


def request_of(form: WireForm = "anthropic", text: str = "Hello.", *, stream: bool = False, head: str = "") -> bytes:
    """A whole request in bytes; `head`: lines of it, each with its end."""
    body = json.dumps(body_of(form, text, stream=stream)).encode()
    lines = f"POST {target_of(form, stream=stream)} HTTP/1.1\r\nhost: gateway\r\ncontent-length: {len(body)}\r\n{head}"
    return f"{lines}\r\n".encode() + body


def drained(connection: socket.socket) -> bytes:
    """All that comes until the other side is done."""
    found = bytearray()
    while chunk := connection.recv(65536):
        found += chunk
    return bytes(found)


def cassette_of(path: Path | None, into: Path) -> Cassette:
    assert path is not None
    into.mkdir(exist_ok=True)
    return read_cassette(path, into)


def lines_of(path: Path | None) -> list[dict[str, Any]]:
    assert path is not None
    return [json.loads(line) for line in path.read_text().splitlines()]
