"""Faults of the machine and of timing, met by the real command line: full disks, two at once, hang-ups."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.records import journal
from appliance.records.journal import TrialLine
from appliance.records.record import Record
from tests.trials_bench import left_of, lines
from tests.trials_suites import write_solver, write_suite
from tests.typed_runs import (
    PATIENCE_SECONDS,
    WAITS,
    run_id,
    said_by,
    started,
    there_with_two_tasks,
    until,
    waiting_container,
)

pytestmark = pytest.mark.docker
IN_A_TERMINAL = """
import fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from appliance.cli.main import main
main()
"""
LIMITED = ("--no-sign", "--limit-wall-seconds", "5")


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a suite of two tasks, a solver that waits for a file, and homes of its own."""
    argv = json.dumps(["sh", "-c", f"echo begun; {WAITS}"])
    write_solver(tmp_path / "solvers", "slow", f'model = "none"\nargv = {argv}\n')
    return there_with_two_tasks(tmp_path, monkeypatch)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, with the room that a plan asks for; remounting makes it smaller."""
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8g", "tmpfs", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


class Silencer:
    """The engine behind a socket of ours, which can be told to pass nothing on."""

    def __init__(self, path: Path):
        self._speaking = threading.Event()
        self._speaking.set()
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(path))
        self._listening.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def silence(self) -> None:
        self._speaking.clear()

    def speak(self) -> None:
        self._speaking.set()

    def close(self) -> None:
        self._listening.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                theirs, _ = self._listening.accept()
                engine = socket.socket(socket.AF_UNIX)
                engine.connect("/var/run/docker.sock")
                for pair in ((theirs, engine), (engine, theirs)):
                    threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while chunk := source.recv(1 << 16):
                self._speaking.wait()
                target.sendall(chunk)
            target.shutdown(socket.SHUT_WR)


@pytest.fixture
def silent_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Silencer]:
    silencer = Silencer(tmp_path / "e.sock")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/e.sock")
    yield silencer
    silencer.speak()
    silencer.close()


def appliance(there: Path, *words: str) -> tuple[int, str]:
    process = started(there, *words)
    said = said_by(process)
    return process.returncode, said


def test_a_terminal_that_hangs_up_stops_a_run_like_any_other_signal(there: Path) -> None:
    """SIGHUP: what had finished is kept as a record, nothing else stays, status 129 (H12)."""
    process = started(there, "run", "--suite", "small", "--solver", "slow", "--out", "r", "--no-sign")
    run = until(lambda: _solving(there / "r", process))
    process.send_signal(signal.SIGHUP)
    said = said_by(process)
    assert process.returncode == 129, said
    assert "--resume r" in said
    assert not Record.read(there / "r" / "records" / "slow.json").complete
    assert left_of(run) == []


def test_a_terminal_that_is_closed_under_a_run_changes_nothing_of_that(there: Path) -> None:
    """Its bar can be drawn no more, and its last words are read by nobody; the status is 129 all the same (H12)."""
    ours, theirs = os.openpty()
    words = ["run", "--suite", "small", "--solver", "slow", "--out", "r", "--no-sign"]
    argv = [sys.executable, "-c", IN_A_TERMINAL, *words]
    process = subprocess.Popen(
        argv, cwd=there, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, text=True
    )
    os.close(theirs)
    run = until(lambda: _solving(there / "r", process))
    os.close(ours)
    assert process.wait(timeout=PATIENCE_SECONDS) == 129
    assert not Record.read(there / "r" / "records" / "slow.json").complete
    assert left_of(run) == []


def test_a_run_that_was_told_to_outlive_its_terminal_does(there: Path) -> None:
    """`nohup`: a SIGHUP that was ignored before we came stays ignored."""
    words = ["run", "--suite", "small", "--solver", "slow", "--out", "r", "--no-sign", "--limit-wall-seconds", "4"]
    process = started(there, *words, prefix=["nohup"])
    until(lambda: _solving(there / "r", process))
    process.send_signal(signal.SIGHUP)
    said = said_by(process)
    assert process.returncode == 0, said


def test_two_runs_do_not_share_a_folder(there: Path) -> None:
    """The first has written nothing yet, its program still being asked for its version: only the folder's lock keeps
    the second away, which is refused in words, and no line of it is in the journal."""
    token = f"asked-{uuid.uuid4().hex}"
    version = json.dumps(["sh", "-c", f": {token}; {WAITS}; echo 1.2.3"])
    write_solver(there / "solvers", "asked", f'model = "none"\nargv = ["true"]\nversion_argv = {version}\n')
    first = started(there, "run", "--suite", "small", "--solver", "asked", "--out", "r", "--no-sign")
    container = until(lambda: _container_with(token, first))
    assert list((there / "r").iterdir()) == []
    status, said = appliance(there, "run", "--suite", "small", "--solver", "noop", "--out", "r", "--no-sign")
    assert status == 4, said
    assert "another process is writing a run into this folder" in said
    subprocess.run(["docker", "exec", container, "touch", "/tmp/go"], check=True)
    said = said_by(first)
    assert first.returncode == 0, said
    assert sorted(line.trial for line in lines(there / "r") if isinstance(line, TrialLine)) == [0, 1]
    assert [path.name for path in (there / "r" / "records").iterdir()] == ["asked.json"]
    assert Record.read(there / "r" / "records" / "asked.json").complete


def test_a_full_disk_ends_a_run_in_one_line_and_it_goes_on_when_there_is_room(there: Path, small_disk: Path) -> None:
    """Status 4 with the mend; whole lines only in the journal; --resume runs what is missing (H16, H22)."""
    out = small_disk / "r"
    print_much = "head -c 400000 /dev/urandom"
    write_solver(there / "solvers", "loud", f'model = "none"\nargv = ["sh", "-c", {json.dumps(print_much)}]\n')
    words = ["run", "--suite", "small", "--solver", "loud", "--rollouts", "6", "--no-sign", "--no-suite-blob"]
    process = started(there, *words, "--out", str(out))
    until((out / "journal.jsonl").exists)
    subprocess.run(["mount", "-o", "remount,size=2m", str(small_disk)], check=True)
    said = said_by(process)
    assert process.returncode == 4, said
    assert "no space left on device" in said.lower()
    assert f"--resume {out}" in said
    content = (out / "journal.jsonl").read_bytes()
    kept = journal.decode(content, "journal")
    assert kept.dropped_bytes == 0
    finished = [line.trial for line in kept.lines if isinstance(line, TrialLine)]
    assert 0 < len(finished) < 12
    assert left_of(kept.header.run_id) == []
    subprocess.run(["mount", "-o", "remount,size=8g", str(small_disk)], check=True)
    status, said = appliance(there, "run", "--resume", str(out), "--no-sign", "--no-suite-blob")
    assert status == 0, said
    after = [line.trial for line in lines(out) if isinstance(line, TrialLine)]
    assert sorted(after) == list(range(12))
    assert after[: len(finished)] == finished


def test_a_run_of_a_suite_and_a_solver_given_by_path_goes_on_by_its_folder_alone(there: Path, tmp_path: Path) -> None:
    """The mend that an interrupted run prints is enough, wherever its suite and solvers lie."""
    suite = write_suite(tmp_path / "elsewhere" / "mine", ("a", "b"))
    solver = write_solver(tmp_path / "elsewhere", "own", 'model = "none"\nargv = ["true"]\n')
    process = started(there, "run", "--suite", str(suite), "--solver", str(solver), "--out", "r", "--no-sign")
    until((there / "r" / "journal.jsonl").exists)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    status, said = appliance(there, "run", "--resume", "r", "--no-sign")
    assert status == 0, said
    assert Record.read(there / "r" / "records" / "own.json").complete


def test_output_of_a_trial_whose_harness_was_killed_is_kept(there: Path) -> None:
    """As an interrupted line of the journal, with what the solver had printed so far (H22)."""
    process = started(there, "run", "--suite", "small", "--solver", "slow", "--out", "r", *LIMITED)
    until(lambda: _solving(there / "r", process))
    process.kill()
    process.communicate()
    status, said = appliance(there, "run", "--resume", "r", "--no-sign")
    assert status == 0, said
    cut = [line for line in lines(there / "r") if isinstance(line, journal.InterruptedLine)]
    assert [line.trial for line in cut] == [0]
    streams = cut[0].result.streams
    assert streams is not None
    assert streams.stdout.blob is not None
    assert (there / "r" / "blobs" / "sha256" / streams.stdout.blob.sha256).read_bytes() == b"begun\n"


def test_a_container_that_somebody_else_removes_is_no_failure_of_the_solver(there: Path) -> None:
    """`excluded: engine_error`, never a score; the next trial is not touched by it (H13)."""
    process = started(there, "run", "--suite", "small", "--solver", "slow", "--out", "r", *LIMITED)
    run = until(lambda: _solving(there / "r", process))
    label = ["--filter", f"label=org.bench-appliance.run={run}", "--filter", "label=org.bench-appliance.trial=00000"]
    found = subprocess.run(["docker", "ps", "-q", *label], capture_output=True, text=True, check=True)
    subprocess.run(["docker", "rm", "-f", *found.stdout.split()], check=True, capture_output=True)
    said = said_by(process)
    assert process.returncode == 5, said
    trials = Record.read(there / "r" / "records" / "slow.json").trials
    assert [(one.outcome, one.reason) for one in trials] == [
        ("excluded", "engine_error"),
        ("unresolved", "tests_failed"),
    ]


def test_asking_twice_ends_a_run_also_where_the_engine_is_silent(there: Path, silent_engine: Silencer) -> None:
    """A second Ctrl-C waits for nothing, not for the engine either; the reaper clears up once it answers (H12)."""
    process = started(there, "run", "--suite", "small", "--solver", "slow", "--out", "r", "--no-sign")
    run = until(lambda: _solving(there / "r", process))
    silent_engine.silence()
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        time.sleep(0.1)
    said = said_by(process)
    assert process.returncode == 130, said
    silent_engine.speak()
    until(lambda: not left_of(run))


def _container_with(token: str, process: subprocess.Popen[str]) -> str | None:
    """The container in which a command with this word runs."""
    assert process.poll() is None, process.communicate()
    label = ["--filter", "label=org.bench-appliance.run"]
    listed = subprocess.run(["docker", "ps", "-q", *label], capture_output=True, text=True, check=True).stdout.split()
    for one in listed:
        # Another's container may be gone by now.
        top = subprocess.run(["docker", "top", one, "-eo", "pid,args"], capture_output=True, text=True, check=False)
        if token in top.stdout:
            return one
    return None


def _solving(folder: Path, process: subprocess.Popen[str]) -> str | None:
    """The run's id, once its first solver runs."""
    assert process.poll() is None, process.communicate()
    run = run_id(folder)
    return run if run and waiting_container(run) else None
