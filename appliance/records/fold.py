"""A record from its parts. Pure: the clock, the host and the ids come in as values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from appliance.records.blob import BlobRef
from appliance.records.outline import AnyTrial, RecordOutline, TrialOutline
from appliance.records.plan import TrialKey, TrialPlan, trial_keys
from appliance.records.record import (
    HarnessStamp,
    HostStamp,
    ImageStamp,
    JudgeStamp,
    MeasuresStamp,
    MeterStamp,
    ModelStamp,
    PricesStamp,
    Record,
    SolverStamp,
    SuiteStamp,
)
from appliance.records.summarise import summarise
from appliance.records.trial import Baseline, TrialResult

Trial = TypeVar("Trial", TrialResult, TrialOutline)


@dataclass(frozen=True)
class Stamps:
    """Everything of a record that neither the plan nor a trial says."""

    record_id: str
    date: str
    """RFC 3339 with Z."""
    suite: SuiteStamp
    solver: SolverStamp
    harness: HarnessStamp
    hosts: tuple[HostStamp, ...]
    images: tuple[ImageStamp, ...]
    meter: MeterStamp
    journal: BlobRef
    version: str | None
    commit: str | None
    trust: str | None
    model: ModelStamp | None = None
    judge: JudgeStamp | None = None
    measures: MeasuresStamp | None = None
    prices: PricesStamp | None = None
    axes: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    dry_run: bool = False


def fold(plan: TrialPlan, stamps: Stamps, baselines: Iterable[Baseline], trials: Iterable[TrialResult]) -> Record:
    """Trials in the order of the plan's keys; baselines of this plan's tasks and images only, in its order of tasks.

    A trial that the plan does not have, or has twice, is our bug: ValueError.
    """
    ordered = _ordered(plan, trials)
    return _record(plan, stamps, baselines, ordered, ordered)


def fold_outlines(
    plan: TrialPlan, stamps: Stamps, baselines: Iterable[Baseline], trials: Iterable[TrialOutline]
) -> tuple[Record, RecordOutline]:
    """As `fold`, of trials that lie elsewhere: the record without them, and its outline with theirs."""
    ordered = _ordered(plan, trials)
    # As it is read again: canonical bytes have their own order of keys, which a report shows.
    record = Record.from_canonical(_record(plan, stamps, baselines, ordered, ()).canonical(), "record")
    return record, RecordOutline.of(record, ordered)


def _ordered(plan: TrialPlan, trials: Iterable[Trial]) -> tuple[Trial, ...]:
    by_key: dict[TrialKey, Trial] = {}
    for trial in trials:
        if trial.key in by_key:
            raise ValueError(f"two results of one trial: {trial.key}")
        by_key[trial.key] = trial
    planned = trial_keys(plan)
    if strangers := set(by_key) - set(planned):
        raise ValueError(f"results of trials that the plan does not have: {strangers}")
    return tuple(by_key[key] for key in planned if key in by_key)


def _record(
    plan: TrialPlan,
    stamps: Stamps,
    baselines: Iterable[Baseline],
    told: Sequence[AnyTrial],
    trials: tuple[TrialResult, ...],
) -> Record:
    return Record(
        record_id=stamps.record_id,
        plan=plan,
        plan_digest=plan.digest,
        suite=stamps.suite,
        solver=stamps.solver,
        model=stamps.model,
        judge=stamps.judge,
        measures=stamps.measures,
        axes=stamps.axes,
        mode=plan.mode,
        self_correct=plan.self_correct,
        auto=plan.auto,
        challenge=plan.challenge,
        complete=is_complete(plan, told),
        dry_run=stamps.dry_run,
        warnings=stamps.warnings,
        version=stamps.version,
        commit=stamps.commit,
        date=stamps.date,
        harness=stamps.harness,
        hosts=stamps.hosts,
        images=stamps.images,
        meter=stamps.meter,
        prices=stamps.prices,
        trust=stamps.trust,
        baselines=_baselines_of(plan, baselines),
        trials=trials,
        summary=summarise(plan, told),
        journal=stamps.journal,
    )


def is_complete(plan: TrialPlan, trials: Iterable[AnyTrial]) -> bool:
    """Whether every planned trial ended by itself."""
    return {trial.key for trial in trials if trial.outcome != "cancelled"} == set(trial_keys(plan))


def _baselines_of(plan: TrialPlan, baselines: Iterable[Baseline]) -> tuple[Baseline, ...]:
    known = {(baseline.task, baseline.image): baseline for baseline in baselines}
    wanted = [(task.spec.name, task.images.task.config) for task in plan.tasks]
    return tuple(known[key] for key in wanted if key in known)
