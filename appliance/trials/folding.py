"""From a journal on disk to records on disk."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from appliance.digests import sha256_of_file
from appliance.energy.idle import Idle
from appliance.energy.readings import Malformed, unpack
from appliance.energy.windows import window_of
from appliance.errors import InputRefused
from appliance.files import writing_atomically
from appliance.pins import Sha256
from appliance.records.blob import BlobRef
from appliance.records.cloud import cloud_figure, with_cloud
from appliance.records.fold import Stamps, fold_outlines
from appliance.records.journal_file import JournalFile, read_journal
from appliance.records.metered import idle_of, ran_on, trial_energy
from appliance.records.models import model_stamp
from appliance.records.outline import RecordOutline, TrialOutline
from appliance.records.plan import TrialPlan
from appliance.records.record import (
    ForgeableTask,
    MeterStamp,
    PricesStamp,
    QuarantinedTask,
    Record,
    SuiteChecks,
    SuiteStamp,
)
from appliance.records.replays import replays
from appliance.records.trial import TrialResult
from appliance.records.words import FLOOR_KINDS
from appliance.tasks.model import Suite
from appliance.trials.cascades import Stages
from appliance.trials.folder import RunFolder
from appliance.trials.stamps import Subject, image_stamps, solver_stamp
from attest import canonical

_TRIALS: Final = "trials"


@dataclass(frozen=True)
class Folding:
    """What the records of a run share."""

    suite: Suite
    archive: BlobRef | None
    meter: MeterStamp
    trust: str | None
    remarks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By solver: what a reader of its record is to be told."""


@dataclass(frozen=True)
class Written:
    """A record that is on the disk."""

    sha256: Sha256
    """Of its bytes."""
    outline: RecordOutline


def write_records(
    folder: RunFolder, plans: tuple[TrialPlan, ...], subjects: Mapping[str, Subject], shared: Folding
) -> tuple[Written, ...]:
    """One record a plan, from the journal as it lies there; no trial is held while the next one is read."""
    kept = read_journal(folder.journal)
    if kept is None:
        raise InputRefused("does not begin with its header", where=f"{folder.journal}:1", mend="start a new run")
    reference = folder.keep_journal(kept.kept_bytes)
    meter = shared.meter.model_copy(
        update={"idle": kept.idle() or None, "calibration": kept.calibration()} if kept.idle() else {}
    )
    joules = _Joules(folder, idle_of(meter, folder.blob))
    written = []
    for plan in plans:
        with tempfile.TemporaryFile(dir=folder.root) as settled:
            trials: list[TrialOutline] = []
            stages = Stages()
            for result in kept.results(plan.digest):
                trial = joules.settled(plan, result)
                settled.write(b"," * bool(trials) + trial.canonical())
                trials.append(TrialOutline.of(trial))
                stages.saw(trial)
            name = plan.solver.name
            stamps = _stamps_of(
                plan,
                kept,
                subject=subjects[name],
                shared=shared,
                meter=meter,
                reference=reference,
                remarks=(*shared.remarks.get(name, ()), *stages.remarks()),
                replayed=any(map(replays, trials)),
            )
            record, outline = fold_outlines(plan, stamps, kept.baselines(), trials)
            digest = _write(folder.record(plan.solver.name), record, settled)
        folder.bundle(plan.solver.name).unlink(missing_ok=True)
        written.append(Written(digest, outline))
    return tuple(written)


def _write(path: Path, record: Record, trials: BinaryIO) -> Sha256:
    """The canonical bytes of `record` with these trials in it: those of its other members, before and after. Their
    sha256."""
    members = record.json_value()
    before = canonical.dumps({key: value for key, value in members.items() if key < _TRIALS})
    after = canonical.dumps({key: value for key, value in members.items() if key > _TRIALS})
    trials.seek(0)
    with writing_atomically(path) as stream:
        stream.write(before[:-1] + f',"{_TRIALS}":['.encode())
        shutil.copyfileobj(trials, stream)
        stream.write(b"]," + after[1:])
    return sha256_of_file(path)


@dataclass(frozen=True)
class _Joules:
    """Every trial's energy from its readings once more, now that the machine's rest on both sides is known."""

    folder: RunFolder
    idle: Idle | None

    def settled(self, plan: TrialPlan, result: TrialResult) -> TrialResult:
        """Raises InputRefused for readings that are not there any more, or none of ours."""
        reference = result.energy.readings if result.energy else None
        if reference is None:
            return result
        content = self.folder.blob(reference)
        try:
            readings = unpack(content)
            window = window_of(readings, self.idle)
        except Malformed as error:
            raise InputRefused(f"no readings of ours: {error}", where=str(self.folder.path_of(reference))) from error
        energy = trial_energy(
            window,
            by_kind=plan.solver.kind in FLOOR_KINDS,
            ran_on=ran_on(readings.header, result.cause),
        )
        energy = energy.model_copy(update={"readings": reference})
        if result.energy is not None and result.energy.cloud is not None:
            energy = with_cloud(energy, cloud_figure(result.usage.subject))
        return result.model_copy(update={"energy": energy})


def _stamps_of(
    plan: TrialPlan,
    kept: JournalFile,
    *,
    subject: Subject,
    shared: Folding,
    meter: MeterStamp,
    reference: BlobRef,
    remarks: tuple[str, ...],
    replayed: bool,
) -> Stamps:
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
    warnings = list(remarks)
    if suite.checks_digest is None:
        warnings.append("the suite was never checked: `appliance tasks check` runs reference, noop and forgers")
    if any(planned.spec.network == "open" for planned in plan.tasks):
        warnings.append("tasks with an open network: no verifier can vouch for what their solvers fetched")
    if plan.upstream is not None and plan.upstream.is_beside and not replayed:
        warnings.append("the model's server runs on this host beside the run: its energy is attributed to nobody")
    if kept.rests_on_one_side():
        warnings.append(
            "nobody looked at the idle machine after the last trials of a start: their net stands on what was known "
            "before them"
        )
    return Stamps(
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
        hosts=kept.hosts_after(),
        images=image_stamps(plan),
        meter=meter,
        journal=reference,
        version=subject.version,
        commit=subject.commit,
        trust=shared.trust,
        model=model_stamp(plan),
        prices=_prices(plan),
        warnings=tuple(warnings),
    )


def _prices(plan: TrialPlan) -> PricesStamp | None:
    """Of the lists that a provider's answers were priced by."""
    from appliance.gateway.prices import stamp
    from appliance.gateway.pricing import is_sold

    return stamp() if plan.upstream is not None and is_sold(plan.upstream.provider) else None
