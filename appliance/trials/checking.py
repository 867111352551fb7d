"""Checks of a suite: is every task resolved by its reference, and by nothing and no forger? (rows H4, H8, H10)"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import Final, Protocol

from appliance.ports import Changes
from appliance.records.plan import PlannedTask
from appliance.tasks.checks import CheckedSolver, CheckedTask, Checks
from appliance.tasks.model import Suite, Task
from appliance.trials.grading.forgers import FORGERS, target_of
from appliance.trials.grading.grader import Grader
from appliance.trials.grading.history import HISTORY, history_findings, plain_findings
from appliance.trials.grading.reference import reference_changes
from appliance.trials.grading.tree import pristine_nodes
from appliance.trials.grading.unified import PatchRejected

REFERENCE: Final = "reference"
NOOP: Final = "noop"
BASELINE: Final = "baseline"


@dataclass(frozen=True)
class Checked:
    """One run of one solver on one task, or its baseline."""

    task: str
    solver: str
    resolved: bool
    words: str
    """How it ended, for a person."""
    unrouted: int
    findings: tuple[str, ...] = ()


class CheckWatcher(Protocol):
    def began(self, total: int) -> None: ...

    def ended(self, checked: Checked) -> None: ...


@dataclass(frozen=True)
class _Attempt:
    """What is laid over the pristine tree; `changes` None is the baseline."""

    task: Task
    planned: PlannedTask
    image: str
    solver: str
    changes: Changes | None
    gold: Changes


def check_tasks(
    suite: Suite,
    planned: Mapping[str, PlannedTask],
    image_ids: Mapping[str, str],
    *,
    grader: Grader,
    runs: int,
    jobs: int,
    watcher: CheckWatcher,
    before: Checks | None = None,
) -> Checks:
    """The tasks of `planned`, each `runs` times with reference, noop and every forger; the others as in `before`.

    Raises EngineFailed where the engine does not do its part: then nothing was found out.
    """
    tasks = [task for task in suite.tasks if task.spec.name in planned]
    found = {task.spec.name: _Found(task) for task in tasks}
    attempts: list[_Attempt] = []
    for task in tasks:
        spec = planned[task.spec.name]
        image = image_ids[spec.images.task.config]
        attempts += _attempts(found[task.spec.name], spec, image, runs)
    watcher.began(len(attempts))
    for checked in _all(attempts, grader, jobs):
        found[checked.task].take(checked)
        watcher.ended(checked)
    return _checks(suite, found, runs, before)


@dataclass
class _Found:
    """All that is known of one task so far."""

    task: Task
    runs: Counter[str] = field(default_factory=Counter)
    resolved: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    failing: list[str] = field(default_factory=list)
    """Findings for which the task is quarantined, the first one as its reason."""

    def take(self, checked: Checked) -> None:
        if checked.solver != BASELINE:
            self.runs[checked.solver] += 1
            self.resolved[checked.solver] += checked.resolved
        elif not checked.resolved:
            self.fails(f"baseline: {checked.words}")
        if checked.solver == REFERENCE and not checked.resolved:
            self.fails(f"reference: {checked.words}")
        if checked.unrouted:
            self.fails("the tests reach for a network")
        for finding in checked.findings:
            self.fails(finding)

    def fails(self, finding: str) -> None:
        self.note(finding)
        if finding not in self.failing:
            self.failing.append(finding)

    def note(self, finding: str) -> None:
        if finding not in self.findings:
            self.findings.append(finding)

    def reason(self) -> str | None:
        """Why the task is quarantined: rates first (row H8)."""
        gold, ran = self.resolved[REFERENCE], self.runs[REFERENCE]
        if ran and gold < ran:
            return f"reference resolves {gold} of {ran}"
        if self.resolved[NOOP]:
            return f"noop resolves {self.resolved[NOOP]} of {self.runs[NOOP]}"
        return self.failing[0] if self.failing else None

    def forgers(self) -> tuple[str, ...]:
        return tuple(name for name in FORGERS if self.resolved[name])

    def value(self) -> CheckedTask:
        rates = tuple(
            CheckedSolver(solver=name, resolved=self.resolved[name], runs=self.runs[name])
            for name in (REFERENCE, NOOP, *FORGERS)
            if self.runs[name]
        )
        return CheckedTask(task=self.task.spec.name, rates=rates, findings=tuple(self.findings))


def _attempts(found: _Found, planned: PlannedTask, image: str, runs: int) -> Iterator[_Attempt]:
    task = found.task
    nothing = Changes((), ())
    gold: Changes | None = None
    try:
        gold = reference_changes(task)
        if gold is None:
            found.note("has no reference: nobody knows whether it can be resolved")
    except PatchRejected as error:
        found.fails(f"reference.patch: {error}")
    known = gold or nothing
    yield _Attempt(task, planned, image, BASELINE, None, known)
    solutions = {NOOP: nothing} if gold is None else {REFERENCE: gold, NOOP: nothing}
    pristine = pristine_nodes(task.before)
    target = target_of(planned.spec, pristine, known.entries)
    for name, forger in FORGERS.items():
        entries = forger(target)
        if entries:
            solutions[name] = Changes(entries, ())
        else:
            found.note(f"{name} does not know how to forge it: no source file in a language it speaks")
    for name, changes in solutions.items():
        for _ in range(runs):
            yield _Attempt(task, planned, image, name, changes, known)


def _all(attempts: list[_Attempt], grader: Grader, jobs: int) -> Iterator[Checked]:
    """As they end. Whatever stops it waits for the containers in flight, and starts no other."""
    pool = ThreadPoolExecutor(max_workers=jobs, thread_name_prefix="check")
    try:
        running: list[Future[Checked]] = [pool.submit(_attempted, attempt, grader) for attempt in attempts]
        for future in as_completed(running):
            yield future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _attempted(attempt: _Attempt, grader: Grader) -> Checked:
    ready = grader.ready(attempt.task, attempt.planned, attempt.image)
    name = attempt.task.spec.name
    if attempt.changes is None:
        try:
            said = grader.look(ready, HISTORY)
            findings = history_findings(said.stdout.kept, attempt.gold.entries)
            findings += plain_findings(pristine_nodes(attempt.task.before), attempt.gold.entries)
        except BaseException:
            grader.discard(ready)
            raise
        baseline, _, _ = grader.baseline_in(ready)
        words = ": ".join(filter(None, (baseline.verdict, baseline.detail)))
        return Checked(name, BASELINE, baseline.verdict == "failed", words, 0, findings)
    graded = grader.grade(ready, attempt.changes)
    words = ": ".join(filter(None, (graded.outcome, graded.reason, graded.detail)))
    problem = (f"the diff of {attempt.solver}: {graded.patch_problem}",) if graded.patch_problem else ()
    reached = (graded.unrouted or 0) if attempt.solver in (REFERENCE, NOOP) else 0
    return Checked(name, attempt.solver, graded.outcome == "resolved", words, reached, problem)


def _checks(suite: Suite, found: Mapping[str, _Found], runs: int, before: Checks | None) -> Checks:
    kept = before if before is not None and before.suite_digest == suite.digest else None
    rates = {task.task: task for task in kept.rates} if kept else {}
    quarantined = dict(kept.quarantined) if kept else {}
    forgeable = dict(kept.forgeable) if kept else {}
    for name, task in found.items():
        quarantined.pop(name, None)
        forgeable.pop(name, None)
        rates[name] = task.value()
        reason = task.reason()
        if reason is not None:
            quarantined[name] = reason
        if task.forgers():
            forgeable[name] = task.forgers()
    return Checks(
        suite_digest=suite.digest,
        runs=runs,
        rates=tuple(rates[name] for name in sorted(rates)),
        quarantined=quarantined,
        forgeable=forgeable,
    )


def defects(suite: Suite, checks: Checks) -> dict[str, str]:
    """Tasks that promise isolation and are broken or forged all the same: a bundled or generated suite has none."""
    found = {}
    for task in suite.tasks:
        name = task.spec.name
        if task.spec.oracle.isolation != "user":
            continue
        if name in checks.quarantined:
            found[name] = checks.quarantined[name]
        elif name in checks.forgeable:
            found[name] = f"forged by {', '.join(checks.forgeable[name])}"
    return found
