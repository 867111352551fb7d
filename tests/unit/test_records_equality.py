"""Equality of what crosses a boundary: of one model and of equal fields, whatever it was made of."""

from __future__ import annotations

from pydantic import BaseModel

from appliance.records.plan import TrialKey
from appliance.wire import Wire


class _Other(Wire):
    task: str
    pass_: int
    rollout: int
    case: str | None


class _Counted(Wire):
    count: int


def test_equal_fields_of_one_model_are_equal_however_they_were_set() -> None:
    """Also in a set: a default that was given and one that was not are one value."""
    given = TrialKey(task="t", pass_=0, rollout=1, case=None)
    left = TrialKey.model_validate_json('{"task":"t","pass":0,"rollout":1}', by_alias=True, by_name=False)
    assert given == left
    assert len({given, left}) == 1
    assert given != TrialKey(task="t", pass_=0, rollout=2)
    assert given != TrialKey(task="t", pass_=0, rollout=1, case="c")


def test_another_model_of_the_same_fields_is_another_value() -> None:
    key = TrialKey(task="t", pass_=0, rollout=1)
    other: BaseModel = _Other(task="t", pass_=0, rollout=1, case=None)
    assert vars(key) == vars(other)
    assert key != other
    assert key != vars(key)


def test_what_is_kept_beside_the_fields_counts_for_nothing() -> None:
    """As pydantic's own has it."""
    one, other = _Counted(count=1), _Counted(count=1)
    vars(one)["memo"] = "kept"
    assert one == other
    assert other == one
    assert one != _Counted(count=2)
