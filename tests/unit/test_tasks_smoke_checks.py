"""The shipped suite was checked as it is shipped."""

from __future__ import annotations

from appliance.bundle import shipped
from appliance.tasks.reader import read_suite


def test_the_shipped_checks_are_of_the_shipped_suite_and_find_nothing_wrong() -> None:
    """checks.json beside smoke is of its present digest: a change of a task asks for `tasks check smoke --runs 3`
    again (H8)."""
    suite = read_suite(shipped("tasks") / "smoke")
    assert suite.checks_digest is not None
    assert (suite.quarantined, suite.forgeable) == ({}, {})
