"""The real daemon as a process of its own, on a socket of the test's, over a powercap tree that the test writes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from appliance.cgroups import hierarchies, remove_run_cgroups
from appliance.errors import Refusal
from appliance.meter.client import MeterClient


class Daemon:
    """A running `appliance.meter.daemon.serve`."""

    def __init__(self, process: subprocess.Popen[bytes], socket: Path, log: Path):
        self.process = process
        self.socket = socket
        self._log = log

    @property
    def pid(self) -> int:
        return self.process.pid

    def client(self) -> MeterClient:
        return MeterClient.connect(self.socket, timeout_seconds=20.0)

    def log(self) -> str:
        """What it wrote to its standard error."""
        return self._log.read_text()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.process.wait(timeout=20)


@contextlib.contextmanager
def meter_daemon(
    folder: Path,
    powercap: Path | None = None,
    *arguments: str,
    socket: Path | None = None,
    environment: Mapping[str, str] | None = None,
    before: Sequence[str] = (),
    nvml: bool = False,
) -> Iterator[Daemon]:
    """`folder` takes its socket (`meter.sock`) and log; `powercap` is a `PowercapTree.root` (default: no counter);
    `before` is what it is started by (`unshare -m ...`), which becomes it in the end.

    Ready when it yields; ended, if the test has not done so, when the test ends.
    """
    socket = socket or folder / "meter.sock"
    log = folder / f"meter-{time.monotonic_ns()}.log"
    command = [*before, sys.executable, "-m", "appliance.meter.daemon.serve", "--socket", str(socket)]
    command += [] if nvml else ["--no-nvml"]
    command += ["--powercap-root", str(powercap or folder / "no-powercap"), *arguments]
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            env={**os.environ, **(environment or {})},
        )
    try:
        _until_it_answers(process, socket, log)
        yield Daemon(process, socket, log)
    finally:
        if process.poll() is None:
            # A test may have stopped it: a stopped process takes SIGTERM only when it goes on.
            os.kill(process.pid, signal.SIGCONT)
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def new_run(prefix: str = "meter") -> str:
    return f"{prefix}_{os.getpid()}_{time.monotonic_ns() % 10**9}"


@contextlib.contextmanager
def run_of_its_own(prefix: str = "meter") -> Iterator[str]:
    """A run id whose cgroups are gone when the test is."""
    run = new_run(prefix)
    try:
        yield run
    finally:
        remove_run_cgroups(hierarchies(), run, patience_seconds=5)


def _until_it_answers(process: subprocess.Popen[bytes], socket: Path, log: Path) -> None:
    for _ in range(500):
        if process.poll() is not None:
            raise AssertionError(f"the daemon ended with {process.returncode}: {log.read_text()}")
        try:
            with MeterClient.connect(socket, timeout_seconds=20.0) as client:
                client.status()
            return
        except Refusal:
            time.sleep(0.02)
    raise AssertionError(f"the daemon does not answer: {log.read_text()}")
