"""A record of last month, run again with last month's harness: a clone that moved on since."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.trials_suites import write_suite

pytestmark = [pytest.mark.docker, pytest.mark.slow]
_ROOT = Path(__file__).resolve().parents[2]


def _git(root: Path, *words: str) -> str:
    named = ("-c", "user.name=t", "-c", "user.email=t@t.invalid")
    return subprocess.run(
        ["git", "-C", str(root), *named, *words], check=True, capture_output=True, text=True
    ).stdout.strip()


def _appliance(clone: Path, cwd: Path, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(clone),
        "XDG_DATA_HOME": str(cwd / "share"),
        "XDG_CONFIG_HOME": str(cwd / "config"),
    }
    ended = subprocess.run(
        [sys.executable, "-P", "-m", "appliance.cli.main", *words],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert ended.returncode == status, f"{words}: {ended.returncode}\n{ended.stdout}\n{ended.stderr}"
    return ended


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The committed state of this checkout, with the working tree's changes on top as a commit of its own."""
    subprocess.run(["git", "clone", "-q", "--no-hardlinks", str(_ROOT), str(tmp_path / "clone")], check=True)
    changes = subprocess.run(["git", "-C", str(_ROOT), "diff", "--binary", "HEAD"], check=True, capture_output=True)
    if changes.stdout:
        apply = ["git", "-C", str(tmp_path / "clone"), "apply", "--index"]
        subprocess.run(apply, input=changes.stdout, check=True)
        _git(tmp_path / "clone", "commit", "-q", "-m", "working tree")
    return tmp_path / "clone"


def test_the_harness_of_the_recorded_commit_runs_though_the_checkout_moved_on(clone: Path, tmp_path: Path) -> None:
    """`--at-recorded-commit` finds no difference in the harness; today's run names its commit and digest (R1)."""
    home = tmp_path / "home"
    home.mkdir()
    write_suite(home / "tasks/one", ("fix",))
    _appliance(clone, home, "run", "--suite", "one", "--solver", "noop", "--out", "r")
    recorded = json.loads((home / "r/records/noop.json").read_bytes())["harness"]
    assert recorded["commit"] == _git(clone, "rev-parse", "HEAD")
    (clone / "appliance/later.py").write_text('"""What came since."""\n')
    _git(clone, "add", "-A")
    _git(clone, "commit", "-q", "-m", "later")

    words = ("reproduce", "r/records/noop.json", "--json")
    today = json.loads(_appliance(clone, home, *words, "--out", "today").stdout)
    assert [field["path"] for field in today["harnessDifferences"]] == ["$.harness.commit", "$.harness.digest"]
    assert today["outcome"]["verdict"] == "reproduced"

    then = json.loads(_appliance(clone, home, *words, "--at-recorded-commit", "--out", "then").stdout)
    assert [field["path"] for field in then["harnessDifferences"]] == []
    assert then["outcome"]["verdict"] == "reproduced"
    assert _git(clone, "worktree", "list").count("\n") == 0
