"""python -m tests.fuzz [--seconds N] [--engine atheris|hypothesis] [TARGET...]: every target for N seconds.

`FUZZ_SECONDS` says N too (60). As many targets at once as there are cores. Inputs that reached something new, and the
ones that broke something, stay in runs/fuzz/TARGET/{corpus,crashes}: the next run begins with them. Ends with 1 if any
broke.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from tests.fuzz.targets import TARGETS

_FOLDER: Final = Path("runs/fuzz")
_GRACE_SECONDS: Final = 300
"""To build its seeds, and to make a finding small."""
_LONGEST: Final = 3_000
"""Letters of what a broken one said, the last of them."""


def main() -> int:
    asked = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    asked.add_argument("--seconds", type=int, default=int(os.environ.get("FUZZ_SECONDS", "60")))
    asked.add_argument(
        "--engine", choices=["atheris", "hypothesis"], default="atheris" if find_spec("atheris") else "hypothesis"
    )
    asked.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}; default: all")
    words = asked.parse_args()
    unknown = set(words.targets) - set(TARGETS)
    if unknown:
        asked.error(f"no such target: {', '.join(sorted(unknown))}")
    names = words.targets or list(TARGETS)
    _say(f"{len(names)} targets, {words.seconds} s each, by {words.engine}")
    with ThreadPoolExecutor(os.cpu_count() or 1) as several:
        broken = sum(several.map(lambda name: _fuzz(words.engine, name, words.seconds), names))
    return int(bool(broken))


def _fuzz(engine: str, name: str, seconds: int) -> bool:
    """Whether it broke; says so in one line, and the traceback where it did."""
    folder = _FOLDER / name
    for part in ("corpus", "crashes"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    before = set((folder / "crashes").iterdir())
    words = [sys.executable, "-m", "tests.fuzz.child", engine, name, str(seconds), str(folder)]
    try:
        ended = subprocess.run(words, capture_output=True, check=False, timeout=seconds + _GRACE_SECONDS)
        said, status = (ended.stdout + ended.stderr).decode(errors="replace"), ended.returncode
    except subprocess.TimeoutExpired as late:
        said, status = f"did not end: {late}", -1
    found = sorted(set((folder / "crashes").iterdir()) - before)
    counted = [line for line in said.splitlines() if "number_of_executed_units" in line or line.endswith("examples")]
    if status == 0 and not found:
        _say(f"{name}: {' '.join(counted[-1].split()[-2:]) if counted else 'nothing found'}")
        return False
    _say(f"{name}: BROKE (status {status}): {', '.join(map(str, found)) or 'no input kept'}\n{said[-_LONGEST:]}")
    return True


def _say(words: str) -> None:
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
