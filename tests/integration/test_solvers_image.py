"""A solver that brings its own layers runs on a task's image, and is graded without them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from appliance.errors import InputRefused
from appliance.records.record import Record
from appliance.solvers.definition import read_definition
from appliance.trials.versions import refuse_other_version
from tests.trials_suites import write_solver, write_suite

RUN = '#!/bin/sh\necho "toy 1.2.3"\n[ "$1" = --version ] || printf "#!/bin/sh\\nexit 0\\n" > program.sh\n'
TOML = 'kind = "solver"\nfiles = [{source = "run", target = "opt/solvers/toy/bin/run", executable = true}]\n'
SOLVER = """model = "none"
image = "toy"
argv = ["/opt/solvers/toy/bin/run"]
version_argv = ["/opt/solvers/toy/bin/run", "--version"]
"""


def appliance(there: Path, *words: str) -> None:
    argv = [sys.executable, "-m", "appliance.cli.main", *words]
    ran = subprocess.run(argv, cwd=there, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.docker
def test_a_solvers_layers_are_laid_over_the_tasks_image_and_not_graded(tmp_path: Path) -> None:
    """Three pins in the plan, all of them stamped; the program's own version too; the oracle of this task fails where
    the solver's tree is there (I26).
    """
    image = tmp_path / "images" / "toy"
    image.mkdir(parents=True)
    (image / "image.toml").write_text(TOML)
    (image / "run").write_text(RUN)
    write_solver(tmp_path / "solvers", "toy", SOLVER)
    write_suite(tmp_path / "tasks" / "small", check="[ ! -e /opt/solvers ] && sh ./program.sh\n")
    appliance(tmp_path, "images", "lock", "toy")
    appliance(tmp_path, "run", "--suite", "small", "--solver", "toy", "--out", "r", "--no-sign")
    record = Record.read(tmp_path / "r" / "records" / "toy.json")
    assert [trial.outcome for trial in record.trials] == ["resolved"]
    pins = record.plan.tasks[0].images
    assert pins.solver is not None
    assert pins.composed.diff_ids == (*pins.task.diff_ids, *pins.solver.diff_ids)
    assert [stamp.role for stamp in record.images] == ["composed:base+toy", "solver:toy", "task:base"]
    assert (record.solver.version, record.solver.source) == ("1.2.3", "release")
    subprocess.run(["docker", "rmi", "--force", pins.composed.config], check=False, capture_output=True)


def test_a_program_of_another_version_than_its_lock_is_refused(tmp_path: Path) -> None:
    """Status 3, with both versions and the mend (formats 3)."""
    definition = read_definition(write_solver(tmp_path, "toy", SOLVER))
    refuse_other_version(definition, "1.2.3", "1.2.3")
    refuse_other_version(definition, "1.2.3", None)
    with pytest.raises(InputRefused, match=r"says 1\.2\.3, the lock of image 'toy' 1\.2\.4"):
        refuse_other_version(definition, "1.2.3", "1.2.4")
