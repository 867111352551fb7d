"""A trivial trial over its floor: noop, graded in a fresh container, its baseline cached."""

from __future__ import annotations

import shutil
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path

from appliance.records.plan import PlannedEnergy, TrialKey, TrialPlan, trial_keys
from appliance.solvers.finding import find_solver
from appliance.tasks.model import Limits, Suite
from appliance.trials.adapters import images_here, this_machine
from appliance.trials.planning import PlanOptions, plan_trials, resolve_images
from appliance.trials.runner import Ended
from appliance.trials.session import Adapters, RunOptions, new_run_id, run_plans
from appliance.trials.stamps import Subject, harness_version
from tests.benchmarks.floor import Floor
from tests.trials_suites import small_suite

PAIRS = 20
_TEST_ARGV = ("sh", "-c", "exit 1")


@dataclass
class _Clock:
    """Seconds from the first trial's begin to the last one's line on the disk: no locks, no folding, no start-up."""

    began_at: float = 0.0
    ended_at: float = 0.0
    outcomes: list[str] = field(default_factory=list)

    def began(self, total: int, finished: int) -> None:
        self.began_at = time.monotonic()

    def ended(self, ended: Ended) -> None:
        self.ended_at = time.monotonic()
        self.outcomes.append(ended.outcome)


class Bench:
    """One run folder that grows by a few trials at a time, on one trivial task."""

    def __init__(self, folder: Path, rollouts: int):
        self.folder = folder
        suite_folder = folder / "suite"
        self.suite: Suite = small_suite(suite_folder, "trivial", test_cmd='["sh", "-c", "exit 1"]')
        self.solver = find_solver("noop")
        library = images_here(lambda _words: None, needs_engine=True)
        options = PlanOptions(
            energy=PlannedEnergy(mode="auto", active_watts=None, scheduling="shared"),
            harness_version=harness_version(),
            rollouts=rollouts,
        )
        self.plan: TrialPlan = plan_trials(
            self.suite, self.solver, resolve_images(self.suite.tasks, self.solver, library), options
        )
        self.adapters: Adapters = this_machine((self.plan,), lambda _words: None)
        self._keys = iter(trial_keys(self.plan))
        self._started = False

    @property
    def image_id(self) -> str:
        pin = self.plan.tasks[0].images.task
        return self.adapters.images.ensure([pin])[pin.config]

    @property
    def limits(self) -> Limits:
        return self.plan.tasks[0].spec.limits

    def trials(self, number: int, jobs: int) -> float:
        """Seconds of `number` more trials, `jobs` at a time."""
        keys: set[TrialKey] = {next(self._keys) for _ in range(number)}
        clock = _Clock()
        run_plans(
            (self.plan,),
            self.suite,
            solvers={"noop": self.solver},
            adapters=self.adapters,
            out=self.folder / "run",
            options=RunOptions(
                run=new_run_id(),
                subjects={"noop": Subject(None, None, "unknown")},
                jobs=jobs,
                resume=self._started,
                only=frozenset(keys),
                keep_suite=False,
            ),
            watcher=clock,
        )
        self._started = True
        if clock.outcomes != ["unresolved"] * number:
            raise RuntimeError(f"the trivial trial ended {clock.outcomes}")
        return clock.ended_at - clock.began_at


@dataclass(frozen=True)
class Ratio:
    """Medians in seconds of one trial (or of `jobs` at once) and of their floor, in alternating pairs."""

    jobs: int
    ours: list[float]
    floor: list[float]

    @property
    def of_medians(self) -> float:
        return statistics.median(self.ours) / statistics.median(self.floor)

    def row(self) -> str:
        ours, floor = statistics.median(self.ours), statistics.median(self.floor)
        return f"{self.jobs:>4}  {ours:>8.3f}  {floor:>8.3f}  {self.of_medians:>6.2f}  {len(self.ours):>5}"


def over_floor(folder: Path, jobs: int, pairs: int = PAIRS) -> Ratio:
    bench = Bench(folder, rollouts=(pairs + 2) * jobs)
    floor = Floor(bench.image_id, bench.limits, ("true",), _TEST_ARGV)
    try:
        # The baseline, the pristine tree and the template are made once; so are the engine's own caches.
        bench.trials(jobs, jobs)
        floor.at_once(jobs)
        ours, theirs = [], []
        for _ in range(pairs):
            ours.append(bench.trials(jobs, jobs))
            theirs.append(floor.at_once(jobs))
        return Ratio(jobs, ours, theirs)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
