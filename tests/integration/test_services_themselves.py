"""The services that the other suites stand on: built once, side by side, and gone with whoever started them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import judges_packages
from tests.services_bench import DIRECTLY, Services, stop_left
from tests.services_build import PROGRAMS, cache_folder

_ROOT = Path(__file__).resolve().parents[2]
_STARTER = """\
import json, sys, time
from pathlib import Path
from tests import judges_packages
from tests.services_bench import Services
print(json.dumps(Services(Path(sys.argv[1])).start().pids), flush=True)
time.sleep(600)
"""


def runs(pid: int) -> bool:
    """A process that nobody has waited for yet is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def assert_gone(pids: list[int]) -> None:
    for _ in range(100):
        if not any(map(runs, pids)):
            return
        time.sleep(0.1)
    raise AssertionError([pid for pid in pids if runs(pid)])


@pytest.mark.services
def test_two_deployments_stand_side_by_side(tmp_path: Path) -> None:
    """Two runs of the suite at once: no port, socket or file of one is the other's."""
    first, second = Services(tmp_path / "a").start(), Services(tmp_path / "b").start()
    try:
        for one in (first, second):
            with DIRECTLY.open(f"{one.url('fulcio')}/api/v2/configuration") as answer:
                issuers = [known["issuerUrl"] for known in json.load(answer)["issuers"]]
            assert sorted(issuers) == sorted(one.issuer_url(kind) for kind in ("email", "github", "gitlab"))
        assert first.trusted_root.read_bytes() != second.trusted_root.read_bytes()
    finally:
        first.stop()
        second.stop()
    assert not list(tmp_path.glob("*/*.pid"))


@pytest.mark.services
def test_services_end_with_a_suite_that_was_killed(tmp_path: Path) -> None:
    """kill -9 leaves nothing behind."""
    starter = subprocess.Popen(
        [sys.executable, "-c", _STARTER, str(tmp_path)], cwd=_ROOT, stdout=subprocess.PIPE, text=True
    )
    assert starter.stdout is not None
    pids = list(json.loads(starter.stdout.readline()).values())
    assert len(pids) == 4
    assert all(map(runs, pids))
    starter.kill()
    starter.wait()
    assert_gone(pids)


@pytest.mark.services
def test_make_services_leaves_them_running_until_they_are_stopped(tmp_path: Path) -> None:
    """`make services` is `scripts/services start`; its folder says how to use and how to stop them."""
    environment = {**os.environ, "BIN": str(Path(sys.executable).parent)}
    started = subprocess.run(
        ["scripts/services", "start", tmp_path], cwd=_ROOT, env=environment, capture_output=True, text=True, check=True
    )
    pids = [int(path.read_text().split()[0]) for path in tmp_path.glob("*.pid")]
    try:
        assert len(pids) == 5
        assert all(map(runs, pids))
        assert str(tmp_path / "trust_config.json") in started.stdout
        mint = next(word for word in started.stdout.split() if word.endswith("/mint"))
        with DIRECTLY.open(mint) as answer:
            assert json.load(answer)["value"].count(".") == 2
    finally:
        stopped = subprocess.run(
            ["scripts/services", "stop", tmp_path],
            cwd=_ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
    assert "5 ended" in stopped.stdout
    assert_gone(pids)


def test_a_pid_that_is_somebody_elses_by_now_is_left_alone(tmp_path: Path) -> None:
    """A pid file names the moment of the start too."""
    with subprocess.Popen(["sleep", "60"]) as other:
        (tmp_path / "fulcio.pid").write_text(f"{other.pid} 1\n")
        assert stop_left(tmp_path) == 0
        assert other.poll() is None
        other.send_signal(signal.SIGTERM)
    assert not list(tmp_path.glob("*.pid"))


def test_without_go_the_suites_skip_loudly_and_fail_where_they_are_required(tmp_path: Path) -> None:
    """Skipped with the reason; `--require=services` makes it a failure; building says what is needed, status 4."""
    environment = {**os.environ, "PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    words = ["-q", "-p", "no:cacheprovider", "tests/integration/test_services_judges.py"]
    endings = {}
    for required in ((), ("--require=services",)):
        endings[required] = subprocess.run(
            [sys.executable, "-m", "pytest", *required, *words],
            cwd=_ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    assert endings[()].returncode == 0
    assert "no go to build the Sigstore services with" in endings[()].stdout
    assert "passed" not in endings[()].stdout
    assert endings["--require=services",].returncode == 1
    assert "--require=services: no go to build" in endings["--require=services",].stdout
    building = subprocess.run(
        [sys.executable, "-m", "tests.services_build"],
        cwd=_ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert building.returncode == 4
    assert building.stderr.splitlines() == [f"services: {PROGRAMS[0].name}: no go on PATH (install Go 1.26 or newer)"]


@pytest.mark.node
def test_a_package_of_other_bytes_than_the_locked_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """npm holds each package to the lock's sha512; a failed install leaves nothing that counts."""
    locked = shutil.copytree(judges_packages._LOCKED, tmp_path / "locked")
    lock = json.loads((locked / "package-lock.json").read_text())
    lock["packages"]["node_modules/@sigstore/core"]["integrity"] = f"sha512-{'A' * 86}=="
    (locked / "package-lock.json").write_text(json.dumps(lock))
    monkeypatch.setattr(judges_packages, "_LOCKED", locked)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(subprocess.CalledProcessError) as failed:
        judges_packages.packages_folder()
    assert b"EINTEGRITY" in failed.value.stderr
    assert [path.name for path in (tmp_path / "cache/bench-appliance/judges").iterdir()] == [".lock"]


def test_programs_are_kept_by_their_versions_outside_the_tree(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Another list of versions is another folder; the cache is never in the checkout."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = cache_folder()
    assert folder.is_relative_to(tmp_path)
    monkeypatch.setattr("tests.services_build.PROGRAMS", PROGRAMS[1:])
    assert cache_folder() != folder
