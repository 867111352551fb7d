"""scripts/engine on machines that it must refuse: one line, the mend, status 4."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

_SCRIPT = Path(__file__).resolve().parents[2] / "scripts/engine"


def _machine(folder: Path, **programs: str) -> dict[str, str]:
    """A PATH with these programs instead of the machine's own; the rest of /usr/bin is linked beside them."""
    folder.mkdir()
    for name in ("bash", "env", "grep", "sleep", "seq", "printf", "setsid", "nohup"):
        found = next((base / name for base in (Path("/usr/bin"), Path("/bin")) if (base / name).exists()), None)
        if found is not None:
            (folder / name).symlink_to(found)
    for name, script in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    return {"PATH": str(folder), "USER": "somebody", "HOME": str(folder)}


def _run(environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/bash", str(_SCRIPT)], env=environment, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize(
    ("programs", "words"),
    [
        ({"id": "echo 1000"}, ("sudo", "apt-get install docker.io")),
        ({"id": "echo 1000", "dockerd": "exit 1", "docker": "exit 1"}, ("systemctl start docker", "usermod")),
        ({"id": "echo 0"}, ("no apt-get", "20.10")),
    ],
    ids=["ordinary user, no engine", "ordinary user, engine asleep", "root without apt-get"],
)
def test_no_engine_is_one_line_with_the_mend(tmp_path: Path, programs: dict[str, str], words: tuple[str, ...]) -> None:
    """Whoever cannot start an engine here is told the one command, with status 4 (I22)."""
    uname = 'if [ "$1" = -s ]; then echo Linux; else echo x86_64; fi'
    ended = _run(_machine(tmp_path / "bin", uname=uname, **programs))
    assert ended.returncode == 4
    assert len(ended.stderr.splitlines()) == 1
    assert all(word in ended.stderr for word in words), ended.stderr


def test_another_platform_is_refused_by_name(tmp_path: Path) -> None:
    """The images are for Linux on x86-64: elsewhere status 4 says what this is (I22)."""
    uname = 'if [ "$1" = -s ]; then echo Darwin; else echo arm64; fi'
    ended = _run(_machine(tmp_path / "bin", uname=uname, id="echo 0"))
    assert ended.returncode == 4
    assert "Darwin on arm64" in ended.stderr


def test_an_address_where_nothing_answers_is_named(tmp_path: Path) -> None:
    """DOCKER_HOST is never replaced by an engine of ours (I22)."""
    uname = 'if [ "$1" = -s ]; then echo Linux; else echo x86_64; fi'
    environment = _machine(tmp_path / "bin", uname=uname, id="echo 0", docker="exit 1")
    ended = _run({**environment, "DOCKER_HOST": "tcp://127.0.0.1:1"})
    assert ended.returncode == 4
    assert "tcp://127.0.0.1:1" in ended.stderr


@pytest.mark.docker
def test_an_engine_that_answers_is_left_as_it_is() -> None:
    """Nothing is installed or started where one is there."""
    ended = _run(dict(os.environ))
    assert (ended.returncode, ended.stderr) == (0, "")
