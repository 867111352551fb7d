"""Prices: by list and date, to the last digit, and None where the lists say nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal, getcontext, localcontext
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from appliance.gateway.forms.answers import AnswerReader
from appliance.gateway.forms.routes import route_of
from appliance.gateway.prices import price, price_of, stamp
from appliance.gateway.usage import Counted, of_anthropic, total
from appliance.records.money import Usd, total_usd
from appliance.records.trial import Usage

SAMPLES = Path(__file__).parent.parent / "golden" / "agents"
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def _usage(inputs: int = 2150, read: int = 800, written: int = 150, output: int = 37, reasoning: int = 0) -> Usage:
    return Usage(
        input_tokens=inputs,
        cache_read_tokens=read,
        cache_write_tokens=written,
        output_tokens=output,
        reasoning_tokens=reasoning,
    )


def test_a_price_is_that_which_claude_takes_from_its_own_list() -> None:
    """Rows M2 and Prices: `costBasis: "list"` is a cross-check, to the last digit but its floats' noise."""
    told = json.loads((SAMPLES / "claude_json_maxturns.json").read_text())
    assert told["modelUsage"]["claude-sonnet-4-5"]["costBasis"] == "list"
    ours = price_of(of_anthropic(told["usage"]), "claude-sonnet-4-5", "anthropic", NOW)
    assert ours == "0.0049575"
    assert float(ours) == pytest.approx(told["total_cost_usd"], abs=1e-17)
    # Two exchanges of it, in a sum that is ours.
    stream = json.loads((SAMPLES / "claude_stream_tool.jsonl").read_text().splitlines()[-1])
    assert total_usd([ours, ours]) == "0.009915"
    assert float("0.009915") == pytest.approx(stream["total_cost_usd"], abs=1e-17)


def test_what_the_lists_do_not_know_has_no_price_and_never_costs_nothing() -> None:
    """Row Prices."""
    assert price(_usage(), "no-such-model", "anthropic", NOW) is None
    assert price(_usage(), "gpt-5", "anthropic", NOW) is None
    assert price(_usage(), "gpt-5", None, NOW) is None
    assert price(_usage(), "gpt-5", "local", NOW) is None
    assert price(_usage(), "gpt-5", "compatible", NOW) is None
    # A list with a price for one direction alone, and one without any, which its library takes for free.
    assert price(_usage(), "gemini-embedding-001", "google", NOW) is None
    assert price(_usage(), "gemma-3-27b-it", "google", NOW) is None
    # More from the cache than went in.
    assert price(_usage(inputs=100), "gpt-5", "openai", NOW) is None


def test_each_kind_of_token_has_its_own_price() -> None:
    """Row Prices: 3, 0.3, 3.75, 6 and 15 dollars a million."""

    def of(**counts: int) -> Decimal:
        found = price(
            _usage(**({"inputs": 0, "read": 0, "written": 0, "output": 0} | counts)),
            "claude-sonnet-4-5",
            "anthropic",
            NOW,
        )
        assert found is not None
        return Decimal(found) * 1_000_000

    assert of(inputs=1000) == 3000
    assert of(inputs=1000, read=1000) == 300
    assert of(inputs=1000, written=1000) == 3750
    assert of(output=1000) == 15000
    hour = price(_usage(1000, 0, 1000, 0), "claude-sonnet-4-5", "anthropic", NOW, cache_write_1h_tokens=1000)
    assert hour == "0.006"
    counted = Counted(_usage(1000, 0, 1000, 0), cache_write_1h_tokens=400)
    assert price_of(counted, "claude-sonnet-4-5", "anthropic", NOW) == "0.00465"


def test_a_price_is_that_of_its_day_and_of_its_requests_length() -> None:
    """Row Prices."""
    o3 = [price(_usage(1_000_000, 0, 0, 0), "o3", "openai", day) for day in (datetime(2025, 5, 1, tzinfo=UTC), NOW)]
    assert o3 == ["10", "2"]
    long, short = (price(_usage(tokens, 0, 0, 0), "gemini-2.5-pro", "google", NOW) for tokens in (400_000, 200_000))
    assert (short, long) == ("0.25", "1")


def test_what_tokens_do_not_pay_for_has_no_price() -> None:
    """Row Prices."""
    assert price_of(Counted(_usage(), unpriced="web searches"), "claude-sonnet-4-5", "anthropic", NOW) is None
    assert price_of(Counted(_usage()), "claude-sonnet-4-5", "anthropic", NOW) == "0.0049575"


def _answer(**changes: Any) -> dict[str, Any]:
    usage = {"input_tokens": 1000, "output_tokens": 100, **changes}
    return {"type": "message", "stop_reason": "end_turn", "content": [], "usage": usage}


def _response(*kinds: str) -> dict[str, Any]:
    return {
        "object": "response",
        "status": "completed",
        "output": [*({"type": kind, "id": "x"} for kind in kinds), {"type": "message", "content": []}],
        "usage": {"input_tokens": 1000, "output_tokens": 100},
    }


def _gemini(candidate: dict[str, Any] | None = None, **counts: Any) -> dict[str, Any]:
    return {
        "candidates": [{"finishReason": "STOP", "content": {"parts": [{"text": "x"}]}, **(candidate or {})}],
        "usageMetadata": {"promptTokenCount": 1000, "candidatesTokenCount": 100, **counts},
    }


def _chat(**message: Any) -> dict[str, Any]:
    return {
        "object": "chat.completion",
        "choices": [{"finish_reason": "stop", "message": {"content": "x", **message}}],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 100},
    }


_GEMINI = "/v1beta/models/gemini-2.5-flash:generateContent"
_PLACES: dict[str, tuple[str, str]] = {
    "/v1/messages": ("claude-opus-4-6", "anthropic"),
    "/v1/responses": ("gpt-5", "openai"),
    "/v1/chat/completions": ("gpt-4o", "openai"),
    _GEMINI: ("gemini-2.5-flash", "google"),
}
_CHARGED = [
    ("/v1/messages", _answer(server_tool_use={"web_search_requests": 1}), "web searches"),
    ("/v1/messages", _answer(server_tool_use={"code_execution_requests": 1}), "tools of the provider"),
    ("/v1/messages", _answer(speed="fast"), "speed fast"),
    ("/v1/messages", _answer(inference_geo="us"), "inference in us"),
    *(
        ("/v1/responses", _response(kind), kind)
        for kind in ("web_search_call", "image_generation_call", "code_interpreter_call", "file_search_call")
    ),
    ("/v1/chat/completions", _chat(annotations=[{"type": "url_citation"}]), "web searches"),
    (_GEMINI, _gemini({"groundingMetadata": {"webSearchQueries": ["a"]}}), "web searches"),
    (_GEMINI, _gemini(promptTokensDetails=[{"modality": "AUDIO", "tokenCount": 9}]), "audio tokens"),
    (_GEMINI, _gemini(candidatesTokensDetails=[{"modality": "IMAGE", "tokenCount": 9}]), "image tokens"),
    (_GEMINI, _gemini(serviceTier="priority"), "service tier priority"),
]
_PAID_BY_TOKENS = [
    ("/v1/messages", _answer(server_tool_use={"web_fetch_requests": 1, "web_search_requests": 0})),
    ("/v1/messages", _answer(speed="standard", inference_geo="global", service_tier="standard")),
    ("/v1/responses", _response("function_call", "custom_tool_call", "reasoning")),
    ("/v1/chat/completions", _chat(annotations=[])),
    (_GEMINI, _gemini(promptTokensDetails=[{"modality": "TEXT", "tokenCount": 1000}], trafficType="ON_DEMAND")),
    (_GEMINI, _gemini({"groundingMetadata": {}})),
]


def _read(target: str, content: bytes) -> Counted:
    found = route_of("POST", target)
    assert found is not None
    reader = AnswerReader(found, stream=False)
    for at in range(0, len(content), 7):
        reader.feed(content[at : at + 7])
    counted = reader.finish().counted
    assert counted is not None
    return counted


@pytest.mark.parametrize(("target", "document", "why"), _CHARGED)
@pytest.mark.parametrize("streamed", [False, True])
def test_what_a_provider_charges_for_beside_tokens_has_no_price(
    target: str, document: dict[str, Any], why: str, streamed: bool
) -> None:
    """Row Prices: null, with the reason, where docs/prices.md says it."""
    content = json.dumps(document).encode()
    if streamed:
        content = _streamed(target, document)
    counted = _read(target, content)
    assert why in str(counted.unpriced)
    assert price_of(counted, *_PLACES[target], NOW) is None


@pytest.mark.parametrize(("target", "document"), _PAID_BY_TOKENS)
@pytest.mark.parametrize("streamed", [False, True])
def test_what_costs_its_tokens_alone_has_a_price(target: str, document: dict[str, Any], streamed: bool) -> None:
    """Row Prices: a call that the agent makes, a page that was fetched, a tier that is the standard one."""
    content = _streamed(target, document) if streamed else json.dumps(document).encode()
    assert price_of(_read(target, content), *_PLACES[target], NOW) is not None


def _streamed(target: str, document: dict[str, Any]) -> bytes:
    """The same as its form's events."""
    if target == "/v1/messages":
        events = [
            {"type": "message_start", "message": {"usage": {"input_tokens": 1000, "output_tokens": 1}}},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": document["usage"]},
            {"type": "message_stop"},
        ]
    elif target == "/v1/responses":
        events = [{"type": "response.output_item.done", "item": item} for item in document["output"]]
        events.append({"type": "response.completed", "response": {**document, "output": []}})
    elif target == _GEMINI:
        events = [document]
    else:
        choice = document["choices"][0]
        events = [
            {"choices": [{"delta": choice["message"]}]},
            {"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": document["usage"]},
        ]
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


def test_a_model_that_searches_at_every_request_has_no_price() -> None:
    """Row Prices: the fee of the search is in no token."""
    assert price(_usage(), "gpt-4o-search-preview", "openai", NOW) is None
    assert price(_usage(), "gpt-4o", "openai", NOW) is not None


def test_a_price_is_money_of_the_records_whatever_the_precision_of_the_thread() -> None:
    """Row Prices: a decimal string without exponent."""
    money = TypeAdapter(Usd)
    with localcontext(prec=3):
        small = price(_usage(123_456_789, 1, 0, 7), "gpt-5-nano", "openai", NOW)
        assert getcontext().prec == 3
    assert small == "6.172842205"
    money.validate_python(small)
    assert money.validate_python(price(_usage(0, 0, 0, 0), "gpt-5", "openai", NOW)) == "0"


def test_the_stamp_names_the_lists_version() -> None:
    """Row Prices: it stands in the record."""
    assert (stamp().source, stamp().version) == ("genai-prices", version("genai-prices"))


def test_prices_are_loaded_by_whoever_asks_for_one() -> None:
    """Row Prices: a tenth of a second that no other command pays."""
    program = "import sys, appliance.gateway.prices; print('genai_prices' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "False"


def test_a_sum_of_usages_is_none_as_soon_as_one_is_missing() -> None:
    """Row M15."""
    assert total([_usage(), _usage()]) == _usage(4300, 1600, 300, 74)
    assert total([_usage(), None]) is None
    assert total([]) is None
    assert total([_usage(2**53 - 1, 0, 0, 0), _usage(1, 0, 0, 0)]) is None
