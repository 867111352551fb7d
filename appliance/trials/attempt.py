"""One trial, phase by phase: baseline, solve, harvest, grade. Decisions are asked of `outcomes`; here they are done.

The order around the solver is the meter's (formats 5): prepare, container started idle with its workspace, open, exec
to its exit or limit, close, evidence, kill, remove, release. Grading starts only when no program of the solver is left.
"""

from __future__ import annotations

import shutil
import time
import traceback
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from appliance.errors import HostRefused, MeterRefused
from appliance.files import disk_of
from appliance.ports import (
    TRIAL_LABEL,
    Changes,
    ContainerSpec,
    Engine,
    EngineFailed,
    ExecSpec,
    InForce,
    Meter,
    MeteredTrial,
    SolveCall,
    Solver,
    TrialMeter,
    Workspace,
    Workspaces,
)
from appliance.records.journal import InterruptedLine, TrialLine
from appliance.records.plan import PlannedTask, TrialKey, TrialPlan
from appliance.records.words import Reason
from appliance.solvers.programs import HOME
from appliance.tasks.model import Task
from appliance.trials.baselines import Baselines
from appliance.trials.early import EarlyGrader
from appliance.trials.folder import RunFolder
from appliance.trials.grading.container import SUBJECT_PROGRAM
from appliance.trials.grading.grader import Grader
from appliance.trials.outcomes import SolverEnd, Verdict, cause_of, outcome_of, start_failed
from appliance.trials.results import Seen, artifact, keep_grade, result_of, spooled_streams, streams_of
from appliance.trials.stopping import Interrupted, Stop
from appliance.trials.turns import Turns

_KILLED: Final = 137


@dataclass(frozen=True)
class Trial:
    """A trial that is about to run; `index` counts over all plans of plan.json."""

    index: int
    plan: TrialPlan
    plan_digest: str
    key: TrialKey
    planned: PlannedTask
    task: Task
    solver: Solver

    @property
    def name(self) -> str:
        return f"{self.index:05d}"


@dataclass(frozen=True)
class Bench:
    """What every trial of a run shares."""

    run: str
    host: int
    folder: RunFolder
    scratch: Path
    """Absolute: an engine mounts nothing else."""
    labels: Mapping[str, str]
    engine: Engine
    image_ids: Mapping[str, str]
    """Config digest of a pin -> the engine's id."""
    workspaces: Workspaces
    meter: Meter
    grader: Grader
    baselines: Baselines
    turns: Turns
    stop: Stop


def attempt(trial: Trial, bench: Bench) -> TrialLine | InterruptedLine:
    """Always a line, whatever happened; only a bug in making the line itself escapes."""
    seen = Seen(started_at=now())
    interrupted = False
    marker = bench.folder.in_flight / trial.name
    try:
        with bench.folder.taking():
            marker.touch()
        verdict = _phases(trial, bench, seen)
    except Interrupted:
        interrupted = True
    except (HostRefused, MeterRefused):
        # A full disk, a meter that is gone: no failure of this trial's, and the next would meet it too. The run ends,
        # and can go on.
        raise
    except Exception as error:  # noqa: BLE001 - one of three places: an unknown failure never becomes a score
        # What we broke off fails in the engine's own words: the engine is not to blame for that.
        interrupted = bench.stop.asked()
        trace = "".join(traceback.format_exception(error))
        seen.artifacts.append(artifact("traceback", "text/plain", trace.encode(), bench.folder.keep))
        reason: Reason = "grader_error" if seen.grading and isinstance(error, EngineFailed) else "engine_error"
        verdict = Verdict("excluded", reason, f"{type(error).__name__}: {error}")
    finally:
        shutil.rmtree(bench.scratch / trial.name, ignore_errors=True)
    if interrupted:
        verdict = Verdict("cancelled", "interrupted", "the run was stopped")
    result = result_of(trial.key, trial.planned, bench.host, seen, verdict)
    kind = InterruptedLine if interrupted else TrialLine
    return kind(plan_digest=trial.plan_digest, trial=trial.index, result=result)


def cut_off(trial: Trial, host: int, folder: RunFolder) -> InterruptedLine:
    """The line of a trial whose harness did not live to write one, with what the solver had printed till then."""
    verdict = Verdict("cancelled", "interrupted", "the harness was killed while it ran")
    streams = spooled_streams(folder.in_flight / trial.name, folder.keep)
    result = result_of(trial.key, trial.planned, host, Seen(started_at=now(), streams=streams), verdict)
    return InterruptedLine(plan_digest=trial.plan_digest, trial=trial.index, result=result)


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _phases(trial: Trial, bench: Bench, seen: Seen) -> Verdict:
    with bench.turns.work():
        baseline = bench.baselines.of(trial.planned, trial.task)
    if baseline.verdict != "failed":
        return Verdict("excluded", baseline.verdict, baseline.detail)
    bench.stop.check()
    with ExitStack() as undo:
        early = EarlyGrader(bench.grader, trial.task, trial.planned, bench.image_ids)
        undo.callback(early.discard)
        end, changes = _solve(trial, bench, seen, undo, early)
        if end.start_error is not None:
            return start_failed(end.start_error)
        bench.stop.check()
        seen.grading = True
        with bench.turns.work():
            graded = bench.grader.grade(early.take(), changes)
            keep_grade(graded, seen, bench.folder.keep)
        verdict = Verdict(graded.outcome, graded.reason, graded.detail)
        return outcome_of(seen.cause, verdict, timeout_resolves=trial.plan.suite.timeout_resolves)


def _solve(trial: Trial, bench: Bench, seen: Seen, undo: ExitStack, early: EarlyGrader) -> tuple[SolverEnd, Changes]:
    """What is undone here is undone again, harmlessly, where a phase before fails."""
    spec = trial.planned.spec
    with bench.turns.work():
        call = _call(trial, bench)
        workspace = bench.workspaces.open(trial.task.before, spec.limits.disk_mib, bench.labels)
        undo.callback(workspace.close)
        by_kind = trial.plan.solver.kind in ("reference", "noop")
        metered = bench.meter.prepare(bench.run, trial.index, trial.plan.energy, spec.limits.cpus, by_kind)
        window = _Window(metered)
        undo.callback(window.abandon)
        container = bench.engine.create(_container(trial, bench, call, workspace, metered))
        undo.callback(bench.engine.remove, container)
        bench.engine.start(container)
        workspace.seed(container)
        if call.home:
            _unpack_home(bench.engine, container, call.home)
        seen.in_force = bench.engine.in_force(container, spec.limits)
        _refuse_other_limits(trial, seen.in_force)
    with bench.turns.window():
        bench.stop.check()
        if not bench.turns.exclusive:
            early.begin()
        metered.open()
        ended = bench.engine.execute(container, replace(call.exec, spool=bench.folder.in_flight / trial.name))
        metered.close()
    with bench.turns.work():
        seen.wall_seconds = ended.wall_seconds
        seen.streams = streams_of(ended, bench.folder.keep)
        bench.stop.check()
        if ended.exit == _KILLED:
            # Perhaps with its whole container: the engine is given the moment that it takes to notice.
            time.sleep(0.3)
        seen.evidence = bench.engine.evidence(container)
        disk = workspace.disk()
        bench.engine.remove(container)
        left = bench.engine.processes(container)
        if left:
            raise EngineFailed(f"{left} processes of the solver are still there after its container was removed")
        end = SolverEnd(
            exit=ended.exit,
            timed_out=ended.timed_out,
            start_error=ended.start_error,
            oom_kills=seen.evidence.oom_kills,
            pids_denied=seen.evidence.pids_denied,
            disk_full=disk.full,
        )
        seen.cause, seen.solver_exit, seen.disk_mib = cause_of(end), ended.exit, disk.used_mib
        seen.metered = window.release(ended.wall_seconds, at_limit=ended.timed_out)
        if seen.metered.readings is not None:
            seen.readings = bench.folder.keep(seen.metered.readings)
        # The workspace stays till the grade: large files of the changes are still read from it.
        changes = workspace.harvest()
    return end, changes


class _Window:
    """A trial's meter that is let go exactly once, whatever happens between."""

    def __init__(self, meter: TrialMeter):
        self._meter = meter
        self._released = False

    def release(self, wall_seconds: float, *, at_limit: bool) -> MeteredTrial:
        self._released = True
        return self._meter.release(wall_seconds, at_limit=at_limit)

    def abandon(self) -> None:
        if not self._released:
            self._released = True
            self._meter.release(0.0, at_limit=True)


def _call(trial: Trial, bench: Bench) -> SolveCall:
    scratch = bench.scratch / trial.name
    shutil.rmtree(scratch, ignore_errors=True)
    with disk_of(bench.scratch, f"make room, then: appliance run --resume {bench.folder.root}"):
        scratch.mkdir(parents=True)
        call = trial.solver.call(trial.planned, trial.task.folder, scratch)
        # Beside the solver's own files: by it a solver runs the tests that it sees, as the grader will (formats 7).
        subject = scratch / "appliance" / "subject"
        shutil.copyfile(SUBJECT_PROGRAM, subject)
        subject.chmod(0o755)
    return call


def _container(trial: Trial, bench: Bench, call: SolveCall, workspace: Workspace, metered: TrialMeter) -> ContainerSpec:
    return ContainerSpec(
        image=bench.image_ids[trial.planned.images.composed.config],
        role="solver",
        labels={**bench.labels, TRIAL_LABEL: trial.name},
        limits=trial.planned.spec.limits,
        network=trial.planned.spec.network,
        cgroup_parent=metered.cgroups.get("solver"),
        mounts=(workspace.mount, *call.mounts),
    )


def _unpack_home(engine: Engine, container: str, tar: bytes) -> None:
    """HOME is a tmpfs, which only a program inside the container can write to."""
    unpack = ExecSpec(("tar", "-xf", "-", "-C", HOME), workdir=HOME, stdin=tar, timeout_seconds=60)
    ended = engine.execute(container, unpack)
    if ended.exit != 0:
        words = ended.start_error or ended.stderr.kept.decode(errors="replace").strip()
        raise EngineFailed(f"the solver's templates could not be unpacked at {HOME}: {words}")


def _refuse_other_limits(trial: Trial, force: InForce) -> None:
    """Row I16: a trial under other limits than it was asked for is no trial of this plan."""
    asked = trial.planned.spec
    if force.limits != asked.limits or force.network != asked.network:
        raise EngineFailed(
            f"asked for {asked.limits.json_value()} and network {asked.network},"
            f" in force are {force.limits.json_value()} and {force.network}"
        )
