"""opencode, `run --format json`: a line an event; each step counts for itself, without the cache, and without the call
that makes a title (row M4)."""

from __future__ import annotations

from collections.abc import Mapping

from appliance.records.money import total_usd
from appliance.records.trial import Usage
from appliance.solvers.outputs.claimed import Claimed
from appliance.solvers.outputs.reading import Json, Printed, count, detail, obj, string, summed, usage, usd

_LIMITS = {"MessageOutputLengthError": "output", "ContextOverflowError": "context"}


def parse(stdout: bytes, _files: Mapping[str, bytes]) -> Claimed:
    printed = Printed(stdout)
    usages: list[Usage | None] = []
    costs: list[str | None] = []
    last: Json = {}
    for event in printed.events():
        if event.get("type") in ("step_start", "step_finish", "error"):
            last = event
        if event.get("type") == "step_finish":
            part = obj(event.get("part"))
            usages.append(_usage(part.get("tokens")))
            # It takes a model without a price for one that is free.
            costs.append(usd(part.get("cost")) if part.get("cost") else None)
    # Of steps that were not kept nothing is known.
    counted = None if printed.cut else summed(usages)
    cost = None if printed.cut else total_usd(costs)
    if last.get("type") == "error":
        return _failed(obj(last.get("error")), counted, cost)
    reason = string(obj(last.get("part")).get("reason")) if last.get("type") == "step_finish" else None
    if reason is None or reason == "tool-calls":
        return Claimed("incomplete", counted, cost, printed.missing("last step"))
    return Claimed("complete", counted, cost, limit="output" if reason == "length" else None)


def _failed(error: Json, counted: Usage | None, cost: str | None) -> Claimed:
    name = string(error.get("name")) or "error"
    words = detail(obj(error.get("data")).get("message"), name)
    if name in _LIMITS:
        return Claimed("complete", counted, cost, words, _LIMITS[name])
    return Claimed("incomplete" if name == "MessageAbortedError" else "provider_failed", counted, cost, words)


def _usage(tokens: object) -> Usage | None:
    if not isinstance(tokens, dict):
        return None
    fresh, read, written = (
        count(tokens, "input"),
        count(obj(tokens.get("cache")), "read"),
        count(obj(tokens.get("cache")), "write"),
    )
    output, reasoning, total = count(tokens, "output"), count(tokens, "reasoning"), count(tokens, "total")
    if min(fresh, read, written, output, reasoning, total) < 0:
        return None
    inputs = fresh + read + written
    # Whether the output counts the reasoning depends on the provider; the total tells.
    return usage(
        inputs=inputs,
        read=read,
        written=written,
        output=total - inputs if total else output + reasoning,
        reasoning=reasoning,
    )
