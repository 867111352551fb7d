"""gemini-cli, `-o json`: one object; `-o stream-json`: its last line is one. Its `prompt` counts the cache's tokens."""

from __future__ import annotations

from collections.abc import Mapping

from appliance.records.trial import Usage
from appliance.solvers.outputs.claimed import Claimed
from appliance.solvers.outputs.reading import Json, Printed, blames_provider, count, detail, obj, string, summed, usage

_LIMITS = {"FatalTurnLimitedError": "turns"}


def parse(stdout: bytes, files: Mapping[str, bytes]) -> Claimed:
    """An error stands on stderr, in the same form."""
    printed = Printed(stdout)
    for document in (*printed.documents(), *Printed(files.get("stderr", b"")).documents()):
        told = obj(document)
        if isinstance(told.get("error"), dict):
            return _failed(told)
        if isinstance(told.get("stats"), dict) and (told.get("type") == "result" or "response" in told):
            return Claimed("complete", _usage(told["stats"]))
    return Claimed("incomplete", detail=printed.missing("answer"))


def _failed(told: Json) -> Claimed:
    error = obj(told["error"])
    kind = string(error.get("type")) or ""
    words = detail(error.get("message"), kind, "an error without words")
    counted = _usage(told["stats"]) if isinstance(told.get("stats"), dict) else None
    if kind in _LIMITS:
        return Claimed("complete", counted, detail=words, limit=_LIMITS[kind])
    # Its own codes are below a hundred; the others are HTTP's.
    provider = kind == "FatalAuthenticationError" or count(error, "code") >= 400 or blames_provider(words)
    return Claimed("provider_failed" if provider else "incomplete", counted, detail=words)


def _usage(stats: Json) -> Usage | None:
    models = obj(stats.get("models"))
    if not models:
        return None
    return summed([_of_model(obj(each)) for each in models.values()])


def _of_model(model: Json) -> Usage | None:
    tokens = obj(model.get("tokens"))
    if tokens:
        prompt, tool = count(tokens, "prompt"), count(tokens, "tool")
        candidates, thoughts = count(tokens, "candidates"), count(tokens, "thoughts")
        if min(prompt, tool, candidates, thoughts) < 0:
            return None
        return usage(
            inputs=prompt + tool, read=count(tokens, "cached"), output=candidates + thoughts, reasoning=thoughts
        )
    # The stream's has no thoughts; they are what is missing to the total, together with what tools put in.
    inputs, output = count(model, "input_tokens"), count(model, "output_tokens")
    if min(inputs, output) < 0 or inputs + output != count(model, "total_tokens"):
        return None
    return usage(inputs=inputs, read=count(model, "cached"), output=output)
