"""What `appliance shell` does with its words: find the trial, lay its diff, hand over the terminal."""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from appliance.audit.documents import read_record
from appliance.cli.output import note
from appliance.digests import sha256_hex
from appliance.errors import HostRefused, InputRefused, UsageRefused
from appliance.ports import LOCK_LABEL, RUN_LABEL, ContainerSpec, ExecSpec
from appliance.reading import read_regular
from appliance.records.record import Record
from appliance.records.trial import TrialResult
from appliance.report.load import record_paths
from appliance.tasks.model import Suite
from appliance.trials.adapters import this_machine
from appliance.trials.session import new_run_id

_APPLY = ("git", "apply", "--whitespace=nowarn", "-")


def choose(run: Path, solver: str | None, trial: str) -> tuple[Path, Record, TrialResult]:
    """Raises UsageRefused, listing what there is, where the words fit no trial or several."""
    paths = record_paths(run)
    named = [path for path in paths if solver is None or path.stem == solver]
    if len(named) != 1:
        known = ", ".join(path.stem for path in paths)
        raise UsageRefused(f"{len(named)} records fit", where=str(run), mend=f"--solver, one of: {known}")
    record = read_record(named[0])
    return named[0], record, _trial_of(record, trial)


def _trial_of(record: Record, word: str) -> TrialResult:
    if word.isdigit() and int(word) < len(record.trials):
        return record.trials[int(word)]
    named, *numbers = word.rsplit(":", 2)
    if any(not number.isdigit() for number in numbers):
        named, numbers = word, []
    wanted = [int(number) for number in numbers] + [0, 0][len(numbers) :]
    for result in record.trials:
        if (result.key.task, result.key.pass_, result.key.rollout) == (named, *wanted):
            return result
    known = ", ".join(dict.fromkeys(result.key.task for result in record.trials))
    raise UsageRefused(f"no trial {word!r}", where="TRIAL", mend=f"TASK[:PASS[:ROLLOUT]] of: {known}")


def enter(record: Record, result: TrialResult, suite: Suite, blobs: Path, command: tuple[str, ...]) -> int:
    """The exit status of what ran in the container."""
    client = shutil.which("docker")
    if client is None:
        raise HostRefused("no docker client to hand the terminal to", mend="apt-get install docker.io")
    patch = _patch(result, blobs)
    planned = record.plan.task(result.key.task)
    adapters = this_machine((record.plan,), note)
    run = new_run_id()
    with ExitStack() as stack:
        lock = stack.enter_context(adapters.locks.hold(run))
        stack.enter_context(adapters.reaper(run, lock))
        stack.callback(adapters.reap, run)
        stack.callback(adapters.meter.close_run, run)
        labels = {RUN_LABEL: run, LOCK_LABEL: str(lock)}
        pin = planned.images.composed
        image = adapters.images.ensure((pin,), (planned,))[pin.config]
        workspace = adapters.workspaces.open(suite.task(planned.spec.name).before, planned.spec.limits.disk_mib, labels)
        stack.callback(workspace.close)
        container = adapters.engine.create(
            ContainerSpec(
                image=image,
                role="harness",
                labels=labels,
                limits=planned.spec.limits,
                network="none",
                cgroup_parent=adapters.meter.harness_cgroup(run),
                mounts=(workspace.mount,),
            )
        )
        stack.callback(adapters.engine.remove, container)
        adapters.engine.start(container)
        workspace.seed(container)
        if patch:
            said = adapters.engine.execute(container, ExecSpec(_APPLY, stdin=patch, timeout_seconds=60))
            if said.exit != 0:
                words = said.start_error or said.stderr.kept.decode(errors="replace").strip()
                raise HostRefused(f"the solver's diff could not be laid over the task: {words}")
        terminal = ("-it",) if sys.stdin.isatty() and sys.stdout.isatty() else ("-i",)
        wanted = command or ("sh", "-c", "if command -v bash >/dev/null; then exec bash; else exec sh; fi")
        argv = (client, "exec", *terminal, "-u", "1000:1000", "-w", "/workspace", container, *wanted)
        return subprocess.run(argv, check=False).returncode


def _patch(result: TrialResult, blobs: Path) -> bytes:
    if result.harvest is None:
        raise InputRefused(
            f"nothing was harvested of this trial: it is {result.outcome}", where=result.key.task, mend="choose another"
        )
    diff = result.harvest.diff
    if diff is None:
        return b""
    path = blobs / "sha256" / diff.sha256
    try:
        content = read_regular(path, diff.bytes, follow=False)
    except OSError as error:
        raise InputRefused(error.strerror or str(error), where=str(path), mend="bring the run's blobs along") from error
    if sha256_hex(content) != diff.sha256:
        raise InputRefused("is not what its name says", where=str(path), mend="bring the run's own blobs")
    return content
