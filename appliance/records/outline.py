"""A record without its trials' evidence: what aggregates, a report and a statement need, a kilobyte a trial at most.

Fields have the names that they have in a record, so whoever reads only these takes either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final, Literal

from appliance.pins import Sha256
from appliance.records.energy import EnergyFigure, TrialEnergy
from appliance.records.money import Usd
from appliance.records.plan import TrialKey, TrialPlan
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
from appliance.records.summary import Summary
from appliance.records.trial import TrialResult, Usage
from appliance.records.words import Basis, Cause, Outcome, Provenance, Reason


@dataclass(frozen=True, slots=True)
class FigureOutline:
    """Of an EnergyFigure."""

    provenance: Provenance
    basis: Basis
    scope: str
    gross_uj: int | None
    net_uj: int | None
    ratio_uj: int | None
    uncertainty_uj: int | None
    lod_uj: int | None
    interval: tuple[int, int] | None
    model: str | None
    missing: str | None
    below_floor: bool
    below_lod: bool
    flags: tuple[str, ...]

    @classmethod
    def of(cls, figure: EnergyFigure) -> FigureOutline:
        return cls(**{name: getattr(figure, name) for name in _FIGURE})


@dataclass(frozen=True, slots=True)
class EnergyOutline:
    """Of a TrialEnergy."""

    total: FigureOutline
    local: FigureOutline | None
    cloud: FigureOutline | None
    metered: bool

    @classmethod
    def of(cls, energy: TrialEnergy) -> EnergyOutline:
        return cls(
            total=FigureOutline.of(energy.total),
            local=FigureOutline.of(energy.local) if energy.local else None,
            cloud=FigureOutline.of(energy.cloud) if energy.cloud else None,
            metered=energy.metered,
        )


@dataclass(frozen=True, slots=True)
class CostOutline:
    """Of a CostByWhom."""

    subject: Usd | None


@dataclass(frozen=True, slots=True)
class UsageOutline:
    """Of a UsageByWhom."""

    subject: Usage | None


_NO_COST: Final = CostOutline(None)
_NO_USAGE: Final = UsageOutline(None)
"""One of each for all trials without."""


@dataclass(frozen=True, slots=True)
class TrialOutline:
    """Of a TrialResult."""

    key: TrialKey
    outcome: Outcome
    reason: Reason | None
    cause: Cause | None
    after_subject: bool
    started_at: str
    wall_seconds: float | None
    cost_usd: CostOutline
    usage: UsageOutline
    exchanges: int | None
    replay_level: Literal["exact", "masked", "structural"] | None
    energy: EnergyOutline | None

    @classmethod
    def of(cls, trial: TrialResult) -> TrialOutline:
        return cls(
            key=trial.key,
            outcome=trial.outcome,
            reason=trial.reason,
            cause=trial.cause,
            after_subject=trial.after_subject,
            started_at=trial.started_at,
            wall_seconds=trial.wall_seconds,
            cost_usd=_NO_COST if trial.cost_usd.subject is None else CostOutline(trial.cost_usd.subject),
            usage=_NO_USAGE if trial.usage.subject is None else UsageOutline(trial.usage.subject),
            exchanges=trial.exchanges,
            replay_level=trial.replay_level,
            energy=EnergyOutline.of(trial.energy) if trial.energy else None,
        )


@dataclass(frozen=True, slots=True)
class RecordOutline:
    """Of a Record."""

    schema_: Literal["record-v1"]
    record_id: str
    plan: TrialPlan
    plan_digest: Sha256
    suite: SuiteStamp
    solver: SolverStamp
    model: ModelStamp | None
    judge: JudgeStamp | None
    measures: MeasuresStamp | None
    challenge: Sha256 | None
    complete: bool
    dry_run: bool
    warnings: tuple[str, ...]
    version: str | None
    commit: str | None
    date: str
    harness: HarnessStamp
    hosts: tuple[HostStamp, ...]
    images: tuple[ImageStamp, ...]
    meter: MeterStamp
    prices: PricesStamp | None
    summary: Summary
    trials: tuple[TrialOutline, ...]

    @classmethod
    def of(cls, record: Record, trials: Sequence[TrialOutline] | None = None) -> RecordOutline:
        """`trials`: those of a record that was never held whole."""
        told = tuple(map(TrialOutline.of, record.trials) if trials is None else trials)
        return cls(**{name: getattr(record, name) for name in _RECORD}, trials=told)


AnyRecord = Record | RecordOutline
"""For whoever needs no more of a record than its outline has."""
AnyTrial = TrialResult | TrialOutline
AnyFigure = EnergyFigure | FigureOutline

_FIGURE: Final = tuple(field.name for field in fields(FigureOutline))
_RECORD: Final = tuple(field.name for field in fields(RecordOutline) if field.name != "trials")
