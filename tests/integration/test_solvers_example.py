"""The solver that the docs tell a user to copy."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from appliance.solvers.definition import read_definition
from tests.trials_bench import run_suite, stdout_of, trial
from tests.trials_suites import small_suite

PAGE = Path(__file__).resolve().parents[2] / "docs" / "solvers.md"


@pytest.mark.docker
def test_the_solver_of_the_docs_runs_as_it_is_copied(tmp_path: Path) -> None:
    """Every file of the worked example, with its flags (issue 3: solvers)."""
    for block in re.findall(r"```\w+\n(# solvers/.*?)```", PAGE.read_text(), re.DOTALL):
        name = block.splitlines()[0].removeprefix("# solvers/")
        (tmp_path / name).write_text(block)
    solver = read_definition(tmp_path / "example.toml")
    suite = small_suite(tmp_path / "suite", before={"program.sh": "exit 1\n", "lib/a.py": "\n"})
    ended = run_suite(tmp_path / "run", suite, solver, mode="careful", auto="high", self_correct=True)
    one = trial(ended)
    assert (one.outcome, one.solver_exit) == ("unresolved", 0)
    assert stdout_of(ended, one) == b"asked to: mend fix\nseconds: 600\ncould edit: lib/a.py\n"
