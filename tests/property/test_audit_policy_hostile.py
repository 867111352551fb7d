"""Whatever a policy file or a record says, a check ends with its word: never with a traceback."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.audit.plausibility import plausibility_checks
from appliance.audit.policy import policy_of
from appliance.audit.policy_checks import policy_checks
from appliance.errors import InputRefused
from attest import canonical
from attest.checks import NotRun, Verified
from attest.errors import SUBMISSION_WORDS, Refused
from tests.policy_builder import believable, metered, plan, policy, tables, toml

NOW = datetime(2026, 11, 30, tzinfo=UTC)
NUMBERS = [0, -1, 2**53 - 1, -(2**53) + 1, 0.5, 5e-324, -0.1]
TEXTS = ["", "x" * 300, "\u202e", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z", "2026-01-02T03:04:05"]
EDGES = [None, True, *NUMBERS, *TEXTS, [], {}, "0" * 64]
REVOKED = {"root_sha256": "a" * 64, "after": "2026-11-30T12:00:00Z", "reason": "r"}
GOOD = toml(tables(revoked=[REVOKED]))
RECORDS = [made.record.json_value() for made in (believable(of=plan(passes=1)), metered(lambda _: 25.0, trials=1))]


def places(value: Any, way: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Every leaf, and every list or object."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [way, *(place for key, part in inner for place in places(part, (*way, key)))]


POLICY = policy()
PLACES = [[place for place in places(value) if place] for value in RECORDS]


def at(value: Any, way: tuple[str | int, ...]) -> Any:
    for part in way:
        value = value[part]
    return value


def leaves() -> list[tuple[int, tuple[str | int, ...], list[Any]]]:
    """(record, place, edges of its kind), one of each field: the first trial's stands for all."""
    found: dict[tuple[str, ...], tuple[int, tuple[str | int, ...], list[Any]]] = {}
    for which, record in enumerate(RECORDS):
        for place in PLACES[which]:
            old = at(record, place)
            edges = TEXTS if isinstance(old, str) else NUMBERS if type(old) in (int, float) else None
            if edges:
                found.setdefault(tuple(part for part in place if isinstance(part, str)), (which, place, edges))
    return list(found.values())


def judge(value: Any) -> None:
    """Every check returns, refuses with a word of submissions, or says that it was not run."""
    try:
        content = canonical.dumps(value)
    except canonical.NotCanonical:
        return
    verified = Verified(content, value, {}, "who", "issuer", NOW, "local", "a" * 64, "1")
    by = POLICY
    for check in [*policy_checks(by, now=NOW, blobs=None, challenge=None), *plausibility_checks(by, now=NOW)]:
        try:
            check.run(verified)
        except Refused as refused:
            assert refused.word in SUBMISSION_WORDS, (check.name, refused)
            assert len(str(refused)) < 2_000, check.name
        except NotRun as why:
            assert why.why


def test_a_record_with_an_edge_of_its_kind_in_any_field_is_judged_by_every_check() -> None:
    """Every number and text of a record, one at a time (issue 5: hostile input; row P8)."""
    tried = leaves()
    assert len(tried) > 150
    for which, place, edges in tried:
        *way, last = place
        for edge in edges:
            value = copy.deepcopy(RECORDS[which])
            at(value, tuple(way))[last] = edge
            judge(value)


@settings(max_examples=200)
@given(st.data())
def test_a_record_with_any_values_anywhere_is_judged_by_every_check(data: st.DataObject) -> None:
    """Several at a time, of any kind (issue 5: hostile input; row P8)."""
    which = data.draw(st.integers(0, len(RECORDS) - 1))
    value = copy.deepcopy(RECORDS[which])
    for _ in range(data.draw(st.integers(1, 3))):
        *way, last = data.draw(st.sampled_from(PLACES[which]))
        try:
            at(value, tuple(way))[last] = data.draw(st.sampled_from(EDGES))
        except (KeyError, IndexError, TypeError):
            continue  # what was put before has no such place
    judge(value)


@settings(max_examples=400)
@given(st.data())
def test_a_policy_file_with_any_bytes_anywhere_is_read_or_refused(data: st.DataObject) -> None:
    """InputRefused with the file's name, in one line (issue 5: hostile input)."""
    content = bytearray(GOOD.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content)))
        length = data.draw(st.integers(0, 12))
        content[at : at + length] = data.draw(
            st.one_of(
                st.binary(max_size=8), st.sampled_from([b"=", b"[", b"]]", b'"', b"\n", b"nan", b"9" * 20, b"{}"])
            )
        )
    try:
        policy_of(bytes(content), "policy.toml")
    except InputRefused as refused:
        assert (refused.where or "").startswith("policy.toml")
        assert "\n" not in str(refused)


@settings(max_examples=200)
@given(st.data())
def test_a_policy_with_any_value_for_any_key_is_read_or_refused(data: st.DataObject) -> None:
    """Of the right syntax, and the wrong kind."""
    values: Any = tables(revoked=[dict(REVOKED)])
    *way, last = data.draw(st.sampled_from([place for place in places(values) if place]))
    inner = values
    for part in way:
        inner = inner[part]
    edges = [edge for edge in EDGES if edge is not None]
    inner[last] = data.draw(st.sampled_from(edges))
    try:
        text = toml(values)
    except (AttributeError, TypeError):
        return  # the builder of these tests writes no such table
    try:
        policy_of(text.encode(), "policy.toml")
    except InputRefused as refused:
        assert (refused.where or "").startswith("policy.toml")
