"""The meter's floor: reads the same files at the same rate, writes a JSON line a sample, and does nothing else.

A program of its own, with the standard library only: `python -I -S bare_meter.py OUT PERIOD_MS`, paths on its input.
"""

from __future__ import annotations

import json
import os
import sys
import time

_KEY = b"usage_usec "


def main() -> None:
    fds = [os.open(path.rstrip("\n"), os.O_RDONLY) for path in sys.stdin]
    period_ns = int(sys.argv[2]) * 1_000_000
    due = time.monotonic_ns()
    pread = os.pread
    with open(sys.argv[1], "w") as out:  # noqa: PTH123  # pathlib would be most of this program's memory
        while True:
            line = [time.monotonic_ns()]
            for fd in fds:
                text = pread(fd, 256, 0)
                line.append(int(text[11 : text.index(b"\n")] if text.startswith(_KEY) else text))
            out.write(json.dumps(line) + "\n")
            due += period_ns
            time.sleep(max(0, due - time.monotonic_ns()) / 1e9)


if __name__ == "__main__":
    main()
