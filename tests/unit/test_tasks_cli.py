"""`appliance tasks`, as it is typed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from appliance.cli.main import run
from appliance.tasks.reader import read_suite
from tests.tasks_made import TASK_TOML, make_task

README = Path(__file__).parents[2] / "tasks" / "README.md"


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_list_names_suites_and_what_is_wrong_with_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Bundled suites and those in ./tasks, a torn one with its problem and without ending the list (J03)."""
    make_task(tmp_path / "tasks" / "mine")
    make_task(tmp_path / "tasks" / "torn", toml=TASK_TOML.replace('"{name}"', "3"))
    assert run(["tasks", "list", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert set(rows) == {"mine", "mix", "smoke", "torn"}
    assert (rows["mine"]["tasks"], rows["mine"]["source"], rows["mine"]["problem"]) == (1, "tasks", None)
    assert rows["smoke"]["source"] == "bundled"
    assert "task.toml: name: a whole number" in rows["torn"]["problem"]
    assert run(["tasks", "list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4


def test_show_gives_one_json_document(capsys: pytest.CaptureFixture[str]) -> None:
    """A suite, or a task of it, with everything that decides (J02)."""
    assert run(["tasks", "show", "smoke", "--json"]) == 0
    suite = json.loads(capsys.readouterr().out)
    assert run(["tasks", "show", "smoke", "log-tail", "--json"]) == 0
    task = json.loads(capsys.readouterr().out)
    assert next(spec for spec in suite["tasks"] if spec["name"] == "log-tail")["digest"] == task["digest"]
    assert run(["tasks", "show", "smoke", "log-tail"]) == 0
    assert "lasttail" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["tasks", "show", "nowhere"], 2, "unknown suite 'nowhere' (known suites: mix, smoke)"),
        (["tasks", "show", "smoke", "nope"], 2, "no task 'nope' in suite smoke (known: env-file, "),
        (["tasks", "list", "./gone"], 2, "./gone: no such folder"),
        (["tasks", "import", "nothing", "--out", "x"], 2, "nothing here imports 'nothing' (known: human-eval)"),
        (["tasks", "show", "./bad"], 3, "bad/one/task.toml: odd: unknown key"),
    ],
)
def test_a_refusal_is_one_line_and_a_status(
    words: list[str], status: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whose move it is, in one line on standard error, nothing on standard output (J01, J03)."""
    make_task(tmp_path / "bad", toml=f"{TASK_TOML}odd = 1\n")
    assert run(words) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert said in err


def test_the_example_of_the_readme_is_a_task_that_tells(tmp_path: Path) -> None:
    """What a user pastes is a valid task, failing before and passing on its reference, as listed (J02)."""
    block = re.search(r"```sh\n(mkdir.*?)```", README.read_text(encoding="utf-8"), re.S)
    assert block is not None
    subprocess.run(["sh", "-e"], input=block[1], text=True, check=True, cwd=tmp_path)
    suite = read_suite(tmp_path / "tasks" / "mine")
    task = suite.tasks[0]
    assert task.reference is not None
    for workspace, failing in ((task.before, task.spec.oracle.fail_to_pass), (task.reference, ())):
        text = task.test_file("test_greet.py").read_text().replace("/run/appliance/subject", "/usr/bin/env")
        (tmp_path / "test_greet.py").write_text(text.replace("timeout=30", f"timeout=30, cwd={str(workspace)!r}"))
        argv = [sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_greet.py"]
        done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
        found = set(re.findall(r"^FAILED (\S+)", done.stdout, re.M))
        assert found == set(failing), done.stdout
