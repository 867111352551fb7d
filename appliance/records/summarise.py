"""Aggregates of a record, recomputed by anyone from its plan and trials. Pure: equal input, equal bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import Final, TypeVar

from appliance.records.money import total_usd
from appliance.records.outline import AnyFigure, AnyTrial
from appliance.records.plan import TrialPlan
from appliance.records.summary import BestOfK, EnergySum, NumberOrInfinity, PassSummary, Summary
from appliance.records.trial import Usage
from appliance.records.words import BASIS_BEST_FIRST, OUTCOMES, PROVENANCE_BEST_FIRST, Outcome

SCORED: Final[frozenset[Outcome]] = frozenset({"resolved", "unresolved"})
COUNTED: Final[frozenset[Outcome]] = SCORED | {"unscored"}

Word = TypeVar("Word", bound=str)


def summarise(plan: TrialPlan, trials: Sequence[AnyTrial]) -> Summary:
    """One entry a pass of the plan, also for a pass of which nothing ran."""
    by_pass: dict[int, list[AnyTrial]] = {sweep: [] for sweep in range(plan.passes)}
    for trial in trials:
        by_pass[trial.key.pass_].append(trial)
    planned = len(plan.tasks) * plan.rollouts
    return Summary(passes=tuple(_one_pass(plan, sweep, planned, by_pass[sweep]) for sweep in range(plan.passes)))


def _one_pass(plan: TrialPlan, sweep: int, planned: int, trials: Sequence[AnyTrial]) -> PassSummary:
    outcomes = Counter(trial.outcome for trial in trials)
    counted = [trial for trial in trials if trial.outcome in COUNTED]
    resolved, scored = outcomes["resolved"], outcomes["resolved"] + outcomes["unresolved"]
    energy = energy_sum([trial.energy.total if trial.energy else None for trial in counted])
    walls = [trial.wall_seconds for trial in counted if trial.wall_seconds is not None]
    costs = [trial.cost_usd.subject for trial in counted]
    some_priced = plan.model is not None or any(cost is not None for cost in costs)
    return PassSummary(
        pass_=sweep,
        planned=planned,
        outcomes={outcome: outcomes[outcome] for outcome in OUTCOMES},
        not_run=planned - len(trials),
        reasons=_counts(trial.reason for trial in trials),
        causes=_counts(trial.cause for trial in counted),
        after_subject=sum(trial.after_subject for trial in trials),
        resolution=resolved / scored if scored else None,
        lower_bound=resolved / planned if planned else 0.0,
        energy=energy,
        local=_side(counted, _local),
        cloud=_side([trial for trial in counted if _far(trial)], _far),
        usage=_usage(counted),
        joules_per_resolved=_joules_per_resolved(energy, resolved),
        wall_median_seconds=float(median(walls)) if walls and len(walls) == len(counted) else None,
        cost_usd=total_usd(costs),
        partially_priced=some_priced and None in costs,
        best_of_k=tuple(best_of_k(counted, k) for k in range(1, plan.rollouts + 1)) if plan.rollouts > 1 else (),
    )


def _counts(words: Iterable[Word | None]) -> dict[Word, int]:
    return dict(sorted(Counter(word for word in words if word is not None).items()))


def _joules_per_resolved(energy: EnergySum | None, resolved: int) -> NumberOrInfinity | None:
    if resolved == 0:
        return "Infinity"
    if energy is None or energy.net_uj is None:
        return None
    return energy.net_uj / 1e6 / resolved


def energy_sum(figures: Sequence[AnyFigure | None]) -> EnergySum | None:
    """A sum shows its worst provenance and basis, and is None as soon as one part is (rows J46, L6).

    `figures` has an entry for every trial that the sum is of; None for a trial without any figure.
    """
    known = [figure for figure in figures if figure is not None]
    if not known:
        return None
    whole = len(known) == len(figures)
    intervals = [figure.interval for figure in known if figure.interval is not None]
    flags = Counter(flag for figure in known for flag in figure.flags)
    return EnergySum(
        provenance=max((figure.provenance for figure in known), key=PROVENANCE_BEST_FIRST.index),
        basis=max((figure.basis for figure in known), key=BASIS_BEST_FIRST.index),
        net_uj=_sum(figure.net_uj for figure in known) if whole else None,
        gross_uj=_sum(figure.gross_uj for figure in known) if whole else None,
        ratio_uj=_sum(figure.ratio_uj for figure in known) if whole else None,
        interval=(sum(low for low, _ in intervals), sum(high for _, high in intervals))
        if len(intervals) == len(figures)
        else None,
        uncertainty_uj=_sum(figure.uncertainty_uj for figure in known) if whole else None,
        lod_uj=_sum(figure.lod_uj for figure in known) if whole else None,
        trials=len(figures),
        below_floor=sum(figure.below_floor for figure in known),
        below_lod=sum(figure.below_lod for figure in known),
        missing=sum(figure is None or figure.net_uj is None for figure in figures),
        modelled=sum(figure.basis == "modelled" for figure in known),
        flags=dict(sorted(flags.items())),
    )


def _sum(parts: Iterable[int | None]) -> int | None:
    total = 0
    for part in parts:
        if part is None:
            return None
        total += part
    return total


def best_of_k(counted: Sequence[AnyTrial], k: int) -> BestOfK:
    """The first k rollouts of every task of one pass, costs and joules cumulative (rows J28, J29)."""
    first = [trial for trial in counted if trial.key.rollout < k]
    scored = {trial.key.task for trial in counted if trial.outcome in SCORED}
    resolved = {trial.key.task for trial in first if trial.outcome == "resolved"}
    return BestOfK(
        k=k,
        fraction=len(resolved) / len(scored) if scored else 0.0,
        cost_usd=total_usd(trial.cost_usd.subject for trial in first),
        cloud_uj=_part_sum(first, _far),
        local_uj=_part_sum(first, _local),
    )


def _local(trial: AnyTrial) -> AnyFigure | None:
    """Without a cloud part the whole is local."""
    if trial.energy is None:
        return None
    return trial.energy.local if trial.energy.cloud is not None else trial.energy.total


def _far(trial: AnyTrial) -> AnyFigure | None:
    return trial.energy.cloud if trial.energy else None


def _side(trials: Sequence[AnyTrial], part: Callable[[AnyTrial], AnyFigure | None]) -> EnergySum | None:
    """None where no trial has a cloud part: there is one side then, and it is the whole."""
    return energy_sum([part(trial) for trial in trials]) if any(map(_far, trials)) else None


def _usage(counted: Sequence[AnyTrial]) -> Usage | None:
    used = [trial.usage.subject for trial in counted]
    known = [usage for usage in used if usage is not None]
    if not known or len(known) < len(used):
        return None
    return Usage(**{name: sum(getattr(usage, name) for usage in known) for name in Usage.model_fields})


def _part_sum(trials: Sequence[AnyTrial], part: Callable[[AnyTrial], AnyFigure | None]) -> int | None:
    summed = energy_sum([part(trial) for trial in trials])
    return summed.net_uj if summed else None
