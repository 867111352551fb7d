"""qwen-code, `--output-format json`: one array of events, whose last is the `result`. Its input counts the cache's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from appliance.records.trial import Usage
from appliance.solvers.outputs.claimed import Claimed
from appliance.solvers.outputs.reading import Json, Printed, blames_provider, count, detail, obj, string, summed, usage


def parse(stdout: bytes, _files: Mapping[str, bytes]) -> Claimed:
    printed = Printed(stdout)
    told = next((each for each in _results(printed)), None)
    if told is None:
        return Claimed("incomplete", detail=printed.missing("result"))
    counted = _usage(told)
    said = string(told.get("result")) or ""
    if told.get("is_error") is not True and not said.startswith("[API Error"):
        return Claimed("complete", counted)
    if told.get("subtype") == "error_max_turns":
        return Claimed("complete", counted, detail=detail(said, "error_max_turns"), limit="turns")
    words = detail(obj(told.get("error")).get("message"), said, told.get("subtype"))
    return Claimed("provider_failed" if blames_provider(words) else "complete", counted, detail=words)


def _results(printed: Printed) -> Iterator[Json]:
    """The last one first."""
    for value in printed.documents():
        for each in reversed(value) if isinstance(value, list) else (value,):
            if obj(each).get("type") == "result":
                yield obj(each)
    # An array whose middle was not kept still ends with it.
    start = printed.text.rfind('{"type":"result"', printed.gap_at) if printed.cut else -1
    if start >= 0:
        tail = Printed(printed.text[start:].encode(errors="replace"))
        yield from (obj(value) for value in tail.documents())


def _usage(told: Json) -> Usage | None:
    models = obj(obj(told.get("stats")).get("models"))
    if models:
        return summed([_of_model(obj(obj(each).get("tokens"))) for each in models.values()])
    counts = obj(told.get("usage"))
    if not counts:
        return None
    return usage(
        inputs=count(counts, "input_tokens"),
        read=count(counts, "cache_read_input_tokens"),
        output=count(counts, "output_tokens"),
    )


def _of_model(tokens: Json) -> Usage | None:
    prompt, candidates, thoughts = count(tokens, "prompt"), count(tokens, "candidates"), count(tokens, "thoughts")
    if not tokens or min(prompt, candidates, thoughts) < 0:
        return None
    # An OpenAI server counts the reasoning with the output, Gemini's does not; the total tells.
    apart = count(tokens, "total") == prompt + candidates + thoughts
    return usage(
        inputs=prompt,
        read=count(tokens, "cached"),
        output=candidates + thoughts * apart,
        reasoning=thoughts,
    )
