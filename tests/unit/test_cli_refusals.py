"""What is said where somebody's words are nearly right."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from appliance.errors import InputRefused
from appliance.report.load import record_paths
from tests import record_builder as build


def test_a_run_without_records_is_told_from_a_folder_without_any(tmp_path: Path) -> None:
    """Of a run that was cut off, its plan is not read as a record: the mend is to go on with it."""
    with pytest.raises(InputRefused, match="no records in this folder"):
        record_paths(tmp_path)
    (tmp_path / "plan.json").write_text("{}")
    with pytest.raises(InputRefused) as refusal:
        record_paths(tmp_path)
    assert refusal.value.mend == f"appliance run --resume {tmp_path}"


def test_an_option_after_the_trial_is_no_command(tmp_path: Path) -> None:
    """`appliance shell RUN TRIAL --solver NAME` says where options stand."""
    words = ("shell", str(tmp_path), "task", "--solver", "noop")
    ended = subprocess.run(
        [sys.executable, "-m", "appliance.cli.main", *words], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert "options stand before RUN" in ended.stderr


def test_an_artifact_without_its_option_is_told_by_the_option() -> None:
    """`appliance show RECORD transcript` names what was meant."""
    words = ("show", "no-record.json", "transcript")
    ended = subprocess.run(
        [sys.executable, "-m", "appliance.cli.main", *words], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert "--artifact transcript" in ended.stderr


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--limit-memory-mib", "1" + "0" * 23),
        ("--limit-wall-seconds", "1e999"),
        ("--limit-pids", "1000000001"),
        ("--idle-seconds", "1e23"),
        ("--version", "\udcff"),
        ("--commit", "a\nb"),
    ],
)
def test_words_that_no_record_can_hold_are_refused_by_their_flag(flag: str, value: str) -> None:
    """Status 2 before anything is planned, never a traceback."""
    words = ("run", "--suite", "smoke", "--solver", "noop", "--dry-run", flag, value)
    ended = subprocess.run(
        [sys.executable, "-m", "appliance.cli.main", *words], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2, ended.stderr
    assert flag in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("flag", ["--model-url", "--model-key-env", "--model-file"])
def test_words_about_a_model_that_no_reproduction_asks_are_refused(flag: str, tmp_path: Path) -> None:
    """Status 2, naming the flag: passed over, it would look as if it had been heeded (row R3)."""
    record = tmp_path / "noop.json"
    record.write_bytes(build.record().canonical())
    words = ("reproduce", str(record), flag, "http://127.0.0.1:1")
    ended = subprocess.run(
        [sys.executable, "-m", "appliance.cli.main", *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2, ended.stderr
    assert f"{flag}: no model answered in this record (leave it away)" in ended.stderr
