"""Every outcome against what the oracle said: decisions.md (Oracle, How a trial ends), one rule a word."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from appliance.records.plan import PlannedTask, TrialPlan
from appliance.records.record import Record
from appliance.records.trial import Grade, TrialResult
from appliance.records.words import Outcome
from attest.errors import Refused

_NEVER_GRADED: Final[frozenset[Outcome]] = frozenset({"errored", "skipped"})


def follow_from_grades(record: Record) -> None:
    tasks = {task.spec.name: task for task in record.plan.tasks}
    for at, trial in enumerate(record.trials):
        task = tasks.get(trial.key.task)
        if task is None:
            continue  # check 4 has named it
        problem = _problem(record.plan, task, trial)
        if problem:
            field, words = problem
            raise Refused("aggregate", words, where=f"$.trials[{at}].{field}")


def _problem(plan: TrialPlan, task: PlannedTask, trial: TrialResult) -> tuple[str, str] | None:
    """`(field, words)` of the first contradiction of one trial."""
    odd = _odd_fields(task, trial) or (_odd_grade(task, trial.grade) if trial.grade else None)
    if odd or trial.outcome not in ("resolved", "unresolved"):
        return odd
    if trial.outcome == "resolved":
        return _problem_of_resolved(plan, task, trial)
    words = _UNRESOLVED[str(trial.reason)](plan, task, trial)
    return ("reason", f"{trial.reason}, {words}") if words else None


def _odd_fields(task: PlannedTask, trial: TrialResult) -> tuple[str, str] | None:
    """Fields that cannot stand beside each other, whatever the oracle said."""
    for odd, field, words in (
        (
            trial.after_subject and trial.reason != "expect_failed",
            "afterSubject",
            "only an expect that failed comes after the subject",
        ),
        (
            trial.cause == "exit" and trial.solver_exit is None,
            "cause",
            "the solver exited, and has no exit status",
        ),
        (
            trial.outcome in _NEVER_GRADED and trial.grade is not None,
            "grade",
            f"{trial.outcome}, and it was graded",
        ),
        (
            trial.outcome == "unscored" and bool(task.spec.test_cmd),
            "outcome",
            "unscored, and its task has an oracle",
        ),
    ):
        if odd:
            return field, words
    return None


def _odd_grade(task: PlannedTask, grade: Grade) -> tuple[str, str] | None:
    """A grade that its task's oracle cannot have given."""
    oracle = task.spec.oracle
    if grade.oracle != oracle.format and not (grade.oracle == "exit_code" and not oracle.lists_ids):
        return "grade.oracle", f"{grade.oracle}, and the task's is {oracle.format}"
    listed = (*oracle.fail_to_pass, *oracle.pass_to_pass)
    if grade.ids and sorted(entry.id for entry in grade.ids) != sorted(listed):
        return "grade.ids", "not the ids that the task lists"
    for at, entry in enumerate(grade.ids):
        if entry.expected != "passed":
            return f"grade.ids[{at}].expected", f"{entry.expected}: at the end, every listed id is to pass"
    if grade.timed_out and grade.exit is not None:
        return "grade.exit", "the oracle was killed by its limit, and has an exit status"
    return None


def passes(task: PlannedTask, grade: Grade) -> bool:
    """Exit status 0 *and* every listed id as expected, on tests that nobody touched."""
    ids = len(grade.ids) == len(task.spec.oracle.fail_to_pass) + len(task.spec.oracle.pass_to_pass)
    return (
        grade.exit == 0
        and not grade.timed_out
        and ids
        and all(entry.status == entry.expected for entry in grade.ids)
        and grade.tests_digest_after == grade.tests_digest_before
    )


def _problem_of_resolved(plan: TrialPlan, task: PlannedTask, trial: TrialResult) -> tuple[str, str] | None:
    if trial.grade is None:
        return "grade", "resolved, and never graded"
    if not passes(task, trial.grade):
        return "outcome", "resolved, and its grade says otherwise"
    if trial.cause == "timeout" and not plan.suite.timeout_resolves:
        return "outcome", "resolved at its limit, which the suite does not allow"
    return None


def _tests_failed(plan: TrialPlan, task: PlannedTask, trial: TrialResult) -> str | None:
    if trial.grade is None:
        return "and never graded"
    if trial.grade.timed_out:
        return "and the oracle ran into its limit"
    return _not_passed(plan, task, trial)


def _oracle_timeout(plan: TrialPlan, task: PlannedTask, trial: TrialResult) -> str | None:
    del plan, task
    return None if trial.grade is not None and trial.grade.timed_out else "and the oracle came to its end"


def _tampered(plan: TrialPlan, task: PlannedTask, trial: TrialResult) -> str | None:
    del plan, task
    grade = trial.grade
    untouched = grade is None or grade.tests_digest_after == grade.tests_digest_before
    return "and the tests are as they were" if untouched else None


def _timeout(plan: TrialPlan, task: PlannedTask, trial: TrialResult) -> str | None:
    del task
    if plan.suite.timeout_resolves:
        return "and in this suite the oracle decides"
    return None if trial.cause == "timeout" else f"and its cause is {trial.cause}"


def _not_passed(plan: TrialPlan, task: PlannedTask, trial: TrialResult) -> str | None:
    del plan
    passed = trial.grade is not None and passes(task, trial.grade)
    return "and its grade says that it passed" if passed else None


_UNRESOLVED: Final[dict[str, Callable[[TrialPlan, PlannedTask, TrialResult], str | None]]] = {
    "tests_failed": _tests_failed,
    "oracle_timeout": _oracle_timeout,
    "no_verdict": _not_passed,
    "tampered": _tampered,
    "patch_rejected": _not_passed,
    "timeout": _timeout,
}
