"""Which recorded exchange answers, and at which level."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.gateway.exchange import WireForm
from appliance.gateway.matching import Diverged, Match, Own, Replay
from tests.cassette_builder import JSON_HEADERS, TARGETS, asked, cassette, exchange, replay, route

FORMS: tuple[WireForm, ...] = ("anthropic", "openai-chat", "openai-responses", "gemini")


def conversation(form: WireForm, given: str = "a.py", command: str = "ls", prompt: str = "mend it", **more: Any) -> Any:
    """A prompt, one call of a tool, and what it gave."""
    arguments = {"command": command}
    tools = {"model": "m", "tools": [{"name": "bash"}], **more}
    if form == "anthropic":
        call = {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": arguments}
        result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": given}
        turns = [("user", prompt), ("assistant", [call]), ("user", [result])]
        return {**tools, "messages": [{"role": role, "content": content} for role, content in turns]}
    if form == "openai-chat":
        function = {"name": "bash", "arguments": json.dumps(arguments)}
        called = {"role": "assistant", "tool_calls": [{"id": "call_1", "type": "function", "function": function}]}
        result = {"role": "tool", "tool_call_id": "call_1", "content": given}
        return {**tools, "messages": [{"role": "user", "content": prompt}, called, result]}
    if form == "openai-responses":
        call = {"type": "function_call", "call_id": "call_1", "name": "bash", "arguments": json.dumps(arguments)}
        result = {"type": "function_call_output", "call_id": "call_1", "output": given}
        return {**tools, "input": [{"role": "user", "content": prompt}, call, result]}
    call = {"functionCall": {"name": "bash", "args": arguments}}
    result = {"functionResponse": {"name": "bash", "response": {"output": given}}}
    turns = [("user", {"text": prompt}), ("model", call), ("user", result)]
    return {**tools, "contents": [{"role": role, "parts": [part]} for role, part in turns]}


def answered(found: Replay, request: Any) -> Match:
    match = found.answer(request, route(request))
    assert isinstance(match, Match), match
    return match


def diverged(found: Replay, request: Any) -> Diverged:
    match = found.answer(request, route(request))
    assert isinstance(match, Diverged), match
    return match


def test_the_same_bytes_are_exact_and_each_answer_is_given_once_in_order(tmp_path: Path) -> None:
    """Row M14: to the next unused exchange that matches; what nobody asks for again is reported."""
    one, other = asked({"n": 1}), asked({"n": 2})
    found = replay(one, one, other, folder=tmp_path)
    first, second = answered(found, one), answered(found, one)
    assert [(match.order, match.level) for match in (first, second)] == [(0, "exact"), (1, "exact")]
    assert second.recorded.response.read_bytes() == b"answer 1"
    assert found.unused == (2,)
    assert diverged(found, one).closest == 2
    assert (found.unused, found.lowest) == ((2,), "exact")


def test_requests_at_the_same_time_match_by_content(tmp_path: Path) -> None:
    """Row M14: whatever order they come in."""
    requests = [asked({"n": at}) for at in range(5)]
    found = replay(*requests, folder=tmp_path)
    assert [answered(found, requests[at]).order for at in (3, 0, 4, 2, 1)] == [3, 0, 4, 2, 1]
    assert found.unused == ()


@pytest.mark.parametrize(
    ("headers", "level"),
    [
        ((("content-type", "application/json"), ("user-agent", "agent/2.0"), ("x-stainless-os", "Linux")), "exact"),
        ((("accept", "text/event-stream"), ("content-type", "application/json")), "exact"),
        ((*JSON_HEADERS, ("anthropic-beta", "thinking")), None),
        ((*JSON_HEADERS, ("anthropic-version", "2023-06-01")), None),
        ((("content-type", "text/plain"),), None),
    ],
)
def test_only_headers_that_an_answer_depends_on_are_compared(tmp_path: Path, headers: Any, level: str | None) -> None:
    """Row M14: clients, clocks and traces in headers are nobody's question (docs/replay.md lists those that count)."""
    request = asked({"n": 1})
    match = replay(request, folder=tmp_path).answer(replace(request, headers=headers), route(request))
    assert (match.level if isinstance(match, Match) else None) == level


@pytest.mark.parametrize("change", ["method", "target", "body"])
def test_another_method_target_or_body_is_no_match(tmp_path: Path, change: str) -> None:
    """Row M14: one byte outside the masked places diverges."""
    request = asked({"prompt": "mend a.py"})
    other = {
        "method": replace(request, method="PUT"),
        "target": replace(request, target="/v1/messages?beta=true"),
        "body": replace(request, body=request.body.replace(b"a.py", b"b.py")),
    }[change]
    assert isinstance(replay(request, folder=tmp_path).answer(other, route(request)), Diverged)


def test_the_order_of_json_members_and_a_content_encoding_count_for_exact_alone(tmp_path: Path) -> None:
    """Row M14: order of keys is bytes for `exact`; the masked forms are canonical."""
    one, other = asked(b'{"a": 1, "b": {"c": 2, "d": 3}}'), asked(b'{"b":{"d":3,"c":2},"a":1}')
    match = answered(replay(one, folder=tmp_path), other)
    assert (match.level, match.covered) == ("masked", ())
    squeezed = replace(one, headers=(*JSON_HEADERS, ("content-encoding", "gzip")), body=gzip.compress(one.body))
    assert answered(replay(one, folder=tmp_path), squeezed).level == "masked"


def test_a_member_that_stands_twice_is_no_json_of_one_meaning(tmp_path: Path) -> None:
    """Row M14: what two readers read differently is compared as the text that it is."""
    assert isinstance(
        replay(asked(b'{"a": 2}'), folder=tmp_path).answer(asked(b'{"a": 1, "a": 2}'), route(asked({}))), Diverged
    )


def test_what_the_masks_covered_is_listed_up_to_a_bound_and_drives_no_terminal(tmp_path: Path) -> None:
    """Row M14: the ones too that are not listed are mentioned."""
    days = [f"2026-{month:02}-{day:02}" for month in range(1, 13) for day in range(1, 29)]
    one, other = (
        asked({"messages": [{"role": "user", "content": f"{day}{more}"} for day in days]}, "anthropic")
        for more in ("", "T00:00:00Z")
    )
    match = answered(replay(one, folder=tmp_path), other)
    assert match.level == "masked"
    assert len(match.covered) == 201
    assert match.covered[0] == "$.messages[0]: masked by date: recorded '2026-01-01', now '2026-01-01T00:00:00Z'"
    assert match.covered[-1] == "$.messages[200]: masked by date; no more places are listed"
    session, esc = ("ses_2b7f1c9bdfffeXk3Yq9ZtPq4Ab", "\x1b[2J" * 40)
    one, other = (asked({"metadata": {"user_id": of}, "messages": []}, "anthropic") for of in (session, esc))
    (told,) = answered(replay(one, folder=tmp_path), other).covered
    assert told.startswith(f"$.metadata: masked by agent-ids: recorded '{session}', now '\\x1b[2J")
    assert len(told) < 400
    odd = "\n$.forged: masked by date: recorded"
    one, other = (asked({odd: [at], "messages": []}, "anthropic") for at in ("2026-11-30", "2026-12-01"))
    (told,) = answered(replay(one, folder=tmp_path), other).covered
    assert told == f"$.{odd!r}[0]: masked by date: recorded '2026-11-30', now '2026-12-01'"


@pytest.mark.parametrize("form", FORMS)
def test_what_tools_gave_may_differ_in_a_structural_match_and_is_listed(tmp_path: Path, form: WireForm) -> None:
    """Row M14: same roles, ids and calls in all four forms; each difference is told once, and the level is kept."""
    recorded = asked(conversation(form, given="12 files\nin a folder"), form)
    found = replay(recorded, recorded, folder=tmp_path)
    now = asked(conversation(form, given="12 files\nin another"), form)
    match = answered(found, now)
    assert (match.level, found.lowest) == ("structural", "structural")
    (difference,) = match.differences
    assert "'in a folder" in difference
    assert "now 'in another" in difference
    assert answered(found, now).differences == ()
    lower = replay(recorded, recorded, folder=tmp_path)
    assert [answered(lower, one).level for one in (now, recorded)] == ["structural", "exact"]
    assert lower.lowest == "structural"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "change", [{"command": "ls -a"}, {"prompt": "mend it all"}, {"model": "n"}, {"tools": [{"name": "sh"}]}]
)
def test_another_call_prompt_model_or_tool_is_below_structural(tmp_path: Path, form: WireForm, change: Any) -> None:
    """Row M14: then the trial ends as replay_diverged, with a diff of the place."""
    found = replay(asked(conversation(form), form), folder=tmp_path)
    now = diverged(found, asked(conversation(form, **change), form))
    assert now.closest == 0
    assert "\n-" in now.diff
    assert "\n+" in now.diff
    assert found.lowest is None


def test_an_agent_without_tools_says_what_it_saw_as_the_user(tmp_path: Path) -> None:
    """Row M14, structural: turns of the user behind the model's first are results; its own prompt is not."""

    def turns(prompt: str, seen: str) -> Any:
        said = [("user", prompt), ("assistant", "```bash\npytest\n```"), ("user", seen)]
        return asked({"messages": [{"role": role, "content": text} for role, text in said]}, "openai-chat")

    recorded = turns("mend it", "Exit code 1. Output:\nfile 12")
    assert answered(replay(recorded, folder=tmp_path), turns("mend it", "Exit code 1. Output:\nfile 13")).level == (
        "structural"
    )
    diverged(replay(recorded, folder=tmp_path), turns("mend that", "Exit code 1. Output:\nfile 12"))


def test_ids_that_changed_places_are_no_match(tmp_path: Path) -> None:
    """Row M14: an id may be another, but what was one id must be one again: results belong to their calls."""

    def two(first: str, second: str) -> Any:
        calls = [{"id": name, "type": "function", "function": {"name": name[0], "arguments": "{}"}} for name in "ab"]
        results = [{"role": "tool", "tool_call_id": name, "content": "done"} for name in (first, second)]
        return asked({"tools": [1], "messages": [{"role": "assistant", "tool_calls": calls}, *results]}, "openai-chat")

    found = replay(two("a", "b"), folder=tmp_path)
    diverged(found, two("b", "a"))
    renamed = json.loads(two("a", "b").body.replace(b'"a"', b'"x"').replace(b'"name": "x"', b'"name": "a"'))
    assert answered(found, asked(renamed, "openai-chat")).level == "masked"


def test_the_gateways_own_answers_are_neither_replayed_nor_missed(tmp_path: Path) -> None:
    """Row M13: what the gateway says by itself is said anew; a refusal for a budget is replayed."""
    listed = exchange(0, asked(b"", method="GET", target="/v1/models"))
    lost = exchange(1, asked({}, target="/telemetry"), refused="route")
    other = exchange(2, asked({"model": "other"}), refused="model")
    budget = exchange(3, asked({"model": "m"}), status=429, refused="budget")
    found = Replay(cassette([(one, b"") for one in (listed, lost, other, budget)], tmp_path))
    assert isinstance(found.answer(lost.asked, None), Own)
    assert isinstance(found.answer(listed.asked, route(listed.asked)), Own)
    assert found.unused == (3,)
    assert answered(found, budget.asked).recorded.told.status == 429


def test_a_diff_shows_the_place_and_neither_fills_nor_drives_a_terminal(tmp_path: Path) -> None:
    """Row M14: canonical JSON, masked, against the closest request that was recorded, at most 64 Ki characters."""
    history = [{"role": "user", "content": f"turn {at}\nof 2026-11-30"} for at in range(200)]
    near = asked({"messages": [*history, {"role": "user", "content": "and then\nthe end"}]})
    found = replay(asked({"messages": history[:3]}), near, folder=tmp_path)
    now = asked({"messages": [*history, {"role": "user", "content": "and then\nthe \x1b[2J end"}]})
    said = diverged(found, now)
    assert said.closest == 1
    assert said.diff.startswith("--- recorded 00001\n+++ asked now\n@@ ")
    assert '\n-the end"' in said.diff
    assert '\n+the \\u001b[2J end"' in said.diff
    assert len(said.diff.splitlines()) < 20
    large = diverged(
        found, asked({"messages": [{"role": "user", "content": f"{at} {'x' * 150}"} for at in range(20_000)]})
    )
    assert len(large.diff) <= 64 * 1024


def test_a_replay_of_nothing_diverges_at_once(tmp_path: Path) -> None:
    """Row R3: a trial that asked nothing when it was recorded asks nothing when it is replayed."""
    said = diverged(Replay(cassette([], tmp_path)), asked({"n": 1}))
    assert said.closest is None
    assert '+  "n": 1' in said.diff


def test_every_target_is_one_of_its_form() -> None:
    """The requests of these tests are those of the four forms."""
    assert [route(asked({}, form)).form for form in TARGETS] == list(TARGETS)
