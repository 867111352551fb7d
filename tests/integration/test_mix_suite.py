"""The suite `mix` on the real engine: its references resolve it, doing nothing doesn't, and cheating doesn't either."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from appliance.bundle import shipped
from appliance.records.record import Record
from appliance.tasks.reader import read_suite
from appliance.trials.checking import Checked, check_tasks
from appliance.trials.grading.forgers import FORGERS
from tests.grading_bench import image, planned, real_grader

pytestmark = [pytest.mark.docker, pytest.mark.slow]
_ONE_A_LANGUAGE = ("cup-sizes", "countdown", "visitor-badge")
"""The quickest of their language; what forgers got out of all tasks stands in checks.json, which tests/unit keeps."""


class Quiet:
    def began(self, total: int) -> None:
        pass

    def ended(self, checked: Checked) -> None:
        pass


def test_the_reference_resolves_every_task_and_noop_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`appliance run --suite mix --solver reference,noop`: 14 of 14 and 0 of 14, nothing excluded (issue 6, 7; J13)."""
    for name in ("DATA", "CONFIG"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))
    words = ("run", "--suite", "mix", "--solver", "reference,noop", "--jobs", "2", "--out", "r", "--no-sign")
    ran = subprocess.run(
        [sys.executable, "-m", "appliance.cli.main", *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    names = [task.spec.name for task in read_suite(shipped("tasks") / "mix").tasks]
    for solver, outcome, reason in (("reference", "resolved", None), ("noop", "unresolved", "tests_failed")):
        record = Record.read(tmp_path / "r" / "records" / f"{solver}.json")
        seen = {trial.key.task: (trial.outcome, trial.reason) for trial in record.trials}
        assert seen == dict.fromkeys(names, (outcome, reason))


@pytest.mark.parametrize("name", _ONE_A_LANGUAGE)
def test_no_forger_resolves_a_task(tmp_path: Path, name: str) -> None:
    """Reference 1 of 1, noop and six forgers 0 of 1, in Python, C and JavaScript (formats 7; issue 6, 7)."""
    suite = read_suite(shipped("tasks") / "mix")
    task = next(task for task in suite.tasks if task.spec.name == name)
    pin, engine_id = image(task.spec.image)
    with real_grader(tmp_path / "scratch") as grader:
        checks = check_tasks(
            suite,
            {name: planned(task)},
            {pin.config: engine_id},
            grader=grader,
            runs=1,
            jobs=2,
            watcher=Quiet(),
        )
    assert (checks.quarantined, checks.forgeable) == ({}, {})
    resolved = {rate.solver: rate.resolved for rate in checks.rates[0].rates}
    assert resolved == {"reference": 1, "noop": 0} | dict.fromkeys(FORGERS, 0)
