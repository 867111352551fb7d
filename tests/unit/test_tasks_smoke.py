"""The bundled smoke suite, as far as it can be judged without running it."""

from __future__ import annotations

import ast
import re
from collections import Counter

import pytest

from appliance.bundle import shipped
from appliance.digests import tree_entries
from appliance.tasks.model import Task
from appliance.tasks.reader import read_suite, require_reference

SUITE = read_suite(shipped("tasks") / "smoke")
EACH = pytest.mark.parametrize("task", SUITE.tasks, ids=lambda task: task.spec.name)


def listed_ids(task: Task) -> tuple[str, ...]:
    return (*task.spec.oracle.fail_to_pass, *task.spec.oracle.pass_to_pass)


def ids_in(path: str, text: str) -> set[str]:
    """The ids that a test file defines: pytest's node ids, or the descriptions of node's tests."""
    if path.endswith(".py"):
        names = (node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef))
        return {f"{path}::{name}" for name in names if name.startswith("test_")}
    return set(re.findall(r"^test\('([^']+)'", text, re.M))


def test_the_suite_has_eight_tasks_in_three_languages() -> None:
    """At least eight tasks over Python, C and JavaScript, in two report formats (J13, J14)."""
    images = Counter(task.spec.image for task in SUITE.tasks)
    assert len(SUITE.tasks) >= 8
    assert images["base"] >= 4
    assert images["c"] >= 2
    assert images["node"] >= 2
    assert {task.spec.oracle.format for task in SUITE.tasks} == {"junit", "tap"}


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
    before = {path: content for path, _, content in tree_entries(task.before)}
    after = {path: content for path, _, content in tree_entries(require_reference(task))}
    assert after
    assert all(before[path] != content for path, content in after.items())
    assert not set(after) & set(task.spec.test_files)


@EACH
def test_nothing_is_open_and_limits_are_small(task: Task) -> None:
    """No network; what a laptop has to spare (H5, H10)."""
    limits = task.spec.limits
    assert task.spec.network == "none"
    assert (limits.wall_seconds, limits.test_seconds) == (300, 60)
    assert limits.memory_mib <= 1024
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
