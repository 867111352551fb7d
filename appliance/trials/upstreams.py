"""Which provider answers a run's solvers, decided from words alone; what it may cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final

from appliance.errors import UsageRefused
from appliance.records.money import total_usd
from appliance.records.plan import PlannedBudget, TrialPlan, trial_keys
from appliance.records.trial import Usage
from appliance.records.words import Provider
from appliance.solvers.definition import SolverDefinition, Wire

SPEAKS: Final[Mapping[Provider, frozenset[Wire]]] = {
    "anthropic": frozenset({"anthropic"}),
    "openai": frozenset({"openai-chat", "openai-responses"}),
    "google": frozenset({"gemini"}),
    "compatible": frozenset({"openai-chat", "openai-responses"}),
    "local": frozenset({"openai-chat", "openai-responses", "anthropic"}),
}
_USUAL: Final[Mapping[Wire, Provider]] = {
    "anthropic": "anthropic",
    "openai-chat": "openai",
    "openai-responses": "openai",
    "gemini": "google",
}
_MILLION: Final = 1_000_000


def provider_for(
    solvers: Sequence[SolverDefinition], asked: Provider | None, *, url: str | None, weights: bool
) -> Provider:
    """At least one solver has a wire. `weights`: the model is one that is served here, as far as anybody knows.

    Raises UsageRefused for a wire that the provider does not speak, and for wires that no one provider speaks.
    """
    wires = {solver.wire: solver for solver in solvers if solver.wire is not None}
    provider = asked or ("local" if weights else _usual(wires, url))
    for wire, solver in sorted(wires.items()):
        if wire not in SPEAKS[provider]:
            spoken = ", ".join(sorted(SPEAKS[provider]))
            others = sorted(name for name, speaks in SPEAKS.items() if wire in speaks)
            raise UsageRefused(
                f"solver {solver.name} speaks {wire}; the provider {provider} speaks {spoken}",
                where="--provider",
                mend=f"--provider {' or '.join(others)}, or another solver",
            )
    return provider


def _usual(wires: Mapping[Wire, SolverDefinition], url: str | None) -> Provider:
    usual = {_USUAL[wire] for wire in wires}
    if len(usual) > 1:
        raise UsageRefused(
            f"these solvers speak {', '.join(sorted(wires))}: no one provider is usual for all of them",
            where="--provider",
            mend="name one, or run the solvers one by one",
        )
    found = usual.pop()
    return "compatible" if url is not None and found == "openai" else found


@dataclass(frozen=True)
class Dollars:
    """What a run's model may cost: nobody knows what it will."""

    words: str
    worst_usd: str | None = None
    """None: unbounded, or unknown."""
    input_per_million_usd: str | None = None
    output_per_million_usd: str | None = None


def dollars_of(plans: Sequence[TrialPlan], at: datetime) -> Dollars:
    """From budgets and the list prices of `at`; plans of one run share model, provider and the run's budget."""
    asking = [plan for plan in plans if plan.upstream is not None]
    if not asking:
        named = any(plan.model is not None for plan in plans)
        return Dollars("nothing of ours: the model is in no provider's hands that we ask" if named else "0 (no model)")
    first = asking[0]
    upstream, model = first.upstream, first.model or ""
    assert upstream is not None  # noqa: S101  # the list holds no other
    if upstream.provider == "local":
        return Dollars("no price: a model of this machine's own takes joules")
    entering, leaving = _per_million(model, upstream.provider, at)
    if entering is None or leaving is None:
        return Dollars(f"unknown: the prices know no {model} of {upstream.provider}")
    prices = f"{entering} a million tokens in, {leaving} out"
    trials = sum(len(trial_keys(plan)) for plan in asking)
    dearest = max(Decimal(entering), Decimal(leaving)) / _MILLION
    bounds = [(_worst(upstream.budget, dearest), trials, "a trial"), (_worst(upstream.run_budget, dearest), 1, "a run")]
    known = [(worst * times, whose) for worst, times, whose in bounds if worst is not None]
    if not known:
        words = f"unbounded: {prices}; --budget-usd and --run-budget-usd bound it"
        return Dollars(words, None, entering, leaving)
    worst, whose = min(known)
    amount = total_usd((_text(worst),))
    return Dollars(
        f"at most {amount}, by the budget of {whose}, and its last answer ({prices})", amount, entering, leaving
    )


def _per_million(model: str, provider: str, at: datetime) -> tuple[str | None, str | None]:
    from appliance.gateway.pricing import cost_of_tokens

    def cost(entering: int, leaving: int) -> str | None:
        usage = Usage(
            input_tokens=entering, cache_read_tokens=0, cache_write_tokens=0, output_tokens=leaving, reasoning_tokens=0
        )
        found = cost_of_tokens(usage, model, provider, at)
        return None if found is None else _text(Decimal(found) * 1000)

    # Of a thousand: a price may step up where a single request takes more than most.
    return cost(1000, 0), cost(0, 1000)


def _worst(budget: PlannedBudget, dearest: Decimal) -> Decimal | None:
    """The tightest of what is bounded; exchanges bound no dollars."""
    bounds = [Decimal(budget.usd)] if budget.usd is not None else []
    bounds += [budget.tokens * dearest] if budget.tokens is not None else []
    return min(bounds) if bounds else None


def _text(amount: Decimal) -> str:
    text = format(amount, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
