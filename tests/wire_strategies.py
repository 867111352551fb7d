"""Hypothesis strategies for any wire model, attest's included, from its annotations: what a stranger's valid file may
hold."""

from __future__ import annotations

import types
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import annotated_types
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, StringConstraints
from pydantic.fields import FieldInfo

from appliance.records.energy import EnergyFigure, EnergyPart
from appliance.records.plan import PlannedUpstream, TrialPlan
from appliance.records.trial import TrialResult
from appliance.records.verdict import PairedFlips
from appliance.records.words import ENERGY_FLAGS, REASONS_OF
from appliance.wire import Moment

Model = TypeVar("Model", bound=BaseModel)
_SAFE = 2**53 - 1
# Canonical JSON refuses lone surrogates, and integral floats that two parsers would read differently.
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_KEYS = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=8)
_FLOATS = st.one_of(st.integers(0, 10**6).map(float), st.floats(0.001, 1e9, allow_nan=False))
_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-1000, 1000), _TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(_KEYS, inner, max_size=2)),
    max_leaves=3,
)


@cache
def wire_values(model: type[Model]) -> st.SearchStrategy[Model]:
    fields = {name: _of(field.annotation, tuple(_constraints(field))) for name, field in model.model_fields.items()}
    drawn = st.fixed_dictionaries(fields)
    return drawn.map(lambda values: model(**_consistent(model, values)))


def _constraints(field: FieldInfo) -> list[Any]:
    return list(field.metadata)


def _consistent(model: type[BaseModel], values: dict[str, Any]) -> dict[str, Any]:
    """Mended so that the model's own validators hold."""
    if issubclass(model, TrialPlan):
        # A plan of more trials than anyone may ask for is no plan.
        values |= {"passes": values["passes"] % 100 + 1, "rollouts": values["rollouts"] % 100 + 1}
    if issubclass(model, PlannedUpstream):
        if values["provider"] == "local" and values["server"] is None:
            values["provider"] = "openai"
        if values["provider"] != "local":
            values["server"] = None
        if values["provider"] == "compatible":
            values["base_url"] = values["base_url"] or ""
    if issubclass(model, PairedFlips):
        values["p_value"] %= 1
    if issubclass(model, TrialResult):
        reasons = sorted(REASONS_OF[values["outcome"]])
        values["reason"] = reasons[len(values["started_at"]) % len(reasons)] if reasons else None
    if issubclass(model, EnergyFigure | EnergyPart):
        if values["basis"] == "modelled":
            values |= {"model": "m/1", "inputs": {}, "interval": (0, 1), "comparable": False}
        if values["net_uj"] is None:
            values["missing"] = values["missing"] or "unread"
    return values


def _of(annotation: Any, constraints: tuple[Any, ...] = ()) -> st.SearchStrategy[Any]:  # noqa: PLR0911  # one a kind
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *more = get_args(annotation)
        return _of(inner, (*constraints, *more))
    if origin in (Union, types.UnionType):
        return st.one_of(*[_of(part, constraints) for part in get_args(annotation)])
    if origin is Literal:
        return st.sampled_from(get_args(annotation))
    if origin is tuple:
        parts = get_args(annotation)
        if parts[-1] is Ellipsis:
            return st.lists(_of(parts[0]), max_size=2).map(tuple)
        return st.tuples(*[_of(part) for part in parts])
    if origin is dict:
        key, value = get_args(annotation)
        keys = _KEYS if key is str else _of(key)
        return st.dictionaries(keys, _of(value), min_size=_shortest(constraints), max_size=2)
    if annotation is Any:
        return _JSON
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return st.deferred(lambda: wire_values(annotation))
    return _scalar(annotation, constraints)


def _scalar(annotation: Any, constraints: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    if annotation is type(None):
        return st.none()
    if annotation is bool:
        return st.booleans()
    if annotation is int:
        return st.integers(_least(constraints, -_SAFE), _SAFE)
    if annotation is float:
        return _FLOATS.map(lambda number: number + 1)
    if annotation is str:
        return _text(constraints)
    raise NotImplementedError(annotation)


def _text(constraints: tuple[Any, ...]) -> st.SearchStrategy[str]:
    if constraints[:2] == get_args(Moment)[1:]:
        return st.datetimes().map(lambda at: f"{at.isoformat()}Z")
    if any(isinstance(part, AfterValidator) for part in constraints):
        return st.sampled_from(sorted(ENERGY_FLAGS))
    pattern = next((part.pattern for part in constraints if isinstance(part, StringConstraints)), None)
    if pattern is not None:
        return st.from_regex(str(pattern).replace("$", r"\Z"), fullmatch=True)
    shortest = _shortest(constraints)
    return _TEXT.filter(lambda text: len(text) >= shortest) if shortest else _TEXT


def _least(constraints: tuple[Any, ...], otherwise: int) -> int:
    bounds = [part.ge for part in _flat(constraints) if isinstance(part, annotated_types.Ge)]
    return int(str(bounds[0])) if bounds else otherwise


def _shortest(constraints: tuple[Any, ...]) -> int:
    return max((getattr(part, "min_length", None) or 0 for part in _flat(constraints)), default=0)


def _flat(constraints: tuple[Any, ...]) -> list[Any]:
    return [inner for part in constraints for inner in (part.metadata if isinstance(part, FieldInfo) else [part])]
