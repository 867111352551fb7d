"""Whatever a cascade sends, or a client prints: read or refused, never raised, never more than it is."""

from __future__ import annotations

import contextlib
import json

from hypothesis import example, given
from hypothesis import strategies as st

from appliance.errors import InputRefused
from appliance.solvers.cascade import client
from appliance.solvers.cascade.messages import Answer
from appliance.solvers.cascade.reported import Answered, Unanswered, told
from appliance.solvers.cascade.serving import request_in

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(["response", "stage", "microjoules", "usage", "tiers", "error", "code", "message", "more"])
OBJECTS = st.dictionaries(KEYS, VALUES | st.sampled_from(["kv", 5, "x", []]), max_size=7)
LINES = st.binary(max_size=200) | OBJECTS.map(lambda value: json.dumps(value).encode())


@given(line=LINES)
@example(line=b'{"response": "\\ud800", "stage": "kv", "microjoules": 1}')
@example(line=b'{"response": "x", "stage": "kv", "microjoules": 9007199254740992}')
@example(line=b"[" * 10_000)
def test_any_line_is_an_answer_or_none(line: bytes) -> None:
    """What is an answer has canonical bytes, as every value of a record; nothing else is one (row J17)."""
    with contextlib.suppress(client.Unanswered):
        client.response_in(line)
    report = {"answer": line.decode("utf-8", "replace"), "failed": None, "latencyMs": 1.0}
    said = told(json.dumps({**report, "patch": "none", "patchProblem": None}).encode(), 0, 1.0)
    assert isinstance(said, Answered | Unanswered)
    if isinstance(said, Answered):
        assert Answer.from_canonical(said.answer.canonical(), "here") == said.answer


@given(stdout=st.binary(max_size=200) | OBJECTS.map(lambda value: json.dumps(value).encode()), status=st.integers(0, 3))
def test_any_output_of_a_client_is_read(stdout: bytes, status: int) -> None:
    """A container's output is a stranger's as well (row J17)."""
    assert isinstance(told(stdout, status, 1.0), Answered | Unanswered)


@given(line=LINES)
def test_any_request_is_taken_or_refused_in_words(line: bytes) -> None:
    """By its members (row J17)."""
    with contextlib.suppress(InputRefused):
        request_in(line)


@given(before=st.text(max_size=40), after=st.text(max_size=40), fence=st.sampled_from(["```", "~~~", "````"]))
def test_a_fenced_diff_is_found_whole_whatever_stands_around_it(before: str, after: str, fence: str) -> None:
    """Word for word, where no fence stands in the text around it (row J17)."""
    patch = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
    around = [text.replace("`", "").replace("~", "").replace("+++ ", "") for text in (before, after)]
    assert client.patch_in(f"{around[0]}\n{fence}diff\n{patch}{fence}\n{around[1]}") == patch
