"""The check that holds one trial at a time gives the verdict of the one that holds the whole."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from attest import canonical
from attest.canonical_check import check_canonical

NUMBERS = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(-1e6, 1e6)
KEYS = st.text(st.characters(max_codepoint=126), max_size=6)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=12),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(KEYS, children, max_size=4),
    max_leaves=12,
)
RECORDS = st.dictionaries(KEYS, st.lists(st.dictionaries(KEYS, JSON, max_size=3), max_size=4) | JSON, max_size=4)


def verdict(check: Any, content: bytes) -> str | None:
    try:
        check(content)
    except canonical.NotCanonical as error:
        return str(error)
    return None


def assert_alike(content: bytes) -> None:
    assert verdict(check_canonical, content) == verdict(canonical.loads_canonical, content)


@given(RECORDS)
def test_canonical_bytes_pass(value: dict[str, Any]) -> None:
    """Row V1: what is canonical is taken, whatever it holds."""
    check_canonical(canonical.dumps(value))


@given(RECORDS, st.data())
@example({"trials": [{}]}, None)
def test_bytes_with_a_change_get_the_verdict_of_the_whole(value: dict[str, Any], data: st.DataObject | None) -> None:
    """A byte that goes, comes or changes is refused in the same words, or taken by both."""
    content = canonical.dumps(value)
    if data is None:
        return
    at = data.draw(st.integers(0, len(content)))
    cut = data.draw(st.integers(0, 3))
    piece = data.draw(st.sampled_from((b"", b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"0", b" ", b"{}", b'""')))
    assert_alike(content[:at] + piece + content[at + cut :])


@pytest.mark.parametrize(
    "content",
    [
        b'{"a":[1{"b":1}]}',
        b'{"a":["x"{"b":1}]}',
        b'{"a":[{}{}]}',
        b'{"a":[{"b":1 }]}',
        b'{"a":[{"b":1,"b":1}]}',
        b'{"a":[{"c":1,"b":1}]}',
        b'{"a":[{}],"a":[{}]}',
        b'{"b":[{}],"a":[{}]}',
        b'{"a":[{"b":1}',
        b'{"a":[{"b":1]}',
        b'{"a":[{"b":"}]}',
        b'{"a":[{"b":1.0}]}',
        b'{"a":[{}],}',
        b'{"a":[{}]}}',
        b'{"a":[{}]}\n',
        b"",
        b'{"a":[{"b":' + b"[" * 62 + b"]" * 62 + b"}]}",
        b'{"a":[{"b":' + b"[" * 61 + b"]" * 61 + b"}]}",
    ],
)
def test_what_hides_between_the_pieces_is_found(content: bytes) -> None:
    """Pieces that are canonical alone do not make a whole that is (row V1)."""
    assert_alike(content)
