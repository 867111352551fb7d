"""CodeCarbon, where it installs, at its own pace: what a meter costs that asks the same of a machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SAMPLES_A_SECOND = 1
"""A tenth of ours; its default is one in fifteen seconds."""
_PROGRAM = """
import sys, time
from codecarbon import OfflineEmissionsTracker
tracker = OfflineEmissionsTracker(country_iso_code="FRA", measure_power_secs=1, tracking_mode=sys.argv[1],
                                  save_to_file=False, log_level="critical", allow_multiple_runs=True)
tracker.start()
print("ready", flush=True)
time.sleep(86400)
"""


def installed(folder: Path) -> Path | str:
    """Its Python; or why there is none."""
    python = folder / "codecarbon/bin/python"
    made = [sys.executable, "-m", "venv", str(folder / "codecarbon")]
    filled = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "codecarbon"]
    for argv in (made, filled):
        try:
            ended = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=600)
        except subprocess.TimeoutExpired:
            return "it took longer than ten minutes"
        if ended.returncode:
            return (ended.stderr.strip().splitlines() or ["no word"])[-1]
    return python


def version(python: Path) -> str:
    words = "from importlib.metadata import version; print(version('codecarbon'))"
    return subprocess.run([python, "-c", words], capture_output=True, text=True, check=True).stdout.strip()


def start(python: Path, mode: str, folder: Path) -> subprocess.Popen[str]:
    """`mode`: `machine` or `process`. Tracking when it returns."""
    process = subprocess.Popen(
        [str(python), "-c", _PROGRAM, mode],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=folder,
    )
    assert process.stdout is not None
    while line := process.stdout.readline():
        if line == "ready\n":
            return process
    raise RuntimeError(f"CodeCarbon ended with {process.wait()}")
