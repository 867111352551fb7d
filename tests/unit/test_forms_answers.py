"""What an answer used and whether it came to its end: the same figures from four forms, whole and in streams."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest

from appliance.gateway.forms.answers import AnswerReader
from appliance.gateway.usage import Counted
from appliance.records.trial import Usage
from tests.forms_answers import STREAMS, TOKENS, WHOLE, array, document, read, route, said, stream
from tests.scripted_forms import Tokens

USAGE = Usage(input_tokens=2150, cache_read_tokens=800, cache_write_tokens=0, output_tokens=37, reasoning_tokens=5)
STOPS = {"anthropic": "end_turn", "openai-chat": "stop", "openai-responses": "completed", "gemini": "STOP"}


@pytest.mark.parametrize("form", STREAMS)
def test_one_answer_has_one_usage_in_every_form_streamed_and_whole(form: str) -> None:
    """Rows M4, M15."""
    streamed = read(STREAMS[form], [stream(form, said("one ", "two"))])
    document_read = read(WHOLE[form], [document(form, said("one ", "two"))], stream=False)
    assert streamed == document_read
    assert streamed.counted == Counted(USAGE)
    assert (streamed.complete, streamed.stop, streamed.why) == (True, STOPS[form], None)


def test_geminis_stream_may_be_one_array() -> None:
    """Row M13."""
    answer = read("/v1beta/models/m:streamGenerateContent", [array(said("one ", "two"))])
    assert (answer.usage, answer.complete, answer.stop) == (USAGE, True, "STOP")


@pytest.mark.parametrize("form", STREAMS)
def test_a_stream_that_is_cut_anywhere_is_not_complete_and_has_no_guessed_usage(form: str) -> None:
    """Rows M3, M17: what went in is known early, what came out only at the end."""
    content = stream(form, said("one ", "two"))
    whole = read(STREAMS[form], [content])
    for end in range(0, len(content) - 2, 3):
        answer = read(STREAMS[form], [content[:end]])
        if answer.complete:  # the last event is whole in itself without its empty line
            assert content[end:].strip() == b""
        assert answer.usage in {None, whole.usage}
        assert answer.complete or answer.why


@pytest.mark.parametrize("form", STREAMS)
def test_a_document_that_is_cut_is_not_complete(form: str) -> None:
    """Row M17."""
    content = document(form, said("one"))
    for end in range(len(content)):
        answer = read(WHOLE[form], [content[:end]], stream=False)
        assert not answer.complete
        assert answer.usage in {None, USAGE}


def test_anthropics_output_is_the_last_running_total_and_not_the_first_chunks() -> None:
    """Rows M3, M4: writes to the cache count as input, those of an hour are told apart."""
    start = {
        "input_tokens": 10,
        "cache_creation_input_tokens": 30,
        "cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 20},
        "cache_read_input_tokens": 5,
        "output_tokens": 1,
    }
    sent = [
        {"type": "message_start", "message": {"usage": start}},
        {"type": "message_delta", "usage": {"output_tokens": 50, "output_tokens_details": {"thinking_tokens": 9}}},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 70, "input_tokens": None},
        },
        {"type": "message_stop"},
    ]
    answer = read("/v1/messages", [f"data: {json.dumps(event)}\n\n".encode() for event in sent])
    assert answer.counted == Counted(
        Usage(input_tokens=45, cache_read_tokens=5, cache_write_tokens=30, output_tokens=70, reasoning_tokens=9),
        cache_write_1h_tokens=20,
    )


def test_geminis_running_total_is_no_usage_before_its_last() -> None:
    """Rows M4, M17."""
    sent = [
        {"candidates": [{"content": {"parts": [{"text": "a"}]}}], "usageMetadata": {"promptTokenCount": 9}},
        {"candidates": [{"finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 7}},
    ]
    chunks = [f"data: {json.dumps(event)}\n\n".encode() for event in sent]
    cut, whole = read(STREAMS["gemini"], chunks[:1]), read(STREAMS["gemini"], chunks)
    assert (cut.complete, cut.usage) == (False, None)
    assert whole.usage is not None
    assert (whole.usage.input_tokens, whole.usage.output_tokens) == (9, 7)


def test_a_chat_stream_without_usage_says_what_would_have_brought_it() -> None:
    """Row M15: missing, never 0."""
    answer = read("/v1/chat/completions", [stream("openai-chat", said("one"), usage_asked=False)])
    assert answer.complete
    assert answer.usage is None
    assert answer.why is not None
    assert "stream_options.include_usage" in answer.why


def test_llama_servers_timings_stand_in_for_a_usage_that_was_not_asked_for() -> None:
    """Row M15."""
    content = stream("openai-chat", said("one"), usage_asked=False).replace(
        b"data: [DONE]",
        b'data: {"choices":[],"timings":{"cache_n":175,"prompt_n":47,"predicted_n":30}}\n\ndata: [DONE]',
    )
    assert read("/v1/chat/completions", [content]).usage == Usage(
        input_tokens=222, cache_read_tokens=175, cache_write_tokens=0, output_tokens=30, reasoning_tokens=0
    )


@pytest.mark.parametrize("form", ["anthropic", "openai-chat", "openai-responses"])
@pytest.mark.parametrize(
    "wrong", [-1, 1.5, "7", True, 2**60, [], None], ids=["negative", "part", "text", "bool", "huge", "list", "none"]
)
def test_figures_that_are_no_counts_are_no_usage(form: str, wrong: object) -> None:
    """Row M15."""
    names = ("input_tokens", "output_tokens") if form != "openai-chat" else ("prompt_tokens", "completion_tokens")
    usage: dict[str, Any] = {names[0]: wrong, names[1]: 3}
    answer = read(WHOLE[form], [document(form, said("one", usage=usage))], stream=False)
    assert answer.complete
    assert answer.usage is None
    assert answer.why is not None
    assert names[0] in answer.why


def test_figures_that_contradict_each_other_are_no_usage() -> None:
    """Row M4: more from the cache than went in, more reasoning than came out."""
    for tokens in (Tokens(10, 20, 0, 5, 0), Tokens(10, 0, 0, 5, 6)):
        for form in ("openai-chat", "openai-responses"):
            answer = read(WHOLE[form], [document(form, said("one", tokens=tokens))], stream=False)
            assert answer.usage is None
            assert answer.why


@pytest.mark.parametrize(
    ("target", "events", "word"),
    [
        (
            "/v1/messages",
            [{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}],
            "Overloaded",
        ),
        ("/v1/chat/completions", [{"error": {"message": "out of memory"}}], "out of memory"),
        ("/v1/responses", [{"type": "error", "message": "it broke"}], "it broke"),
        (
            "/v1/responses",
            [{"type": "response.failed", "response": {"status": "failed", "error": {"message": "server"}}}],
            "server",
        ),
        ("/v1beta/models/m:streamGenerateContent?alt=sse", [{"error": {"message": "internal"}}], "internal"),
    ],
)
def test_an_error_in_mid_stream_is_no_complete_answer_and_is_told(target: str, events: list[Any], word: str) -> None:
    """Row M17."""
    answer = read(target, [f"data: {json.dumps(event)}\n\n".encode() for event in events] + [b"data: [DONE]\n\n"])
    assert not answer.complete
    assert answer.why is not None
    assert word in answer.why


def test_an_answer_that_reached_a_limit_of_tokens_is_complete_and_says_so() -> None:
    """Row M15."""
    status = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "usage": None}
    answer = read(
        "/v1/responses", [b"data: " + json.dumps({"type": "response.incomplete", "response": status}).encode()]
    )
    assert (answer.complete, answer.stop) == (True, "max_output_tokens")


@pytest.mark.parametrize("content", [b"", b"\r\n", b"<html>Please log in</html>", b"data:\n\n", b": comment\n\n"])
def test_what_is_no_answer_is_none(content: bytes) -> None:
    """Row M17."""
    answer = read("/v1/messages", [content])
    assert (answer.complete, answer.usage) == (False, None)
    assert answer.why in {"no answer", "neither JSON nor server-sent events"}


@pytest.mark.parametrize(("form", "tool"), [(form, tool) for form in STREAMS for tool in (None, "Bash")], ids=str)
def test_the_first_token_is_the_first_text_or_call_and_not_the_streams_opening(form: str, tool: str | None) -> None:
    """Row M15."""
    content = stream(form, said(*(() if tool else ("zzz", "yyy")), tool=tool))
    marks = {"anthropic": b'"tool_use", "id"', "openai-chat": b"tool_calls", "openai-responses": b"arguments.delta"}
    first = content.index(marks.get(form, b"functionCall") if tool else b"zzz")
    reader = AnswerReader(route(STREAMS[form]), stream=True)
    seen = None
    for at in range(len(content)):
        reader.feed(content[at : at + 1])
        if reader.first_token and seen is None:
            seen = at
    assert seen is not None
    assert content.rindex(b"\n\n", 0, seen + 1) > first > content.rfind(b"\n\n", 0, first)
    assert content[first:seen].count(b"\n\n") == 0


@pytest.mark.parametrize("form", ["anthropic", "openai-chat", "openai-responses"])
@pytest.mark.parametrize("streamed", [True, False])
def test_memory_does_not_grow_with_the_answer(form: str, streamed: bool) -> None:
    """Row M13: a document and an event of many megabytes; the usage behind them is still found."""
    mark = "@fill@"
    content = stream(form, said(mark)) if streamed else document(form, said(mark))
    head, _, tail = content.partition(mark.encode())
    reader = AnswerReader(route(STREAMS[form]), streamed)
    piece = (b"x" * 1000 + rb"\n\"" + b"{}[],:") * 64
    tracemalloc.start()
    try:
        reader.feed(head)
        for _ in range(300):
            reader.feed(piece)
        reader.feed(tail.replace(mark.encode(), b""))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    answer = reader.finish()
    assert answer.usage == USAGE
    assert answer.complete
    assert peak < 1024 * 1024


def test_deep_nesting_and_endless_keys_cost_nothing() -> None:
    """Row M13: what a hostile server may send."""
    for content in (b'{"a":' * 50_000, b"[" * 50_000, b'{"' + b"k" * 200_000, b'{"usage":' + b"[" * 50_000):
        answer = read("/v1/messages", [content[at : at + 4096] for at in range(0, len(content), 4096)], stream=False)
        assert (answer.complete, answer.usage) == (False, None)


def test_a_count_of_tokens_is_complete_and_uses_none() -> None:
    """Row M15: it is no exchange that costs."""
    answer = read("/v1/messages/count_tokens", [b'{"input_tokens": 7}'], stream=False)
    assert (answer.complete, answer.counted) == (True, None)


def test_what_the_tokens_do_not_pay_for_is_told() -> None:
    """Row M15: another tier, a search, audio."""
    usages: list[tuple[str, dict[str, Any]]] = [
        ("anthropic", {"input_tokens": 1, "output_tokens": 1, "service_tier": "priority"}),
        ("anthropic", {"input_tokens": 1, "output_tokens": 1, "server_tool_use": {"web_search_requests": 1}}),
        ("openai-chat", {"prompt_tokens": 1, "completion_tokens": 1, "prompt_tokens_details": {"audio_tokens": 1}}),
        ("gemini", {"promptTokenCount": 1, "trafficType": "PROVISIONED_THROUGHPUT"}),
    ]
    for form, usage in usages:
        counted = read(WHOLE[form], [document(form, said("one", usage=usage))], stream=False).counted
        assert counted is not None
        assert counted.unpriced
    assert read(WHOLE["anthropic"], [document("anthropic", said("one", tokens=TOKENS))]).counted == Counted(USAGE)
