"""What each agent says of itself, on what the programs really printed (tests/golden/agents)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appliance.records.trial import Usage
from appliance.solvers.outputs.claimed import Claimed
from appliance.solvers.outputs.parsing import PARSERS, parse

SAMPLES = Path(__file__).parent.parent / "golden" / "agents"


def _usage(inputs: int, read: int, written: int, output: int, reasoning: int = 0) -> Usage:
    return Usage(
        input_tokens=inputs,
        cache_read_tokens=read,
        cache_write_tokens=written,
        output_tokens=output,
        reasoning_tokens=reasoning,
    )


ONE = _usage(2150, 800, 150, 37)
SAID: dict[str, tuple[str, Claimed]] = {
    "claude_json_bare.json": ("claude-json", Claimed("complete", ONE)),
    "claude_json_unknown_model.json": ("claude-json", Claimed("complete", ONE)),
    "claude_json_maxturns.json": (
        "claude-json",
        Claimed("complete", ONE, "0.0049575", "Reached maximum number of turns (1)", "turns"),
    ),
    "claude_json_noserver.json": (
        "claude-json",
        Claimed(
            "provider_failed",
            _usage(0, 0, 0, 0),
            None,
            "API Error: Connection refused — a firewall or proxy may be blocking it (ECONNREFUSED)",
        ),
    ),
    "claude_json_budget.json": (
        "claude-json",
        Claimed(
            "provider_failed",
            _usage(0, 0, 0, 0),
            None,
            "API Error: Request rejected (429) · this trial's budget of tokens is used up",
        ),
    ),
    "codex_json_refused.jsonl": (
        "codex-jsonl",
        Claimed(
            "provider_failed",
            detail="unexpected status 401 Unauthorized: no such key, url: http://127.0.0.1:8089/v1/responses",
        ),
    ),
    "opencode_json_error.jsonl": ("opencode-jsonl", Claimed("provider_failed", detail="scripted 500")),
    "claude_stream_tool.jsonl": ("claude-stream-json", Claimed("complete", _usage(4300, 1600, 300, 74), "0.009915")),
    "gemini_json_text.json": ("gemini-json", Claimed("complete", _usage(1200, 800, 0, 37))),
    "gemini_stream_tool.jsonl": ("gemini-json", Claimed("complete", _usage(2400, 1600, 0, 74))),
    "codex_json_tool.jsonl": ("codex-jsonl", Claimed("complete", _usage(2400, 1600, 0, 74))),
    "opencode_json_tool.jsonl": ("opencode-jsonl", Claimed("complete", _usage(2400, 1600, 0, 74), "0.000948")),
    "qwen_json_tool.json": ("qwen-json", Claimed("complete", _usage(2400, 1600, 0, 74))),
    "aider_maxof.txt": ("aider-text", Claimed("complete", _usage(719, 0, 0, 159))),
    "mini_typo_small.json": ("mini-trajectory", Claimed("complete", _usage(1016, 738, 0, 84))),
}


def _parsed(name: str, content: bytes) -> Claimed:
    return parse(name, b"", {"output_file": content}) if name == "mini-trajectory" else parse(name, content, {})


def _changed(sample: str, change: Callable[[Any], object]) -> bytes:
    """A sample's document, or its last line's, changed."""
    *before, last = (SAMPLES / sample).read_text().splitlines()
    text = last if last.startswith(("{", "[")) and len(last) > 1 else "\n".join([*before, last])
    value = json.loads(text)
    change(value)
    return "\n".join([*(before if text == last else []), json.dumps(value)]).encode()


@pytest.mark.parametrize("sample", SAID)
def test_a_real_output_is_read_for_what_it_is(sample: str) -> None:
    """Rows M1, M2, M3, M4, M5: a dead server is the provider's, a limit the oracle's, an invented cost nobody's."""
    name, expected = SAID[sample]
    assert _parsed(name, (SAMPLES / sample).read_bytes()) == expected


def test_every_sample_and_every_parser_is_tested() -> None:
    """Row M9."""
    assert {path.name for path in SAMPLES.iterdir()} == set(SAID)
    assert {name for name, _ in SAID.values()} == set(PARSERS)


@pytest.mark.parametrize("sample", SAID)
def test_noise_before_and_after_and_bytes_that_are_no_text_change_nothing(sample: str) -> None:
    """Row M1: warnings of the runtime, a progress bar, a broken locale."""
    name, expected = SAID[sample]
    noise = b"(node:7) Warning: \xff\xfe\n[warn] {not json}\n{also: not}\n\n"
    content = (SAMPLES / sample).read_bytes()
    assert _parsed(name, noise + content + b"\n\x80done\n") == expected


@pytest.mark.parametrize("sample", SAID)
def test_an_output_that_stops_early_is_incomplete_or_says_how_it_ended(sample: str) -> None:
    """Row M1: no cut makes it a failure of the provider's, nor gives it figures that it does not have."""
    name, expected = SAID[sample]
    content = (SAMPLES / sample).read_bytes()
    for end in [*range(0, len(content), 97), len(content) - 2]:
        claimed = _parsed(name, content[:end])
        assert claimed.ended in {"incomplete", expected.ended}
        if claimed.ended == "incomplete":
            assert claimed.detail
    if name != "aider-text":
        assert _parsed(name, content[: len(content) // 3]).ended == (
            "complete" if name == "mini-trajectory" else "incomplete"
        )


@pytest.mark.parametrize("name", PARSERS)
def test_nothing_at_all_is_incomplete(name: str) -> None:
    """Row M1."""
    for content in (b"", b"Segmentation fault\n", b"null", b"[]", b"{}", b"[[]]"):
        claimed = _parsed(name, content)
        assert (claimed.ended, claimed.usage, claimed.cost_usd) == ("incomplete", None, None)
        assert claimed.detail
    assert parse("mini-trajectory", b"", {}).ended == "incomplete"


_LONG = 'a long "answer"\\ \u00e9 '


def _long(value: Any) -> None:
    told = value if isinstance(value, dict) else value[-1]
    told["response" if "response" in told else "result"] = _LONG * 4000


@pytest.mark.parametrize(
    "sample", ["claude_json_maxturns.json", "gemini_json_text.json", "qwen_json_tool.json", "claude_stream_tool.jsonl"]
)
def test_a_long_answer_whose_middle_was_not_kept_is_read_all_the_same(sample: str) -> None:
    """Row H18 beside M1: a capture keeps a head and a tail."""
    name, expected = SAID[sample]
    content = _changed(sample, _long)
    place = content.index(b"a long")
    period = len(json.dumps(_LONG)) - 2
    lost = 0
    for head in range(place + 20_000, place + 20_000 + period):
        kept = content[:head] + b"\n[... 12345 bytes not kept ...]\n" + content[head + 12345 :]
        claimed = _parsed(name, kept)
        if claimed.ended == "incomplete":
            lost += 1
            assert claimed.detail
            assert "middle was not kept" in claimed.detail
        else:
            assert (claimed.ended, claimed.usage, claimed.limit) == (expected.ended, expected.usage, expected.limit)
    assert lost == 3  # where the tail begins with what a backslash in the gap stood before: two quotes and a backslash


def test_an_array_whose_middle_was_not_kept_still_ends_with_its_result() -> None:
    """Row H18 beside M1: qwen's events are one array."""
    content = (SAMPLES / "qwen_json_tool.json").read_bytes()
    kept = content[:100] + b"\n[... 2000 bytes not kept ...]\n" + content[-1200:]
    assert b'{"type":"result"' in content[-1200:]
    assert parse("qwen-json", kept, {}) == SAID["qwen_json_tool.json"][1]
    assert parse("qwen-json", kept.replace(b'{"type":"result"', b'{"type":"other"'), {}).ended == "incomplete"


def test_a_line_is_ended_by_a_newline_alone() -> None:
    """Row M1: JavaScript writes U+2028 and U+0085 into a string as they are."""
    *before, last = (SAMPLES / "claude_stream_tool.jsonl").read_text().splitlines()
    told = json.dumps(json.loads(last) | {"result": "a\u2028b\u0085c"}, ensure_ascii=False)
    assert parse("claude-stream-json", told.encode(), {}).ended == "complete"
    # The tail may begin with it.
    kept = before[0][:100] + "\n[... 999 bytes not kept ...]\n" + told
    assert parse("claude-stream-json", kept.encode(), {}).ended == "complete"


def test_steps_that_were_not_kept_leave_no_sum() -> None:
    """Row M4: opencode's figures are a step's each."""
    lines = (SAMPLES / "opencode_json_tool.jsonl").read_bytes().splitlines(keepends=True)
    kept = lines[0][:50] + b"\n[... 999 bytes not kept ...]\n" + b"".join(lines[-3:])
    assert parse("opencode-jsonl", kept, {}) == Claimed("complete")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"terminal_reason": "api_error", "is_error": False}, ("provider_failed", None)),
        (
            {"is_error": True, "subtype": "success", "terminal_reason": None, "api_error_status": 529},
            ("provider_failed", None),
        ),
        ({"is_error": True, "subtype": "error_during_execution", "terminal_reason": "error"}, ("complete", None)),
        ({"is_error": True, "subtype": "error_max_turns", "terminal_reason": "max_turns"}, ("complete", "turns")),
        ({"is_error": True, "subtype": "error_max_budget_usd", "terminal_reason": None}, ("complete", "cost")),
        ({"is_error": False, "subtype": "error_max_turns", "terminal_reason": "completed"}, ("complete", None)),
    ],
)
def test_claude_is_judged_by_is_error_and_terminal_reason(
    change: dict[str, Any], expected: tuple[str, str | None]
) -> None:
    """Row M1: never by `subtype` success."""
    content = _changed("claude_json_bare.json", lambda told: told.update(change))
    claimed = parse("claude-json", content, {})
    assert (claimed.ended, claimed.limit) == expected


def test_claudes_cost_counts_only_where_every_model_has_a_list_price() -> None:
    """Row M2."""

    def second(told: Any) -> None:
        told["modelUsage"]["other"] = dict(told["modelUsage"]["claude-sonnet-4-5"], costBasis="unknown")

    two = parse("claude-json", _changed("claude_json_maxturns.json", second), {})
    assert two.cost_usd is None
    assert two.usage == _usage(4300, 1600, 300, 74)
    none = parse("claude-json", _changed("claude_json_maxturns.json", lambda told: told.update(modelUsage={})), {})
    assert (none.cost_usd, none.usage) == (None, ONE)


def test_claudes_json_may_be_an_array_of_its_stream() -> None:
    """Row M3: what `--verbose` makes of it."""
    lines = (SAMPLES / "claude_stream_tool.jsonl").read_text().splitlines()
    content = f"[{','.join(lines)}]".encode()
    assert parse("claude-json", content, {}) == SAID["claude_stream_tool.jsonl"][1]


@pytest.mark.parametrize(
    ("error", "ended", "limit"),
    [
        ({"type": "FatalTurnLimitedError", "message": "Reached max session turns", "code": 53}, "complete", "turns"),
        ({"type": "ApiError", "message": "got status: 503", "code": 503}, "provider_failed", None),
        ({"type": "Error", "message": "fetch failed sending request", "code": 1}, "provider_failed", None),
        ({"type": "FatalInputError", "message": "No input provided", "code": 42}, "incomplete", None),
        ({}, "incomplete", None),
    ],
)
def test_geminis_errors_are_the_providers_a_limit_or_its_own(
    error: dict[str, Any], ended: str, limit: str | None
) -> None:
    """Row M1."""
    claimed = parse("gemini-json", json.dumps({"session_id": "x", "error": error}, indent=2).encode(), {})
    assert (claimed.ended, claimed.limit) == (ended, limit)
    assert claimed.detail


def test_geminis_error_stands_on_stderr() -> None:
    """Row M1: behind the trace of a stack."""
    error = {"type": "Error", "message": '{"error":{"code":401}}', "code": 401}
    said = (
        b"    at async Turn.run (chunk.js:1:24) {\n  status: 401\n}\n" + json.dumps({"error": error}, indent=2).encode()
    )
    assert parse("gemini-json", b"", {"stderr": said}) == Claimed("provider_failed", detail='{"error":{"code":401}}')
    whole = (SAMPLES / "gemini_json_text.json").read_bytes()
    assert parse("gemini-json", whole, {"stderr": said}).ended == "complete"


def test_geminis_thoughts_and_tools_are_counted() -> None:
    """Row M4: candidates leave thoughts out, prompt what tools put in."""

    def more(told: Any) -> None:
        told["stats"]["models"]["gemini-2.5-flash"]["tokens"].update(thoughts=13, tool=50)

    assert parse("gemini-json", _changed("gemini_json_text.json", more), {}).usage == _usage(1250, 800, 0, 50, 13)


@pytest.mark.parametrize(
    ("lines", "ended", "limit"),
    [
        (
            [{"type": "turn.failed", "error": {"message": "stream disconnected before completion"}}],
            "provider_failed",
            None,
        ),
        (
            [{"type": "turn.failed", "error": {"message": "ran out of room in the model's context window"}}],
            "complete",
            "context",
        ),
        ([{"type": "error", "message": "Reconnecting... 1/5"}], "incomplete", None),
        (
            [{"type": "error", "message": "Reconnecting... 1/5"}, {"type": "turn.completed", "usage": None}],
            "complete",
            None,
        ),
        ([{"type": "turn.completed"}, {"type": "turn.started"}], "incomplete", None),
    ],
)
def test_codex_is_judged_by_how_its_last_turn_ended(lines: list[Any], ended: str, limit: str | None) -> None:
    """Row M1."""
    content = "\n".join(map(json.dumps, [{"type": "turn.started"}, *lines])).encode()
    claimed = parse("codex-jsonl", content, {})
    assert (claimed.ended, claimed.limit, claimed.usage) == (ended, limit, None)


@pytest.mark.parametrize(
    ("error", "ended", "limit"),
    [
        ({"name": "APIError", "data": {"message": "Overloaded", "statusCode": 529}}, "provider_failed", None),
        ({"name": "MessageAbortedError", "data": {}}, "incomplete", None),
        ({"name": "MessageOutputLengthError", "data": {}}, "complete", "output"),
    ],
)
def test_opencodes_last_event_says_how_it_ended(error: dict[str, Any], ended: str, limit: str | None) -> None:
    """Row M1."""
    content = (SAMPLES / "opencode_json_tool.jsonl").read_bytes() + json.dumps(
        {"type": "error", "error": error}
    ).encode()
    claimed = parse("opencode-jsonl", content, {})
    assert (claimed.ended, claimed.limit, claimed.usage) == (ended, limit, _usage(2400, 1600, 0, 74))


def test_opencodes_free_model_is_one_without_a_price_and_its_reasoning_is_counted_once() -> None:
    """Rows M2, M4."""

    def step(reasoning: int, output: int, total: int | None) -> bytes:
        tokens = {
            "total": total,
            "input": 400,
            "output": output,
            "reasoning": reasoning,
            "cache": {"write": 3, "read": 800},
        }
        part = {"reason": "stop", "cost": 0, "tokens": tokens}
        return json.dumps({"type": "step_finish", "part": part}).encode()

    expected = Claimed("complete", _usage(1203, 800, 3, 50, 13))
    assert parse("opencode-jsonl", step(13, 37, None), {}) == expected
    assert parse("opencode-jsonl", step(13, 37, 1253), {}) == expected
    assert parse("opencode-jsonl", step(13, 50, 1253), {}) == expected


@pytest.mark.parametrize(
    ("change", "ended", "limit"),
    [
        ({"is_error": True, "subtype": "error_max_turns"}, "complete", "turns"),
        (
            {"is_error": True, "subtype": "error_during_execution", "error": {"message": "Connection error."}},
            "provider_failed",
            None,
        ),
        (
            {"is_error": True, "subtype": "error_during_execution", "error": {"message": "no such tool"}},
            "complete",
            None,
        ),
        ({"result": "[API Error: 429 rate limit]"}, "provider_failed", None),
    ],
)
def test_qwen_is_judged_by_its_result(change: dict[str, Any], ended: str, limit: str | None) -> None:
    """Row M1: it prints an error of the server's as its answer, too."""
    claimed = parse("qwen-json", _changed("qwen_json_tool.json", lambda told: told[-1].update(change)), {})
    assert (claimed.ended, claimed.limit) == (ended, limit)


def test_qwens_reasoning_is_counted_once() -> None:
    """Row M4: an OpenAI server counts it with the output, Gemini's does not."""

    def more(total: int) -> Callable[[Any], None]:
        def change(told: Any) -> None:
            told[-1]["stats"]["models"]["fake-model"]["tokens"].update(thoughts=13, total=total)

        return change

    within, apart = (parse("qwen-json", _changed("qwen_json_tool.json", more(total)), {}) for total in (2474, 2487))
    assert within.usage == _usage(2400, 1600, 0, 74, 13)
    assert apart.usage == _usage(2400, 1600, 0, 87, 13)


@pytest.mark.parametrize(
    ("status", "ended", "limit"),
    [
        ("LimitsExceeded", "complete", "steps or cost"),
        ("RateLimitError", "provider_failed", None),
        ("APIConnectionError", "provider_failed", None),
        ("ContextWindowExceededError", "complete", "context"),
        ("UserInterruption", "incomplete", None),
        ("ZeroDivisionError", "complete", None),
        ("", "incomplete", None),
    ],
)
def test_minis_exit_status_is_in_its_trajectory(status: str, ended: str, limit: str | None) -> None:
    """Row M5: the program itself ends with 0."""
    trajectory = json.loads((SAMPLES / "mini_typo_small.json").read_text())
    trajectory["info"]["exit_status"] = status
    content = json.dumps(trajectory).encode()
    claimed = parse("mini-trajectory", b"anything", {"output_file": content})
    assert (claimed.ended, claimed.limit, claimed.usage) == (ended, limit, _usage(1016, 738, 0, 84))
    # Too long to be read whole: how it ended stands first, what it used is not known.
    cut = parse("mini-trajectory", b"", {"output_file": content[: len(content) // 2]})
    assert (cut.ended, cut.limit, cut.usage) == (ended, limit, None)


def test_minis_answers_without_a_command_are_counted_and_a_call_without_an_answer_leaves_no_sum() -> None:
    """Rows M4, M5."""
    trajectory = json.loads((SAMPLES / "mini_typo_small.json").read_text())
    trajectory["messages"][2]["role"] = "user"
    trajectory["messages"][-1]["extra"]["exception_str"] = "no such key"
    trajectory["info"]["exit_status"] = "AuthenticationError"
    claimed = parse("mini-trajectory", b"", {"output_file": json.dumps(trajectory).encode()})
    assert claimed == Claimed("provider_failed", _usage(1016, 738, 0, 84), None, "no such key")
    trajectory["info"]["model_stats"]["api_calls"] = 5
    assert parse("mini-trajectory", b"", {"output_file": json.dumps(trajectory).encode()}).usage is None


def test_a_cost_of_nothing_is_an_unknown_one() -> None:
    """Row M2."""
    trajectory = json.loads((SAMPLES / "mini_typo_small.json").read_text())
    trajectory["info"]["model_stats"]["instance_cost"] = 0.0031
    claimed = parse("mini-trajectory", b"", {"output_file": json.dumps(trajectory).encode()})
    assert claimed.cost_usd == "0.0031"


@pytest.mark.parametrize(
    ("tail", "expected"),
    [
        (
            b"Tokens: 2.4k sent, 159 received. Cost: $0.0031 message, $0.0042 session.\n",
            Claimed("complete", None, "0.0042"),
        ),
        (b"Tokens: 100 sent, 50 cache hit, 9 received.\n", Claimed("complete")),
        (b"litellm.APIConnectionError: Connection refused\nRetrying in 0.2 seconds...\n", "provider_failed"),
        (b"litellm.InternalServerError: overloaded\nTokens: 5 sent, 5 received.\n", "complete"),
        (b"Model openai/local has hit a token limit!\n", "context"),
        (b"Only 3 reflections allowed, stopping.\n", "reflections"),
        (b"ValueError: shown by the model\n", "complete"),
    ],
)
def test_aider_says_what_went_wrong_after_its_last_count(tail: bytes, expected: Claimed | str) -> None:
    """Rows M1, M4: rounded figures are no figures."""
    claimed = parse("aider-text", (SAMPLES / "aider_maxof.txt").read_bytes() + b"\n" + tail, {})
    if isinstance(expected, Claimed):
        assert claimed == expected
    else:
        assert expected in {claimed.ended, claimed.limit}
