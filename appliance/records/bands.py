"""The tolerances of a verdict: rates by Wilson's interval, energy by a band between like hosts, cost (decisions.md)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Final

from appliance.records.energy import EnergyFigure
from appliance.records.frontier import LIKE_HOSTS, unlike_bases
from appliance.records.money import total_usd
from appliance.records.plan import TrialKey
from appliance.records.record import HostStamp, Record
from appliance.records.replays import is_replay
from appliance.records.summarise import COUNTED, energy_sum
from appliance.records.summary import EnergySum
from appliance.records.trial import TrialResult
from appliance.records.verdict import (
    ComparedCost,
    ComparedEnergy,
    ComparedRate,
    Judgement,
    PairedFlips,
    TaskFlips,
    VerdictPart,
)
from appliance.records.words import Provenance

Trials = Mapping[TrialKey, TrialResult]

ENERGY_BANDS: Final[Mapping[Provenance, float]] = {"hw_shunt": 1.2, "model_based": 1.5, "estimator": 3.0}
"""No band for `simulated`: such joules are of no machine."""
LIVE_COST_BAND: Final = 1.5
"""Ours: a live model's answers differ in length; prices do not."""
_Z95: Final = 1.959963984540054
"""97.5th percentile of the normal distribution: two-sided 95 %."""


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """The 95 % score interval of a rate (Wilson 1927); `trials` > 0."""
    rate, squared = successes / trials, _Z95 * _Z95
    centre = rate + squared / (2 * trials)
    spread = _Z95 * math.sqrt(rate * (1 - rate) / trials + squared / (4 * trials * trials))
    whole = 1 + squared / trials
    low = 0.0 if successes == 0 else (centre - spread) / whole
    high = 1.0 if successes == trials else (centre + spread) / whole
    return low, high


def rates(old: Iterable[TrialResult], new: Iterable[TrialResult], tolerance: float | None) -> tuple[ComparedRate, ...]:
    """One a pass that was scored on both sides."""
    before, after = _scored(old), _scored(new)
    found = []
    for sweep in sorted(before.keys() & after.keys()):
        recorded = before[sweep][0] / before[sweep][1]
        resolved, scored = after[sweep]
        again = resolved / scored
        low, high = wilson(resolved, scored) if tolerance is None else (again - tolerance, again + tolerance)
        holds = low <= recorded <= high
        found.append(
            ComparedRate(pass_=sweep, recorded=recorded, again=again, interval=(low, high), holds=holds),
        )
    return tuple(found)


def _scored(trials: Iterable[TrialResult]) -> dict[int, tuple[int, int]]:
    """Pass -> (resolved, scored)."""
    counts: dict[int, tuple[int, int]] = {}
    for trial in trials:
        if trial.outcome in ("resolved", "unresolved"):
            resolved, scored = counts.get(trial.key.pass_, (0, 0))
            counts[trial.key.pass_] = (resolved + (trial.outcome == "resolved"), scored + 1)
    return counts


def energy(
    recorded: Record, again: Record, old: Trials, new: Trials, outcome: Judgement
) -> tuple[VerdictPart, tuple[ComparedEnergy, ...]]:
    """By pass, over the trials that count on both sides. Never decides the outcome."""
    if outcome == "incomparable":
        return _incomparable("the outcomes are incomparable"), ()
    if why := _two_things(recorded, again):
        return _incomparable(why), ()
    both = [key for key in old if key in new and old[key].outcome in COUNTED and new[key].outcome in COUNTED]
    found: list[ComparedEnergy] = []
    for sweep in sorted({key.pass_ for key in both}):
        keys = [key for key in both if key.pass_ == sweep]
        before, after = _sum([old[key] for key in keys]), _sum([new[key] for key in keys])
        one = _compared_sum(sweep, before, after)
        if isinstance(one, str):
            return _incomparable(f"pass {sweep}: {one}"), ()
        found.append(one)
    if not found:
        return _incomparable("no trial counts on both sides"), ()
    wide = [
        f"pass {one.pass_}: recorded {one.recorded_uj / 1e6:g} J, now {one.again_uj / 1e6:g} J, more than {one.band:g}x"
        for one in found
        if not one.holds
    ]
    return VerdictPart(verdict="diverged" if wide else "reproduced", reasons=tuple(wide)), tuple(found)


def _two_things(recorded: Record, again: Record) -> str | None:
    if is_replay(recorded) != is_replay(again):
        return "one of both asked no model: it is a replay"
    if recorded.plan.energy != again.plan.energy:
        return f"$.plan.energy: recorded {recorded.plan.energy}, now {again.plan.energy}"
    return _unlike(recorded.hosts, again.hosts)


def _sum(trials: Sequence[TrialResult]) -> EnergySum | None:
    figures: list[EnergyFigure | None] = [trial.energy.total if trial.energy else None for trial in trials]
    return energy_sum(figures)


def _compared_sum(sweep: int, before: EnergySum | None, after: EnergySum | None) -> ComparedEnergy | str:
    """Or why there is nothing to compare."""
    if before is None or after is None or before.net_uj is None or after.net_uj is None:
        return "a figure is missing"
    if before.provenance != after.provenance:
        return f"provenance differs: recorded {before.provenance}, now {after.provenance}"
    if unlike_bases((before, after)):
        return f"basis differs: recorded {_bases(before)}, now {_bases(after)}"
    for field, words in (("below_floor", "the floor"), ("below_lod", "the limit of detection")):
        one, other = getattr(before, field), getattr(after, field)
        if one or other:
            return f"below {words}: {one} recorded, {other} now"
    band = ENERGY_BANDS.get(before.provenance)
    if band is None:
        return f"no band for {before.provenance}"
    low, high = sorted((before.net_uj, after.net_uj))
    return ComparedEnergy(
        pass_=sweep, recorded_uj=before.net_uj, again_uj=after.net_uj, band=band, holds=high <= band * low
    )


def _bases(energy: EnergySum) -> str:
    return f"{energy.basis} ({energy.modelled} of {energy.trials} modelled)"


def _unlike(before: Sequence[HostStamp], after: Sequence[HostStamp]) -> str | None:
    """Why two sets of hosts are not like."""
    if any(len({host.id for host in hosts}) != 1 for hosts in (before, after)):
        return "more than one host" if before and after else "no host"
    for field in LIKE_HOSTS:
        one, other = (sorted({str(getattr(host, field)) for host in hosts}) for hosts in (before, after))
        if one != other or len(one) > 1:
            return f"unlike hosts: $.hosts[0].{field}: recorded {', '.join(one)}, now {', '.join(other)}"
    return None


def cost(
    recorded: Record, again: Record, old: Trials, new: Trials, *, live: bool
) -> tuple[VerdictPart, ComparedCost | None]:
    """Totals of the counted trials: equal where nothing was asked anew, within the band where it was.

    No figures where neither side has a price: then there is nothing to show.
    """
    before, after = (
        total_usd(trial.cost_usd.subject for trial in trials.values() if trial.outcome in COUNTED)
        for trials in (old, new)
    )
    band = LIVE_COST_BAND if live else 1.0

    def told(holds: bool | None) -> ComparedCost | None:
        if before is None and after is None:
            return None
        return ComparedCost(recorded_usd=before, again_usd=after, band=band, holds=holds)

    if recorded.prices != again.prices:
        return _incomparable(f"$.prices: recorded {recorded.prices}, now {again.prices}"), told(None)
    if before is None or after is None:
        return _incomparable("not everything is priced"), told(None)
    low, high = sorted((Decimal(before), Decimal(after)))
    if high <= Decimal(str(band)) * low:
        return VerdictPart(verdict="reproduced", reasons=()), told(True)
    words = (f"recorded {before} US dollars, now {after}",)
    return VerdictPart(verdict="diverged", reasons=words), told(False)


def paired(old: Trials, new: Trials) -> PairedFlips | None:
    """Over the trials that were scored both times; None where there are none."""
    counts: dict[str, Counter[tuple[bool, bool]]] = {}
    for key, trial in old.items():
        after = new.get(key)
        if after is not None and {trial.outcome, after.outcome} <= {"resolved", "unresolved"}:
            pair = trial.outcome == "resolved", after.outcome == "resolved"
            counts.setdefault(key.task, Counter())[pair] += 1
    if not counts:
        return None
    tasks = tuple(
        TaskFlips(
            task=task,
            both=found[True, True],
            only_recorded=found[True, False],
            only_again=found[False, True],
            neither=found[False, False],
        )
        for task, found in sorted(counts.items())
    )
    return PairedFlips(
        tasks=tasks,
        p_value=sign_test(sum(one.only_recorded for one in tasks), sum(one.only_again for one in tasks)),
    )


def sign_test(fewer: int, more: int) -> float:
    """Exact and two-sided: how often fair coins fall as unevenly as `fewer` to `more` (McNemar's, not approximated;
    Dixon and Mood 1946). 1 where nothing flipped.
    """
    flipped = fewer + more
    tail, term = 0, 1
    for heads in range(min(fewer, more) + 1):
        tail += term
        term = term * (flipped - heads) // (heads + 1)
    return min(1.0, float(Fraction(2 * tail, 2**flipped)))


def _incomparable(why: str) -> VerdictPart:
    return VerdictPart(verdict="incomparable", reasons=(why,))
