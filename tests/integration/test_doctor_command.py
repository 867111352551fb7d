"""`appliance doctor` as it is typed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


def doctor(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "appliance.cli.main", "doctor", *words],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )


def test_without_an_engine_the_status_is_4_with_the_one_command_that_mends_it(tmp_path: Path) -> None:
    """And the rest is looked at all the same; no traceback (I22)."""
    said = doctor(DOCKER_HOST=f"unix://{tmp_path}/none.sock")
    assert said.returncode == 4
    first = said.stdout.splitlines()[0]
    assert first.startswith("error engine")
    assert "(apt-get install docker.io)" in first or "(sudo apt-get install docker.io)" in first
    assert "disk" in said.stdout
    assert "Traceback" not in said.stderr


def test_an_engine_that_is_silent_is_told_from_none(tmp_path: Path) -> None:
    """A socket's file that nobody listens on (I22)."""
    path = tmp_path / "silent.sock"
    path.touch()
    said = doctor(DOCKER_HOST=f"unix://{path}")
    assert said.returncode == 4
    assert "nothing answers" in said.stdout


def test_json_is_one_document_with_the_status_in_it(tmp_path: Path) -> None:
    """(design 8)"""
    said = doctor("--json", DOCKER_HOST=f"unix://{tmp_path}/none.sock", XDG_DATA_HOME=str(tmp_path))
    found = json.loads(said.stdout)
    assert said.returncode == found["status"] == 4
    parts = {finding["part"]: finding for finding in found["findings"]}
    assert set(parts) >= {"engine", "cgroups", "counters", "signing", "disk", "python", "builders", "noise"}
    assert parts["signing"]["mend"] == "appliance trust init"
    assert {check["name"] for check in found["fitness"]} >= {"cpu_load", "containers", "swap"}


@pytest.mark.docker
def test_with_an_engine_nothing_needed_is_missing() -> None:
    """(I22)"""
    found = json.loads(doctor("--json").stdout)
    levels = {finding["part"]: finding["level"] for finding in found["findings"] if finding["part"] == "engine"}
    assert levels["engine"] in ("ok", "warn")
    assert found["status"] == 0
