"""Small valid plans, trials and records for tests, each figure settable: values, not fixtures.

`record()` is a genuine one: folded, so that plan digest and summary hold, and its blobs are in `blobs(record)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from appliance.digests import sha256_hex
from appliance.energy import estimators
from appliance.meter.figures import trial_energy
from appliance.pins import Pin
from appliance.records.blob import BlobRef
from appliance.records.energy import EnergyFigure, TrialEnergy
from appliance.records.fold import Stamps, fold
from appliance.records.journal import (
    BaselineLine,
    CalibrationLine,
    FitnessLine,
    HeaderLine,
    HostLine,
    IdleLine,
    InterruptedLine,
    Line,
    TrialLine,
    encode,
)
from appliance.records.models import model_stamp
from appliance.records.plan import (
    PlannedEnergy,
    PlannedImages,
    PlannedSolver,
    PlannedSuite,
    PlannedTask,
    TrialKey,
    TrialPlan,
    trial_keys,
)
from appliance.records.record import (
    EngineStamp,
    HarnessStamp,
    HostStamp,
    ImageStamp,
    MeterStamp,
    Record,
    SolverStamp,
    SuiteStamp,
)
from appliance.records.trial import (
    Baseline,
    CostByWhom,
    Grade,
    Harvest,
    LimitsInForce,
    NetworkInForce,
    Stream,
    Streams,
    TestResult,
    TrialResult,
)
from appliance.records.words import Cause, Outcome, Provenance, Reason, SolverKind
from appliance.tasks.model import Limits, OracleSpec, TaskSpec

PATCH = b"--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n"
PRINTED = b"one line\n"
BASELINE_OUTPUT = b"1 failed\n"
_DATE = "2026-01-02T03:04:05Z"
SIGNED_AT = datetime(2026, 1, 2, 4, tzinfo=UTC)
IDS = ("tests/test_a.py::test_fixed", "tests/test_a.py::test_kept")


def blobs(of: Record) -> dict[str, bytes]:
    """Every blob that a record of `record()` names, by digest; its journal is told again from it."""
    journal = journal_bytes(of.plan, of.baselines, of.trials, of.hosts, of.meter)
    return {sha256_hex(content): content for content in (PATCH, PRINTED, BASELINE_OUTPUT, journal)}


def journal_bytes(
    of: TrialPlan,
    baselines: Iterable[Baseline],
    trials: Iterable[TrialResult],
    hosts: Sequence[HostStamp] | None = None,
    meter: MeterStamp | None = None,
) -> bytes:
    """Of one start on each host; every look is told after the trials."""
    hosts = (host_stamp(),) if hosts is None else hosts
    place = {key: at for at, key in enumerate(trial_keys(of))}
    lines: list[Line] = [
        HeaderLine(run_id="run-1", plan_digests=(of.digest,), harness=harness_stamp(), started_at=_DATE),
        *(HostLine(host=host.model_copy(update={"fitness_after": None}), at=_DATE) for host in hosts),
        *(BaselineLine(baseline=one) for one in baselines),
    ]
    for result in trials:
        kind = InterruptedLine if result.outcome == "cancelled" else TrialLine
        lines.append(kind(plan_digest=of.digest, trial=place[result.key], result=result))
    lines += [IdleLine(idle=look) for look in (meter.idle if meter else None) or ()]
    if meter and meter.calibration:
        lines.append(CalibrationLine(calibration=meter.calibration))
    lines += [
        FitnessLine(host=at, checks=host.fitness_after, at=_DATE)
        for at, host in enumerate(hosts)
        if host.fitness_after is not None
    ]
    return b"".join(encode(line) for line in lines)


def blob(content: bytes) -> BlobRef:
    return BlobRef(sha256=sha256_hex(content), bytes=len(content))


def pin(seed: str = "base") -> Pin:
    def digest(part: str) -> str:
        return f"sha256:{sha256_hex(f'{seed}/{part}'.encode())}"

    return Pin(config=digest("config"), manifest=digest("manifest"), diff_ids=(digest("layer"),))


def task_spec(name: str = "t1", **changes: Any) -> TaskSpec:
    fields: dict[str, Any] = {
        "name": name,
        "digest": sha256_hex(name.encode()),
        "prompt": f"mend {name}",
        "test_cmd": ("python3", "-m", "pytest"),
        "test_files": ("tests/test_a.py",),
        "image": "base",
        "network": "none",
        "protected": (),
        "allow": (),
        "limits": Limits(),
        "oracle": OracleSpec(
            format="junit",
            path="/grade/result.xml",
            isolation="user",
            fail_to_pass=IDS[:1],
            pass_to_pass=IDS[1:],
        ),
    }
    return TaskSpec(**{**fields, **changes})


def plan(
    tasks: Iterable[str | TaskSpec] = ("t1",),
    *,
    solver: str = "reference",
    kind: SolverKind = "reference",
    model: str | None = None,
    passes: int = 1,
    rollouts: int = 1,
    **changes: Any,
) -> TrialPlan:
    specs = [task if isinstance(task, TaskSpec) else task_spec(task) for task in tasks]
    fields: dict[str, Any] = {
        "suite": PlannedSuite(
            name="smoke", version="1", digest=sha256_hex(b"suite"), timeout_resolves=True, weight=1.0
        ),
        "solver": PlannedSolver(name=solver, kind=kind, digest=sha256_hex(solver.encode()), argv=()),
        "model": model,
        "tasks": tuple(
            PlannedTask(spec=spec, images=PlannedImages(task=pin(), solver=None, composed=pin(), rebuildable=True))
            for spec in sorted(specs, key=lambda spec: spec.name)
        ),
        "quarantined": (),
        "filtered": (),
        "passes": passes,
        "rollouts": rollouts,
        "energy": PlannedEnergy(mode="estimator", active_watts=None, scheduling="exclusive"),
        "self_correct": False,
        "auto": None,
        "mode": None,
        "limit_overrides": {},
        "challenge": None,
        "harness_version": "0.1.0",
    }
    return TrialPlan(**{**fields, **changes})


def figure(net_uj: int | None = 65_000_000, **changes: Any) -> EnergyFigure:
    """Of the `wall` estimator; its interval is [0.2 W, 2 W] x wall, as in decisions."""
    known = net_uj or 0
    fields: dict[str, Any] = {
        "provenance": "estimator",
        "basis": "modelled",
        "source": "wall",
        "scope": "host",
        "gross_uj": net_uj,
        "idle_uj": None,
        "system_uj": None,
        "net_uj": net_uj,
        "marginal_uj": None,
        "interval": (known // 5, known * 2),
        "model": "wall/1",
        "inputs": {"activeWatts": 65, "idleShare": 0.2, "wattsSource": "default", "wallSeconds": known / 65e6},
        "comparable": False,
        "missing": None if net_uj is not None else "no reading",
        "below_floor": False,
    }
    return EnergyFigure(**{**fields, **changes})


def counted_figure(net_uj: int | None, *, provenance: Provenance = "hw_shunt", **changes: Any) -> EnergyFigure:
    """Of a counter."""
    fields: dict[str, Any] = {
        "provenance": provenance,
        "basis": "counter",
        "source": "intel-rapl",
        "interval": None,
        "model": None,
        "inputs": None,
        "comparable": True,
    }
    return figure(net_uj, **{**fields, **changes})


def energy(total: EnergyFigure | None = None, *, local: int | None = None, cloud: int | None = None) -> TrialEnergy:
    whole = total or figure()
    return TrialEnergy(
        total=whole,
        by_role={"solver": whole},
        local=figure(local) if local is not None else None,
        cloud=figure(cloud, source="tokens", model="tokens/1", inputs={}) if cloud is not None else None,
    )


def estimated_energy(wall: float, cpu: float = 0.5) -> TrialEnergy:
    """As the meter makes it without a counter: a verifier gets the same figures from its inputs."""
    estimate = estimators.wall(round(wall * 1e9), None)
    return trial_energy(estimate, {"solver": round(cpu * 1e9)}, below_floor=False, flags=(), missing=None)


def grade(outcome: Outcome = "resolved", **changes: Any) -> Grade:
    fields: dict[str, Any] = {
        "oracle": "junit",
        "exit": 0 if outcome == "resolved" else 1,
        "timed_out": False,
        "ids": tuple(
            TestResult(
                id=name, expected="passed", status="passed" if outcome == "resolved" or name == IDS[1] else "failed"
            )
            for name in IDS
        ),
        "tests_digest_before": sha256_hex(b"tests"),
        "tests_digest_after": sha256_hex(b"tests"),
    }
    return Grade(**{**fields, **changes})


def trial(
    key: TrialKey | str = "t1",
    outcome: Outcome = "resolved",
    *,
    reason: Reason | None = None,
    cause: Cause | None = "exit",
    wall: float = 1.0,
    cost: str | None = None,
    pass_: int = 0,
    rollout: int = 0,
    **changes: Any,
) -> TrialResult:
    """A consistent one: an outcome that no oracle decided has no grade; the default reason is the outcome's usual."""
    usual: dict[Outcome, Reason | None] = {
        "unresolved": "tests_failed",
        "errored": "start_failed",
        "excluded": "baseline_passed",
        "skipped": "dry_run",
        "cancelled": "interrupted",
    }
    graded = outcome in ("resolved", "unresolved")
    stream = Stream(bytes=len(PRINTED), sha256=sha256_hex(PRINTED), truncated=False, blob=blob(PRINTED))
    fields: dict[str, Any] = {
        "key": key if isinstance(key, TrialKey) else TrialKey(task=key, pass_=pass_, rollout=rollout),
        "host": 0,
        "outcome": outcome,
        "reason": reason or usual.get(outcome),
        "detail": None,
        "cause": cause if graded or outcome == "unscored" else None,
        "started_at": _DATE,
        "wall_seconds": wall if graded or outcome == "unscored" else None,
        "solver_exit": 0 if graded else None,
        "grade": grade(outcome) if graded else None,
        "limits": LimitsInForce(asked=Limits(), effective=Limits() if graded else None),
        "network": NetworkInForce(asked="none", effective="none" if graded else None),
        "cpu_seconds": {"solver": 0.5} if graded else {},
        "cpu_source": "cgroup_parent" if graded else None,
        "peak_memory_mib": 12.5 if graded else None,
        "disk_mib": 1.0 if graded else None,
        "oom_kills": 0 if graded else None,
        "pids_denied": 0 if graded else None,
        "streams": Streams(stdout=stream, stderr=stream) if graded else None,
        "energy": estimated_energy(wall) if graded else None,
        "cost_usd": CostByWhom(subject=cost),
        "harvest": Harvest(diff=blob(PATCH), changed=("a.py",), dropped=(), restored=()) if graded else None,
    }
    return TrialResult(**{**fields, **changes})


def baseline(task: str = "t1", **changes: Any) -> Baseline:
    fields: dict[str, Any] = {
        "task": task,
        "image": pin().config,
        "exit": 1,
        "timed_out": False,
        "ids": (
            TestResult(id=IDS[0], expected="failed", status="failed"),
            TestResult(id=IDS[1], expected="passed", status="passed"),
        ),
        "verdict": "failed",
        "detail": None,
        "digest": sha256_hex(f"{task}/baseline".encode()),
        "output": blob(BASELINE_OUTPUT),
    }
    return Baseline(**{**fields, **changes})


def engine_stamp() -> EngineStamp:
    return EngineStamp(
        name="docker",
        version="20.10.24",
        storage_driver="overlay2",
        cgroup_driver="cgroupfs",
        runtime="runc",
        rootless=False,
        remote=False,
    )


def host_stamp(**changes: Any) -> HostStamp:
    fields: dict[str, Any] = {
        "id": sha256_hex(b"host")[:16],
        "cpu": "Example CPU",
        "cores": 2,
        "memory_mib": 8192,
        "gpus": (),
        "kernel": "6.1.0",
        "cgroup": "hybrid",
        "engine": engine_stamp(),
        "os": "Debian GNU/Linux 12",
        "fitness": (),
        "noisy": False,
    }
    return HostStamp(**{**fields, **changes})


def harness_stamp(**changes: Any) -> HarnessStamp:
    fields: dict[str, Any] = {
        "name": "bench-appliance",
        "version": "0.1.0",
        "commit": "0" * 40,
        "dirty": False,
        "digest": sha256_hex(b"harness"),
    }
    return HarnessStamp(**{**fields, **changes})


def stamps(of: TrialPlan, **changes: Any) -> Stamps:
    fields: dict[str, Any] = {
        "record_id": "0192f0c4-1111-7000-8000-000000000001",
        "date": _DATE,
        "suite": SuiteStamp(
            name=of.suite.name,
            version=of.suite.version,
            digest=of.suite.digest,
            weight=of.suite.weight,
            archive=None,
            license="CC-BY-4.0",
            checks=None,
        ),
        "solver": SolverStamp(
            name=of.solver.name,
            kind=of.solver.kind,
            digest=of.solver.digest,
            version=None,
            commit=None,
            source="unknown",
            binary_sha256=None,
        ),
        "harness": harness_stamp(),
        "hosts": (host_stamp(),),
        "images": (ImageStamp(role="task:base", pin=pin(), locked=True),),
        "meter": MeterStamp(
            name="estimator",
            version="1",
            counters=(),
            idle=None,
            calibration=None,
            mode="estimator",
            reason=None,
        ),
        "journal": blob(b""),
        "version": None,
        "commit": None,
        "trust": None,
        "model": model_stamp(of),
    }
    return Stamps(**{**fields, **changes})


def record(
    of: TrialPlan | None = None,
    trials: Sequence[TrialResult] | None = None,
    baselines: Sequence[Baseline] | None = None,
    **stamped: Any,
) -> Record:
    """By default one resolved trial of one task; with a plan alone, every one of its trials resolved."""
    of = of or plan()
    if trials is None:
        trials = [trial(key) for key in trial_keys(of)]
    if baselines is None:
        baselines = [baseline(task.spec.name) for task in of.tasks]
    told = journal_bytes(of, baselines, trials, stamped.get("hosts"), stamped.get("meter"))
    stamped = {"journal": blob(told), **stamped}
    return fold(of, stamps(of, **stamped), baselines, trials)
