"""What many runs of a task come to (row H8)."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.ports import TreeEntry
from appliance.tasks.checks import Checks
from appliance.trials import checking
from appliance.trials.checking import Checked
from appliance.trials.grading.forgers import FORGERS, Target, target_of
from appliance.trials.grading.history import history_findings
from appliance.trials.grading.report import junit, tap
from appliance.trials.grading.tree import Node
from tests.grading_bench import write_task


def came_to(folder: Path, *seen: Checked) -> Checks:
    task = write_task(folder)
    found = checking._Found(task)
    for checked in seen:
        found.take(checked)
    suite = checking.Suite(
        name="s", version="1", license=None, weight=1.0, timeout_resolves=True, digest="0" * 64,
        folder=task.folder.parent, tasks=(task,), quarantined={}, forgeable={}, checks_digest=None,
    )  # fmt: skip
    return checking._checks(suite, {"double": found}, 3, None)


def ran(solver: str, *resolved: bool) -> list[Checked]:
    return [Checked("double", solver, one, "resolved" if one else "unresolved: tests_failed", 0) for one in resolved]


@pytest.mark.parametrize(
    ("gold", "nothing", "reason"),
    [
        ((True, True, True), (False, False, False), None),
        ((True, False, True), (False, False, False), "reference resolves 2 of 3"),
        ((False, False, False), (False, False, False), "reference resolves 0 of 3"),
        ((True, True, True), (False, False, True), "noop resolves 1 of 3"),
    ],
)
def test_a_flaky_task_is_quarantined_with_its_rate(
    tmp_path: Path, gold: tuple[bool, ...], nothing: tuple[bool, ...], reason: str | None
) -> None:
    """Gold below N of N or noop above 0 of N: quarantined, and the rate is the reason (H8)."""
    checks = came_to(tmp_path, *ran("reference", *gold), *ran("noop", *nothing))
    assert checks.quarantined == ({} if reason is None else {"double": reason})


def test_one_forged_run_of_many_is_enough(tmp_path: Path) -> None:
    """A forger that resolves once in N names the task forgeable, and does not quarantine it (formats 7)."""
    checks = came_to(tmp_path, *ran("reference", True), *ran("background", False, True, False))
    assert (checks.forgeable, checks.quarantined) == ({"double": ("background",)}, {})


def test_a_baseline_that_cannot_run_and_a_network_are_reasons(tmp_path: Path) -> None:
    """Whatever else fails a task is its reason where the rates are fine (J07, H4, H10)."""
    broken = Checked("double", "baseline", False, "baseline_error: exit 127", 0)
    assert came_to(tmp_path, broken).quarantined == {"double": "baseline: baseline_error: exit 127"}
    reached = Checked("double", "reference", True, "resolved", 3)
    assert came_to(tmp_path / "n", reached).quarantined == {"double": "the tests reach for a network"}
    held = Checked("double", "baseline", True, "failed", 0, ("the image holds the fix",))
    assert came_to(tmp_path / "h", held).quarantined == {"double": "the image holds the fix"}


def target(folder: Path, **sources: str) -> Target:
    spec = write_task(folder).spec
    return target_of(spec, {name.encode(): Node("644", text.encode()) for name, text in sources.items()}, ())


@pytest.mark.parametrize("name", list(FORGERS))
@pytest.mark.parametrize("source", ["double.py", "double.c", "double.js", "double.sh"])
def test_every_forger_speaks_every_language(tmp_path: Path, name: str, source: str) -> None:
    """A forger changes the solution's file in its own language, or adds what is loaded unasked (formats 7)."""
    entries = FORGERS[name](target(tmp_path, **{source: "original\n"}))
    paths = {entry.path.decode() for entry in entries}
    assert paths == {source} if name != "auto_loaded" else {"conftest.py", "Makefile", "package.json"} <= paths
    assert not paths & {"test_double.py"}


def test_forged_python_still_compiles(tmp_path: Path) -> None:
    """A forger that is a syntax error would prove nothing, also before `from __future__` lines."""
    text = '"""Doc."""\nfrom __future__ import annotations\n\nVALUE = 1\n'
    for name, forger in FORGERS.items():
        for entry in forger(target(tmp_path / name, **{"double.py": text})):
            if entry.path.endswith(b".py"):
                compile(entry.content, entry.path, "exec")  # type: ignore[arg-type]


def test_forged_reports_are_good_reports(tmp_path: Path) -> None:
    """What fake_report writes would resolve the task if it were believed (formats 7)."""
    from appliance.trials.grading.forgers import junit_of, tap_of

    wanted = target(tmp_path, **{"double.py": "x\n"})
    ids = {"test_double.py::test_of_two", "test_double.py::test_of_zero"}
    assert junit(junit_of(wanted).encode(), {"test_double.py"}) == dict.fromkeys(ids, "passed")
    assert tap(tap_of(wanted).encode()) == dict.fromkeys(ids, "passed")


def test_a_repository_with_its_base_alone_is_fine() -> None:
    """One commit and no blob of the fix: nothing to say; output that was cut off is not taken for nothing (H4)."""
    gold = (TreeEntry(b"a.py", "file", False, b"fixed\n"),)
    base = b"repository /workspace/.git\ncommit " + b"a" * 40 + b"\nobject commit " + b"a" * 40 + b"\n"
    assert history_findings(base + b"end\n", gold) == ()
    assert len(history_findings(base + b"object commit " + b"b" * 40 + b"\nend\n", gold)) == 1
    assert history_findings(base, gold) == ("the repositories in the image could not be looked through",)
