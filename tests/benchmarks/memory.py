"""Peak resident memory of the harness: in the number of trials, and in what a solver prints."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.trials_suites import write_solver, write_suite

_PROBE = """
import resource, sys
from appliance.cli.main import run
status = run(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, status, file=sys.stderr)
"""


@dataclass(frozen=True)
class Peak:
    what: str
    mib: int

    def row(self) -> str:
        return f"{self.what:<44}  {self.mib:>5}"


def peaks(many: int) -> list[Peak]:
    """MiB of one trial, of `many`, and of one whose solver prints a gigabyte."""
    with tempfile.TemporaryDirectory(prefix="appliance-memory-") as name:
        folder = Path(name)
        suite = write_suite(folder / "suite", ("trivial",), test_cmd='["sh", "-c", "exit 1"]')
        loud = write_solver(
            folder, "loud", f'model = "none"\nargv = ["sh", "-c", {json.dumps("head -c 1073741824 /dev/zero")}]\n'
        )
        return [
            _peak("1 trial", folder / "one", suite, "noop"),
            _peak(f"{many} trials", folder / "many", suite, "noop", "--rollouts", str(many)),
            _peak("1 trial whose solver prints 1 GiB", folder / "loud-run", suite, str(loud)),
        ]


def _peak(what: str, out: Path, suite: Path, solver: str, *more: str) -> Peak:
    words = ["run", "--suite", str(suite), "--solver", solver, "--out", str(out), "--no-sign", "--jobs", "2", *more]
    ended = subprocess.run(
        [sys.executable, "-c", _PROBE, *words], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    mib, status = ended.stderr.strip().splitlines()[-1].split()
    if status != "0":
        raise RuntimeError(ended.stderr)
    return Peak(what, int(mib))
