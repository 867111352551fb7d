"""record-v1: one solver, one suite, all its trials; the thing that is signed."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from appliance.pins import Pin, Sha256
from appliance.records.blob import BlobRef
from appliance.records.plan import TrialPlan
from appliance.records.summary import Summary
from appliance.records.trial import Baseline, TrialResult
from appliance.records.words import SolverKind
from appliance.wire import EXACT, INFORMATIVE, Moment, Wire

DecimalNs = Annotated[str, StringConstraints(pattern=r"^(0|[1-9][0-9]{0,19})$")]
"""Nanoseconds as decimal digits: a machine that is up for a hundred days passes 2^53."""


class SuiteStamp(Wire):
    name: Annotated[str, EXACT]
    version: Annotated[str, EXACT]
    digest: Annotated[Sha256, EXACT]
    weight: Annotated[float, EXACT]
    archive: Annotated[BlobRef | None, INFORMATIVE]
    """The suite's files as one archive, so that the run folder alone can be reproduced."""
    license: Annotated[str | None, INFORMATIVE]
    checks: Annotated[SuiteChecks | None, INFORMATIVE]


class SuiteChecks(Wire):
    """What `tasks check` found for this suite; None where it never ran."""

    digest: Annotated[Sha256, INFORMATIVE]
    """sha256 of checks.json as it was read."""
    quarantined: Annotated[tuple[QuarantinedTask, ...], INFORMATIVE]
    """Sorted by task; a list, for a task's name may be any Unicode and a key of ours is ASCII."""
    forgeable: Annotated[tuple[ForgeableTask, ...], INFORMATIVE]
    """Tasks that a forger resolves, sorted by task."""


class QuarantinedTask(Wire):
    task: Annotated[str, INFORMATIVE]
    reason: Annotated[str, INFORMATIVE]


class ForgeableTask(Wire):
    task: Annotated[str, INFORMATIVE]
    forgers: Annotated[tuple[str, ...], INFORMATIVE]


class SolverStamp(Wire):
    name: Annotated[str, EXACT]
    kind: Annotated[SolverKind, EXACT]
    digest: Annotated[Sha256, EXACT]
    version: Annotated[str | None, EXACT]
    commit: Annotated[str | None, EXACT]
    source: Annotated[Literal["flag", "environment", "definition", "release", "unknown"], INFORMATIVE]
    """Where version and commit were taken from."""
    binary_sha256: Annotated[Sha256 | None, EXACT]


class ModelEngine(Wire):
    build: Annotated[str | None, EXACT]
    slots: Annotated[int | None, EXACT]
    threads: Annotated[int | None, EXACT]


class ModelStamp(Wire):
    name: Annotated[str, EXACT]
    provider: Annotated[str | None, EXACT]
    digest: Annotated[Sha256 | None, EXACT]
    sampling: Annotated[dict[str, Any] | None, EXACT]
    engine: Annotated[ModelEngine | None, EXACT]


class JudgeStamp(Wire):
    name: Annotated[str, EXACT]
    version: Annotated[str, EXACT]
    prompt_digest: Annotated[Sha256 | None, EXACT]
    model: Annotated[str | None, EXACT]


class MeasuresStamp(Wire):
    schema_: Annotated[str, EXACT] = Field(alias="schema")
    digest: Annotated[Sha256, EXACT]
    coverage: Annotated[dict[str, Any] | None, INFORMATIVE]


class HarnessStamp(Wire):
    """Ours: the program that ran the trials."""

    name: Annotated[str, EXACT]
    version: Annotated[str, EXACT]
    commit: Annotated[str | None, INFORMATIVE]
    dirty: Annotated[bool | None, INFORMATIVE]
    """None where it runs from a wheel."""
    digest: Annotated[Sha256, EXACT]
    """Of the installed packages' source files: equal digests are the same harness, whatever the commit."""


class Check(Wire):
    """One check of the host's fitness, with the act that mends it."""

    name: Annotated[str, INFORMATIVE]
    level: Annotated[Literal["info", "warn", "error"], INFORMATIVE]
    message: Annotated[str, INFORMATIVE]
    mend: Annotated[str | None, INFORMATIVE] = None


class HostStamp(Wire):
    id: Annotated[str, INFORMATIVE]
    """An opaque digest of the machine's id: equal on the same machine, tells nothing else."""
    cpu: Annotated[str, INFORMATIVE]
    cores: Annotated[int, INFORMATIVE] = Field(ge=0)
    memory_mib: Annotated[int, INFORMATIVE] = Field(alias="memory", ge=0)
    """In MiB."""
    gpus: Annotated[tuple[str, ...], INFORMATIVE]
    kernel: Annotated[str, INFORMATIVE]
    cgroup: Annotated[Literal["v1", "v2", "hybrid", "unknown"], INFORMATIVE]
    engine: Annotated[EngineStamp, INFORMATIVE]
    os: Annotated[str, INFORMATIVE]
    fitness: Annotated[tuple[Check, ...], INFORMATIVE]
    """Before the run's first trial."""
    fitness_after: Annotated[tuple[Check, ...] | None, INFORMATIVE] = None
    """After its last; None where nobody looked."""
    noisy: Annotated[bool, INFORMATIVE]


class EngineStamp(Wire):
    name: Annotated[str, INFORMATIVE]
    version: Annotated[str, INFORMATIVE]
    storage_driver: Annotated[str, INFORMATIVE]
    cgroup_driver: Annotated[str, INFORMATIVE]
    runtime: Annotated[str, INFORMATIVE]
    rootless: Annotated[bool, INFORMATIVE]
    remote: Annotated[bool, INFORMATIVE]


class ImageStamp(Wire):
    role: Annotated[str, EXACT]
    """`task:NAME`, `solver:NAME`, `composed:NAME+NAME`."""
    pin: Annotated[Pin, EXACT]
    locked: Annotated[bool, EXACT]
    """False: pinned, not rebuildable."""


class RestZone(Wire):
    """One zone of a machine at rest, from bins of a second, in microwatts."""

    mean_uw: Annotated[int, INFORMATIVE]
    deviation_uw: Annotated[int, INFORMATIVE]
    """Sample standard deviation of the bins."""
    drift_uw: Annotated[int, INFORMATIVE]
    """Of a straight line through the bins, over the whole of them."""
    bins: Annotated[int, INFORMATIVE]
    unfit: Annotated[str | None, INFORMATIVE] = None
    """Why this zone alone is no measure of rest."""


class RestStamp(Wire):
    """One look at the machine at rest; all but `readings` and `at` follow from the blob of its readings."""

    at: Annotated[Moment, INFORMATIVE]
    """When it began."""
    readings: Annotated[BlobRef, INFORMATIVE]
    boot_id: Annotated[str, INFORMATIVE]
    """sha256 of the kernel's boot id, as the readings have it."""
    middle_boottime_ns: Annotated[DecimalNs, INFORMATIVE]
    seconds: Annotated[float, INFORMATIVE]
    zones: Annotated[dict[str, RestZone], INFORMATIVE]
    unfit: Annotated[str | None, INFORMATIVE]
    """Why it is no measure of rest; None: it is one."""


class IdleStamp(RestStamp):
    """Of this batch."""

    when: Annotated[Literal["before", "after", "check"], INFORMATIVE]
    """`check`: a short one, that holds a stored calibration against the machine as it is (row J38)."""


class CalibrationStamp(RestStamp):
    """One made earlier by `meter calibrate` and still valid; its readings are a blob of this record all the same."""

    expires_at: Annotated[Moment, INFORMATIVE]
    conditions: Annotated[dict[str, str | None], INFORMATIVE]
    """What must be unchanged for it to hold: governor, turbo, idle states, kernel; None: not readable."""


class MeterStamp(Wire):
    name: Annotated[str, INFORMATIVE]
    version: Annotated[str, INFORMATIVE]
    counters: Annotated[tuple[str, ...], INFORMATIVE]
    idle: Annotated[tuple[IdleStamp, ...] | None, INFORMATIVE]
    """In the order they were taken; None where joules come from no counter."""
    calibration: Annotated[CalibrationStamp | None, INFORMATIVE]
    mode: Annotated[str, INFORMATIVE]
    """What was asked: auto, measured, estimator, estimator:curve."""
    reason: Annotated[str | None, INFORMATIVE]
    """Why `auto` did not take a counter."""


class PricesStamp(Wire):
    source: Annotated[str, INFORMATIVE]
    version: Annotated[str, INFORMATIVE]


class Record(Wire):
    schema_: Annotated[Literal["record-v1"], EXACT] = Field(default="record-v1", alias="schema")
    record_id: Annotated[str, INFORMATIVE]
    plan: Annotated[TrialPlan, EXACT]
    plan_digest: Annotated[Sha256, EXACT]
    suite: Annotated[SuiteStamp, EXACT]
    solver: Annotated[SolverStamp, EXACT]
    model: Annotated[ModelStamp | None, EXACT]
    judge: Annotated[JudgeStamp | None, EXACT]
    measures: Annotated[MeasuresStamp | None, EXACT]
    axes: Annotated[dict[str, Any], INFORMATIVE]
    mode: Annotated[str | None, EXACT]
    self_correct: Annotated[bool, EXACT]
    auto: Annotated[Literal["low", "medium", "high"] | None, EXACT]
    challenge: Annotated[Sha256 | None, INFORMATIVE]
    complete: Annotated[bool, EXACT]
    """False where trials of the plan are missing (interrupted)."""
    dry_run: Annotated[bool, EXACT]
    warnings: Annotated[tuple[str, ...], INFORMATIVE]
    version: Annotated[str | None, EXACT]
    """Of the system under test."""
    commit: Annotated[str | None, EXACT]
    date: Annotated[Moment, INFORMATIVE]
    harness: Annotated[HarnessStamp, EXACT]
    hosts: Annotated[tuple[HostStamp, ...], INFORMATIVE]
    images: Annotated[tuple[ImageStamp, ...], EXACT]
    meter: Annotated[MeterStamp, INFORMATIVE]
    prices: Annotated[PricesStamp | None, INFORMATIVE]
    trust: Annotated[str | None, INFORMATIVE]
    """Name of the trust that the run was asked to sign with; None for --no-sign."""
    baselines: Annotated[tuple[Baseline, ...], EXACT]
    trials: Annotated[tuple[TrialResult, ...], EXACT]
    """In the order of the plan's keys."""
    summary: Annotated[Summary, INFORMATIVE]
    journal: Annotated[BlobRef, INFORMATIVE]
    """The journal that this record was folded from."""


SuiteChecks.model_rebuild()
SuiteStamp.model_rebuild()
HostStamp.model_rebuild()
Record.model_rebuild()
