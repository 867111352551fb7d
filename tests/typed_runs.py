"""`appliance run` as a program of its own, for tests of what befalls it: homes, starting, waiting for its solver."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

import pytest

from appliance.records import journal
from tests.trials_suites import write_suite

T = TypeVar("T")
PATIENCE_SECONDS: Final = 90
"""Only against a hang; no test asserts on it."""
WAITS: Final = "until [ -e /tmp/go ]; do sleep 0.1; done"
"""What a solver of these tests does until somebody makes /tmp/go in its container."""
_DOCKER: Final = ("docker", "-H", "unix:///var/run/docker.sock")
"""The engine itself, whatever a test has put before it."""


def there_with_two_tasks(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`home`, with the suite `small` in ./tasks, and keys and known roots of its own."""
    write_suite(home / "tasks" / "small", ("a", "b"))
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    return home


def started(there: Path, *words: str, prefix: Sequence[str] = ()) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*prefix, sys.executable, "-m", "appliance.cli.main", *words],
        cwd=there,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def said_by(process: subprocess.Popen[str]) -> str:
    """All of its output, once it has ended."""
    try:
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
    finally:
        process.kill()
    assert "Traceback" not in err
    return out + err


def run_id(folder: Path) -> str | None:
    path = folder / "journal.jsonl"
    if not path.exists() or b"\n" not in path.read_bytes():
        return None
    return journal.decode(path.read_bytes(), str(path)).header.run_id


def waiting_container(run: str) -> str | None:
    """The container of this run in which a solver waits (`WAITS`)."""
    listed = _docker("ps", "-q", "--filter", f"label=org.bench-appliance.run={run}", check=True)
    return next(
        (one for one in listed.split() if "until [ -e /tmp/go ]" in _docker("top", one, "-eo", "pid,args")), None
    )


def until(look: Callable[[], T | None]) -> T:
    """What `look` finds in the end; a test that waits longer has failed."""
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError("it never came to be")


def _docker(*words: str, check: bool = False) -> str:
    return subprocess.run([*_DOCKER, *words], capture_output=True, text=True, check=check).stdout
