"""mini-swe-agent: the trajectory that it writes; its exit status says nothing (row M5)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from appliance.records.trial import Usage
from appliance.solvers.outputs.claimed import Claimed
from appliance.solvers.outputs.reading import (
    Json,
    Printed,
    blames_provider,
    count,
    detail,
    obj,
    string,
    summed,
    usage,
    usd,
)

_FILE: Final = "output_file"
_LIMITS: Final = {
    "LimitsExceeded": "steps or cost",
    "TimeExceeded": "time",
    "ContextWindowExceededError": "context",
    "RepeatedFormatError": "format errors",
}
_INTERRUPTED: Final = frozenset({"UserInterruption", "KeyboardInterrupt"})
_LITELLM: Final = frozenset(
    {
        "APIConnectionError",
        "APIError",
        "APIResponseValidationError",
        "AuthenticationError",
        "BadGatewayError",
        "InternalServerError",
        "NotFoundError",
        "PermissionDeniedError",
        "RateLimitError",
        "RetryError",
        "ServiceUnavailableError",
        "Timeout",
    }
)
"""The errors of its client that are the provider's."""


def parse(_stdout: bytes, files: Mapping[str, bytes]) -> Claimed:
    content = files.get(_FILE)
    if content is None:
        return Claimed("incomplete", detail="it left no trajectory")
    text = content.decode(errors="replace")
    trajectory = next((obj(each) for each in Printed(content).documents()), {})
    info = obj(trajectory.get("info")) or _first(text)
    status = string(info.get("exit_status"))
    counted, cost = _usage(trajectory, info), _cost(info)
    if status is None:
        return Claimed("incomplete", counted, cost, "its trajectory has no exit_status")
    if status == "Submitted":
        return Claimed("complete", counted, cost)
    words = detail(_extras(trajectory)[-1].get("exception_str") if _extras(trajectory) else None, status)
    if status in _INTERRUPTED:
        return Claimed("incomplete", counted, cost, words)
    if status in _LIMITS:
        return Claimed("complete", counted, cost, words, _LIMITS[status])
    provider = status in _LITELLM or blames_provider(status)
    return Claimed("provider_failed" if provider else "complete", counted, cost, words)


def _first(text: str) -> Json:
    """The object's first member, which tells how it ended, where the rest of it was cut off."""
    start = text.find('"info":')
    if not 0 <= start < 16:
        return {}
    try:
        return obj(json.JSONDecoder().raw_decode(text, text.index("{", start))[0])
    except (ValueError, RecursionError):
        return {}


def _extras(trajectory: Json) -> list[Json]:
    messages = trajectory.get("messages")
    return [obj(obj(each).get("extra")) for each in messages] if isinstance(messages, list) else []


def _usage(trajectory: Json, info: Json) -> Usage | None:
    """Of all answers, those that it found no command in, too: those stand in the message that tells the model so."""
    answers = [obj(extra["response"]) for extra in _extras(trajectory) if extra.get("response")]
    if len(answers) != obj(info.get("model_stats")).get("api_calls"):
        return None  # a call that came to nothing is in no message
    return summed([_of_answer(obj(answer.get("usage"))) for answer in answers])


def _of_answer(counts: Json) -> Usage | None:
    if not counts:
        return None
    return usage(
        inputs=count(counts, "prompt_tokens"),
        read=count(counts.get("prompt_tokens_details"), "cached_tokens"),
        output=count(counts, "completion_tokens"),
        reasoning=count(counts.get("completion_tokens_details"), "reasoning_tokens"),
    )


def _cost(info: Json) -> str | None:
    """0 is what it writes where it knows no price."""
    amount = obj(info.get("model_stats")).get("instance_cost")
    return usd(amount) if amount else None
