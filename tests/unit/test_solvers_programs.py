"""What each kind of solver executes, and the files it finds."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

from appliance.errors import InputRefused
from appliance.ports import SolveCall
from appliance.records.plan import PlannedBudget, PlannedTask
from appliance.solvers.definition import SolverDefinition, read_definition
from appliance.solvers.finding import find_solver
from appliance.solvers.programs import Program
from tests.trials_suites import images, small_suite, write_solver, write_suite


def call(tmp_path: Path, definition: SolverDefinition, **suite: object) -> SolveCall:
    found = small_suite(tmp_path / "suite", **suite)
    task = found.tasks[0]
    planned = PlannedTask(spec=task.spec, images=images()["base"])
    return Program(definition, definition.argv, "m-1").call(planned, task.folder, tmp_path / "scratch")


def test_noop_runs_true(tmp_path: Path) -> None:
    """By the same exec path as every solver (J14)."""
    assert call(tmp_path, find_solver("noop")).exec.argv == ("true",)


def test_reference_copies_the_reference_whatever_the_umask_was(tmp_path: Path) -> None:
    """User 1000 must be able to read what a checkout under umask 077 holds (J13)."""
    folder = write_suite(tmp_path / "suite", reference={"program.sh": "x\n", "deep/run.sh": "y\n"})
    hidden = folder / "fix" / "reference" / "deep"
    (hidden / "run.sh").chmod(0o700)
    hidden.chmod(0o700)
    made = call(tmp_path, find_solver("reference"), reference={"program.sh": "x\n", "deep/run.sh": "y\n"})
    copied = tmp_path / "scratch" / "appliance" / "reference"
    assert made.exec.argv[0] == "cp"
    assert (copied / "deep").stat().st_mode & 0o777 == 0o755
    assert (copied / "deep" / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (copied / "program.sh").stat().st_mode & 0o777 == 0o644


def test_a_reference_patch_is_applied_in_the_container(tmp_path: Path) -> None:
    """By git apply, never on the host (formats 3)."""
    folder = write_suite(tmp_path / "suite", reference={})
    (folder / "fix" / "reference.patch").write_text("--- a/x\n+++ b/x\n")
    made = call(tmp_path, find_solver("reference"), reference={})
    assert made.exec.argv[:2] == ("git", "apply")
    assert (tmp_path / "scratch" / "appliance" / "reference.patch").read_text() == "--- a/x\n+++ b/x\n"


def test_a_task_without_reference_is_an_error_of_that_solver_only(tmp_path: Path) -> None:
    """J01."""
    with pytest.raises(InputRefused, match=r"neither reference/ nor reference\.patch"):
        call(tmp_path, find_solver("reference"), reference={})
    assert call(tmp_path / "again", find_solver("noop"), reference={}).exec.argv == ("true",)


def test_a_command_gets_prompt_budget_environment_and_templates(tmp_path: Path) -> None:
    """The budget is told as a variable and as a file (H7); templates lie under HOME, owned by the solver."""
    (tmp_path / "t.yml").write_text("model: {model}\n")
    definition = read_definition(
        write_solver(
            tmp_path,
            "tool",
            'model = "required"\nargv = ["tool", "--file", "{prompt_file}", "{prompt}", "{budget_seconds}"]\n'
            'stdin = "prompt"\n[env]\nWHERE = "{workspace}"\n[files]\n"{home}/.config/tool/t.yml" = "t.yml"\n',
        )
    )
    made = call(tmp_path, definition, more="[limits]\nwall_seconds = 7.5\n")
    assert made.exec.argv == ("tool", "--file", "/run/appliance/prompt.txt", "mend fix", "7.5")
    assert made.exec.stdin == b"mend fix"
    assert made.exec.timeout_seconds == 7.5
    assert made.exec.env["WHERE"] == "/workspace"
    assert made.exec.env["HOME"] == "/home/bench"
    assert made.exec.env["APPLIANCE_BUDGET_SECONDS"] == "7.5"
    ours = tmp_path / "scratch" / "appliance"
    assert json.loads((ours / "budget.json").read_text()) == {"wallSeconds": 7.5}
    assert (ours / "prompt.txt").read_text() == "mend fix"
    assert all(mount.read_only for mount in made.mounts)
    with tarfile.open(fileobj=io.BytesIO(made.home)) as tar:
        members = {member.name: member for member in tar}
        assert set(members) == {".config", ".config/tool", ".config/tool/t.yml"}
        assert {member.uid for member in members.values()} == {1000}
        inside = tar.extractfile(".config/tool/t.yml")
        assert inside is not None
        assert inside.read() == b"model: m-1\n"


def test_the_gateway_is_where_every_solver_finds_it(tmp_path: Path) -> None:
    """The same URL and the same key in every container; budgets of the plan beside the time (M19, H7, formats 3)."""
    text = (
        'model = "required"\nwire = "openai-chat"\nargv = ["a", "{base_url}/v1"]\n'
        'output = "mini-trajectory"\noutput_file = "{home}/out.json"\n[env]\nKEY = "{dummy_key}"\n'
    )
    definition = read_definition(write_solver(tmp_path, "agent", text))
    task = small_suite(tmp_path / "suite").tasks[0]
    program = Program(definition, definition.argv, "m-1", PlannedBudget(tokens=5, usd="0.5"))
    made = program.call(PlannedTask(spec=task.spec, images=images()["base"]), task.folder, tmp_path / "scratch")
    assert made.exec.argv == ("a", "http://127.0.0.1:8089/v1")
    assert made.exec.env["KEY"] == "appliance-dummy-key"
    assert (made.output, made.output_file) == ("mini-trajectory", "/home/bench/out.json")
    told = json.loads((tmp_path / "scratch" / "appliance" / "budget.json").read_text())
    assert told == {"wallSeconds": 600.0, "tokens": 5, "usd": "0.5"}
