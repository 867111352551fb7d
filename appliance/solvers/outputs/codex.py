"""codex, `exec --json`: a line an event. Its input counts the cache's tokens, its output the reasoning's."""

from __future__ import annotations

from collections.abc import Mapping

from appliance.records.trial import Usage
from appliance.solvers.outputs.claimed import Claimed
from appliance.solvers.outputs.reading import Printed, count, detail, obj, usage


def parse(stdout: bytes, _files: Mapping[str, bytes]) -> Claimed:
    """`turn.completed` or `turn.failed` ends it; an `error` before that is one that it goes on after."""
    printed = Printed(stdout)
    ended: Claimed | None = None
    said: str | None = None
    counted: Usage | None = None
    for event in printed.events():
        kind = event.get("type")
        if kind == "turn.completed":
            counted = _usage(event.get("usage"))
            ended = Claimed("complete", counted)
        elif kind == "turn.failed":
            words = detail(obj(event.get("error")).get("message"), said, "turn.failed")
            full = words is not None and "context window" in words
            ended = Claimed(
                "complete" if full else "provider_failed", counted, None, words, "context" if full else None
            )
        elif kind == "turn.started":
            ended = None
        elif kind == "error":
            said = detail(event.get("message"))
    if ended is not None:
        return ended
    return Claimed("incomplete", detail=printed.missing("turn.completed") + (f"; it said: {said}" if said else ""))


def _usage(counts: object) -> Usage | None:
    """Of the whole thread so far."""
    if not isinstance(counts, dict):
        return None
    return usage(
        inputs=count(counts, "input_tokens"),
        read=count(counts, "cached_input_tokens"),
        written=count(counts, "cache_write_input_tokens"),
        output=count(counts, "output_tokens"),
        reasoning=count(counts, "reasoning_output_tokens"),
    )
