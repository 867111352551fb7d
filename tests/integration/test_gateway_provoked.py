"""What an agent can say, or make a provider say, so that something else than its own trial would suffer."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from appliance.gateway.exchange import WireForm
from appliance.gateway.upstreams.provider import provider_upstream
from tests.door_bench import (
    FORMS,
    KEY,
    agent_of,
    ask,
    body_of,
    cassette_of,
    credentials_of,
    drained,
    gateway_of,
    raw,
    request_of,
    target_of,
)
from tests.scripted_model import ScriptedModel, Status

_WHOLE = b'{"type":"message","stop_reason":"end_turn","content":[],"usage":{"input_tokens":10,"output_tokens":1}}'


@pytest.mark.parametrize("form", FORMS)
def test_a_header_of_any_bytes_reaches_the_provider_as_it_is(form: WireForm, tmp_path: Path) -> None:
    """Row M13: an agent's odd header is no error of the harness's, which would exclude its trial."""
    with ScriptedModel(key=KEY) as model, gateway_of(model, form) as gateway:
        door = gateway.open("a")
        with raw(door) as agent:
            said = request_of(form, head="connection: close\r\nx-odd: LETTER\r\n").replace(b"LETTER", b"\xe9\xff")
            agent.sendall(said)
            assert drained(agent).startswith(b"HTTP/1.1 200 ")
        traffic = door.finish()
        (recorded,) = cassette_of(traffic.cassette, tmp_path / "c").exchanges
    assert dict(recorded.asked.headers)["x-odd"] == "\xe9\xff"
    assert dict(model.asked[0].headers)["x-odd"].encode("latin-1") == b"\xe9\xff"
    assert traffic.failed is None


def test_a_target_of_any_length_is_refused_or_answered() -> None:
    """Row M13: no client can send it on, and no trial is excluded for it."""
    with ScriptedModel(key=KEY) as model, gateway_of(model) as gateway:
        door = gateway.open("a")
        with raw(door) as agent:
            agent.sendall(
                request_of(head="connection: close\r\n").replace(b" HTTP", b"?" + b"a" * 65_400 + b" HTTP", 1)
            )
            assert drained(agent).startswith(b"HTTP/1.1 400 ")
        assert door.finish().failed is None
        assert model.saw == []


@contextmanager
def _server(answer: bytes) -> Iterator[str]:
    """Says this to everybody."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        listener.close()


def _answer(status: bytes, header: bytes = b"x-request-id: a") -> bytes:
    lines = b"HTTP/1.1 %s\r\ncontent-type: application/json\r\n%s\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
    return lines % (status, header, len(_WHOLE)) + _WHOLE


@pytest.mark.parametrize("status", [b"200 OK", b"400 No"])
def test_an_answer_s_header_of_any_bytes_reaches_the_agent_as_it_is(status: bytes, tmp_path: Path) -> None:
    """Row M13."""
    with _server(_answer(status, b"x-request-id: \xff\xfe")) as url:
        upstream = provider_upstream("anthropic", url=url, key_variable="K", environment={"K": KEY})
        with gateway_of(None, upstream=upstream) as gateway:
            door = gateway.open("a")
            with raw(door) as agent:
                agent.sendall(request_of(head="connection: close\r\n"))
                got = drained(agent)
            traffic = door.finish()
            cassette_of(traffic.cassette, tmp_path / "c")
    assert got.startswith(b"HTTP/1.1 " + status[:3])
    assert b"\xff\xfe" in got


def test_a_status_that_http_does_not_have_is_the_provider_s_failure(tmp_path: Path) -> None:
    """Row M17."""
    with _server(_answer(b"999 What")) as url:
        upstream = provider_upstream("anthropic", url=url, key_variable="K", environment={"K": KEY})
        with gateway_of(None, upstream=upstream) as gateway:
            door = gateway.open("a")
            with agent_of(door) as agent:
                assert ask(agent).status_code in {503, 529}
            traffic = door.finish()
            cassette_of(traffic.cassette, tmp_path / "c")
    assert traffic.failed == "provider_failed"
    assert "999" in (traffic.detail or "")


@pytest.mark.parametrize(
    "odd",
    [
        lambda *_: "\udc00".encode(),
        lambda *_: {[]},  # type: ignore[list-item]
        lambda *_: {}["a name"],
        lambda *_: [].get("a name"),  # type: ignore[attr-defined]
        lambda *_: int(1e309),
    ],
    ids=["bytes", "a list where a text is", "a name that is not there", "a list where an object is", "a number"],
)
def test_what_nobody_thought_of_costs_an_exchange_and_no_trial(
    odd: Callable[..., object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Row M13: it is refused, recorded, and said in the faults."""
    with ScriptedModel(key=KEY) as model, gateway_of(model) as gateway:
        door = gateway.open("a")
        with agent_of(door) as agent:
            with monkeypatch.context() as changed:
                changed.setattr("appliance.gateway.upstreams.http.passed_on", odd)
                assert ask(agent).status_code == 400
            assert ask(agent).status_code == 200
        traffic = door.finish()
        recorded = cassette_of(traffic.cassette, tmp_path / "c").exchanges
    assert [one.exchange.refused for one in recorded] == ["malformed", None]
    assert any("cannot take" in fault for fault in traffic.faults)
    assert traffic.failed is None


# ----------------------------------------------------------------------------------- whose a refusal is


@pytest.mark.parametrize("status", [401, 402, 403, 404])
def test_what_is_refused_after_an_answer_is_refused_for_what_the_agent_asked(status: int) -> None:
    """Row M17: the key was good and the model was there; it ends no trial as its provider's failure."""
    with ScriptedModel(key=KEY, faults=[None, Status(status)]) as model, gateway_of(model) as gateway:
        door = gateway.open("a")
        with agent_of(door) as agent:
            assert [ask(agent, text=text).status_code for text in ("one", "two")] == [200, status]
        traffic = door.finish()
    assert (traffic.failed, traffic.detail) == (None, None)


@pytest.mark.parametrize(("status", "failed"), [(404, None), (401, "provider_failed")])
def test_a_model_that_answered_another_trial_is_there_and_a_key_may_be_gone(status: int, failed: str | None) -> None:
    """Row M17."""
    with ScriptedModel(key=KEY, faults=[None, Status(status)]) as model, gateway_of(model) as gateway:
        first, second = gateway.open("a"), gateway.open("b")
        with agent_of(first) as agent:
            assert ask(agent).status_code == 200
        with agent_of(second) as agent:
            assert ask(agent).status_code == status
        assert second.finish().failed == failed


# ----------------------------------------------------------------------------------- one model, and it alone


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ('"model": "other", "model": "scripted"', "malformed"),
        ('"model": "scripted", "\\u006dodel": "scripted"', "malformed"),
        ('"model": "scripted", "metadata": {"a": 1, "a": 2}', "malformed"),
        ('"model": "scripted", "Model": "other"', "model"),
        ('"model": "scripted", "MODEL": "other"', "model"),
        ('"model": "scripted", "models": ["other"]', "model"),
        ('"model": "scripted", "model\\u017f": ["other"]', "model"),
        ('"model": "scripted", "fallbacks": ["other"]', "model"),
    ],
)
@pytest.mark.parametrize("form", FORMS)
def test_no_second_model_is_named_in_any_spelling(form: WireForm, more: str, why: str, tmp_path: Path) -> None:
    """Row M13: some servers take the first of two, some read names in any case, some fall back to a list."""
    rest = json.dumps({name: value for name, value in body_of(form).items() if name != "model"})
    with ScriptedModel(key=KEY) as model, gateway_of(model, form) as gateway:
        door = gateway.open("a")
        with agent_of(door) as agent:
            got = agent.post(target_of(form), content=f"{{{more}, {rest[1:]}")
        traffic = door.finish()
        (recorded,) = cassette_of(traffic.cassette, tmp_path / "c").exchanges
        assert model.saw == []
    assert got.status_code == {"malformed": 400, "model": 404}[why]
    assert recorded.exchange.refused == why


@pytest.mark.parametrize("value", [[], {}, 1, True, ["scripted"]])
def test_gemini_s_body_may_hold_any_value_as_its_model_and_is_refused(value: object) -> None:
    """Row M13: also one that no set can hold."""
    with ScriptedModel(key=KEY) as model, gateway_of(model, "gemini") as gateway:
        door = gateway.open("a")
        with agent_of(door) as agent:
            body = {**body_of("gemini"), "model": value}
            got = agent.post(target_of("gemini"), json=body, headers=credentials_of("gemini"))
        traffic = door.finish()
    assert got.status_code in (400, 404)
    assert (traffic.failed, traffic.faults, len(model.asked)) == (None, (), 0)


def test_gemini_s_body_names_no_other_model_than_its_path() -> None:
    """Row M13."""
    named = (("scripted", 200), ("models/scripted", 200), ("models/other", 404))
    with (
        ScriptedModel(key=KEY) as model,
        gateway_of(model, "gemini") as gateway,
        agent_of(gateway.open("a")) as agent,
    ):
        for name, status in named:
            assert agent.post(target_of("gemini"), json=body_of("gemini") | {"model": name}).status_code == status


# ----------------------------------------------------------------------------------- a model, and no network

_IMAGE = "https://images.example/a.png"
_HOSTED: list[tuple[WireForm, dict[str, Any]]] = [
    ("anthropic", {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}),
    ("anthropic", {"tools": [{"type": "code_execution_20250825", "name": "code_execution"}]}),
    ("anthropic", {"mcp_servers": [{"type": "url", "url": "https://mcp.example", "name": "x"}]}),
    ("anthropic", {"container": "c"}),
    (
        "anthropic",
        {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": _IMAGE}}]}]},
    ),
    ("openai-chat", {"web_search_options": {}}),
    ("openai-chat", {"plugins": [{"id": "web"}]}),
    ("openai-chat", {"tools": [{"type": "web_search"}]}),
    (
        "openai-chat",
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": _IMAGE}}]}]},
    ),
    ("openai-responses", {"tools": [{"type": "web_search"}]}),
    ("openai-responses", {"tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]}),
    ("openai-responses", {"tools": [{"type": "mcp", "server_label": "x", "server_url": "https://mcp.example"}]}),
    ("openai-responses", {"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "file_search"}]}]}),
    ("openai-responses", {"background": True}),
    (
        "openai-responses",
        {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": _IMAGE}]}]},
    ),
    ("openai-responses", {"input": [{"role": "user", "content": [{"type": "input_file", "file_url": _IMAGE}]}]}),
    ("gemini", {"tools": [{"googleSearch": {}}]}),
    ("gemini", {"tools": [{"functionDeclarations": [], "urlContext": {}}]}),
    ("gemini", {"contents": [{"role": "user", "parts": [{"fileData": {"fileUri": _IMAGE}}]}]}),
]


@pytest.mark.parametrize(("form", "more"), _HOSTED)
def test_what_would_run_or_fetch_at_the_provider_is_refused(
    form: WireForm, more: dict[str, Any], tmp_path: Path
) -> None:
    """Row M13: a container without a network reaches none through its model; nor does an escaped name."""
    with ScriptedModel(key=KEY) as model, gateway_of(model, form) as gateway:
        door = gateway.open("a")
        written = json.dumps(body_of(form) | more)
        escaped = written.replace('url"', '\\u0075rl"').replace("fileUri", "file\\u0055ri")
        with agent_of(door) as agent:
            assert [agent.post(target_of(form), content=one).status_code for one in (written, escaped)] == [400, 400]
        traffic = door.finish()
        recorded = cassette_of(traffic.cassette, tmp_path / "c").exchanges
        assert model.saw == []
    assert [one.exchange.refused for one in recorded] == ["malformed", "malformed"]
    assert traffic.failed is None


_OWN: list[tuple[WireForm, dict[str, Any]]] = [
    ("anthropic", {"tools": [{"name": "Bash", "input_schema": {"properties": {"image_url": {"url": "string"}}}}]}),
    ("anthropic", {"tools": [{"type": "bash_20250124", "name": "bash"}]}),
    (
        "anthropic",
        {
            "messages": [
                {"role": "user", "content": "url"},
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "a", "name": "b", "input": {"image_url": _IMAGE}}],
                },
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": f"url {_IMAGE}"}]},
            ]
        },
    ),
    ("openai-chat", {"tools": [{"type": "function", "function": {"name": "url", "parameters": {}}}]}),
    (
        "openai-chat",
        {
            "messages": [
                {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]}
            ]
        },
    ),
    ("openai-responses", {"tools": [{"type": "custom", "name": "apply_patch"}, {"type": "local_shell"}]}),
    ("openai-responses", {"background": False, "store": False}),
    ("gemini", {"tools": [{"functionDeclarations": [{"name": "url"}]}]}),
    (
        "gemini",
        {"contents": [{"role": "model", "parts": [{"functionCall": {"name": "x", "args": {"file_uri": _IMAGE}}}]}]},
    ),
]


@pytest.mark.parametrize(("form", "more"), _OWN)
def test_what_the_agent_runs_itself_is_passed_on(form: WireForm, more: dict[str, Any]) -> None:
    """Row M13: an address in a call or its result is a text like others."""
    with ScriptedModel(key=KEY) as model, gateway_of(model, form) as gateway, agent_of(gateway.open("a")) as agent:
        assert agent.post(target_of(form), json=body_of(form) | more).status_code == 200


@pytest.mark.parametrize(
    ("query", "header"),
    [("?fields=candidates", ""), ("?$fields=a", ""), ("?alt=media", ""), ("?callback=x", ""), ("", "x-goog-fieldmask")],
)
def test_an_answer_whose_end_is_left_out_by_wish_is_not_asked_for(query: str, header: str) -> None:
    """Row M17: without its end it would be the provider's failure."""
    with ScriptedModel(key=KEY) as model, gateway_of(model, "gemini") as gateway:
        door = gateway.open("a")
        with agent_of(door) as agent:
            headers = {header: "candidates"} if header else {}
            got = agent.post(target_of("gemini") + query, json=body_of("gemini"), headers=headers)
        assert model.saw == []
        assert (got.status_code, door.finish().failed) == (400, None)
