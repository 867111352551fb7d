"""One unprivileged child and the pipes to it: started, asked, ended. Nothing here waits longer than it is told to."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from appliance.meter.counters.frames import REQUEST, Frames, ReadingsSaid, ZonesSaid

USER: Final = "nobody"
_DROP: Final = Path(__file__).with_name("plugin_drop.py")
_PASSED_ON: Final = ("LANG", "LC_ALL", "PATH", "PYTHONPATH", "TZ")
SETTINGS: Final = "BENCH_APPLIANCE_COUNTER_"
"""Variables of this beginning reach a plug-in, as its address of a wall meter; no other ones do."""
_PIECE: Final = 64 * 1024
_KEPT_OF_STDERR: Final = 4096
_REAP_SECONDS: Final = 5.0


@dataclass(frozen=True)
class Program:
    """What the child runs: arguments of `plugin_child`, and files that are opened for it by path."""

    label: str
    arguments: Sequence[str]
    files: Callable[[], Mapping[str, int]] = field(default=dict)
    fixed: bool = False
    """It never looks for zones anew: where one goes, it is started again."""


class ChildProcess:
    """Raises OSError where it cannot be started."""

    def __init__(self, program: Program):
        files = program.files()
        self._stderr = b""
        self._frames = Frames()
        theirs: list[int] = list(files.values())
        ours: list[int] = []
        try:
            requests, self._requests = os.pipe()
            theirs.append(requests)
            ours.append(self._requests)
            self._answers, answers = os.pipe()
            theirs.append(answers)
            ours.append(self._answers)
            self._errors, errors = os.pipe()
            theirs.append(errors)
            ours.append(self._errors)
            for fd in (self._answers, self._errors, self._requests):
                os.set_blocking(fd, False)
            self._popen = subprocess.Popen(
                [
                    *(sys.executable, "-I", "-S", str(_DROP), USER, *_made_of(), "--"),
                    *(
                        sys.executable,
                        "-B",
                        "-P",
                        "-m",
                        "appliance.meter.counters.plugin_child",
                        str(requests),
                        str(answers),
                    ),
                    *program.arguments,
                    *(f"{path}={fd}" for path, fd in files.items()),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                pass_fds=(requests, answers, *files.values()),
                env=_environment(),
                start_new_session=True,
            )
        except OSError:
            for fd in ours:
                os.close(fd)
            raise
        finally:
            for fd in theirs:
                os.close(fd)
        self._open = ours

    def request(self) -> bool:
        """False where nobody is there to hear it."""
        try:
            return os.write(self._requests, REQUEST) == 1
        except OSError:
            return False

    def said(self, patience_seconds: float) -> tuple[list[ZonesSaid | ReadingsSaid], bool]:
        """What came, waiting so long for the first of it; and whether the child is at its end. Raises BadFrame."""
        self._hear_errors()
        found: list[ZonesSaid | ReadingsSaid] = []
        poll = select.poll()
        poll.register(self._answers, select.POLLIN)
        if not poll.poll(patience_seconds * 1000):
            return found, False
        # One piece more than the longest frame: a child that floods is heard a bounded while.
        for _ in range(8):
            try:
                piece = os.read(self._answers, _PIECE)
            except BlockingIOError:
                return found, False
            if not piece:
                return found, True
            found.extend(self._frames.feed(piece))
        return found, False

    def last_line(self) -> str:
        """Of what it wrote to its standard error."""
        self._hear_errors()
        lines = self._stderr.decode(errors="replace").strip().splitlines()
        return "".join(letter if letter.isprintable() else "?" for letter in lines[-1])[:200] if lines else ""

    def end(self) -> None:
        for fd in self._open:
            os.close(fd)
        self._open = []
        with contextlib.suppress(OSError):
            # Its whole session; where we may not, the end of its pipe ends it.
            os.killpg(self._popen.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(_REAP_SECONDS)

    def _hear_errors(self) -> None:
        if not self._open:
            return
        for _ in range(4):
            try:
                piece = os.read(self._errors, _PIECE)
            except BlockingIOError:
                return
            self._stderr = (self._stderr + piece)[-_KEPT_OF_STDERR:]
            if not piece:
                return


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name in _PASSED_ON or name.startswith(SETTINGS)}


def _made_of() -> list[str]:
    """Folders of the interpreter and of everything that it imports from."""
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return sorted({sys.prefix, sys.base_prefix, *sys.path, *named} - {""})
