"""`make benchmark`: figures beside the floor that was measured in the same run. Nothing here passes or fails."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks.memory import peaks
from tests.benchmarks.trials import PAIRS, over_floor

_TRIALS = 200


def main() -> None:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else PAIRS
    print("a trivial trial over its floor (docker CLI: create, start, exec, kill, rm, twice); medians in seconds")
    print(f"{'jobs':>4}  {'trial':>8}  {'floor':>8}  {'ratio':>6}  pairs")
    with tempfile.TemporaryDirectory(prefix="appliance-benchmark-") as folder:
        for jobs in (1, 2):
            print(over_floor(Path(folder) / str(jobs), jobs, pairs).row(), flush=True)
        print("\npeak resident memory of the harness, MiB")
        for peak in peaks(_TRIALS):
            print(peak.row(), flush=True)
        print("\nwhole commands over a Python that does nothing; medians in seconds")
        print(f"{'command':<32}  {'median':>8}  {'python':>8}")
        record = _one_record(Path(folder))
        for words in (["--help"], ["verify", str(record), "--trust", "local"]):
            ours, floor = _paired([sys.executable, "-m", "appliance.cli.main", *words], [sys.executable, "-c", "pass"])
            print(f"{'appliance ' + words[0]:<32}  {ours:>8.3f}  {floor:>8.3f}", flush=True)


def _one_record(folder: Path) -> Path:
    words = ["run", "--suite", "smoke", "--tasks", "log-tail", "--solver", "noop", "--out", str(folder / "signed")]
    subprocess.run([sys.executable, "-m", "appliance.cli.main", *words], check=True, capture_output=True)
    return folder / "signed/records/noop.json"


def _paired(ours: list[str], floor: list[str], pairs: int = 9) -> tuple[float, float]:
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(pairs):
        for argv, kept in zip((ours, floor), times, strict=True):
            began = time.monotonic()
            subprocess.run(argv, check=True, capture_output=True)
            kept.append(time.monotonic() - began)
    return statistics.median(times[0]), statistics.median(times[1])


if __name__ == "__main__":
    main()
