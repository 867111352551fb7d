"""The scripted model itself: what it says in each form, and that its faults are those that it is told to have."""

from __future__ import annotations

import http.client
import json
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from tests.scripted_model import (
    Cut,
    Drip,
    Html,
    Reset,
    Run,
    Say,
    ScriptedModel,
    Silence,
    Status,
    Tokens,
)

TARGETS = {
    "anthropic": "/v1/messages?beta=true",
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "gemini": "/v1beta/models/m:generateContent",
}
COMMAND = "sed -i s/a/b/ f.py"


def _post(port: int, target: str, body: Any, headers: dict[str, str] | None = None) -> tuple[int, bytes]:
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    link.request("POST", target, json.dumps(body), headers or {})
    answer = link.getresponse()
    return answer.status, answer.read()


def _tools(form: str, name: str, schema: dict[str, Any]) -> list[dict[str, Any]]:
    if form == "anthropic":
        return [{"name": "Read", "input_schema": {}}, {"name": name, "input_schema": schema}]
    if form == "openai-chat":
        return [{"type": "function", "function": {"name": name, "parameters": schema}}]
    if form == "openai-responses":
        return [{"type": "function", "name": name, "parameters": schema}]
    return [{"functionDeclarations": [{"name": name, "parametersJsonSchema": schema}]}]


def _called(form: str, answer: dict[str, Any]) -> dict[str, Any]:
    """The arguments of the call in it, and what a conversation holds of it afterwards."""
    if form == "anthropic":
        return dict(answer["content"][-1]["input"])
    if form == "openai-chat":
        return dict(json.loads(answer["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]))
    if form == "openai-responses":
        return dict(json.loads(answer["output"][-1]["arguments"]))
    return dict(answer["candidates"][0]["content"]["parts"][-1]["functionCall"]["args"])


def _with_call(form: str) -> dict[str, Any]:
    if form == "gemini":
        return {"contents": [{"role": "model", "parts": [{"functionCall": {"name": "x"}}]}]}
    if form == "openai-responses":
        return {"input": [{"type": "function_call", "call_id": "1"}]}
    if form == "openai-chat":
        return {"messages": [{"role": "assistant", "tool_calls": [{"id": "1"}]}]}
    return {"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "1"}]}]}


@pytest.mark.parametrize(
    ("name", "schema", "arguments"),
    [
        ("Bash", {"properties": {"command": {"type": "string"}}, "required": ["command"]}, {"command": COMMAND}),
        ("exec_command", {"properties": {"cmd": {"type": "string"}}}, {"cmd": COMMAND}),
        ("shell", {"properties": {"command": {"type": "array"}}}, {"command": ["bash", "-lc", COMMAND]}),
        (
            "run_shell_command",
            {
                "properties": {"command": {"type": "string"}, "is_background": {"type": "boolean"}},
                "required": ["command", "is_background"],
            },
            {"command": COMMAND, "is_background": False},
        ),
    ],
)
@pytest.mark.parametrize("form", TARGETS)
def test_each_agents_shell_tool_is_called_with_what_its_schema_takes_and_then_text_is_said(
    form: str, name: str, schema: dict[str, Any], arguments: dict[str, Any]
) -> None:
    """Row M9."""
    tools = _tools(form, name, schema)
    with ScriptedModel(Run(COMMAND), Say("All done.")) as model:
        _, first = _post(model.port, TARGETS[form], {"model": "m", "tools": tools})
        _, second = _post(model.port, TARGETS[form], {"model": "m", "tools": tools} | _with_call(form))
    assert _called(form, json.loads(first)) == arguments
    assert b"All done." in second
    assert COMMAND.encode() not in second


@pytest.mark.parametrize("form", TARGETS)
def test_an_agent_without_a_shell_tool_gets_the_aside(form: str) -> None:
    """Row M4: opencode's title."""
    with ScriptedModel(Run(COMMAND), aside="Fixing") as model:
        assert b"Fixing" in _post(model.port, TARGETS[form], {})[1]


@pytest.mark.parametrize(
    "headers",
    [{"authorization": "Bearer k"}, {"x-api-key": "k"}, {"x-goog-api-key": "k"}],
    ids=["bearer", "anthropic", "google"],
)
def test_a_key_is_asked_for_wherever_a_client_may_put_it(headers: dict[str, str]) -> None:
    """Row M16."""
    with ScriptedModel(key="k") as model:
        assert _post(model.port, "/v1/messages", {})[0] == 401
        assert _post(model.port, "/v1/messages", {}, {"x-api-key": "other"})[0] == 401
        assert _post(model.port, "/v1/messages", {}, headers)[0] == 200
        assert _post(model.port, "/v1beta/models/m:countTokens?key=k", {})[0] == 200
        assert [seen.answered for seen in model.saw] == [401, 401, 200, 200]
        assert len(model.asked) == 3


def test_faults_come_in_their_order_and_then_none() -> None:
    """Row M17."""
    faults = [Status(429, "7"), Status(429), None, Status(500), Html(), Reset(), Cut()]
    with ScriptedModel(faults=faults) as model:
        link = http.client.HTTPConnection("127.0.0.1", model.port, timeout=30)
        link.request("POST", "/v1/messages", "{}")
        answer = link.getresponse()
        assert (answer.status, answer.headers["retry-after"]) == (429, "7")
        assert json.loads(answer.read())["error"]["type"] == "rate_limit_error"
        statuses = [_post(model.port, "/v1/messages", {})[0] for _ in range(4)]
        assert statuses == [429, 200, 500, 200]
        with pytest.raises(ConnectionResetError):
            _post(model.port, "/v1/messages", {})
        with pytest.raises(http.client.IncompleteRead):
            _post(model.port, "/v1/messages", {})
        assert _post(model.port, "/v1/messages", {})[0] == 200


@pytest.mark.parametrize("form", ["anthropic", "openai-chat", "openai-responses"])
def test_a_cut_stream_lacks_its_end_and_the_rest_of_an_event(form: str) -> None:
    """Row M17."""
    with ScriptedModel(Say("one two three"), faults=[Cut(events=2)]) as model:
        with pytest.raises(http.client.IncompleteRead) as cut:
            _post(model.port, TARGETS[form], {"stream": True})
        whole = _post(model.port, TARGETS[form], {"stream": True})[1]
    assert cut.value.partial.count(b"\n\n") == 2
    assert not cut.value.partial.endswith(b"\n\n")
    assert whole.endswith(b"\n\n")


def test_a_reset_in_the_middle_comes_after_the_bytes_that_it_was_told() -> None:
    """Row M17."""
    with ScriptedModel(faults=[Reset(after_bytes=100)]) as model:
        link = socket.create_connection(("127.0.0.1", model.port), timeout=30)
        link.sendall(b'POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 15\r\n\r\n{"stream":true}')
        got = b""
        with pytest.raises(ConnectionResetError):
            while piece := link.recv(65536):
                got += piece
    assert got == b"" or b"message_start" in got


def test_silence_ends_when_the_model_is_stopped() -> None:
    """Row M17: no test waits for a server that says nothing."""
    began = time.monotonic()
    with ScriptedModel(always=Silence(3600)) as model:
        link = http.client.HTTPConnection("127.0.0.1", model.port, timeout=30)
        link.request("POST", "/v1/messages", "{}")
        while not model.saw:
            time.sleep(0.01)
        assert model.saw[0].answered is None
    assert time.monotonic() - began < 3600


def test_a_drip_sends_the_same_bytes_in_small_pieces() -> None:
    """Row M15."""
    with ScriptedModel(Say("one two"), faults=[None, Drip(0.0, 7)]) as model:
        first, second = (_post(model.port, "/v1/responses", {"stream": True})[1] for _ in range(2))
    assert first.replace(b"resp_1", b"resp_2").replace(b"msg_1", b"msg_2") == second


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("form", ["anthropic", "openai-chat", "openai-responses"])
def test_an_answer_of_many_megabytes_is_made_as_it_is_sent(form: str, stream: bool) -> None:
    """Row M13."""
    with ScriptedModel(Say("head", fill_bytes=5_000_000)) as model:
        body = _post(model.port, TARGETS[form], {"stream": stream})[1]
    assert body.count(b"x") >= 5_000_000
    assert len(body) < 5_300_000


def test_a_chat_stream_says_its_usage_only_where_it_was_asked_and_llamas_timings_always() -> None:
    """Row M15."""
    with ScriptedModel(llama=True, tokens=Tokens(100, 40)) as model:
        without = _post(model.port, "/chat/completions", {"stream": True})[1]
        with_it = _post(model.port, "/chat/completions", {"stream": True, "stream_options": {"include_usage": True}})[1]
    assert b'"usage"' not in without
    assert b'"usage"' in with_it
    assert b'"prompt_n": 60' in without


def test_connections_are_kept_and_told_apart() -> None:
    """Row M19."""
    with ScriptedModel() as model:
        link = http.client.HTTPConnection("127.0.0.1", model.port, timeout=30)
        for _ in range(2):
            link.request("POST", "/v1/messages", '{"stream": true}')
            link.getresponse().read()
        _post(model.port, "/v1/messages", {})
        one, two, other = (seen.connection for seen in model.saw)
    assert one == two != other


def test_it_listens_on_a_unix_socket_too(tmp_path: Path) -> None:
    """Row M13: as llama-server does."""
    with ScriptedModel(unix=tmp_path / "m.sock") as model:
        link = http.client.HTTPConnection("localhost", timeout=30)
        link.sock = socket.socket(socket.AF_UNIX)
        link.sock.connect(str(tmp_path / "m.sock"))
        link.request("POST", "/v1/chat/completions", "{}")
        assert link.getresponse().status == 200
        assert len(model.saw) == 1
    assert not (tmp_path / "m.sock").exists()


def test_turns_are_counted_by_arrival_where_no_tools_are_called() -> None:
    """Row M9: aider's and mini-swe-agent's text."""
    with ScriptedModel(Say("first"), Say("second"), order="arrival") as model:
        said = [_post(model.port, "/chat/completions", {})[1] for _ in range(3)]
    assert [b"first" in each for each in said] == [True, False, False]
    assert b"second" in said[2]
