"""What is said where somebody's words are nearly right."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from appliance.errors import InputRefused
from appliance.report.load import record_paths


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
