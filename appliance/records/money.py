"""US dollars as decimal strings: exact in every reader, which a JSON number is not."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Context, Decimal
from typing import Annotated, Final

from pydantic import StringConstraints

Usd = Annotated[str, StringConstraints(pattern=r"^(0|[1-9][0-9]{0,11})(\.[0-9]{1,18})?$")]
"""`0.15`: no sign, no exponent, at most 18 places."""

_EXACT: Final = Context(prec=60)
"""12 + 18 digits an amount: a sum of any number of trials that fits in memory stays exact."""


def total_usd(amounts: Iterable[str | None]) -> str | None:
    """The exact sum; None as soon as one amount is None, and for no amounts at all."""
    total: Decimal | None = None
    for amount in amounts:
        if amount is None:
            return None
        total = _EXACT.add(total or Decimal(0), Decimal(amount))
    return None if total is None else _plain(total)


def _plain(amount: Decimal) -> str:
    text = format(amount, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
