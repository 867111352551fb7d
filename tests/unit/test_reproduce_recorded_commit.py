"""Going back to the commit that a record names, in a real repository made for the test."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from appliance.errors import HostRefused, InputRefused
from appliance.reproduce import recorded_commit


def _git(root: Path, *words: str) -> str:
    return subprocess.run(
        ["git", "-C", str(root), "-c", "user.name=t", "-c", "user.email=t@t.invalid", *words],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "checkout"
    (root / "appliance" / "cli").mkdir(parents=True)
    _git(tmp_path, "init", "-q", "-b", "main", str(root))
    (root / "requirements.lock").write_text("")
    (root / "pyproject.toml").write_text('[project]\nname = "bench-appliance"\nversion = "7.1"\n')
    for package in ("appliance", "appliance/cli"):
        (root / package / "__init__.py").write_text("")
    (root / "appliance/cli/main.py").write_text(
        "import sys\n"
        "from importlib.metadata import version\n"
        "print('harness one', version('bench-appliance'), sys.argv[1:]); sys.exit(8)\n"
    )
    _git(root, "add", "-A")
    _git(root, "commit", "-q", "-m", "one")
    return root


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_the_recorded_commit_runs_from_a_worktree_that_is_gone_afterwards(
    repository: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """`--at-recorded-commit` runs that commit's own code, whatever stands in the checkout now (R1)."""
    first = _git(repository, "rev-parse", "HEAD")
    (repository / "appliance/cli/main.py").write_text("print('harness two')\n")
    _git(repository, "commit", "-q", "-am", "two")
    with recorded_commit.harness_at(repository, first, "record.json") as python:
        assert recorded_commit.run_there(python, ["reproduce", "record.json"]) == 8
    assert "harness one 7.1 ['reproduce', 'record.json']" in capfd.readouterr().out
    assert _git(repository, "worktree", "list").count("\n") == 0


def test_a_commit_on_no_branch_or_tag_is_refused(repository: Path) -> None:
    """A stranger's commit that was only fetched, never taken, is not run (R4)."""
    kept = _git(repository, "rev-parse", "HEAD")
    _git(repository, "commit", "-q", "--allow-empty", "-m", "hostile")
    hostile = _git(repository, "rev-parse", "HEAD")
    _git(repository, "reset", "-q", "--hard", kept)
    with (
        pytest.raises(InputRefused, match="on no branch or tag"),
        recorded_commit.harness_at(repository, hostile, "record.json"),
    ):
        pass


@pytest.mark.parametrize("commit", [None, "main", "--upload-pack=x", "abc"])
def test_only_a_full_commit_id_is_taken(repository: Path, commit: str | None) -> None:
    """A name, an option or an abbreviation in the record's commit is refused before git sees it (R4)."""
    with pytest.raises(InputRefused, match="no full commit"), recorded_commit.harness_at(repository, commit, "r.json"):
        pass


def test_from_a_wheel_there_is_no_commit_to_go_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installed from a package, `--at-recorded-commit` ends with status 4 and says what to do."""
    monkeypatch.setattr(recorded_commit, "__file__", str(tmp_path / "site-packages/appliance/reproduce/x.py"))
    with pytest.raises(HostRefused, match=r"installed from a package .*\(clone the project and run its own"):
        recorded_commit.checkout_root()
