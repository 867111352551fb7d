"""The quick way to canonical bytes gives the answers of the slow one: same value, same form, same refusals."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from attest import canonical
from attest.canonical import NotCanonical

_NUMBERS = (
    st.integers(-(2**54), 2**54)
    | st.floats()
    | st.floats(1e-9, 1e-2)
    | st.sampled_from([0.0, -0.0, 1.0, 1e-4, 1e-5, 1e-6, 1e-7, 1e15, 1e16, 1e21, 2.0**53, 0.1, 123456789.5])
)
_TEXT = st.text(max_size=12) | st.sampled_from(
    ["\ud800", "\\", '\\"', "[{", "]}", "e-05", "1.0,", "\x7f", "\x1f", "\u2028"]
)
_KEYS = st.text(max_size=6) | st.sampled_from(["a", "b", "é", "\U0001f600", "\ue000", "_"])
VALUES = st.recursive(
    st.none() | st.booleans() | _NUMBERS | _TEXT,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(_KEYS, inner, max_size=5),
    max_leaves=20,
)
_PIECES = st.sampled_from(
    ['{"a":1}', '{"a":1,"a":1}', '{"b":1,"a":2}', "[1.0]", "[1e5]", "[-0]", "[0.00001]", "[1E-5]", "[NaN]", "[1e400]",
     "[0.0000001]", '["0.0000001"]',
     "[9007199254740993]", "[9007199254740991]", '["\\u0041"]', '["\\u001F"]', '["\\u001f"]', '["\\/"]', "[ 1]", "[]]",
     '{"é":"é"}', '{"a":"é"}', '["\\ud800"]', "\ufeff{}", "null", "1.0", "", '["', "[" * 64 + "]" * 64,
     "[" * 65 + "]" * 65, "[" * 200, '{"a":' * 65 + "1" + "}" * 65, '["' + "[" * 99 + '"]', '["\\"' + "[" * 99 + '"]',
     '["\\\\",' + "[" * 64 + "]" * 64 + "]", "[1" + "0" * 5000 + "]", "[" * 100_000]
)  # fmt: skip


def _told(ask: Any, *words: Any) -> tuple[str, str]:
    """What came of it, with every number's own kind."""
    try:
        return "value", repr(ask(*words))
    except NotCanonical as refusal:
        return "refused", str(refusal)


def _slow_canonical(content: bytes) -> Any:
    value = canonical.loads(content)
    form = canonical._slow_form(value)
    if form != content:
        raise NotCanonical("not in canonical form")
    return value


def _agree(content: bytes) -> None:
    slow = _told(_slow_canonical, content)
    for long in (canonical._LONG, 0):  # bytes, from which on the compiled reader and writer are asked
        with patch.object(canonical, "_LONG", long):
            quick = _told(canonical.loads_canonical, content)
        assert quick == slow or (quick[0] == slow[0] == "refused" and "not in canonical form" in quick[1])


@given(VALUES)
@example({"a": True, "b": [1, 0, False]})
@example([{1: 2}])
@example([(1, 2)])
@example([{"1": 1, 1: 2}])
def test_a_value_has_the_same_form_by_both_ways(value: Any) -> None:
    """`dumps` gives the bytes of rfc8785, and refuses what it refuses with the same words."""
    assert _told(canonical.dumps, value) == _told(canonical._slow_form, value)


@given(VALUES)
def test_canonical_bytes_are_read_the_same_by_both_ways(value: Any) -> None:
    """And so are bytes that python's own writer makes, which are canonical only sometimes (row V21)."""
    with suppress(NotCanonical):
        _agree(canonical._slow_form(value))
    _agree(json.dumps(value, separators=(",", ":"), sort_keys=True).encode())
    _agree(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(errors="replace"))


@given(VALUES, st.data())
def test_bytes_with_one_place_changed_are_read_the_same_by_both_ways(value: Any, data: st.DataObject) -> None:
    """A byte put in, taken out or changed anywhere in canonical bytes (rows V21, V24)."""
    content = json.dumps([value], separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode(errors="replace")
    at = data.draw(st.integers(0, len(content) - 1))
    put = data.draw(st.binary(max_size=2) | st.sampled_from([b"0", b"1", b".0", b"e5", b" ", b"\\", b'"', b"[", b"]"]))
    taken = data.draw(st.integers(0, 2))
    _agree(content[:at] + put + content[at + taken :])


@given(st.lists(_PIECES, max_size=3))
def test_pieces_that_are_hard_to_read_are_read_the_same_by_both_ways(pieces: list[str]) -> None:
    """Alone, and one behind another (row V21)."""
    _agree("".join(pieces).encode(errors="surrogatepass"))
    _agree(f"[{','.join(pieces)}]".encode(errors="surrogatepass"))


def _deepest(content: bytes) -> int:
    """Brackets that are open at once, byte by byte."""
    depth = most = 0
    in_string = escaped = False
    for byte in content:
        if in_string:
            in_string, escaped = escaped or byte != 0x22, not escaped and byte == 0x5C
        elif byte == 0x22:
            in_string = True
        elif byte in b"[{":
            depth += 1
            most = max(most, depth)
        elif byte in b"]}":
            depth -= 1
    return most


@given(VALUES, st.integers(0, 70), st.booleans())
@example("[" * 99, 3, False)
@example("]" * 99, 65, False)
@example(['"[', "[[", '"', "]" * 70], 64, True)
def test_nesting_is_bounded_at_64_whatever_strings_hold(value: Any, around: int, objects: bool) -> None:
    """Depth is that of brackets outside strings (row V21)."""
    text = json.dumps(value, ensure_ascii=False)
    before, after = ('{"k":', "}") if objects else ("[", "]")
    content = (before * around + text + after * around).encode(errors="replace")
    if _deepest(content) <= canonical.MAX_DEPTH:
        canonical._refuse_deep_nesting(content)
    else:
        with pytest.raises(NotCanonical, match="nested deeper than 64"):
            canonical._refuse_deep_nesting(content)


def test_canonical_records_go_the_quick_way() -> None:
    """A record costs a few milliseconds to read; a test that both ways agree says nothing of which one was taken."""
    for content in (b'{"a":[1,2.5,"\\n",null,true],"b":{}}', '{"a":"é"}'.encode()):
        assert canonical._quick_value(content) == json.loads(content)
        assert canonical._quick_form(json.loads(content)) == content
        compiled = canonical._compiled()
        assert compiled is not None
        assert canonical._compiled_value(content, content.decode(), *compiled) == json.loads(content)


@given(st.dictionaries(_KEYS, VALUES, max_size=4))
@example({"a": [1e-5, 1e-7, 1e-10, "e-0", 123456.000001], "b": 1e-7, "c": 1})
@example({"é": 1, "e": [9007199254740993]})
def test_the_parts_of_an_object_have_the_form_of_any_value(value: dict[str, Any]) -> None:
    """`loads_canonical_parts` reads what `loads_canonical` reads, and refuses it with the same words; each part has its
    own canonical text."""
    content = json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode(errors="replace")
    with suppress(NotCanonical):
        content = canonical._slow_form(value)
    told = _told(lambda: canonical.loads_canonical_parts(content)[0])
    assert told == _told(canonical.loads_canonical, content)
    if told[0] == "value":
        read, parts = canonical.loads_canonical_parts(content)
        form = {
            key: tuple(canonical._slow_form(one).decode() for one in part)
            if isinstance(part, list)
            else canonical._slow_form(part).decode()
            for key, part in read.items()
        }
        assert parts == form


@given(st.integers(0, 70), st.sampled_from([[], {}, 1, "x", [1], {"a": []}]), st.booleans())
def test_what_is_written_is_read_again_however_deep(around: int, inside: Any, objects: bool) -> None:
    """`dumps` refuses the depth that `loads` refuses, empty containers included (row V21)."""
    value = inside
    for _ in range(around):
        value = {"a": value} if objects else [value]
    try:
        content = canonical.dumps(value)
    except NotCanonical as refusal:
        assert "nested deeper than 64" in str(refusal)
        assert _deepest(json.dumps(value).encode()) > canonical.MAX_DEPTH
    else:
        assert canonical.loads_canonical(content) == value
