"""`tasks check` on small suites: what it finds out, with real containers (rows H4, H8, H10)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.tasks.checks import Checks
from appliance.tasks.model import Suite, Task
from appliance.tasks.reader import read_suite
from appliance.trials.checking import Checked, check_tasks, defects
from appliance.trials.grading.forgers import FORGERS
from appliance.trials.grading.grader import Grader
from tests.grading_bench import BROKEN, FIXED, PYTEST, image, planned, real_grader, write_files, write_task

pytestmark = pytest.mark.docker
NAIVE_TEST = (
    "import os, sys\nsys.path.insert(0, '/workspace')\nfrom double import double\n\n"
    "def test_of_two():\n    assert double(2) == 4\n"
)
STATUS_ONLY = 'isolation = "none"\n'


@pytest.fixture
def grader(tmp_path: Path) -> Iterator[Grader]:
    with real_grader(tmp_path / "scratch") as made:
        yield made


class Watcher:
    def __init__(self) -> None:
        self.total = 0
        self.seen: list[Checked] = []

    def began(self, total: int) -> None:
        self.total = total

    def ended(self, checked: Checked) -> None:
        self.seen.append(checked)


def checked(grader: Grader, task: Task, runs: int = 1, before: Checks | None = None) -> tuple[Suite, Checks, Watcher]:
    suite = read_suite(task.folder.parent)
    pin, engine_id = image(task.spec.image)
    watcher = Watcher()
    plan = {task.spec.name: planned(task)}
    checks = check_tasks(
        suite, plan, {pin.config: engine_id}, grader=grader, runs=runs, jobs=2, watcher=watcher, before=before
    )
    return suite, checks, watcher


def rates(checks: Checks) -> dict[str, tuple[int, int]]:
    return {rate.solver: (rate.resolved, rate.runs) for rate in checks.rates[0].rates}


def test_a_good_task_is_resolved_by_its_reference_alone(grader: Grader, tmp_path: Path) -> None:
    """Reference N of N, noop and every forger 0 of N, nothing found (J13, J14, H8)."""
    suite, checks, watcher = checked(grader, write_task(tmp_path), runs=2)
    assert rates(checks) == {"reference": (2, 2), "noop": (0, 2)} | dict.fromkeys(FORGERS, (0, 2))
    assert (checks.quarantined, checks.forgeable, checks.rates[0].findings) == ({}, {}, ())
    assert len(watcher.seen) == watcher.total == 1 + 2 * 8
    assert defects(suite, checks) == {}


def test_a_naive_oracle_is_forged_and_named(grader: Grader, tmp_path: Path) -> None:
    """Tests that load the solution into their own process fall to more than one forger (formats 7, Forgers)."""
    task = write_task(
        tmp_path,
        tests={"test_double.py": NAIVE_TEST + "\ntest_of_two()\n"},
        test_cmd=("python3", "test_double.py"),
        oracle=STATUS_ONLY,
    )
    suite, checks, _ = checked(grader, task)
    assert rates(checks)["reference"] == (1, 1)
    assert set(checks.forgeable["double"]) >= {"exit_zero", "always_equal", "fake_report"}
    assert defects(suite, checks) == {}


def test_expected_values_that_can_be_read_are_found_out(grader: Grader, tmp_path: Path) -> None:
    """Where the solution can read the tests, reading them is enough (formats 7, read_tests)."""
    read = "import sys; sys.path.insert(0, '/workspace'); from double import double; assert double(2) == 4"
    task = write_task(
        tmp_path, tests={"test_double.py": NAIVE_TEST}, test_cmd=("python3", "-c", read), oracle=STATUS_ONLY
    )
    _, checks, _ = checked(grader, task)
    assert "read_tests" in checks.forgeable["double"]


def test_a_forged_report_resolves_where_the_solution_may_write_it(grader: Grader, tmp_path: Path) -> None:
    """Ids do not help where the report is the solution's own to write (H3)."""
    oracle = 'path = "/grade/result.xml"\nisolation = "none"\nfail_to_pass = ["test_double.py::test_of_two"]\n'
    task = write_task(
        tmp_path, tests={"test_double.py": NAIVE_TEST}, test_cmd=(*PYTEST, "test_double.py"), oracle=oracle
    )
    _, checks, _ = checked(grader, task)
    assert "fake_report" in checks.forgeable["double"]
    assert "exit_zero" not in checks.forgeable["double"]


def test_an_isolated_task_that_is_forged_is_a_defect(grader: Grader, tmp_path: Path) -> None:
    """Isolation does not save a test that believes an exit status (formats 7)."""
    believes = (
        "/run/appliance/subject python3 -c "
        "'import sys; sys.path.insert(0, \"/workspace\"); from double import double; assert double(2) == 4'"
    )
    task = write_task(tmp_path, test_cmd=believes, oracle='isolation = "user"\n')
    suite, checks, _ = checked(grader, task)
    assert "exit_zero" in checks.forgeable["double"]
    assert defects(suite, checks)["double"].startswith("forged by")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"reference": {"double.py": BROKEN + "# no\n"}}, "reference resolves 0 of 1"),
        ({"before": {"double.py": FIXED + "#\n"}}, "noop resolves 1 of 1"),
        ({"test_cmd": "exit 127", "oracle": 'isolation = "user"\n'}, "reference resolves 0 of 1"),
    ],
)
def test_what_its_reference_does_not_resolve_is_quarantined(
    grader: Grader, tmp_path: Path, options: dict[str, object], reason: str
) -> None:
    """Gold below N of N, or noop above 0: not planned, and its rate is the reason (H8, J06, J07)."""
    suite, checks, _ = checked(grader, write_task(tmp_path, **options))  # type: ignore[arg-type]
    assert checks.quarantined == {"double": reason}
    assert defects(suite, checks) == {"double": reason}


def test_tests_that_reach_for_the_network_are_named(grader: Grader, tmp_path: Path) -> None:
    """A look-up or a connect in the test step fails the task (H10)."""
    reach = (
        "import socket, subprocess\ns = socket.socket()\ns.settimeout(1)\ntry:\n    s.connect(('192.0.2.1', 80))\n"
        "except OSError:\n    pass\n"
        "program = 'import sys; sys.path.insert(0, \".\"); from double import double; print(double(2))'\n"
        "out = subprocess.run(['/run/appliance/subject', 'python3', '-c', program], capture_output=True).stdout\n"
        "raise SystemExit(out != b'4\\n')\n"
    )
    task = write_task(tmp_path, test_cmd=("python3", "-c", reach), oracle='isolation = "user"\n')
    _, checks, _ = checked(grader, task)
    assert checks.quarantined == {"double": "the tests reach for a network"}


def test_history_that_holds_the_fix_is_found(grader: Grader, tmp_path: Path) -> None:
    """Later commits, dangling blobs, and a plain copy of the fixed file each fail the task (H4)."""
    task = write_task(tmp_path)
    repository = tmp_path / "work"
    repository.mkdir()
    for text in (BROKEN, FIXED):
        write_files(repository, {"double.py": text})
        for words in (
            ["init", "-q"],
            ["add", "-A"],
            ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"],
        ):
            subprocess.run(["git", *words], cwd=repository, check=True, capture_output=True)
    (repository / ".git").rename(task.before / "history.git")
    write_files(task.before, {"copy.txt": FIXED})
    _, checks, _ = checked(grader, read_suite(task.folder.parent).tasks[0])
    assert set(checks.rates[0].findings) == {
        "/workspace/history.git holds 2 commits, and should hold its base alone",
        "/workspace/history.git holds double.py as the reference leaves it",
        "before/copy.txt is double.py as the reference leaves it",
    }
    assert "double" in checks.quarantined


def test_other_tasks_keep_what_was_known_of_them(grader: Grader, tmp_path: Path) -> None:
    """Checking some tasks again leaves the rest of checks.json as it was (H8)."""
    task = write_task(tmp_path)
    suite = read_suite(task.folder.parent)
    known = Checks(
        suite_digest=suite.digest, runs=1, rates=(), quarantined={"other": "why", "double": "old"}, forgeable={}
    )
    _, checks, _ = checked(grader, task, before=known)
    assert checks.quarantined == {"other": "why"}


def test_a_patch_is_a_reference_too(grader: Grader, tmp_path: Path) -> None:
    """reference.patch without its last newline resolves; one that does not fit quarantines, with its hunk (H20)."""
    task = write_task(tmp_path)
    (task.folder / "reference" / "double.py").unlink()
    (task.folder / "reference").rmdir()
    patch = (
        "--- a/double.py\n+++ b/double.py\n@@ -1,2 +1,2 @@\n def double(number):\n-    return 0\n+    return number * 2"
    )
    (task.folder / "reference.patch").write_text(patch)
    _, checks, _ = checked(grader, read_suite(task.folder.parent).tasks[0])
    assert rates(checks)["reference"] == (1, 1)
    (task.folder / "reference.patch").write_text(patch.replace("return 0", "return 1"))
    _, checks, _ = checked(grader, read_suite(task.folder.parent).tasks[0])
    assert checks.quarantined["double"] == "reference.patch: double.py: hunk 1 does not apply near line 1"
