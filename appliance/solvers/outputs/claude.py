"""claude-code, `--output-format json` and `stream-json`: one `result` object ends both (rows M1, M2, M3)."""

from __future__ import annotations

from collections.abc import Mapping

from appliance.records.trial import Usage
from appliance.solvers.outputs.claimed import Claimed
from appliance.solvers.outputs.reading import Json, Printed, count, detail, obj, string, summed, usage, usd

_LIMITS = {"error_max_turns": "turns", "max_turns": "turns", "error_max_budget_usd": "cost", "max_budget": "cost"}


def parse_json(stdout: bytes, _files: Mapping[str, bytes]) -> Claimed:
    return _claimed(Printed(stdout), streamed=False)


def parse_stream(stdout: bytes, _files: Mapping[str, bytes]) -> Claimed:
    """The `result` event alone: each message's own `output_tokens` are those of its first chunk."""
    return _claimed(Printed(stdout), streamed=True)


def _claimed(printed: Printed, *, streamed: bool) -> Claimed:
    # With --verbose, json is one array of the stream's events.
    found = printed.events() if streamed else (each for value in printed.documents() for each in _flat(value))
    ended = [each for each in found if each.get("type") == "result"]
    if not ended:
        return Claimed("incomplete", detail=printed.missing("result"))
    told = ended[-1] if streamed else ended[0]
    failed = told.get("terminal_reason") == "api_error" or string(told.get("api_error")) is not None
    if failed or (told.get("is_error") is True and told.get("api_error_status") is not None):
        words = detail(told.get("result"), told.get("api_error"), "api_error")
        return Claimed("provider_failed", _usage(told), _cost(told), words)
    if told.get("is_error") is not True:
        return Claimed("complete", _usage(told), _cost(told))
    limit = _LIMITS.get(str(told.get("subtype"))) or _LIMITS.get(str(told.get("terminal_reason")))
    errors = told.get("errors")
    words = detail(*(errors if isinstance(errors, list) else ()), told.get("result"), told.get("subtype"))
    return Claimed("complete", _usage(told), _cost(told), words, limit)


def _flat(value: object) -> list[Json]:
    """The last one first."""
    return [obj(each) for each in reversed(value)] if isinstance(value, list) else [obj(value)]


def _usage(told: Json) -> Usage | None:
    """Of all models that it used, where it says so: `usage` leaves those of helpers out."""
    models = obj(told.get("modelUsage"))
    if models:
        return summed([_of_model(obj(each)) for each in models.values()])
    counts = obj(told.get("usage"))
    if not counts:
        return None
    read, written = count(counts, "cache_read_input_tokens"), count(counts, "cache_creation_input_tokens")
    return usage(
        inputs=_all(count(counts, "input_tokens"), read, written),
        read=read,
        written=written,
        output=count(counts, "output_tokens"),
        reasoning=count(counts.get("output_tokens_details"), "thinking_tokens"),
    )


def _of_model(counts: Json) -> Usage | None:
    read, written = count(counts, "cacheReadInputTokens"), count(counts, "cacheCreationInputTokens")
    return usage(
        inputs=_all(count(counts, "inputTokens"), read, written),
        read=read,
        written=written,
        output=count(counts, "outputTokens"),
        reasoning=count(counts, "thinkingTokens"),
    )


def _all(*parts: int) -> int:
    return -1 if min(parts) < 0 else sum(parts)


def _cost(told: Json) -> str | None:
    """Only by its list prices: for a model that it does not know it makes a price up (`costBasis` unknown)."""
    models = obj(told.get("modelUsage"))
    if not models or any(obj(each).get("costBasis") != "list" for each in models.values()):
        return None
    return usd(told.get("total_cost_usd"))
