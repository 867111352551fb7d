"""Whatever a program prints, its parser ends soon and gives what a record can hold."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from appliance.records.money import Usd
from appliance.solvers.outputs.claimed import Claimed
from appliance.solvers.outputs.parsing import PARSERS, parse

SAMPLES = Path(__file__).parent.parent / "golden" / "agents"
_MONEY = TypeAdapter(Usd)
_WORST = (
    b"[\n" * 200_000,
    b'{"a":\n' * 200_000,
    b"{" * 2_000_000,
    b'{"type":"result","x":' + b"[" * 100_000,
    b'{"type":"result","usage":{"input_tokens":' + b"9" * 5000 + b"}}\n",
    b'"' * 1_000_000,
    b"\n" * 2_000_000,
    b"Tokens: 1 sent, 1 received.\n" * 50_000,
    b"litellm.Error: x\n" * 50_000,
    b"\\" * 1_000_000 + b"\n[... 5 bytes not kept ...]\n" + b"}" * 1000,
    b'\n[... 5 bytes not kept ...]\n{"type":"result"' * 20_000,
    b"Aider v\n" + b"a" * 2_000_000 + b"Error: ",
)


def _parsed(name: str, content: bytes) -> Claimed:
    claimed = parse(name, content, {"output_file": content})
    for text in (claimed.detail, claimed.limit):
        assert text is None or (len(text) <= 420 and text.encode() and "\n" not in text)
    assert claimed.ended == "complete" or claimed.detail
    if claimed.cost_usd is not None:
        _MONEY.validate_python(claimed.cost_usd)
    if claimed.usage is not None:
        claimed.usage.canonical()
        assert claimed.usage.cache_read_tokens + claimed.usage.cache_write_tokens <= claimed.usage.input_tokens
        assert claimed.usage.reasoning_tokens <= claimed.usage.output_tokens
    return claimed


@pytest.mark.parametrize("name", PARSERS)
@pytest.mark.parametrize("content", _WORST, ids=range(len(_WORST)))
def test_no_output_makes_its_parser_raise_or_wait(name: str, content: bytes) -> None:
    """Row M1: solutions print what they like."""
    _parsed(name, content)


_LEAF = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=8)
    | st.just("\ud800")
    | st.lists(st.none(), max_size=2)
    | st.builds(dict)  # each its own: another value may be put into it
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, each in inner for place in _places(each, (*path, key)))]


_DOCUMENTS = {
    "claude-json": "claude_json_maxturns.json",
    "claude-stream-json": "claude_json_maxturns.json",
    "gemini-json": "gemini_json_text.json",
    "qwen-json": "qwen_json_tool.json",
    "mini-trajectory": "mini_typo_small.json",
}


@settings(max_examples=200)
@given(st.sampled_from(sorted(_DOCUMENTS)), st.data())
def test_any_value_in_any_place_of_a_real_document_is_taken(name: str, draw: st.DataObject) -> None:
    """Rows M1, M4: figures that are none are no figures."""
    value = json.loads((SAMPLES / _DOCUMENTS[name]).read_text())
    places = [place for place in _places(value) if place]
    for place in draw.draw(st.lists(st.sampled_from(places), min_size=1, max_size=4)):
        target = value
        try:
            for key in place[:-1]:
                target = target[key]
            target[place[-1]] = draw.draw(_LEAF)
        except (KeyError, IndexError, TypeError):  # an earlier one took its place away
            continue
    _parsed(name, json.dumps(value).encode())


@settings(max_examples=150)
@given(
    st.sampled_from(["codex-jsonl", "opencode-jsonl", "claude-stream-json"]),
    st.lists(
        st.dictionaries(
            st.sampled_from(["type", "usage", "error", "part", "message"]),
            st.sampled_from(["turn.completed", "turn.failed", "step_finish", "error", "result"])
            | st.dictionaries(
                st.sampled_from(["tokens", "input_tokens", "output_tokens", "input", "cost", "reason", "message"]),
                _LEAF,
            )
            | _LEAF,
        ),
        max_size=5,
    ),
    st.binary(max_size=20),
)
def test_any_events_are_taken(name: str, events: list[Any], noise: bytes) -> None:
    """Row M1."""
    _parsed(name, noise + b"\n" + "\n".join(map(json.dumps, events)).encode())


@given(st.sampled_from(sorted(PARSERS)), st.binary(max_size=300))
def test_any_bytes_are_taken(name: str, content: bytes) -> None:
    """Row M1."""
    _parsed(name, content)


@given(st.decimals(min_value=Decimal(0), max_value=Decimal(10**11), places=9))
def test_a_cost_is_the_one_that_was_printed(cost: Decimal) -> None:
    """Row M2."""
    told = json.loads((SAMPLES / "claude_json_maxturns.json").read_text())
    content = json.dumps(told | {"total_cost_usd": "@"}).replace('"@"', str(cost)).encode()
    claimed = _parsed("claude-json", content)
    if Decimal(str(float(cost))) == cost:
        assert claimed.cost_usd is not None
        assert Decimal(claimed.cost_usd) == cost
