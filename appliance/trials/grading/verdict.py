"""What the oracle's run means: pure, from what was seen of it (formats 7; rows J06, J07, J11, H23)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from appliance.records.trial import Grade, TestResult
from appliance.records.words import Outcome, Reason, TestStatus
from appliance.tasks.model import OracleSpec

BaselineVerdict = Literal["failed", "baseline_passed", "baseline_error"]
_CANNOT_RUN = (126, 127)
_SIGNALLED = range(129, 193)


@dataclass(frozen=True)
class OracleRun:
    """One run of test_cmd as it was seen."""

    exit: int | None
    """128 + n where signal n ended it; None where its limit did, it could not start, or nobody saw its end."""
    timed_out: bool
    start_error: str | None
    """Why test_cmd could not be started at all."""
    statuses: Mapping[str, TestStatus] | None
    """By id; None where there is no report that can be read."""
    report_problem: str | None
    tests_digest_before: str
    tests_digest_after: str | None

    @property
    def cut_off(self) -> bool:
        """Nobody saw test_cmd end: what watched it died, or it never began."""
        return self.exit is None and not self.timed_out


@dataclass(frozen=True)
class OracleVerdict:
    outcome: Outcome
    reason: Reason | None
    detail: str | None
    grade: Grade


def verdict(oracle: OracleSpec, run: OracleRun) -> OracleVerdict:
    """Resolved: exit status 0 and, where ids are listed, every one of them passed; the tests as they were."""
    grade = grade_of(oracle, run)
    reason, detail = _against(oracle, run, grade)
    return OracleVerdict("resolved" if reason is None else "unresolved", reason, detail, grade)


def _against(  # noqa: PLR0911 - one rule a line, in the order they hold
    oracle: OracleSpec, run: OracleRun, grade: Grade
) -> tuple[Reason | None, str | None]:
    if run.tests_digest_after not in (None, run.tests_digest_before):
        return "tampered", "the tests are not what they were before grading"
    if run.timed_out:
        return "oracle_timeout", "test_cmd ran into its limit"
    if run.cut_off or run.tests_digest_after is None:
        return "no_verdict", run.start_error or "the oracle was cut off"
    if oracle.lists_ids and run.statuses is None:
        return "no_verdict", f"{run.report_problem} (exit {run.exit})"
    missed = [test for test in grade.ids if test.status != "passed"]
    if missed:
        more = f" and {len(missed) - 1} more" if len(missed) > 1 else ""
        return "tests_failed", f"{missed[0].id}: {missed[0].status}{more}"
    if run.exit != 0:
        return "tests_failed", f"exit {run.exit}"
    return None, None


def grade_of(oracle: OracleSpec, run: OracleRun) -> Grade:
    return Grade(
        oracle=oracle.format if oracle.lists_ids else "exit_code",
        exit=run.exit,
        timed_out=run.timed_out,
        ids=_results(oracle, run.statuses or {}, baseline=False),
        tests_digest_before=run.tests_digest_before,
        tests_digest_after=run.tests_digest_after,
    )


def _results(oracle: OracleSpec, statuses: Mapping[str, TestStatus], *, baseline: bool) -> tuple[TestResult, ...]:
    return tuple(
        TestResult(
            id=name, expected="failed" if baseline and failing else "passed", status=statuses.get(name, "missing")
        )
        for failing, names in ((True, oracle.fail_to_pass), (False, oracle.pass_to_pass))
        for name in names
    )


@dataclass(frozen=True)
class BaselineRun:
    """The oracle on the untouched workspace: `failed` is the good one, the bug reproduces."""

    verdict: BaselineVerdict
    detail: str | None
    ids: tuple[TestResult, ...]


def baseline_verdict(oracle: OracleSpec, run: OracleRun) -> BaselineRun:
    ids = _results(oracle, run.statuses or {}, baseline=True)
    word, detail = _of_baseline(oracle, run)
    return BaselineRun(word, detail, ids)


def _of_baseline(oracle: OracleSpec, run: OracleRun) -> tuple[BaselineVerdict, str | None]:
    error = _cannot_run(oracle, run)
    if error is not None:
        return "baseline_error", error
    if not oracle.lists_ids:
        return ("baseline_passed", "test_cmd passes on the untouched workspace") if run.exit == 0 else ("failed", None)
    statuses = run.statuses or {}
    broken = [name for name in oracle.pass_to_pass if statuses.get(name, "missing") != "passed"]
    if broken:
        return "baseline_error", f"{broken[0]} is to pass before and after, and is {statuses.get(broken[0], 'missing')}"
    passing = [name for name in oracle.fail_to_pass if statuses.get(name) == "passed"]
    if len(passing) == len(oracle.fail_to_pass) and run.exit == 0:
        return "baseline_passed", "every listed test passes on the untouched workspace"
    if passing:
        return "baseline_error", f"{passing[0]} is to fail on the untouched workspace, and passes"
    return "failed", None


def _cannot_run(oracle: OracleSpec, run: OracleRun) -> str | None:  # noqa: PLR0911 - one rule a line
    if run.timed_out:
        return "test_cmd ran into its limit"
    if run.start_error is not None:
        return run.start_error
    if run.cut_off:
        return "test_cmd was cut off"
    if run.exit in _CANNOT_RUN:
        return f"test_cmd cannot run (exit {run.exit})"
    if run.exit in _SIGNALLED:
        return f"signal {(run.exit or 0) - 128} ended test_cmd"
    if run.tests_digest_after != run.tests_digest_before:
        return "test_cmd changes its own tests"
    if oracle.lists_ids and run.statuses is None:
        return f"{run.report_problem} (exit {run.exit})"
    return None
