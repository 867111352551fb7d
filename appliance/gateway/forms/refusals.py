"""How the gateway says no: in the shape and with the status that the provider itself would use, so that an agent
takes it for what it is (a rate limit, a missing model) and not for a broken server.

A refused request that asked for a stream gets the same: every provider refuses before its stream begins.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, Literal

from appliance.gateway.exchange import Headers, WireForm
from appliance.gateway.forms.bodies import clean

Kind = Literal["model", "route", "malformed", "budget", "overloaded", "diverged", "too_large"]

_STATUS: Final[dict[Kind, int]] = {
    "model": 404,
    "route": 404,
    "malformed": 400,
    "budget": 429,
    "overloaded": 503,
    "diverged": 400,
    "too_large": 413,
}
_ANTHROPIC: Final[dict[Kind, str]] = {
    "model": "not_found_error",
    "route": "not_found_error",
    "malformed": "invalid_request_error",
    "budget": "rate_limit_error",
    "overloaded": "overloaded_error",
    "diverged": "invalid_request_error",
    "too_large": "request_too_large",
}
_OPENAI: Final[dict[Kind, tuple[str, str | None]]] = {
    "model": ("invalid_request_error", "model_not_found"),
    "route": ("invalid_request_error", "unknown_url"),
    "malformed": ("invalid_request_error", None),
    "budget": ("tokens", "rate_limit_exceeded"),
    "overloaded": ("server_error", "server_is_overloaded"),
    "diverged": ("invalid_request_error", "replay_diverged"),
    "too_large": ("invalid_request_error", "request_too_large"),
}
"""`(type, code)`; `tokens` is what a rate limit's type is there."""
_GEMINI: Final[dict[Kind, str]] = {
    "model": "NOT_FOUND",
    "route": "NOT_FOUND",
    "malformed": "INVALID_ARGUMENT",
    "budget": "RESOURCE_EXHAUSTED",
    "overloaded": "UNAVAILABLE",
    "diverged": "FAILED_PRECONDITION",
    "too_large": "INVALID_ARGUMENT",
}

_DAILY: Final = {
    "@type": "type.googleapis.com/google.rpc.QuotaFailure",
    "violations": [{"quotaMetric": "budget", "quotaId": "BudgetOfTheTrialPerDay"}],
}
"""By `PerDay` gemini-cli tells a quota that no waiting brings back from one of the minute, which it waits for."""


@dataclass(frozen=True)
class Reply:
    """An answer of the gateway's own."""

    status: int
    headers: Headers
    body: bytes


def refusal(form: WireForm | None, kind: Kind, message: str) -> Reply:
    """`form` None: a request of no form of ours; it gets OpenAI's shape, the most widely read."""
    text = clean(message)
    status = 529 if form == "anthropic" and kind == "overloaded" else _STATUS[kind]
    headers: list[tuple[str, str]] = [("content-type", "application/json")]
    if kind in {"budget", "diverged"}:
        # What two official clients read before they try again in vain.
        headers.append(("x-should-retry", "false"))
    return Reply(status, tuple(headers), json.dumps(_shape(form, kind, status, text)).encode())


def _shape(form: WireForm | None, kind: Kind, status: int, text: str) -> dict[str, Any]:
    if form == "anthropic":
        return {"type": "error", "error": {"type": _ANTHROPIC[kind], "message": text}, "request_id": None}
    if form == "gemini":
        details = [_DAILY] if kind == "budget" else []
        return {"error": {"code": status, "message": text, "status": _GEMINI[kind], "details": details}}
    named, code = _OPENAI[kind]
    return {"error": {"message": text, "type": named, "param": "model" if kind == "model" else None, "code": code}}
