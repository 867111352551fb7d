"""From a run of the oracle to its word (decisions, Oracle)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from appliance.tasks.model import OracleSpec
from appliance.trials.grading.verdict import OracleRun, baseline_verdict, verdict

DIGEST, OTHER = "a" * 64, "b" * 64
IDS = OracleSpec(format="junit", path="/grade/result.xml", isolation="user", fail_to_pass=("f",), pass_to_pass=("p",))
STATUS = OracleSpec(format="exit_code", path=None, isolation="user", fail_to_pass=(), pass_to_pass=())
GOOD = OracleRun(
    exit=0,
    timed_out=False,
    start_error=None,
    statuses={"f": "passed", "p": "passed"},
    report_problem=None,
    tests_digest_before=DIGEST,
    tests_digest_after=DIGEST,
)
BASE = replace(GOOD, exit=1, statuses={"f": "failed", "p": "passed"})


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (GOOD, None),
        (replace(GOOD, exit=1), "tests_failed"),
        (replace(GOOD, statuses={"f": "passed", "p": "failed"}), "tests_failed"),
        (replace(GOOD, statuses={"f": "passed", "p": "skipped"}), "tests_failed"),
        (replace(GOOD, statuses={"f": "passed"}), "tests_failed"),
        (replace(GOOD, statuses=None, report_problem="no report"), "no_verdict"),
        (replace(GOOD, statuses=None, report_problem="no report", exit=139), "no_verdict"),
        (replace(GOOD, exit=None, timed_out=True), "oracle_timeout"),
        (replace(GOOD, exit=None, start_error="gone"), "no_verdict"),
        (replace(GOOD, tests_digest_after=OTHER), "tampered"),
        (replace(GOOD, tests_digest_after=OTHER, exit=None, timed_out=True), "tampered"),
        (replace(GOOD, tests_digest_after=None), "no_verdict"),
    ],
)
def test_a_task_with_ids_needs_status_and_every_id(run: OracleRun, reason: str | None) -> None:
    """Exit 0 and each listed id passed in a report over the same tests; all else says why not (J11, H2, H3, H23)."""
    said = verdict(IDS, run)
    assert (said.outcome, said.reason) == ("resolved" if reason is None else "unresolved", reason)
    assert (said.grade.oracle, [test.id for test in said.grade.ids]) == ("junit", ["f", "p"])


@pytest.mark.parametrize(("status", "resolved"), [(0, True), (1, False), (126, False), (139, False)])
def test_a_task_without_ids_has_its_status_alone(status: int, resolved: bool) -> None:
    """And the grade says so: oracle exit_code (J11)."""
    said = verdict(STATUS, replace(GOOD, exit=status, statuses=None))
    assert ((said.outcome == "resolved"), said.grade.oracle, said.grade.ids) == (resolved, "exit_code", ())


@pytest.mark.parametrize(
    ("run", "word"),
    [
        (BASE, "failed"),
        (replace(BASE, statuses={"p": "passed"}), "failed"),
        (replace(BASE, statuses={"f": "error", "p": "passed"}), "failed"),
        (GOOD, "baseline_passed"),
        (replace(BASE, statuses={"f": "passed", "p": "passed"}), "baseline_error"),
        (replace(BASE, statuses={"f": "failed", "p": "failed"}), "baseline_error"),
        (replace(BASE, statuses={"f": "failed"}), "baseline_error"),
        (replace(BASE, statuses=None, report_problem="no report"), "baseline_error"),
        (replace(BASE, exit=127), "baseline_error"),
        (replace(BASE, exit=126), "baseline_error"),
        (replace(BASE, exit=137), "baseline_error"),
        (replace(BASE, exit=None, timed_out=True), "baseline_error"),
        (replace(BASE, exit=None, start_error="no such program"), "baseline_error"),
        (replace(BASE, tests_digest_after=OTHER), "baseline_error"),
    ],
)
def test_a_baseline_must_fail_as_listed(run: OracleRun, word: str) -> None:
    """What is to fail fails, what is to pass passes, and the oracle could run at all (J06, J07)."""
    said = baseline_verdict(IDS, run)
    assert said.verdict == word
    assert [(test.id, test.expected) for test in said.ids] == [("f", "failed"), ("p", "passed")]


@pytest.mark.parametrize(("status", "word"), [(0, "baseline_passed"), (1, "failed"), (127, "baseline_error")])
def test_a_baseline_without_ids_goes_by_its_status(status: int, word: str) -> None:
    """Exit 0 on the untouched workspace: nothing to mend (J06)."""
    assert baseline_verdict(STATUS, replace(GOOD, exit=status, statuses=None)).verdict == word
