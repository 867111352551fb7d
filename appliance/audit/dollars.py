"""What a trial's answers cost, made again from their tokens (row M15).

By the list that the record names, where it is the one installed here: to the last digit, or refused. By another release
of the same list the same model has nearly always the same price on the same day, so ours is asked all the same: what
differs is told with both amounts, and what no release can be right about is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

from appliance.audit.exchanges import Counting
from appliance.audit.plans import short
from appliance.gateway.cassette_shapes import CassetteHead
from appliance.records.money import total_usd
from appliance.records.record import PricesStamp, Record
from appliance.records.trial import TrialResult
from attest.errors import Refused


def list_is_named(record: Record) -> None:
    """A record has the stamp of a list exactly where its answers have a price, and of the one list that there is."""
    from appliance.gateway.pricing import is_sold

    upstream, stated = record.plan.upstream, record.prices
    sold = upstream is not None and is_sold(upstream.provider)
    if stated is not None and not sold:
        whose = "no model" if upstream is None else f"a model of {upstream.provider}"
        raise Refused("aggregate", f"a list of prices, and the plan has {whose}: no list has those", where="$.prices")
    if stated is None and sold:
        raise Refused("aggregate", "no list of prices, and the plan's provider sells its answers", where="$.prices")
    if stated is not None and stated.source != _installed().source:
        words = f"{short(stated.source)}, and prices are those of {_installed().source}"
        raise Refused("aggregate", words, where="$.prices.source")


def cost(
    record: Record, trial: TrialResult, head: CassetteHead, answers: Sequence[Counting], here: str
) -> tuple[str, ...]:
    """What has to be told of dollars that another release of the list gave. Raises Refused (aggregate)."""
    told = tuple(remark for one in answers if (remark := _cost_of_one(record, head, one, here)) is not None)
    summed = total_usd(one.told.cost_usd for one in answers) if answers else of_nothing(record)
    stated = trial.cost_usd.subject
    if stated != summed:
        words = f"{stated} stated, {summed} by its cassette"
        raise Refused("aggregate", words, where=f"{here}.costUsd.subject")
    return told


def _cost_of_one(record: Record, head: CassetteHead, one: Counting, here: str) -> str | None:
    from appliance.gateway.pricing import cost_of

    place, stated = f"{here}.cassette: {one.told.order:05d}", one.told.cost_usd
    upstream, model = record.plan.upstream, record.plan.model
    if one.counted is None or record.prices is None or upstream is None or model is None:
        ours = None
    else:
        ours = cost_of(one.counted, model, upstream.provider, datetime.fromisoformat(head.prices_at))
    if stated == ours:
        return None
    words = f"{stated} US dollars stated, {ours} by its tokens"
    same_list = record.prices is None or record.prices == _installed()
    if same_list or _never_right(one, stated, ours):
        raise Refused("aggregate", words, where=place)
    return f"{place}: {words}"


def _never_right(one: Counting, stated: str | None, ours: str | None) -> bool:
    """A price for what has none in any list; nothing for what ours has a price for."""
    if stated is None:
        return False
    if one.counted is None or one.counted.unpriced is not None:
        return True
    return ours is not None and not Decimal(stated) and bool(Decimal(ours))


def unlike(record: Record, remarks: Sequence[str]) -> str:
    """In words, of a record with at least one remark."""
    count = f"{len(remarks)} answers" if len(remarks) > 1 else "one answer"
    return (
        f"priced by {_stamp(record.prices)}, and installed here is {_stamp(_installed())}: by it {count} would have "
        f"another price, or none; {remarks[0]}"
    )


def of_nothing(record: Record) -> str | None:
    """What a trial costs that no model answered."""
    from appliance.gateway.pricing import cost_of_nothing

    return None if record.plan.upstream is None else cost_of_nothing(record.plan.upstream.provider)


def _installed() -> PricesStamp:
    from appliance.gateway.prices import stamp

    return stamp()


def _stamp(prices: PricesStamp | None) -> str:
    return "no list" if prices is None else f"{prices.source} {prices.version}"
