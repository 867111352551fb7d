"""What tokens cost, in US dollars, by the list prices of the day that they were asked for (docs/prices.md)."""

from __future__ import annotations

from datetime import datetime
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from appliance.gateway.usage import Counted
from appliance.records.record import PricesStamp
from appliance.records.trial import Usage

if TYPE_CHECKING:
    from genai_prices.types import PriceCalculation

_SOURCE: Final = "genai-prices"
_PROVIDERS: Final = frozenset({"anthropic", "openai", "google"})
_SEARCHES: Final = "-search-preview"
"""In the name of models that search the web at every request, for a fee of its own."""
_PLACES: Final = Decimal("1e-18")
"""As many as `records.money` writes; no list price times a count needs more."""


def price(
    usage: Usage, model: str, provider: str | None, at: datetime, *, cache_write_1h_tokens: int = 0
) -> str | None:
    """A decimal string; None where the prices do not know this model at this provider: never 0 for what is unknown.

    `provider`: anthropic, openai or google; of what any other server costs no list tells. `at`: with its time zone.
    One request's usage at a time: what a token costs may depend on how many went in with it.
    """
    if provider not in _PROVIDERS or _SEARCHES in model:
        return None
    # A tenth of a second, and 1.6 MB of prices: for whoever asks for one.
    from genai_prices import Usage as Asked
    from genai_prices import calc_price

    tokens = Asked(
        input_tokens=usage.input_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        cache_write_1h_tokens=cache_write_1h_tokens,
        output_tokens=usage.output_tokens,
    )
    try:
        with localcontext(prec=60):
            found = calc_price(tokens, model, provider_id=provider, genai_request_timestamp=at)
            return _text(found.total_price) if _covers(found, usage) else None
    except (LookupError, ValueError):
        return None


def price_of(counted: Counted, model: str, provider: str | None, at: datetime) -> str | None:
    """`price`, and None also where the provider charges for what the tokens do not say (`counted.unpriced`)."""
    if counted.unpriced is not None:
        return None
    return price(counted.usage, model, provider, at, cache_write_1h_tokens=counted.cache_write_1h_tokens)


def stamp() -> PricesStamp:
    """Of the prices that `price` reads; stands in the record."""
    return PricesStamp(source=_SOURCE, version=version(_SOURCE))


def _covers(found: PriceCalculation, usage: Usage) -> bool:
    """A list without a price for a direction says nothing of it; its library would take it for free."""
    return (not usage.input_tokens or found.model_price.input_mtok is not None) and (
        not usage.output_tokens or found.model_price.output_mtok is not None
    )


def _text(amount: Decimal) -> str:
    text = format(amount.quantize(_PLACES, ROUND_HALF_EVEN), "f")
    return text.rstrip("0").rstrip(".")
