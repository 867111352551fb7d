"""However an answer is cut into chunks, what is read of it is the same; and the scan finds what a parser finds."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.gateway.forms.answers import AnswerReader
from appliance.gateway.forms.events import EventStream
from appliance.gateway.forms.scan import Path, Scan, scanned
from appliance.gateway.forms.transcript import spoken
from tests.forms_answers import STREAMS, WHOLE, array, cut, document, read, route, said, stream
from tests.scripted_forms import Tokens

_TEXT = st.text(st.sampled_from('ab"\\/\n\r\t{}[],:\u00e9\u2028\U0001f600 '), max_size=12)
_TOKENS = st.builds(
    lambda fresh, read, output, reasoning: Tokens(fresh + read, read, 0, output + reasoning, reasoning),
    *(st.integers(0, 10_000) for _ in range(4)),
)
_SAID = st.builds(
    lambda pieces, tool, tokens: said(*pieces, tool=tool, tokens=tokens),
    st.lists(_TEXT, max_size=4),
    st.sampled_from([None, "Bash"]),
    st.none() | _TOKENS,
)
_PLACES = st.lists(st.integers(0, 6000), max_size=40)


@settings(max_examples=150)
@given(st.sampled_from(sorted(STREAMS)), _SAID, _PLACES, st.booleans(), st.integers(0, 6000))
def test_any_chunking_gives_the_same_answer_also_of_what_was_cut_off(
    form: str, spoke: Any, places: list[int], whole: bool, end: int
) -> None:
    """Rows M13, M15."""
    target = WHOLE[form] if whole else STREAMS[form]
    content = document(form, spoke) if whole else stream(form, spoke)
    for part in (content, content[:end]):
        answer = read(target, [part], stream=not whole)
        assert read(target, cut(part, places), stream=not whole) == answer
        assert read(target, (part[at : at + 1] for at in range(len(part))), stream=not whole) == answer
    assert read(target, [content]).complete


@settings(max_examples=60)
@given(_SAID, _PLACES)
def test_geminis_array_is_read_alike_however_it_is_cut(spoke: Any, places: list[int]) -> None:
    """Row M13."""
    content = array(spoke)
    target = "/v1beta/models/m:streamGenerateContent"
    assert (
        read(target, cut(content, places))
        == read(target, [content])
        == read(STREAMS["gemini"], [stream("gemini", spoke)])
    )


@settings(max_examples=100)
@given(st.sampled_from(sorted(STREAMS)), _SAID, st.sampled_from(["\n", "\r\n", "\r"]), _PLACES, st.booleans())
def test_line_ends_comments_and_lines_of_data_are_read_as_the_standard_says(
    form: str, spoke: Any, newline: str, places: list[int], bom: bool
) -> None:
    """Row M13: WHATWG HTML 9.2."""
    plain = stream(form, spoke)
    odd = plain.decode()
    # A comment before each event, an unknown field, and each object's first comma at a line's end.
    odd = odd.replace("data: {", ": keep-alive\nretry: 3\ndata: {\ndata:").replace("data: [DONE]", "data:[DONE]")
    content = (b"\xef\xbb\xbf" if bom else b"") + odd.replace("\n", newline).encode()
    assert read(STREAMS[form], cut(content, places)) == read(STREAMS[form], [plain])


class _Kept:
    def __init__(self) -> None:
        self.events: list[bytes] = []
        self.held = b""

    def data(self, piece: bytes) -> None:
        self.held += piece

    def dispatch(self) -> None:
        self.events.append(self.held)
        self.held = b""


_LINES = st.lists(
    st.tuples(
        st.sampled_from(["data:", "data: ", "data", "event: x", ": c", "id:1", "dat: n", "", "d" * 80]),
        st.text("ab: ", max_size=3),
    ),
    max_size=12,
)


def _expected(lines: list[str]) -> list[bytes]:
    """The standard, line by line."""
    events: list[bytes] = []
    held: list[str] = []
    for line in [*lines, ""]:
        if line == "":
            if held:
                events.append("\n".join(held).encode())
            held = []
            continue
        field, colon, value = line.partition(":")
        if field == "data":
            held.append(value.removeprefix(" ") if colon else "")
    return events


@given(_LINES, _PLACES, st.sampled_from(["\n", "\r\n", "\r"]))
def test_events_are_those_of_the_standard(parts: list[tuple[str, str]], places: list[int], newline: str) -> None:
    """Row M13."""
    lines = [field + value if field else "" for field, value in parts]
    kept = _Kept()
    reader = EventStream(kept)
    for chunk in cut("".join(line + newline for line in lines).encode(), [place % 200 for place in places]):
        reader.feed(chunk)
    reader.finish()
    assert kept.events == _expected(lines)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**9) | st.floats(allow_nan=False, allow_infinity=False) | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc") | _TEXT, inner, max_size=3),
    max_leaves=12,
)
_WANTED: frozenset[Path] = frozenset({("a",), ("b", "a"), ("b", "*", "c"), ("*", "a"), ("c", "c", "c")})


def _found(value: Any, path: Path, into: dict[Path, Any]) -> None:
    """Values at wanted paths, in order; nothing within one of them."""
    if path in _WANTED:
        into[path] = value
    elif isinstance(value, dict):
        for key, inner in value.items():
            _found(inner, (*path, key), into)
    elif isinstance(value, list):
        for inner in value:
            _found(inner, (*path, "*"), into)


@settings(max_examples=300)
@given(
    st.dictionaries(st.sampled_from("abc") | _TEXT, _JSON, max_size=4) | st.lists(_JSON, max_size=3),
    _PLACES,
    st.booleans(),
    st.sampled_from([None, 1, "\t"]),
)
def test_the_scan_finds_what_a_parser_finds(value: Any, places: list[int], ascii_only: bool, indent: Any) -> None:
    """Row M13."""
    content = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode()
    scan = Scan(_WANTED)
    for chunk in cut(content, [place % (len(content) + 1) for place in places]):
        scan.feed(chunk)
    expected: dict[Path, Any] = {}
    _found(value, (), expected)
    # A key of JSON may itself be a star, which is a path of its own here.
    if "*" not in content.decode():
        assert scan.found == expected
        assert scan.seen == set(expected)
    assert scan.ended
    assert not scan.broken
    quick = scanned(content, _WANTED)
    if "*" not in content.decode():
        assert (quick.found, quick.seen) == (scan.found, scan.seen)
    assert (quick.ended, quick.broken) == (True, False)


@settings(max_examples=100)
@given(st.text('{}[]":,1\\a \n', max_size=40))
def test_what_is_no_json_is_to_the_quick_reader_what_it_is_to_the_scan(text: str) -> None:
    """Row M13."""
    scan = Scan(_WANTED)
    scan.feed(text.encode())
    quick = scanned(text.encode(), _WANTED)
    if not quick.ended or quick.broken:
        assert (scan.ended, scan.broken) == (quick.ended, quick.broken)


@settings(max_examples=200)
@given(
    st.sampled_from(sorted(STREAMS)),
    st.binary(max_size=200) | st.text('{}[]":,\\ndat: \n', max_size=200).map(str.encode),
)
def test_whatever_comes_nothing_is_raised(form: str, content: bytes) -> None:
    """Row M13."""
    for target in (STREAMS[form], WHOLE[form]):
        reader = AnswerReader(route(target), stream=True)
        reader.feed(content)
        assert not reader.finish().complete
    assert spoken(form, content, [content]).keys() == {"text", "reasoning", "calls", "answers", "truncated"}  # type: ignore[arg-type]


@settings(max_examples=100)
@given(st.sampled_from(sorted(STREAMS)), _SAID, _PLACES)
def test_the_transcript_says_what_was_said_whole_or_streamed(form: str, spoke: Any, places: list[int]) -> None:
    """Rows M13, M14."""
    streamed = spoken(form, b"{}", cut(stream(form, spoke), places))  # type: ignore[arg-type]
    whole = spoken(form, b"{}", cut(document(form, spoke), places))  # type: ignore[arg-type]
    assert streamed == whole
    assert streamed["text"] == spoke.text
    assert [(call["name"], call["arguments"]) for call in streamed["calls"]] == (
        [("Bash", '{"command":"ls"}')] if spoke.tool else []
    )
