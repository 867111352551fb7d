"""The shipped suites were checked as they are shipped."""

from __future__ import annotations

import json

import pytest

from appliance.bundle import shipped
from appliance.tasks.reader import read_suite
from appliance.trials.grading.forgers import FORGERS


@pytest.mark.parametrize("name", ["smoke", "mix"])
def test_the_shipped_checks_are_of_the_shipped_suite_and_find_nothing_wrong(name: str) -> None:
    """checks.json beside a suite is of its present digest: a change of a task asks for `tasks check NAME --runs 3`
    again. Reference all, noop and the six forgers none (H8; issue 6, 7)."""
    folder = shipped("tasks") / name
    suite = read_suite(folder)
    assert suite.checks_digest is not None
    assert (suite.quarantined, suite.forgeable) == ({}, {})
    checks = json.loads((folder / "checks.json").read_text(encoding="utf-8"))
    assert {found["task"] for found in checks["rates"]} == {task.spec.name for task in suite.tasks}
    for found in checks["rates"]:
        resolved = {rate["solver"]: (rate["resolved"], rate["runs"]) for rate in found["rates"]}
        assert resolved == {"reference": (3, 3), "noop": (0, 3)} | dict.fromkeys(FORGERS, (0, 3))
