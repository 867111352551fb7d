"""How much may be asked of a model, for a trial and for a run: looked at before each request.

What is under way counts as if it had used all that it may: a request that does not fit beside it waits until that has
ended. One that nothing is under way beside is sent while anything is left, so that a budget is passed by one request's
worth at most, however many are asked at the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Final, Literal

from appliance.records.money import total_usd
from appliance.records.trial import Usage


@dataclass(frozen=True)
class Budget:
    """None: no bound. `usd` is a decimal string."""

    tokens: int | None = None
    usd: str | None = None
    exchanges: int | None = None


@dataclass(frozen=True)
class Spent:
    tokens: int = 0
    """All that went in and all that came out."""
    usd: str | None = "0"
    """None as soon as one exchange had no price."""
    exchanges: int = 0
    """Passed on to the model: what the gateway itself answered costs nothing."""

    def begun(self) -> Spent:
        return replace(self, exchanges=self.exchanges + 1)

    def ended(self, usage: Usage, cost_usd: str | None) -> Spent:
        tokens = self.tokens + usage.input_tokens + usage.output_tokens
        return replace(self, tokens=tokens, usd=total_usd((self.usd, cost_usd)))


def used_up(budget: Budget, spent: Spent) -> str | None:
    """What of it is gone, in words; None while another request may be sent.

    The last request may pass the bound by what its answer takes: nobody knows that before.
    """
    if budget.exchanges is not None and spent.exchanges >= budget.exchanges:
        return f"{spent.exchanges} of {budget.exchanges} exchanges"
    if budget.tokens is not None and spent.tokens >= budget.tokens:
        return f"{spent.tokens} of {budget.tokens} tokens"
    if budget.usd is None:
        return None
    if spent.usd is None:
        return f"an exchange had no price, so that {budget.usd} US dollars cannot be kept to"
    return f"{spent.usd} of {budget.usd} US dollars" if Decimal(spent.usd) >= Decimal(budget.usd) else None


def at_most(request_bytes: int, answer_bytes: int) -> Usage:
    """What a budget counts where an answer does not say its tokens: a token has at least one byte."""
    return Usage(
        input_tokens=request_bytes,
        cache_read_tokens=0,
        cache_write_tokens=0,
        output_tokens=answer_bytes,
        reasoning_tokens=0,
    )


@dataclass(frozen=True)
class Over:
    whose: Literal["trial", "run"]
    words: str


@dataclass(frozen=True)
class Estimate:
    """What a request may use at most, as far as that can be told before."""

    tokens: int
    usd: str | None
    """None: no price."""


_ANSWER_TOKENS: Final = 16_384
"""Held for an answer whose request names no bound."""


def estimated(
    request_bytes: int, answer_tokens: int | None, price: Callable[[Usage], str | None] | None = None
) -> Estimate:
    """`price`: of tokens; None where no budget is in dollars."""
    usage = at_most(request_bytes, answer_tokens or _ANSWER_TOKENS)
    return Estimate(usage.input_tokens + usage.output_tokens, None if price is None else price(usage))


class Ledger:
    """What one trial and its run have used. `run` is shared by the trials; all of it lives on one loop."""

    def __init__(self, budget: Budget, run: Ledger | None = None, spent: Spent | None = None):
        self.budget = budget
        self.spent = spent or Spent()
        self._run = run
        self._under_way = 0
        self._held_tokens, self._held_usd = 0, Decimal(0)
        self._waiting: set[asyncio.Future[None]] = set()

    def check(self) -> Over | None:
        """Why no request may be sent now: the run's budget first, for it ends more."""
        if self._run is not None and (words := used_up(self._run.budget, self._run.spent)):
            return Over("run", words)
        words = used_up(self.budget, self.spent)
        return Over("trial", words) if words else None

    async def reserve(self, estimate: Estimate) -> Over | None:
        """Waits until there is room for it. None: it is held, and to be released."""
        while (over := self.check()) is None:
            if self._fits(estimate) and (self._run is None or self._run._fits(estimate)):
                self._hold(estimate, 1)
                return None
            woken = asyncio.get_running_loop().create_future()
            waiting = (self._run or self)._waiting
            waiting.add(woken)
            try:
                await woken
            finally:
                waiting.discard(woken)
        return over

    def release(self, estimate: Estimate) -> None:
        """Once what it was held for has been counted; whoever waits looks again."""
        self._hold(estimate, -1)
        for woken in (self._run or self)._waiting:
            if not woken.done():
                woken.set_result(None)

    def begin(self) -> None:
        """As soon as a request is let through, so that the bound on exchanges holds for those at the same time too."""
        self.spent = self.spent.begun()
        if self._run is not None:
            self._run.begin()

    def end(self, usage: Usage, cost_usd: str | None) -> None:
        self.spent = self.spent.ended(usage, cost_usd)
        if self._run is not None:
            self._run.end(usage, cost_usd)

    @property
    def in_dollars(self) -> bool:
        return self.budget.usd is not None or (self._run is not None and self._run.in_dollars)

    def _fits(self, estimate: Estimate) -> bool:
        if self._under_way == 0:
            return True
        tokens = self.spent.tokens + self._held_tokens + estimate.tokens
        if self.budget.tokens is not None and tokens > self.budget.tokens:
            return False
        if self.budget.usd is None:
            return True
        usd = Decimal(self.spent.usd or 0) + self._held_usd + Decimal(estimate.usd or 0)
        return usd <= Decimal(self.budget.usd)

    def _hold(self, estimate: Estimate, sign: int) -> None:
        self._under_way += sign
        self._held_tokens += sign * estimate.tokens
        self._held_usd += sign * Decimal(estimate.usd or 0)
        if self._run is not None:
            self._run._hold(estimate, sign)


def unpriced(budget: Budget, model: str, provider: str, at: datetime) -> str | None:
    """Why a budget in dollars cannot be kept for this model; None where it can, or where there is none."""
    from appliance.gateway.pricing import cost_of_tokens

    if budget.usd is None or cost_of_tokens(at_most(1, 1), model, provider, at) is not None:
        return None
    return f"the prices know no model {model!r} of {provider}: a budget in dollars cannot be kept"
