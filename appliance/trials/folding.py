"""From a journal on disk to records on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from appliance.files import write_atomically
from appliance.records import journal
from appliance.records.blob import BlobRef
from appliance.records.fold import Stamps, fold
from appliance.records.plan import TrialPlan
from appliance.records.record import (
    ForgeableTask,
    MeterStamp,
    ModelStamp,
    QuarantinedTask,
    Record,
    SuiteChecks,
    SuiteStamp,
)
from appliance.tasks.model import Suite
from appliance.trials.folder import RunFolder
from appliance.trials.stamps import Subject, image_stamps, solver_stamp


@dataclass(frozen=True)
class Folding:
    """What the records of a run share."""

    suite: Suite
    archive: BlobRef | None
    meter: MeterStamp
    trust: str | None


def write_records(
    folder: RunFolder, plans: tuple[TrialPlan, ...], subjects: Mapping[str, Subject], shared: Folding
) -> tuple[int, ...]:
    """One record a plan, from the journal as it lies there; trials of each that errored or were excluded."""
    content = folder.journal.read_bytes()
    kept = journal.decode(content, str(folder.journal))
    reference = folder.keep(content[: kept.kept_bytes])
    incomplete = []
    for plan in plans:
        record = _record_of(plan, kept, subjects[plan.solver.name], shared, reference)
        write_atomically(folder.record(plan.solver.name), record.canonical())
        folder.bundle(plan.solver.name).unlink(missing_ok=True)
        incomplete.append(incomplete_trials(record))
    return tuple(incomplete)


def incomplete_trials(record: Record) -> int:
    return sum(trial.outcome in ("errored", "excluded") for trial in record.trials)


def _record_of(plan: TrialPlan, kept: journal.Journal, subject: Subject, shared: Folding, reference: BlobRef) -> Record:
    suite = shared.suite
    checks = (
        SuiteChecks(
            digest=suite.checks_digest,
            quarantined=tuple(
                QuarantinedTask(task=task, reason=reason) for task, reason in sorted(suite.quarantined.items())
            ),
            forgeable=tuple(
                ForgeableTask(task=task, forgers=forgers) for task, forgers in sorted(suite.forgeable.items())
            ),
        )
        if suite.checks_digest
        else None
    )
    warnings = []
    if suite.checks_digest is None:
        warnings.append("the suite was never checked: `appliance tasks check` runs reference, noop and forgers")
    if any(planned.spec.network == "open" for planned in plan.tasks):
        warnings.append("tasks with an open network: no verifier can vouch for what their solvers fetched")
    return fold(
        plan,
        Stamps(
            record_id=f"{kept.header.run_id}.{plan.solver.name}",
            date=kept.header.started_at,
            suite=SuiteStamp(
                name=suite.name,
                version=suite.version,
                digest=suite.digest,
                weight=suite.weight,
                archive=shared.archive,
                license=suite.license,
                checks=checks,
            ),
            solver=solver_stamp(plan, subject),
            harness=kept.header.harness,
            hosts=kept.hosts(),
            images=image_stamps(plan),
            meter=shared.meter,
            journal=reference,
            version=subject.version,
            commit=subject.commit,
            trust=shared.trust,
            model=_model_stamp(plan),
            warnings=tuple(warnings),
        ),
        kept.baselines(),
        kept.results(plan.digest),
    )


def _model_stamp(plan: TrialPlan) -> ModelStamp | None:
    if plan.model is None:
        return None
    return ModelStamp(name=plan.model, provider=None, digest=None, sampling=None, engine=None)
