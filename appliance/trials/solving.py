"""The solver's part of a trial: everything around its exec, in the order that the meter needs (formats 5).

Prepare, container started idle with its workspace, forwarder beside it, open, exec to its exit or limit, close,
evidence, kill, remove, release. What comes after it starts only when no program of the solver is left.
"""

from __future__ import annotations

import shutil
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Final

from appliance.files import disk_of
from appliance.ports import (
    TRIAL_LABEL,
    Changes,
    ContainerSpec,
    Engine,
    EngineFailed,
    ExecOutcome,
    ExecSpec,
    InForce,
    MeteredTrial,
    SolveCall,
    TrialMeter,
    Workspace,
)
from appliance.records.metered import AT_LIMIT
from appliance.records.words import FLOOR_KINDS
from appliance.solvers.programs import HOME
from appliance.trials.bench import Bench, Trial
from appliance.trials.cascades import keep_answer
from appliance.trials.early import EarlyGrader
from appliance.trials.grading.container import SUBJECT_PROGRAM
from appliance.trials.outcomes import SolverEnd, cause_of, claim_faults
from appliance.trials.results import Seen, keep_traffic, streams_of
from appliance.trials.said import claimed_of
from appliance.trials.sidecar import ROLE as FORWARDER
from appliance.trials.sidecar import Sidecar

_KILLED: Final = 137


def solve(trial: Trial, bench: Bench, seen: Seen, undo: ExitStack, early: EarlyGrader) -> tuple[SolverEnd, Changes]:
    """What is undone here is undone again, harmlessly, where a phase before fails."""
    with bench.turns.work():
        ready = _made_ready(trial, bench, seen, undo)
    with bench.turns.window():
        bench.stop.check()
        if not bench.turns.exclusive:
            early.begin()
        ready.metered.open()
        execution = replace(ready.call.exec, spool=bench.folder.in_flight / trial.name)
        ended = bench.engine.execute(ready.container, execution)
        ready.metered.close()
    with bench.turns.work():
        return _cleared(ready, ended, bench, seen)


@dataclass(frozen=True)
class _Ready:
    """A solver's container that idles, with everything around it."""

    call: SolveCall
    workspace: Workspace
    metered: TrialMeter
    window: _Window
    container: str
    sidecar: Sidecar | None


def _made_ready(trial: Trial, bench: Bench, seen: Seen, undo: ExitStack) -> _Ready:
    spec = trial.planned.spec
    call = _call(trial, bench)
    workspace = bench.workspaces.open(trial.task.before, spec.limits.disk_mib, bench.labels)
    undo.callback(workspace.close)
    metered = _prepared(trial, bench)
    window = _Window(metered)
    undo.callback(window.abandon)
    sidecar = bench.models.sidecar(trial.plan, trial.key, trial.name, metered)
    if sidecar is not None:
        undo.callback(_discard, sidecar, seen, bench)
    container = bench.engine.create(_container(trial, bench, call, workspace, metered))
    undo.callback(bench.engine.remove, container)
    if sidecar is not None:
        undo.callback(sidecar.remove)
    bench.engine.start(container)
    workspace.seed(container)
    if call.home:
        _unpack_home(bench.engine, container, call.home)
    seen.in_force = bench.engine.in_force(container, spec.limits)
    _refuse_other_limits(trial, seen.in_force)
    if sidecar is not None:
        _start_beside(sidecar, container, trial, bench, metered)
    return _Ready(call, workspace, metered, window, container, sidecar)


def _discard(sidecar: Sidecar, seen: Seen, bench: Bench) -> None:
    """A trial that broke off has used of the run's budget all the same."""
    traffic = sidecar.discard()
    if traffic is not None:
        keep_traffic(traffic, seen, bench.folder)


def _cleared(ready: _Ready, ended: ExecOutcome, bench: Bench, seen: Seen) -> tuple[SolverEnd, Changes]:
    container = ready.container
    seen.wall_seconds = ended.wall_seconds
    seen.streams = streams_of(ended, bench.folder.keep)
    bench.stop.check()
    if ready.sidecar is not None:
        ready.sidecar.stop()
    if ended.exit == _KILLED:
        # Perhaps with its whole container: the engine is given the moment that it takes to notice.
        time.sleep(0.3)
    seen.evidence = bench.engine.evidence(container)
    disk = ready.workspace.disk()
    seen.claimed = claimed_of(ready.call, ended, bench.engine, container)
    keep_answer(ready.call, ended, seen, bench.folder.keep)
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
    if ready.sidecar is not None:
        keep_traffic(ready.sidecar.finish(), seen, bench.folder)
    if seen.claimed is not None:
        seen.faults.extend(claim_faults(seen.claimed, seen.traffic))
    seen.cause, seen.solver_exit, seen.disk_mib = cause_of(end, seen.traffic), ended.exit, disk.used_mib
    seen.metered = ready.window.release(ended.wall_seconds, at_limit=seen.cause in AT_LIMIT)
    if seen.metered.readings is not None:
        seen.readings = bench.folder.keep(seen.metered.readings)
    # The workspace stays till the grade: large files of the changes are still read from it.
    return end, ready.workspace.harvest()


def _prepared(trial: Trial, bench: Bench) -> TrialMeter:
    run, index, planned, cpus = bench.run, trial.index, trial.plan.energy, trial.planned.spec.limits.cpus
    by_kind = trial.plan.solver.kind in FLOOR_KINDS
    if trial.plan.upstream is None:
        return bench.meter.prepare(run, index, planned, cpus, by_kind)
    return bench.meter.prepare(run, index, planned, cpus, by_kind, roles=("solver", FORWARDER))


def _start_beside(sidecar: Sidecar, container: str, trial: Trial, bench: Bench, metered: TrialMeter) -> None:
    upstream = trial.plan.upstream
    assert upstream is not None  # noqa: S101  # a plan without one has no sidecar
    sidecar.start(
        container,
        bench.image_ids[upstream.forwarder.config],
        {**bench.labels, TRIAL_LABEL: trial.name},
        metered.cgroups.get(FORWARDER),
    )


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
