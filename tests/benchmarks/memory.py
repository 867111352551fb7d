"""Peak resident memory of the harness: in the number of trials, signed and not, and in what a solver prints.

`python -m tests.benchmarks.memory 1000` measures that many trials alone, signed: it takes minutes,
so `make benchmark` leaves it out.
"""

from __future__ import annotations

import json
import os
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
    """MiB of one trial, of `many`, of as many signed and verified again, and of one whose solver prints a gigabyte."""
    with tempfile.TemporaryDirectory(prefix="appliance-memory-") as name:
        folder = Path(name)
        suite = _suite(folder)
        loud = write_solver(
            folder, "loud", f'model = "none"\nargv = ["sh", "-c", {json.dumps("head -c 1073741824 /dev/zero")}]\n'
        )
        return [
            _peak("1 trial", folder / "one", suite, "noop", "--no-sign"),
            _peak(f"{many} trials", folder / "many", suite, "noop", "--no-sign", "--rollouts", str(many)),
            _signed(many, folder, suite),
            _peak("1 trial whose solver prints 1 GiB", folder / "loud-run", suite, str(loud), "--no-sign"),
        ]


def signed_peak(many: int) -> Peak:
    with tempfile.TemporaryDirectory(prefix="appliance-memory-") as name:
        return _signed(many, Path(name), _suite(Path(name)))


def _suite(folder: Path) -> Path:
    return write_suite(folder / "suite", ("trivial",), test_cmd='["sh", "-c", "exit 1"]')


def _signed(many: int, folder: Path, suite: Path) -> Peak:
    out = folder / "signed"
    peak = _peak(f"{many} trials, the record signed", out, suite, "noop", "--rollouts", str(many))
    if not (out / "records/noop.sigstore.json").is_file():
        raise RuntimeError("the record was not signed")
    return peak


def _peak(what: str, out: Path, suite: Path, solver: str, *more: str) -> Peak:
    words = ["run", "--suite", str(suite), "--solver", solver, "--out", str(out), "--jobs", "2", *more]
    # Keys and a log of its own: figures have no place in a person's log.
    homes = {f"XDG_{home}_HOME": str(out.parent / home.lower()) for home in ("DATA", "CONFIG")}
    ended = subprocess.run(
        [sys.executable, "-c", _PROBE, *words],
        env={**os.environ, **homes},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    *said, last = ended.stderr.strip().splitlines()
    mib, status = last.split()
    if status != "0":
        raise RuntimeError("\n".join(said[-3:]))
    return Peak(what, int(mib))


if __name__ == "__main__":
    print(signed_peak(int(sys.argv[1])).row())
