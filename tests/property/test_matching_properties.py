"""What holds of matching whatever is asked."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from appliance.gateway.masks import Masker, mask_text, masked_value, parsed, taken_apart
from appliance.gateway.matching import Diverged, Match
from tests.cassette_builder import asked, replay, route

_SAMPLES = st.sampled_from(
    [
        "2026-11-30T05:25:29.532Z",
        "Mon Nov 30 19:12:18 UTC 2026",
        "8a4ec680-7fd6-41df-aef7-33fb4057c895",
        "Process Group PGID: 17382",
        "-rw-r--r-- 1 user user 149 Nov 30 19:04 a.py",
        "/tmp/tmpab12cd34",
        "Linux abc 5.15.0-1052-aws #57 SMP",
        "127.0.0.1:8089",
        "passed in 0.05s",
        "1733000000.123",
        "12:34:56",
        "[1] 4711",
        "at 0x7f12ab34cd56",
        "commit 1a2b3c4d",
        "hostname: abc",
        "\n",
        " ",
        "\\n",
        '"',
    ]
)
_TEXTS = st.lists(st.one_of(_SAMPLES, st.text("0123456789abcfTZ:-./ \n<>", max_size=6)), max_size=6).map("".join)
_JSON: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-99, 99), _TEXTS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["a", "id", "user", "input", "call_id", "metadata", "messages"]), inner),
    ),
    max_leaves=6,
)


@given(_TEXTS)
@settings(deadline=None, max_examples=400)
def test_to_mask_twice_is_to_mask_once(text: str) -> None:
    """Row M14."""
    assert mask_text(mask_text(text)) == mask_text(text)


@given(_JSON, _JSON)
@settings(deadline=None, max_examples=300)
def test_masked_equality_is_symmetric_and_is_that_of_what_a_person_is_shown(one: Any, other: Any) -> None:
    """Row M14: two requests of one shape show the same; whoever looks at them first."""
    first, second = Masker(), Masker()
    a, b = first.shape(one), first.shape(other)
    d, c = second.shape(other), second.shape(one)
    assert (a == b) is (c == d) is (Masker().shape(other) == Masker().shape(one))
    assert (a, b) == (c, d)
    if a == b:
        assert json.dumps(masked_value(one), sort_keys=True) == json.dumps(masked_value(other), sort_keys=True)


_TWINS: st.SearchStrategy[tuple[str, str]] = st.lists(
    st.one_of(
        st.sampled_from(
            [
                ("2026-11-30T05:25:29.532Z", "2027-01-01"),
                ("8a4ec680-7fd6-41df-aef7-33fb4057c895", "11111111-2222-4333-8444-555555555555"),
                ("Process Group PGID: 17382", "Process Group PGID: 4"),
                ("-rw-r--r-- 1 user user 149 Nov 30 19:04 a.py", "-rw-r--r-- 1 user user 149 Jan  1 00:00 a.py"),
                ("passed in 0.05s (12:34:56)", "passed in 1.5s"),
                ("hostname: abc", "hostname: defgh"),
                ("[1] 4711", "[1] 12"),
            ]
        ),
        st.sampled_from(["\n", " ", ". ", "<date>", '"']).map(lambda text: (text, text)),
    ),
    max_size=5,
).map(lambda found: ("".join(one for one, _ in found), "".join(other for _, other in found)))


def _of_twins(value: Any, at: int) -> Any:
    if isinstance(value, tuple):
        return value[at]
    if isinstance(value, list):
        return [_of_twins(one, at) for one in value]
    return {key: _of_twins(one, at) for key, one in value.items()}


@given(
    st.recursive(
        _TWINS,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(st.sampled_from(["a", "id", "user", "input", "call_id", "metadata", "messages"]), inner),
        ),
        max_leaves=6,
    )
)
@settings(deadline=None, max_examples=300)
def test_whatever_the_masks_cover_is_told(twins: Any) -> None:
    """Row M14: two values of one shape that are not equal differ at a place that is named, and then never again."""
    one, other = _of_twins(twins, 0), _of_twins(twins, 1)
    assume(Masker().shape(one) == Masker().shape(other))
    known: set[bytes] = set()
    told = list(taken_apart(one, other, known))
    assert bool(told) is (one != other)
    assert all(old != new for _, _, old, new in told)
    assert list(taken_apart(one, other, known)) == []


@given(st.lists(_JSON, min_size=1, max_size=5), st.data())
@settings(deadline=None, max_examples=60)
def test_any_order_of_requests_at_the_same_time_replays(bodies: list[Any], data: st.DataObject) -> None:
    """Row M14: every request finds an answer that was recorded for its like, and none is left over."""
    requests = [asked(body) for body in bodies]
    order = data.draw(st.permutations(range(len(requests))))
    with tempfile.TemporaryDirectory() as folder:
        found = replay(*requests, folder=Path(folder))
        for at in order:
            match = found.answer(requests[at], route(requests[at]))
            assert isinstance(match, Match)
            assert match.level == "exact"
            assert match.recorded.asked.body == requests[at].body
        assert found.unused == ()
        assert isinstance(found.answer(requests[0], route(requests[0])), Diverged)


_WORDS = st.lists(st.sampled_from(["mend", "the", "loop", "in", "sum", "of", "a.py", "(x)", "=", "\n"]), min_size=1)


@given(st.lists(_WORDS.map(" ".join), min_size=1, max_size=4), st.data())
@settings(deadline=None, max_examples=200)
def test_one_byte_outside_the_masked_places_never_matches(turns: list[str], data: st.DataObject) -> None:
    """Row M14: neither `exact` nor `masked`; in a prompt not `structural` either."""
    body = {"messages": [{"role": "user", "content": text} for text in turns], "tools": [1]}
    request = asked(body)
    at = data.draw(st.integers(0, len(request.body) - 1))
    byte = data.draw(st.integers(33, 126))
    changed = request.body[:at] + bytes([byte]) + request.body[at + 1 :]
    assume(changed != request.body)
    # White space between tokens is none of JSON's values; nothing else may vanish.
    assume(parsed(changed) != parsed(request.body))
    with tempfile.TemporaryDirectory() as folder:
        now = asked(changed)
        assert isinstance(replay(request, folder=Path(folder)).answer(now, route(now)), Diverged)
