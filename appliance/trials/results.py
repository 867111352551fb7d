"""What was seen of a trial, put into the form of a journal line. Pure but for the blobs it is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from appliance.digests import sha256_hex
from appliance.ports import Captured, Evidence, ExecOutcome, ExecSpec, InForce, MeteredTrial, Traffic
from appliance.records.blob import Artifact, BlobRef
from appliance.records.cloud import cloud_figure, with_cloud
from appliance.records.plan import PlannedTask, TrialKey
from appliance.records.trial import (
    CostByWhom,
    Grade,
    Harvest,
    LimitsInForce,
    NetworkInForce,
    Stream,
    Streams,
    TrialResult,
    UsageByWhom,
)
from appliance.records.words import Cause
from appliance.solvers.cascade.reported import Answered, Unanswered
from appliance.solvers.outputs.claimed import Claimed
from appliance.trials.folder import RunFolder
from appliance.trials.grading.grader import Graded
from appliance.trials.outcomes import Verdict


@dataclass
class Seen:
    """Filled phase by phase; what a phase never reached stays None."""

    started_at: str
    in_force: InForce | None = None
    cause: Cause | None = None
    solver_exit: int | None = None
    wall_seconds: float | None = None
    streams: Streams | None = None
    evidence: Evidence | None = None
    disk_mib: float | None = None
    metered: MeteredTrial | None = None
    readings: BlobRef | None = None
    harvest: Harvest | None = None
    grade: Grade | None = None
    artifacts: list[Artifact] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    traffic: Traffic | None = None
    claimed: Claimed | None = None
    answered: Answered | Unanswered | None = None
    """By a cascade."""
    cassette: BlobRef | None = None
    grading: bool = False
    """The solver is done: what fails from here on is the grader's."""


def result_of(
    key: TrialKey, planned: PlannedTask, host: int, seen: Seen, verdict: Verdict, *, far: bool = False
) -> TrialResult:
    """`far`: the model's answers are made on another machine."""
    spec, force, evidence, metered = planned.spec, seen.in_force, seen.evidence, seen.metered
    traffic = seen.traffic
    energy = metered.energy if metered else None
    if energy and seen.readings:
        energy = energy.model_copy(update={"readings": seen.readings})
    if energy and traffic and traffic.exchanges and far and traffic.replay_level is None:
        energy = with_cloud(energy, cloud_figure(traffic.usage))
    return TrialResult(
        key=key,
        host=host,
        outcome=verdict.outcome,
        reason=verdict.reason,
        detail=verdict.detail,
        cause=seen.cause,
        started_at=seen.started_at,
        wall_seconds=seen.wall_seconds,
        solver_exit=seen.solver_exit,
        grade=seen.grade,
        limits=LimitsInForce(asked=spec.limits, effective=force.limits if force else None),
        network=NetworkInForce(asked=spec.network, effective=force.network if force else None),
        cpu_seconds=dict(metered.cpu_seconds) if metered else {},
        cpu_source=metered.cpu_source if metered else None,
        peak_memory_mib=evidence.peak_memory_mib if evidence else None,
        disk_mib=seen.disk_mib,
        oom_kills=evidence.oom_kills if evidence else None,
        pids_denied=evidence.pids_denied if evidence else None,
        streams=seen.streams,
        energy=energy,
        usage=UsageByWhom(
            subject=traffic.usage if traffic else None, claimed=seen.claimed.usage if seen.claimed else None
        ),
        cost_usd=CostByWhom(
            subject=traffic.cost_usd if traffic else None, claimed=seen.claimed.cost_usd if seen.claimed else None
        ),
        exchanges=traffic.exchanges if traffic else None,
        cassette=seen.cassette,
        replay_level=traffic.replay_level if traffic else None,
        faults=tuple(seen.faults),
        artifacts=tuple(seen.artifacts),
        harvest=seen.harvest,
    )


Keep = Callable[[bytes], BlobRef]
"""Puts bytes among the blobs of the run."""


def streams_of(ended: ExecOutcome, keep: Keep) -> Streams:
    return Streams(stdout=_stream(ended.stdout, keep), stderr=_stream(ended.stderr, keep))


def _stream(captured: Captured, keep: Keep) -> Stream:
    return Stream(
        bytes=captured.total_bytes,
        sha256=captured.sha256,
        truncated=captured.truncated,
        blob=keep(captured.kept) if captured.total_bytes else None,
    )


def spooled_streams(path: Path, keep: Keep) -> Streams | None:
    """Of the heads that `ExecSpec.spool` left behind: what came after them, if anything did, is lost."""
    found = []
    for name in ("stdout", "stderr"):
        spool = path.with_name(f"{path.name}.{name}")
        if not spool.is_file():
            return None
        head = spool.read_bytes()
        found.append(
            Stream(
                bytes=len(head),
                sha256=sha256_hex(head),
                truncated=len(head) >= ExecSpec.capture_bytes // 2,
                blob=keep(head) if head else None,
            )
        )
    return Streams(stdout=found[0], stderr=found[1])


def keep_grade(graded: Graded, seen: Seen, keep: Keep) -> None:
    seen.grade = graded.grade
    seen.harvest = Harvest(
        diff=keep(graded.patch) if graded.patch else None,
        changed=graded.changed,
        dropped=graded.dropped,
        restored=graded.restored,
    )
    said = {
        "oracle-stdout": graded.stdout.kept if graded.stdout.total_bytes else None,
        "oracle-stderr": graded.stderr.kept if graded.stderr.total_bytes else None,
        "oracle-report": graded.report,
    }
    for name, content in said.items():
        if content is not None:
            seen.artifacts.append(artifact(name, "application/octet-stream", content, keep))
    if graded.patch_problem is not None:
        seen.faults.append(f"the solver's diff: {graded.patch_problem}")


def keep_traffic(traffic: Traffic, seen: Seen, folder: RunFolder) -> None:
    """Cassette and transcript as the gateway left them, in files."""
    seen.traffic = traffic
    if traffic.cassette is not None:
        seen.cassette = _moved(traffic.cassette, folder)
    if traffic.transcript is not None:
        kept = _moved(traffic.transcript, folder)
        seen.artifacts.append(Artifact(name="transcript", media_type="application/jsonl", blob=kept))
    if traffic.divergence is not None:
        seen.artifacts.append(artifact("divergence", "text/x-diff", traffic.divergence.encode(), folder.keep))
    if traffic.differences:
        lines = "".join(f"{line}\n" for line in traffic.differences)
        seen.artifacts.append(artifact("differences", "text/plain", lines.encode(), folder.keep))
    seen.faults.extend(traffic.faults)
    if traffic.exchanges and not traffic.answered:
        seen.faults.append("none of its requests to its model was answered")
    if traffic.unused:
        seen.faults.append(f"{traffic.unused} recorded exchanges were not asked for again")


def _moved(path: Path, folder: RunFolder) -> BlobRef:
    """Among the blobs, and no longer beside them: a run of many trials holds each once."""
    kept = folder.keep_file(path)
    path.unlink(missing_ok=True)
    return kept


def artifact(name: str, media_type: str, content: bytes, keep: Keep) -> Artifact:
    return Artifact(name=name, media_type=media_type, blob=keep(content))
