"""An ordinary user of the groups docker and bench: cgroups and counters by the daemon alone (formats 9)."""

from __future__ import annotations

import grp
import os
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from appliance.records.record import Record
from tests.measured_bench import plain_tree
from tests.meter_bench import meter_daemon
from tests.trials_bench import left_of, lines
from tests.trials_suites import write_suite
from tests.typed_runs import run_id

pytestmark = [pytest.mark.docker, pytest.mark.root]
NOBODY = 65534


@dataclass
class User:
    """Nobody, in the group of the engine's socket, which is here the meter's as well."""

    home: Path
    python: str
    group: int

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        top = Path(__file__).parents[2]
        search = os.pathsep.join([str(top), sysconfig.get_paths()["purelib"]])
        user = ["setpriv", "--reuid", str(NOBODY), "--regid", str(self.group), "--clear-groups"]
        return subprocess.run(
            [*user, self.python, "-m", "appliance.cli.main", "run", "--suite", "small", "--no-sign", *words],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.home,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.home),
                "PYTHONPATH": search,
                "XDG_RUNTIME_DIR": str(self.home),
            },
        )


@pytest.fixture
def user() -> Iterator[User]:
    python = _python_for_anyone()
    if python is None or shutil.which("setpriv") is None:
        pytest.skip("no interpreter that another user may run")
    home = Path(tempfile.mkdtemp(prefix="measured_user"))
    group = grp.getgrnam("docker").gr_gid
    try:
        write_suite(home / "tasks" / "small")
        for path in (home, *home.rglob("*")):
            os.chown(path, NOBODY, group)
        yield User(home, python, group)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _python_for_anyone() -> str | None:
    for path in ("/usr/bin/python3.11", "/usr/bin/python3", "/usr/local/bin/python3.11"):
        asked = (
            subprocess.run(
                ["setpriv", "--reuid", str(NOBODY), "--clear-groups", "--regid", str(NOBODY), path, "-c", "0"],
                capture_output=True,
                check=False,
            )
            if Path(path).exists()
            else None
        )
        if asked is not None and asked.returncode == 0:
            return path
    return None


def test_a_user_of_the_daemon_is_measured_in_cgroups_that_it_makes_and_removes(user: User, tmp_path: Path) -> None:
    """Joules from counters and CPU time of the trial's own parent, without root and with nothing left (formats 9)."""
    tree = plain_tree(tmp_path / "powercap")
    with meter_daemon(tmp_path, tree.root, "--group", "docker", socket=user.home / "meter.sock"):
        ran = user.run(
            *("--solver", "noop", "--out", "r", "--energy", "measured", "--idle-seconds", "2"),
            *("--meter-socket", str(user.home / "meter.sock")),
        )
    assert ran.returncode == 0, ran.stderr
    assert "sudo appliance gc" not in ran.stderr
    (result,) = Record.read(user.home / "r" / "records" / "noop.json").trials
    assert result.cpu_source == "cgroup_parent"
    assert result.energy is not None
    assert result.energy.readings is not None
    assert left_of(run_id(user.home / "r") or "") == []


def test_the_same_user_takes_cgroups_from_the_daemon_for_an_estimate(user: User, tmp_path: Path) -> None:
    """In every energy mode (formats 9); nobody needs to clear up behind it."""
    with meter_daemon(tmp_path, None, "--group", "docker", socket=user.home / "meter.sock"):
        ran = user.run(
            *("--solver", "noop", "--out", "r", "--energy", "estimator:curve"),
            *("--meter-socket", str(user.home / "meter.sock")),
        )
    assert ran.returncode == 0, ran.stderr
    assert "sudo appliance gc" not in ran.stderr
    (result,) = Record.read(user.home / "r" / "records" / "noop.json").trials
    assert result.cpu_source == "cgroup_parent"
    assert result.energy is not None
    assert (result.energy.total.basis, result.energy.total.model) == ("modelled", "teads-curve/1")
    assert left_of(run_id(user.home / "r") or "") == []
    assert "idle" not in [line.kind for line in lines(user.home / "r")]
