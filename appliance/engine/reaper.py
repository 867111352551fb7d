"""A run's reaper: a small program beside the harness that clears up when the harness is gone, however it went (H12)."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from appliance.engine.places import Places, places

_KEPT_VARIABLES = ("PATH", "HOME", "LANG", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "TMPDIR", "USER")
"""Nothing else of the environment: there may be keys in it."""
_WAITER = 'trap "" INT TERM HUP QUIT; read -r word; [ "$word" = done ] && exit 0; exec "$@"'
"""A shell is 1 MB where Python is 10. `read` fails when the harness is gone, and its end of the pipe with it."""


@contextlib.contextmanager
def reaper(run: str, lock: Path, address: str | None = None, where: Places | None = None) -> Iterator[None]:
    """Within it, the end of this process, by whatever signal, ends everything of the run.

    Left by an exception, the reaper clears up as well, once the lock is free. `address` as `connect` has it.
    """
    finished = False
    child = _start(run, lock, where or places(), address)
    try:
        yield
        finished = True
    finally:
        _end(child, finished=finished)


def _start(run: str, lock: Path, where: Places, address: str | None) -> subprocess.Popen[bytes]:
    kept = {name: value for name, value in os.environ.items() if name in _KEPT_VARIABLES or name.startswith("DOCKER_")}
    command = [sys.executable, "-m", "appliance.engine.reap", run, str(lock.parent), str(where.state), address or ""]
    return subprocess.Popen(
        ["/bin/sh", "-c", _WAITER, "appliance-reaper", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env=kept | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        start_new_session=True,
    )


def _end(child: subprocess.Popen[bytes], *, finished: bool) -> None:
    pipe = child.stdin
    if pipe is None:
        return
    with contextlib.suppress(BrokenPipeError):
        if finished:
            pipe.write(b"done\n")
        pipe.close()
    if finished:
        child.wait()
