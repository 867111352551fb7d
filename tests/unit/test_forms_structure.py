"""A conversation as turns: equal for what is equal in substance, in each form."""

from __future__ import annotations

import json
from typing import Any

import pytest

from appliance.gateway.forms.bodies import Malformed
from appliance.gateway.forms.structure import Call, Turn, structure_of
from appliance.gateway.forms.transcript import spoken
from tests.forms_answers import STREAMS, said, stream
from tests.forms_requests import ANTHROPIC, CHAT, GEMINI, RESPONSES

CALL = Call("t1", "Bash", '{"a":"x","b":1}')
FIRST = (Turn("system", text="Be brief."), Turn("user", text="Fix it"))


def _turns(form: Any, body: Any) -> tuple[Turn, ...]:
    return structure_of(form, json.dumps(body).encode()).turns


def test_a_conversation_has_its_turns_in_every_form() -> None:
    """Row M14: roles, ids and arguments in one writing; no thinking, which is sealed and never twice the same."""
    assert _turns("anthropic", ANTHROPIC) == (
        *FIRST,
        Turn("assistant", (CALL,), text="Looking."),
        Turn("user", answers=(("t1", "out"),), text="go on"),
    )
    assert _turns("openai-chat", CHAT) == (
        *FIRST,
        Turn("assistant", (CALL,), text="Looking."),
        Turn("tool", answers=(("t1", "out"),)),
    )
    assert _turns("openai-responses", RESPONSES) == (
        *FIRST,
        Turn("assistant", text="Looking."),
        Turn("assistant", (CALL,)),
        Turn("tool", answers=(("t1", "out"),)),
    )
    assert _turns("gemini", GEMINI) == (
        *FIRST,
        Turn("model", (Call("", "Bash", '{"a":"x","b":1}'),), text="Looking."),
        Turn("user", answers=(("Bash", '{"output":"out"}'),)),
    )


def test_what_is_no_text_stands_as_its_digest() -> None:
    """Row M14: another image is another turn, where it is cached is not."""

    def image(source: str, **more: Any) -> tuple[Turn, ...]:
        part = {"type": "image", "source": {"type": "base64", "content": source}} | more
        return _turns("anthropic", {"messages": [{"role": "user", "content": [part]}]})

    assert image("aaaa")[0].text.startswith("[image sha256:")
    assert image("aaaa") == image("aaaa", cache_control={"type": "ephemeral"})
    assert image("aaaa") != image("bbbb")


@pytest.mark.parametrize(
    ("item", "call"),
    [
        (
            {"type": "local_shell_call", "call_id": "c", "action": {"type": "exec", "command": ["ls"]}},
            Call("c", "local_shell_call", '{"command":["ls"],"type":"exec"}'),
        ),
        (
            {"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": "*** Begin"},
            Call("c", "apply_patch", "*** Begin"),
        ),
    ],
)
def test_calls_of_the_providers_own_tools_are_calls(item: dict[str, Any], call: Call) -> None:
    """Row M14: codex's."""
    assert _turns("openai-responses", {"input": [item]})[0].calls == (call,)


def test_an_input_of_one_text_is_one_turn() -> None:
    """Row M14."""
    assert _turns("openai-responses", {"input": "Fix it"}) == (Turn("user", text="Fix it"),)


@pytest.mark.parametrize("form", STREAMS)
@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b'{"messages": 3, "input": 3, "contents": 3}',
        b'{"messages": [3], "input": [3], "contents": [3]}',
        b'{"x": ' + b"[" * 20_000,
        b'{"messages": [{"role": "user", "content": ' + b"[" * 900 + b"]" * 900 + b"}]}",
    ],
)
def test_what_is_no_conversation_is_malformed_or_has_no_more_than_its_turns(form: Any, body: bytes) -> None:
    """Row M14."""
    try:
        assert len(structure_of(form, body).turns) <= 1
    except Malformed as refused:
        assert str(refused)


def test_arguments_that_are_no_json_are_compared_as_they_came() -> None:
    """Row M14."""
    call = {"id": "t", "function": {"name": "f", "arguments": "{broken"}}
    assert _turns("openai-chat", {"messages": [{"role": "assistant", "tool_calls": [call]}]})[0].calls == (
        Call("t", "f", "{broken"),
    )


@pytest.mark.parametrize(
    ("form", "body", "answers"),
    [
        ("anthropic", ANTHROPIC, [{"id": "t1", "text": "out"}]),
        ("openai-chat", CHAT, [{"id": "t1", "text": "out"}]),
        ("openai-responses", RESPONSES, [{"id": "t1", "text": "out"}]),
        ("gemini", GEMINI, [{"id": "Bash", "text": '{"output":"out"}'}]),
    ],
)
def test_a_transcripts_line_has_what_the_tools_gave_and_what_was_said_to_it(
    form: Any, body: Any, answers: list[dict[str, str]]
) -> None:
    """Row M14."""
    found = spoken(form, json.dumps(body).encode(), [stream(form, said("It ", "works.", tool="Bash"))])
    assert found["answers"] == answers
    assert found["text"] == "It works."
    assert [call["name"] for call in found["calls"]] == ["Bash"]
    assert found["truncated"] is False


def test_reasoning_is_told_apart_from_what_was_said() -> None:
    """Row M14."""
    deltas = [{"reasoning_content": "hm, "}, {"reasoning_content": "so"}, {"content": "Yes."}]
    content = b"".join(b"data: " + json.dumps({"choices": [{"delta": delta}]}).encode() + b"\n\n" for delta in deltas)
    found = spoken("openai-chat", b"{}", [content])
    assert (found["text"], found["reasoning"]) == ("Yes.", "hm, so")


def test_a_call_in_pieces_is_one_call() -> None:
    """Row M14: two at once, woven."""
    pieces = [
        [{"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}}],
        [{"index": 1, "id": "b", "function": {"name": "g", "arguments": '{"x"'}}],
        [{"index": 0, "function": {"arguments": '{"y": 2}'}}, {"index": 1, "function": {"arguments": ": 1}"}}],
    ]
    content = b"".join(
        b"data: " + json.dumps({"choices": [{"delta": {"tool_calls": calls}}]}).encode() + b"\n\n" for calls in pieces
    )
    assert spoken("openai-chat", b"{}", [content])["calls"] == [
        {"id": "a", "name": "f", "arguments": '{"y":2}'},
        {"id": "b", "name": "g", "arguments": '{"x":1}'},
    ]


def test_a_transcript_is_bounded_and_can_be_written() -> None:
    """Row M14."""
    text = "\ud800" + "x" * 400_000
    answer = {"content": [{"type": "text", "text": text}, {"type": "tool_use", "id": "t", "name": "n", "input": {}}]}
    found = spoken("anthropic", b"{}", [json.dumps(answer).encode()])
    assert found["truncated"] is True
    assert len(found["text"]) == 256 * 1024
    json.dumps(found, ensure_ascii=False).encode()
