"""Four ways of counting tokens, one normal form (row M4): `input_tokens` are all that went in, those of the cache too;
`output_tokens` are all that came out, the reasoning too.

| form | its input | its output |
|---|---|---|
| anthropic | without the cache's reads and writes | with thinking |
| openai-chat, openai-responses | with the cache's | with reasoning |
| gemini | with the cache's, without what tools put into the prompt | without thoughts |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from appliance.records.trial import Usage

Counts = Mapping[str, Any]
_MAX: Final = 2**53 - 1


class Unusable(ValueError):
    """Figures that are missing or contradict each other; the text says which."""


@dataclass(frozen=True)
class Counted:
    """One answer's usage, with what else its price depends on."""

    usage: Usage
    cache_write_1h_tokens: int = 0
    """Of `usage.cache_write_tokens`; they cost more than those of five minutes."""
    unpriced: str | None = None
    """What the provider charges for beside these tokens, or for these tokens in another way: then there is no price."""


def of_anthropic(counts: Counts) -> Counted:
    """`counts`: of `message_start`, overlaid with those of the last `message_delta`."""
    read = _count(counts, "cache_read_input_tokens")
    parts = counts.get("cache_creation")
    short = _count(parts, "ephemeral_5m_input_tokens")
    hour = _count(parts, "ephemeral_1h_input_tokens")
    written = max(_count(counts, "cache_creation_input_tokens"), short + hour)
    return Counted(
        _normal(
            fresh=_needed(counts, "input_tokens"),
            read=read,
            written=written,
            output=_needed(counts, "output_tokens"),
            reasoning=_count(counts.get("output_tokens_details"), "thinking_tokens"),
        ),
        hour,
        _unpriced(counts, ("standard", None)),
    )


def of_chat(counts: Counts, service_tier: object = None) -> Counted:
    details, output = counts.get("prompt_tokens_details"), counts.get("completion_tokens_details")
    read = max(_count(details, "cached_tokens"), _count(counts, "prompt_cache_hit_tokens"))
    written = _count(details, "cache_write_tokens")
    audio = _count(details, "audio_tokens") + _count(output, "audio_tokens")
    return Counted(
        _normal(
            fresh=_needed(counts, "prompt_tokens") - read - written,
            read=read,
            written=written,
            output=_needed(counts, "completion_tokens"),
            reasoning=_count(output, "reasoning_tokens"),
        ),
        unpriced="audio tokens" if audio else _tier(service_tier),
    )


def of_timings(timings: Counts) -> Counted:
    """llama-server's own, which stand in every answer's end: the prompt's tokens less those that were cached."""
    read = _count(timings, "cache_n")
    return Counted(
        _normal(
            fresh=_needed(timings, "prompt_n"),
            read=read,
            written=0,
            output=_needed(timings, "predicted_n"),
            reasoning=0,
        )
    )


def of_responses(counts: Counts, service_tier: object = None) -> Counted:
    details = counts.get("input_tokens_details")
    read = _count(details, "cached_tokens")
    written = _count(details, "cache_write_tokens")
    return Counted(
        _normal(
            fresh=_needed(counts, "input_tokens") - read - written,
            read=read,
            written=written,
            output=_needed(counts, "output_tokens"),
            reasoning=_count(counts.get("output_tokens_details"), "reasoning_tokens"),
        ),
        unpriced=_tier(service_tier),
    )


def of_gemini(counts: Counts) -> Counted:
    """Of the last event: its figures are running totals. An answer without candidates has no count of theirs."""
    read = _count(counts, "cachedContentTokenCount")
    thoughts = _count(counts, "thoughtsTokenCount")
    return Counted(
        _normal(
            fresh=_needed(counts, "promptTokenCount") - read + _count(counts, "toolUsePromptTokenCount"),
            read=read,
            written=0,
            output=_count(counts, "candidatesTokenCount") + thoughts,
            reasoning=thoughts,
        ),
        unpriced=_modality(counts)
        or _tier(counts.get("trafficType"), {"ON_DEMAND", None})
        or _tier(counts.get("serviceTier"), {"standard", "STANDARD", None}),
    )


def total(usages: Iterable[Usage | None]) -> Usage | None:
    """The sum; None as soon as one is None, of none at all, and where no record could hold it."""
    sums: dict[str, int] = {}
    for usage in usages:
        if usage is None:
            return None
        for name in Usage.model_fields:
            sums[name] = sums.get(name, 0) + getattr(usage, name)
    return Usage(**sums) if sums and max(sums.values()) <= _MAX else None


def _normal(*, fresh: int, read: int, written: int, output: int, reasoning: int) -> Usage:
    if fresh < 0:
        raise Unusable("more tokens from and to the cache than went in")
    if reasoning > output:
        raise Unusable("more reasoning tokens than came out")
    if max(fresh + read + written, output) > _MAX:
        raise Unusable("more tokens than can be counted")
    return Usage(
        input_tokens=fresh + read + written,
        cache_read_tokens=read,
        cache_write_tokens=written,
        output_tokens=output,
        reasoning_tokens=reasoning,
    )


def _needed(counts: Counts, name: str) -> int:
    if counts.get(name) is None:
        raise Unusable(f"no {name}")
    return _count(counts, name)


def _count(counts: object, name: str) -> int:
    """0 where it is not said: each provider leaves out the kinds that a model does not have."""
    if not isinstance(counts, Mapping):
        return 0
    found = counts.get(name)
    if found is None:
        return 0
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found <= _MAX:
        raise Unusable(f"{name} is no count")
    return found


def _unpriced(counts: Counts, tiers: tuple[object, ...]) -> str | None:
    """Anthropic's: tools on its machines, another tier, a faster model, a place that was asked for."""
    tools = counts.get("server_tool_use")
    if isinstance(tools, Mapping):
        for name in tools:
            if name != "web_fetch_requests" and _count(tools, name):
                return "web searches" if name == "web_search_requests" else f"tools of the provider: {str(name)[:40]}"
    if counts.get("speed") not in (None, "standard"):
        return f"speed {str(counts['speed'])[:40]}"
    if counts.get("inference_geo") not in (None, "", "global", "not_available"):
        return f"inference in {str(counts['inference_geo'])[:40]}"
    return _tier(counts.get("service_tier"), set(tiers))


def _modality(counts: Counts) -> str | None:
    """Gemini's: audio has another price wherever it is, and whatever comes out that is no text."""
    for name, at_the_price_of_text in (
        ("promptTokensDetails", {"TEXT", "IMAGE", "VIDEO", "DOCUMENT"}),
        ("cacheTokensDetails", {"TEXT", "IMAGE", "VIDEO", "DOCUMENT"}),
        ("toolUsePromptTokensDetails", {"TEXT", "IMAGE", "VIDEO", "DOCUMENT"}),
        ("candidatesTokensDetails", {"TEXT"}),
    ):
        parts = counts.get(name)
        for part in parts if isinstance(parts, list) else ():
            kind = part.get("modality") if isinstance(part, Mapping) else None
            if kind is not None and _count(part, "tokenCount") and kind not in at_the_price_of_text:
                return f"{str(kind)[:20].lower()} tokens"
    return None


def _tier(
    tier: object, standard: frozenset[object] | set[object] = frozenset({"default", "auto", "standard", None})
) -> str | None:
    if isinstance(tier, str | None) and tier in standard:
        return None
    return f"service tier {str(tier)[:40]}"
