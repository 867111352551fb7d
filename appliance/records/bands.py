"""The tolerances of a verdict: rates by Wilson's interval, energy by a band between like hosts, cost (decisions.md)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from appliance.records.energy import EnergyFigure
from appliance.records.frontier import LIKE_HOSTS, unlike_bases
from appliance.records.money import total_usd
from appliance.records.plan import TrialKey
from appliance.records.record import HostStamp, Record
from appliance.records.summarise import COUNTED, energy_sum
from appliance.records.summary import EnergySum
from appliance.records.trial import TrialResult
from appliance.records.verdict import ComparedEnergy, ComparedRate, Judgement, VerdictPart
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
    if recorded.plan.energy != again.plan.energy:
        return _incomparable(f"$.plan.energy: recorded {recorded.plan.energy}, now {again.plan.energy}"), ()
    if why := _unlike(recorded.hosts, again.hosts):
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
    if len(before) != 1 or len(after) != 1:
        return "more than one host" if before and after else "no host"
    for field in LIKE_HOSTS:
        one, other = getattr(before[0], field), getattr(after[0], field)
        if one != other:
            return f"unlike hosts: $.hosts[0].{field}: recorded {one}, now {other}"
    return None


def cost(recorded: Record, again: Record, old: Trials, new: Trials, *, live: bool) -> VerdictPart:
    """Totals of the counted trials: equal where nothing was asked anew, within the band where it was."""
    if (recorded.prices is None) != (again.prices is None) or (recorded.prices != again.prices):
        return _incomparable(f"$.prices: recorded {recorded.prices}, now {again.prices}")
    before, after = (
        total_usd(trial.cost_usd.subject for trial in trials.values() if trial.outcome in COUNTED)
        for trials in (old, new)
    )
    if before is None or after is None:
        return _incomparable("not everything is priced")
    low, high = sorted((float(before), float(after)))
    holds = high <= LIVE_COST_BAND * low if live else before == after
    words = (f"recorded {before} US dollars, now {after}",)
    return VerdictPart(verdict="reproduced", reasons=()) if holds else VerdictPart(verdict="diverged", reasons=words)


def _incomparable(why: str) -> VerdictPart:
    return VerdictPart(verdict="incomparable", reasons=(why,))
