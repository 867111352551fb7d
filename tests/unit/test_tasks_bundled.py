"""The bundled suites, as far as they can be judged without running them."""

from __future__ import annotations

import ast
import re
from collections import Counter

import pytest

from appliance.bundle import shipped
from appliance.digests import tree_entries
from appliance.tasks.model import Task
from appliance.tasks.reader import read_suite
from appliance.trials.grading.reference import reference_changes

SMOKE = read_suite(shipped("tasks") / "smoke")
MIX = read_suite(shipped("tasks") / "mix")
EACH = pytest.mark.parametrize("task", (*SMOKE.tasks, *MIX.tasks), ids=lambda task: task.spec.name)


def listed_ids(task: Task) -> tuple[str, ...]:
    return (*task.spec.oracle.fail_to_pass, *task.spec.oracle.pass_to_pass)


def changed_files(task: Task) -> dict[str, bytes]:
    """Path to content of what the reference leaves, be it a tree or a patch."""
    changes = reference_changes(task)
    assert changes is not None
    assert all(entry.kind == "file" for entry in changes.entries)
    return {entry.path.decode(): bytes(entry.content) for entry in changes.entries}


def ids_in(path: str, text: str) -> set[str]:
    """The ids that a test file defines: pytest's node ids, or the descriptions of node's tests."""
    if path.endswith(".py"):
        names = (node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef))
        return {f"{path}::{name}" for name in names if name.startswith("test_")}
    return set(re.findall(r"^test\('([^']+)'", text, re.M))


def test_smoke_has_eight_tasks_in_three_languages() -> None:
    """At least eight tasks over Python, C and JavaScript, in two report formats (J13, J14)."""
    images = Counter(task.spec.image for task in SMOKE.tasks)
    assert len(SMOKE.tasks) >= 8
    assert images["base"] >= 4
    assert images["c"] >= 2
    assert images["node"] >= 2
    assert {task.spec.oracle.format for task in SMOKE.tasks} == {"junit", "tap"}


def test_mix_has_twelve_tasks_of_one_to_many_files_in_three_languages() -> None:
    """At least twelve tasks; references from one file up to several, one of them a new one (issue 6, 7)."""
    images = Counter(task.spec.image for task in MIX.tasks)
    sizes = {task.spec.name: len(changed_files(task)) for task in MIX.tasks}
    assert len(MIX.tasks) >= 12
    assert min(images["base"], images["c"], images["node"]) >= 4
    assert {task.spec.oracle.format for task in MIX.tasks} == {"junit", "tap"}
    assert min(sizes.values()) == 1
    assert sum(size > 1 for size in sizes.values()) >= 4
    assert any(not (task.before / path).exists() for task in MIX.tasks for path in changed_files(task))


def test_no_name_and_no_file_is_in_both_suites() -> None:
    """Two suites of their own: no task, no prompt and no test stands in both (J13)."""
    assert not {task.spec.name for task in SMOKE.tasks} & {task.spec.name for task in MIX.tasks}
    contents = [
        {content for task in suite.tasks for _, _, content in tree_entries(task.folder / "tests")}
        for suite in (SMOKE, MIX)
    ]
    assert not contents[0] & contents[1]


@EACH
def test_every_test_is_listed_and_every_id_is_a_test(task: Task) -> None:
    """The ids that decide are exactly the tests that there are: none is missing from the verdict (J11)."""
    found: set[str] = set()
    for path in task.spec.test_files:
        found |= ids_in(path, task.test_file(path).read_text(encoding="utf-8"))
    assert set(listed_ids(task)) == found
    assert task.spec.oracle.fail_to_pass
    assert task.spec.oracle.pass_to_pass


@EACH
def test_the_solution_is_reached_through_the_subject_alone(task: Task) -> None:
    """Tests run as somebody else and load nothing of the workspace: only text crosses (formats 7; J10)."""
    assert task.spec.oracle.isolation == "user"
    modules = {path.split("/")[-1].split(".")[0] for path, _, _ in tree_entries(task.before)}
    for path in task.spec.test_files:
        text = task.test_file(path).read_text(encoding="utf-8")
        assert "/run/appliance/subject" in text
        if path.endswith(".py"):
            imported = {
                name.name.split(".")[0]
                for node in ast.walk(ast.parse(text))
                if isinstance(node, ast.Import)
                for name in node.names
            }
            assert imported <= {"json", "subprocess", "pytest"}
            assert not any(isinstance(node, ast.ImportFrom) for node in ast.walk(ast.parse(text)))
        else:
            assert set(re.findall(r"^const .* = require\('([^']+)'\)", text, re.M)) <= {
                "node:assert/strict",
                "node:child_process",
                "node:test",
            }
    assert modules


@EACH
def test_the_reference_changes_files_of_before_and_no_test(task: Task) -> None:
    """A reference holds what the fix changes, nothing that is as before, nothing hidden (J13)."""
    if task.folder.joinpath("reference").is_dir():
        before = {path: content for path, _, content in tree_entries(task.before)}
        after = {path: content for path, _, content in tree_entries(task.folder / "reference")}
        assert all(before.get(path) != content for path, content in after.items())
    changed = changed_files(task)
    assert changed
    assert not set(changed) & set(task.spec.test_files)


@EACH
def test_nothing_is_open_and_limits_are_small(task: Task) -> None:
    """No network; what a laptop has to spare, and for mix the time that a model on two cores takes and the memory of an
    agent on Node (H5, H10)."""
    limits = task.spec.limits
    assert task.spec.network == "none"
    assert (limits.wall_seconds, limits.test_seconds) == (300 if task in SMOKE.tasks else 900, 60)
    assert limits.memory_mib <= (1024 if task in SMOKE.tasks else 2048)
    assert limits.disk_mib <= 64


@EACH
def test_the_workspace_gives_nothing_away(task: Task) -> None:
    """No hint at the bug, no built file, no hidden test in what the solver sees (H4)."""
    for path, _, _ in tree_entries(task.before):
        text = (task.before / path).read_text(encoding="utf-8")
        assert not re.search(r"\b(BUG|FIXME|TODO|XXX|HACK)\b", text, re.I)
    hidden = {path for path in task.spec.test_files if (task.folder / "tests" / path).exists()}
    assert not hidden & {path for path, _, _ in tree_entries(task.before)}
    assert hidden
