"""Real runs for tests: this machine's engine, a small suite, and the record that came of it."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from appliance.records import journal
from appliance.records.plan import TrialPlan
from appliance.records.record import Record
from appliance.records.trial import TrialResult
from appliance.solvers.definition import SolverDefinition
from appliance.tasks.model import Suite
from appliance.trials.adapters import images_here, this_machine
from appliance.trials.planning import plan_trials, resolve_images
from appliance.trials.runner import Ended
from appliance.trials.session import RunEnded, RunOptions, run_plans
from appliance.trials.stamps import Subject
from tests.trials_suites import options


@dataclass
class Watched:
    """A Watcher that keeps what it saw."""

    seen: list[Ended] = field(default_factory=list)
    finished: int = 0

    def began(self, total: int, finished: int) -> None:
        self.finished = finished

    def ended(self, ended: Ended) -> None:
        self.seen.append(ended)


def plans_for(suite: Suite, *definitions: SolverDefinition, **asked: object) -> tuple[TrialPlan, ...]:
    library = images_here(lambda _words: None, needs_engine=True)
    return tuple(
        plan_trials(suite, one, resolve_images(suite.tasks, one, library), options(**asked)) for one in definitions
    )


def run_suite(
    out: Path,
    suite: Suite,
    *definitions: SolverDefinition,
    run_options: dict[str, object] | None = None,
    watched: Watched | None = None,
    **asked: object,
) -> RunEnded:
    plans = plans_for(suite, *definitions, **asked)
    chosen: dict[str, object] = {
        "subjects": {one.name: Subject(None, None, "unknown") for one in definitions},
        "keep_suite": False,
    }
    return run_plans(
        plans,
        suite,
        solvers={one.name: one for one in definitions},
        adapters=this_machine(plans, lambda _words: None),
        out=out,
        options=RunOptions(**(chosen | (run_options or {}))),  # type: ignore[arg-type]
        watcher=watched or Watched(),
    )


def records(ended: RunEnded) -> list[Record]:
    return [Record.read(path) for path in ended.records]


def trial(ended: RunEnded, at: int = 0) -> TrialResult:
    """Of the first solver."""
    return records(ended)[0].trials[at]


def blob(ended: RunEnded, sha256: str) -> bytes:
    return (ended.folder / "blobs" / "sha256" / sha256).read_bytes()


def stdout_of(ended: RunEnded, result: TrialResult) -> bytes:
    assert result.streams is not None
    ref = result.streams.stdout.blob
    return b"" if ref is None else blob(ended, ref.sha256)


def lines(out: Path) -> tuple[journal.Line, ...]:
    path = out / "journal.jsonl"
    return journal.decode(path.read_bytes(), str(path)).lines


def left_of(run: str) -> list[str]:
    """Containers, volumes, cgroups, mounts and folders of a run that are still there."""
    label = f"label=org.bench-appliance.run={run}"
    found = _said("docker", "ps", "-aq", "--filter", label) + _said("docker", "volume", "ls", "-q", "--filter", label)
    found += [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if run in line]
    cgroups = Path("/sys/fs/cgroup")
    folders = [*cgroups.glob(f"bench-appliance/{run}"), *cgroups.glob(f"*/bench-appliance/{run}")]
    scratch = Path("/var/lib/bench-appliance/scratch") / run
    found += [str(path) for path in (*folders, scratch) if path.exists()]
    return found


def _said(*argv: str) -> list[str]:
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()
