"""The harness as it was: a worktree of the commit that a record names, with that commit's own locked dependencies."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from appliance.bundle import cache_home
from appliance.digests import sha256_of_file
from appliance.errors import HostRefused, InputRefused

_COMMIT = re.compile(r"^[0-9a-f]{40}$")
_PLAIN = re.compile(r"^[A-Za-z0-9][A-Za-z0-9.+_-]*$")


def checkout_root() -> Path:
    """The git checkout that this program runs from. Raises HostRefused from an installed wheel."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        raise HostRefused(
            "this program was installed from a package and has no history to take the recorded commit from",
            mend="clone the project and run its own `appliance reproduce --at-recorded-commit`",
        )
    return root


@contextmanager
def harness_at(root: Path, commit: str | None, where: str) -> Iterator[Path]:
    """The path of a Python that has the harness of `commit` installed; the worktree is gone afterwards.

    A commit comes from a record, so from a stranger: one that no branch or tag of this checkout holds is refused
    (InputRefused), whatever objects were fetched.
    """
    if commit is None or not _COMMIT.match(commit):
        raise InputRefused(f"no full commit to go back to, but {commit!r}", where=f"{where}: $.harness.commit")
    if not _reachable(root, commit):
        raise InputRefused(
            f"commit {commit} is on no branch or tag of this checkout",
            where=f"{where}: $.harness.commit",
            mend="git fetch --all --tags, and look at what arrives before you run it",
        )
    with tempfile.TemporaryDirectory(prefix="appliance-at-") as folder:
        worktree = Path(folder) / "harness"
        _git(root, "worktree", "add", "--detach", "--quiet", str(worktree), commit)
        try:
            yield _python_for(worktree)
        finally:
            _git(root, "worktree", "remove", "--force", str(worktree))


def run_there(python: Path, words: Sequence[str]) -> int:
    """The exit status of `appliance WORDS` of that harness, with this terminal."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    # -P: not the folder that one stands in, which may be the checkout of today.
    return subprocess.run([python, "-P", "-m", "appliance.cli.main", *words], env=environment, check=False).returncode


def _reachable(root: Path, commit: str) -> bool:
    found = subprocess.run(
        ["git", "-C", str(root), "for-each-ref", "--contains", commit, "refs/heads", "refs/remotes", "refs/tags"],
        capture_output=True,
        text=True,
        check=False,
    )
    return found.returncode == 0 and bool(found.stdout.strip())


def _python_for(worktree: Path) -> Path:
    """A virtual environment with the worktree's locked dependencies (kept by the lock's digest) and its code."""
    lock = worktree / "requirements.lock"
    if not lock.is_file():
        raise InputRefused("that commit has no requirements.lock", where=str(lock))
    kept = cache_home() / "harness-venvs" / f"{sha256_of_file(lock)}-{sys.version_info.major}{sys.version_info.minor}"
    if not (kept / ".ready").exists():
        shutil.rmtree(kept, ignore_errors=True)
        _run([sys.executable, "-m", "venv", str(kept)])
        _run([str(kept / "bin/python"), "-m", "pip", "install", "--quiet", "--require-hashes", "-r", str(lock)])
        (kept / ".ready").touch()
    own = worktree.parent / "venv"
    _run([sys.executable, "-m", "venv", "--without-pip", str(own)])
    site = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    # The dependencies first, then the code: the worktree is on the path of this environment alone.
    (own / site / "harness.pth").write_text(f"{kept / site}\n{worktree}\n")
    _declare_version(worktree, own / site)
    return own / "bin/python"


def _declare_version(worktree: Path, site: Path) -> None:
    """What an installer would have written: the worktree's own name and version, for the stamp of its records."""
    try:
        project = tomllib.loads((worktree / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        name, version = str(project["name"]), str(project["version"])
    except (OSError, KeyError, ValueError) as error:
        raise InputRefused("that commit does not say what it is", where=f"{worktree}/pyproject.toml") from error
    if not _PLAIN.match(name) or not _PLAIN.match(version):
        raise InputRefused(f"no name and version: {name!r} {version!r}", where=f"{worktree}/pyproject.toml")
    folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def _git(root: Path, *words: str) -> None:
    _run(["git", "-C", str(root), *words])


def _run(argv: list[str]) -> None:
    ended = subprocess.run(argv, capture_output=True, text=True, check=False)
    if ended.returncode:
        last = (ended.stderr.strip() or ended.stdout.strip()).splitlines()[-1:]
        raise HostRefused(f"{' '.join(argv[:4])} ... ended with {ended.returncode}: {' '.join(last)}")
