"""Which provider's prices an upstream is charged by."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from appliance.gateway.prices import price, price_of
from appliance.gateway.usage import Counted
from appliance.records.trial import Usage

_SELLERS: Final = frozenset({"anthropic", "openai", "google"})
"""A compatible server is somebody's, at prices that no list knows; a local one takes joules, not dollars."""


def cost_of_tokens(usage: Usage, model: str, provider: str, at: datetime) -> str | None:
    return price(usage, model, provider, at) if provider in _SELLERS else None


def cost_of(counted: Counted, model: str, provider: str, at: datetime) -> str | None:
    """A decimal string; None is unknown, never zero."""
    return price_of(counted, model, provider, at) if provider in _SELLERS else None


def is_sold(provider: str) -> bool:
    """Whether a list has prices for what this provider answers."""
    return provider in _SELLERS


def cost_of_nothing(provider: str) -> str | None:
    """What no answer at all costs: nothing where answers have a price, and unknown where they have none."""
    return "0" if is_sold(provider) else None
