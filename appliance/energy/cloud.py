"""What a provider's machines drew for an answer, by its tokens: a model's word, never a measurement (row J33).

`cloud-tokens/1`  sum over the kinds of token of (tokens x microjoules a token); the interval is the same sum over the
                  low and over the high coefficients.

No provider tells what an answer took. The coefficients are of a large hosted model on data-centre GPUs, the cooling of
the hall included; where a small model answers, or one with a batch of its own, the truth may lie outside.

output   2.2 J [0.39, 10]: Epoch AI (2025), 0.3 Wh for a typical answer of GPT-4o of 500 tokens; the low end is a model
         of 70 billion parameters in 8 bits on an H100 under full load, the high end such nodes at batches of eight.
input    0.3 J [0.05, 0.8]: prefill is bound by arithmetic: 2 operations a parameter, 100 billion active, an H100 at
         40 % of its 8-bit peak in a node of 1.2 kW a GPU; a tenth of that many parameters, and 16 bits, are the ends.
cached   0.03 J [0, 0.3]: read from memory; providers price it at a tenth of input, which is all that is known of it.
Reasoning tokens are output tokens; written to a cache is input.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

MODEL: Final = "cloud-tokens/1"
SOURCE: Final = "Epoch AI 2025 (0.3 Wh an answer of 500 tokens); prefill by arithmetic; docs/energy.md"


@dataclass(frozen=True)
class Coefficient:
    """Microjoules a token."""

    point: int
    low: int
    high: int


OUTPUT: Final = Coefficient(2_200_000, 390_000, 10_000_000)
INPUT: Final = Coefficient(300_000, 50_000, 800_000)
CACHED: Final = Coefficient(30_000, 0, 300_000)


@dataclass(frozen=True)
class CloudEstimate:
    """Microjoules; `interval` is of `net_uj`."""

    inputs: Mapping[str, Any]
    net_uj: int
    interval: tuple[int, int]


def cloud(input_tokens: int, cache_read_tokens: int, output_tokens: int) -> CloudEstimate:
    """`input_tokens` are all of the prompt's, those read from a cache included; `output_tokens` reasoning included."""
    kinds = ((max(0, input_tokens - cache_read_tokens), INPUT), (cache_read_tokens, CACHED), (output_tokens, OUTPUT))
    return CloudEstimate(
        inputs={
            "inputTokens": input_tokens,
            "cacheReadTokens": cache_read_tokens,
            "outputTokens": output_tokens,
            "microjoulesAToken": {
                name: [one.point, one.low, one.high]
                for name, one in (("input", INPUT), ("cached", CACHED), ("output", OUTPUT))
            },
            "source": SOURCE,
        },
        net_uj=sum(tokens * one.point for tokens, one in kinds),
        interval=(sum(tokens * one.low for tokens, one in kinds), sum(tokens * one.high for tokens, one in kinds)),
    )
