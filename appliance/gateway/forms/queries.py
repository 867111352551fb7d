"""What a request asks for, as far as the gateway decides by it: which model, and whether the answer streams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from appliance.gateway.exchange import Asked
from appliance.gateway.forms.bodies import Malformed, TooLarge, decoded, read_strictly, short
from appliance.gateway.forms.hosted import refuse_hosted
from appliance.gateway.forms.routes import Route

__all__ = ["Malformed", "OtherModel", "Query", "TooLarge", "query_of"]

_MAX_NAME: Final = 256
_MOST_TOKENS: Final = 10_000_000
_FALLBACKS: Final = frozenset({"model", "models", "fallbacks", "fallback_models"})
"""Lower case. Some servers read names in any case; some take a list for when a model is busy."""
_BOUNDS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens")


class OtherModel(Malformed):
    """Its model could be taken for another than it seems: by a second spelling, or a list to fall back on."""


@dataclass(frozen=True)
class Query:
    model: str | None
    stream: bool
    answer_tokens: int | None = None
    """As many as its answer may have; None: it does not say."""


def query_of(route: Route, asked: Asked) -> Query:
    """Raises Malformed, or its kinds TooLarge and OtherModel, in words for the sender."""
    if route.act == "models":
        return Query(None if route.model is None else _named(route.model), stream=False)
    content = decoded(asked)
    body = read_strictly(content)
    _one_model(body)
    refuse_hosted(route.form, asked, content, body)
    if route.form == "gemini":
        # The path is what decides; a body may repeat it.
        model = None if route.model is None else _named(route.model)
        if body.get("model") not in (None, model, f"models/{model}"):  # any value may stand there, a list too
            raise OtherModel("the body names another model than the path")
        return Query(model, route.stream, _answer_tokens(body))
    stream = body.get("stream")
    if stream is not None and not isinstance(stream, bool):
        raise Malformed("stream is neither true nor false")
    model = body.get("model")
    if model is not None and not isinstance(model, str):
        raise Malformed("model is not a string")
    return Query(None if model is None else _named(model), bool(stream), _answer_tokens(body))


def _one_model(body: dict[str, Any]) -> None:
    for name in body:
        if name != "model" and name.casefold() in _FALLBACKS:
            raise OtherModel(f"{short(name, 20)!r} is not taken: this run has one model")


def _answer_tokens(body: dict[str, Any]) -> int | None:
    """Of all its answers, where it asks for several."""
    options = body.get("generationConfig")
    said = [body.get(name) for name in _BOUNDS] + (
        [options.get("maxOutputTokens")] if isinstance(options, dict) else []
    )
    several = [body.get("n"), options.get("candidateCount") if isinstance(options, dict) else None]
    bounds = [one for one in said if type(one) is int and 0 < one <= _MOST_TOKENS]
    times = [one for one in several if type(one) is int and 1 < one <= _MOST_TOKENS]
    return max(bounds) * max(times, default=1) if bounds else None


def _named(model: str) -> str:
    if not model or len(model) > _MAX_NAME or not model.isprintable():
        raise Malformed(f"no name of a model: {short(model, 60)!r}")
    return model
