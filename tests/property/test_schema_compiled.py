"""The compiled validator against the plain one, on genuine records and on what one change makes of them."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from jsonschema_rs import Draft202012Validator as Compiled

from appliance import schemas
from appliance.records.journal import BaselineLine, HeaderLine, TrialLine
from appliance.records.plan import TrialPlan
from appliance.records.record import Record
from tests.measured_builder import measured
from tests.wire_strategies import wire_values

BUSY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
_MEASURED = measured().record.json_value()
_ODD = st.sampled_from(
    [None, True, 0, -1, 1.0, 1.5, -0.5, 2**53, 2**64, 2**200, 1e300, "", "x", "\n", "١", "é", [], {}, [[]], {"a": 1}]
)

VALUES = st.one_of(
    st.just(("record-v1", _MEASURED)),
    wire_values(Record).map(lambda one: ("record-v1", one.json_value())),
    wire_values(TrialPlan).map(lambda one: ("plan-v1", one.json_value())),
    st.one_of(wire_values(HeaderLine), wire_values(BaselineLine), wire_values(TrialLine)).map(
        lambda one: ("journal-v1", one.json_value())
    ),
)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) of a value."""
    if isinstance(value, dict | list):
        for key, child in value.items() if isinstance(value, dict) else enumerate(value):
            yield value, key
            yield from _places(child)


@given(VALUES, st.data())
@BUSY
def test_the_compiled_validator_takes_what_the_plain_one_takes(named: tuple[str, Any], data: st.DataObject) -> None:
    """Of a genuine value and of one that was changed anywhere. Only text with a line feed at its end may part them, and
    then the compiled one is the stricter: to Python `$` also matches before it."""
    name, value = named
    plain, compiled = Draft202012Validator(json.loads(schemas.committed(name))), schemas._compiled(name)
    assert compiled.is_valid(value)
    assert plain.is_valid(value)
    value = copy.deepcopy(value)
    where, key = data.draw(st.sampled_from(list(_places(value))))
    how = data.draw(st.sampled_from(["odd", "gone", "more", "line feed", "twice"]))
    if how == "gone":
        del where[key]
    elif how == "more" and isinstance(where[key], dict):
        where[key]["more"] = data.draw(_ODD)
    elif how == "line feed" and isinstance(where[key], str):
        where[key] += "\n"
    elif how == "twice" and isinstance(where[key], list):
        where[key] += where[key]
    else:
        where[key] = data.draw(_ODD)
    told = (compiled.is_valid(value), plain.is_valid(value))
    assert told in {(True, True), (False, False), (False, True)}
    if told == (False, True):
        assert isinstance(where[key], str)
        assert where[key].endswith("\n")
    problem = schemas.first_problem(name, value)
    assert (problem is None) == told[0]


@pytest.mark.parametrize("name", schemas.names())
def test_every_committed_schema_compiles_and_knows_no_keyword_that_the_plain_one_does_not(name: str) -> None:
    """A word that a validator does not know it passes over: both know the same ones, and the schemas use no other."""
    schema = json.loads(schemas.committed(name))
    Compiled(schema)
    known = set(Draft202012Validator.VALIDATORS) | {
        "$schema", "$id", "$defs", "title", "description", "default", "examples", "x-compare", "discriminator",
        "then", "else", "minContains", "maxContains",
    }  # fmt: skip
    assert set(_keywords(schema)) <= known


def _keywords(schema: Any) -> Iterator[str]:
    if not isinstance(schema, dict):
        return
    for word, about in schema.items():
        yield word
        if word in {"properties", "$defs", "patternProperties"}:
            for inner in about.values():
                yield from _keywords(inner)
        elif word in {"anyOf", "oneOf", "allOf", "prefixItems"}:
            for inner in about:
                yield from _keywords(inner)
        elif word in {"items", "additionalProperties", "propertyNames", "contains", "not", "if", "then", "else"}:
            yield from _keywords(about)


def test_what_only_the_compiled_validator_refuses_is_refused_with_its_words() -> None:
    """A digest with a line feed behind it is none: the plain validator alone would take it."""
    value = copy.deepcopy(_MEASURED)
    value["planDigest"] += "\n"
    assert Draft202012Validator(json.loads(schemas.committed("record-v1"))).is_valid(value)
    problem = schemas.first_problem("record-v1", value)
    assert problem is not None
    assert problem[0] == "$.planDigest"
    assert "does not match" in problem[1]


def test_what_no_json_holds_is_left_to_the_plain_validator() -> None:
    """A date in a TOML file, a key that is no text: refused with place and words, and nothing is raised."""
    import datetime

    value = {**_MEASURED, "planDigest": datetime.date(2026, 1, 2)}
    problem = schemas.first_problem("record-v1", value)
    assert problem is not None
    assert problem[0] == "$.planDigest"
