"""Peak resident memory of the harness: in the number of trials, signed and not, and in what a solver prints.

`python -m tests.benchmarks.memory 1000` measures that many trials alone, signed: it takes minutes,
so `make benchmark` leaves it out. `python -m tests.benchmarks.memory end 200 1000` measures in seconds what comes
after the last trial (fold, sign, report): a run of three trials, whose journal is made one of so many, is resumed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from appliance.records import journal
from appliance.records.plan import RunPlan, trial_keys
from tests.trials_suites import write_solver, write_suite

_PROBE = """
import sys
from appliance.cli.main import run
status = run(sys.argv[1:])
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM:"))
print(int(peak.split()[1]) // 1024, status, file=sys.stderr)
"""
"""Of its own pages: what getrusage has as a peak begins with that of the process that started it."""


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
            *ends(200, 1000),
            _peak("1 trial", folder / "one", suite, "noop", "--no-sign"),
            _peak(f"{many} trials", folder / "many", suite, "noop", "--no-sign", "--rollouts", str(many)),
            _signed(many, folder, suite),
            _peak("1 trial whose solver prints 1 GiB", folder / "loud-run", suite, str(loud), "--no-sign"),
        ]


def signed_peak(many: int) -> Peak:
    with tempfile.TemporaryDirectory(prefix="appliance-memory-") as name:
        return _signed(many, Path(name), _suite(Path(name)))


def ends(*many: int) -> list[Peak]:
    """MiB of a resumed run whose journal has all of its trials: what is left is to fold, sign and report."""
    with tempfile.TemporaryDirectory(prefix="appliance-memory-") as name:
        seed = Path(name) / "seed"
        _peak("the seed", seed, _suite(Path(name)), "noop", "--rollouts", "3")
        return [_end(seed, Path(name) / f"of-{count}", count) for count in many]


def _end(seed: Path, out: Path, many: int) -> Peak:
    shutil.copytree(seed, out)
    shutil.rmtree(out / "records")
    plan = RunPlan.read(seed / "plan.json").plans[0].model_copy(update={"rollouts": many})
    (out / "plan.json").write_bytes(RunPlan(plans=(plan,)).canonical())
    told = journal.decode((seed / "journal.jsonl").read_bytes(), "journal")
    seeds = told.results(told.header.plan_digests[0])
    with (out / "journal.jsonl").open("wb") as stream:
        stream.write(journal.encode(told.header.model_copy(update={"plan_digests": (plan.digest,)})))
        stream.writelines(journal.encode(line) for line in told.lines if not isinstance(line, journal.TrialLine))
        for at, key in enumerate(trial_keys(plan)):
            result = seeds[at % len(seeds)].model_copy(update={"key": key})
            stream.write(journal.encode(journal.TrialLine(plan_digest=plan.digest, trial=at, result=result)))
    peak = _probed(f"the end of {many} trials, the record signed", out, "run", "--resume", str(out))
    if not (out / "records/noop.sigstore.json").is_file():
        raise RuntimeError("the record was not signed")
    return peak


def _suite(folder: Path) -> Path:
    return write_suite(folder / "suite", ("trivial",), test_cmd='["sh", "-c", "exit 1"]')


def _signed(many: int, folder: Path, suite: Path) -> Peak:
    out = folder / "signed"
    peak = _peak(f"{many} trials, the record signed", out, suite, "noop", "--rollouts", str(many))
    if not (out / "records/noop.sigstore.json").is_file():
        raise RuntimeError("the record was not signed")
    return peak


def _peak(what: str, out: Path, suite: Path, solver: str, *more: str) -> Peak:
    return _probed(what, out, "run", "--suite", str(suite), "--solver", solver, "--out", str(out), "--jobs", "2", *more)


def _probed(what: str, out: Path, *words: str) -> Peak:
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
    if sys.argv[1] == "end":
        for found in ends(*map(int, sys.argv[2:])):
            print(found.row())
    else:
        print(signed_peak(int(sys.argv[1])).row())
