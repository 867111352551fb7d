"""A measured run and what befalls it: no counter, a meter that refuses, dies, comes back; kill -9 and Ctrl-C."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from appliance.errors import HostRefused, MeterRefused
from appliance.meter.client import MeterClient
from appliance.meter.opening import Wish, decide
from appliance.records import journal
from appliance.records.record import Record
from appliance.solvers.finding import find_solver
from tests import typed_runs
from tests.measured_bench import Between, idle_words, measured_run, plain_tree, trial_lines
from tests.meter_bench import Daemon, meter_daemon
from tests.sysfs_tree import PowercapTree
from tests.trials_bench import left_of, lines, records
from tests.trials_suites import command, small_suite, write_solver
from tests.typed_runs import WAITS, run_id, said_by, there_with_two_tasks, until, waiting_container

pytestmark = [pytest.mark.docker, pytest.mark.root]
MEASURED = ("--energy", "measured", "--idle-seconds", "2", "--no-sign", "--out", "r")


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return there_with_two_tasks(tmp_path, monkeypatch)


@pytest.fixture
def tree(tmp_path: Path) -> PowercapTree:
    return plain_tree(tmp_path / "powercap")


@pytest.fixture
def daemon(tmp_path: Path, tree: PowercapTree) -> Iterator[Daemon]:
    with meter_daemon(tmp_path, tree.root) as running:
        yield running


_STARTED: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def _nothing_runs_on() -> Iterator[None]:
    """A run of a test that failed would hold the host's lock of measured windows."""
    yield
    while _STARTED:
        process = _STARTED.pop()
        if process.poll() is None:
            process.kill()
            process.communicate()


def started(there: Path, *words: str) -> subprocess.Popen[str]:
    process = typed_runs.started(there, *words)
    _STARTED.append(process)
    return process


def meters_of(pid: int) -> list[int]:
    """Meters among this process's children, whichever of its threads started them."""
    children = [one for path in Path(f"/proc/{pid}/task").glob("*/children") for one in path.read_text().split()]
    return [
        int(one) for one in children if b"appliance.meter.daemon.serve" in Path(f"/proc/{one}/cmdline").read_bytes()
    ]


def gone(pid: int) -> bool:
    try:
        return "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return True


# ---------------------------------------------------------------------------------------------- before any trial


def test_measured_without_a_counter_ends_with_6_before_anything_is_started(there: Path) -> None:
    """One line with the reason and the mend; no folder, no container, no estimate in its place (J34, L5)."""
    (there / "none").mkdir()
    process = started(
        there, "run", "--suite", "small", "--solver", "noop", "--powercap-root", str(there / "none"), *MEASURED
    )
    said = said_by(process)
    assert process.returncode == 6
    assert "NoCounter" in said
    assert len(said.splitlines()) == 1
    assert not (there / "r").exists()


def test_requiring_a_counter_is_asking_for_measured(there: Path) -> None:
    """The same status without one, and no estimate beside it (L5)."""
    (there / "none").mkdir()
    asked = ("run", "--suite", "small", "--solver", "noop", "--require-counter")
    process = started(there, *asked, "--powercap-root", str(there / "none"))
    assert "NoCounter" in said_by(process)
    assert process.returncode == 6
    process = started(there, *asked, "--energy", "estimator")
    assert "--require-counter" in said_by(process)
    assert process.returncode == 2


AS_NOBODY = """
import os, sys
from pathlib import Path
from appliance.errors import Refusal
from appliance.meter.opening import Wish, decide
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
def ask(mode, **wish):
    try:
        with decide(mode, Wish(**wish), watts_set=False) as decided:
            print(decided.choice.reason)
    except Refusal as refusal:
        print(refusal.reason, refusal.status, refusal)
"""


def said_to_nobody(asked: str, *words: str) -> list[str]:
    """Lines of what an ordinary user is told."""
    command = [sys.executable, "-c", AS_NOBODY + asked, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd="/").stdout.splitlines()


def test_a_meter_that_is_closed_to_us_is_told_from_none(there: Path, tree: PowercapTree) -> None:
    """PrivilegeRequired with the socket's own group to join; `auto` keeps the reason, and a socket that was named is
    never passed over (J34, J36, formats 9).
    """
    folder = Path(tempfile.mkdtemp(prefix="measured-"))
    folder.chmod(0o755)
    try:
        with meter_daemon(there, tree.root, "--group", "daemon", socket=folder / "meter.sock") as running:
            measured, auto, named = said_to_nobody(
                "at = Path(sys.argv[1])\nask('measured', usual=at)\nask('auto', usual=at)\nask('auto', socket=at)\n",
                str(running.socket),
            )
    finally:
        shutil.rmtree(folder)
    assert measured.startswith("PrivilegeRequired 6 PrivilegeRequired: EACCES")
    assert "usermod -aG daemon nobody" in measured
    assert auto.startswith("EACCES")
    assert named.startswith("PrivilegeRequired 6 ")
    assert "it is for the group daemon (sudo usermod -aG daemon nobody, and log in again)" in named


def test_a_meter_of_another_version_is_refused_in_words(tmp_path: Path) -> None:
    """Never taken for none, whatever the energy mode (formats 5: `bad_version`)."""
    path = tmp_path / "old.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(path))
        listening.listen()

        def answer() -> None:
            for _ in range(2):
                one, _ = listening.accept()
                with one:
                    one.recv(65536)
                    error = {"error": {"code": "bad_version", "message": "v 1 is not spoken here"}}
                    one.sendall(json.dumps(error).encode() + b"\n")

        threading.Thread(target=answer, daemon=True).start()
        for wish in (Wish(socket=path), Wish(usual=path)):
            with pytest.raises(MeterRefused, match="another version") as refusal:
                decide("auto", wish, watts_set=False)
            assert refusal.value.status == 6
            assert refusal.value.mend


def test_a_socket_that_a_daemon_left_behind_is_no_meter(tmp_path: Path) -> None:
    """By its usual place it is passed over; one that was asked for by name is refused (formats 5)."""
    path = tmp_path / "stale.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left:
        left.bind(str(path))
    decided = decide("auto", Wish(usual=path, powercap=None), watts_set=False)
    with decided:
        assert decided.line is None or decided.counts
    with pytest.raises(MeterRefused, match="has ended"):
        decide("auto", Wish(socket=path), watts_set=False)


def test_words_that_cannot_both_be_meant_are_refused_by_name(there: Path) -> None:
    """A meter that runs takes no flags of ours, a folder of counters that was named is there, windows are shared or
    not: status 2 before anything else is looked at (J34).
    """
    for words, named in (
        (("--meter-socket", "s", "--powercap-root", str(there)), ("--meter-socket", "--powercap-root")),
        (("--socket", "s", "--counter", "wall"), ("--meter-socket", "--counter")),
        (("--socket", "s", "--cpu-backend", "pyrapl"), ("--meter-socket", "--cpu-backend")),
        (("--shared", "--exclusive"), ("--shared", "--exclusive")),
        (("--powercap-root", str(there / "typo")), ("--powercap-root", "typo")),
    ):
        process = started(there, "run", "--suite", "small", "--solver", "noop", *words)
        said = said_by(process)
        assert process.returncode == 2, said
        assert len(said.splitlines()) == 1
        assert all(word in said for word in named), said


def test_a_runs_first_line_says_which_meter_it_takes(there: Path, tree: PowercapTree) -> None:
    """The daemon by its socket, or one of its own, with the counters; else that there is none, and why (J34, J36)."""
    asked = ("run", "--suite", "small", "--solver", "noop", "--dry-run")
    with meter_daemon(there, tree.root) as running:
        process = started(there, *asked, "--meter-socket", str(running.socket))
        assert f"meter: the daemon at {running.socket}; counters: package-0 (simulated)" in said_by(process)
    process = started(there, *asked, "--powercap-root", str(tree.root))
    assert "meter: one started for this run; counters: package-0 (simulated)" in said_by(process)
    process = started(there, *asked, "--energy", "estimator")
    assert "meter: none; joules are estimated, as was asked" in said_by(process)


def test_a_meter_of_ones_own_is_roots_to_start() -> None:
    """(formats 9)"""
    (said,) = said_to_nobody("ask('auto', cpu_backend='pyrapl', usual=Path('/none'))\n")
    assert said.startswith(f"None {HostRefused.status} --cpu-backend: only root")


# ---------------------------------------------------------------------------------------------- the meter of a run


def test_root_without_a_daemon_measures_with_a_meter_of_its_own(there: Path, tree: PowercapTree) -> None:
    """Started as a child, gone with the run, and nothing of it stays (formats 5, 9; J34)."""
    write_solver(there, "waits", f'model = "none"\nargv = ["sh", "-c", "{WAITS}"]\n')
    process = started(
        there,
        *("run", "--suite", "small", "--solver", "./waits.toml", "--powercap-root", str(tree.root), *MEASURED),
    )
    run = until(lambda: run_id(there / "r"))
    (meter,) = until(lambda: meters_of(process.pid))
    for _ in range(2):
        container = until(lambda: waiting_container(run))
        subprocess.run(["docker", "exec", container, "touch", "/tmp/go"], check=True)
        until(lambda held=container: waiting_container(run) != held)
    said = said_by(process)
    assert process.returncode == 0, said
    assert said.count("measuring the idle machine (2 s)") == 2
    assert gone(meter)
    assert left_of(run) == []
    record = Record.read(there / "r" / "records" / "waits.json")
    assert record.plan.energy.scheduling == "exclusive"
    for result in record.trials:
        assert result.energy is not None
        assert (result.energy.total.provenance, result.energy.total.claimed) == ("simulated", "hw_shunt")


def test_a_run_killed_in_a_window_leaves_nothing_and_goes_on(there: Path, tree: PowercapTree) -> None:
    """kill -9: no meter, no cgroup, no container stays; the resumed part has looks of its own, and the trial that was
    cut off is measured again (H12, H22, J38).
    """
    write_solver(there, "waits", f'model = "none"\nargv = ["sh", "-c", "{WAITS}"]\n')
    words = ("--suite", "small", "--solver", "./waits.toml", "--powercap-root", str(tree.root), *MEASURED)
    process = started(there, "run", *words)
    run = until(lambda: run_id(there / "r"))
    until(lambda: waiting_container(run))
    (meter,) = meters_of(process.pid)
    process.kill()
    process.wait()
    until(lambda: gone(meter))
    until(lambda: not left_of(run))
    assert idle_words(there / "r") == ["before"]

    again = started(
        there, "run", "--resume", "r", "--powercap-root", str(tree.root), "--idle-seconds", "2", "--no-sign"
    )
    for _ in range(2):
        container = until(lambda: waiting_container(run))
        subprocess.run(["docker", "exec", container, "touch", "/tmp/go"], check=True)
        until(lambda held=container: waiting_container(run) != held)
    said = said_by(again)
    assert again.returncode == 0, said
    assert idle_words(there / "r") == ["before", "before", "after"]
    assert sum(isinstance(line, journal.InterruptedLine) for line in lines(there / "r")) == 1
    record = Record.read(there / "r" / "records" / "waits.json")
    assert record.complete
    assert all(result.energy and result.energy.total.net_uj is not None for result in record.trials)
    assert left_of(run) == []


def test_ctrl_c_while_the_idle_machine_is_measured_ends_at_once_and_clean(there: Path, tree: PowercapTree) -> None:
    """Status 130, the window let go, nothing left; what was to come comes with --resume (design 7)."""
    words = ("--suite", "small", "--solver", "noop", "--powercap-root", str(tree.root), "--energy", "measured")
    process = started(there, "run", *words, "--idle-seconds", "600", "--no-sign", "--out", "r")
    run = until(lambda: run_id(there / "r"))
    (meter,) = until(lambda: meters_of(process.pid))
    until(lambda: "host" in [line.kind for line in lines(there / "r")])
    process.send_signal(signal.SIGINT)
    said = said_by(process)
    assert process.returncode == 130, said
    assert "--resume" in said
    assert gone(meter)
    assert left_of(run) == []
    assert trial_lines(there / "r") == []
    again = started(
        there, "run", "--resume", "r", "--powercap-root", str(tree.root), "--idle-seconds", "2", "--no-sign"
    )
    said = said_by(again)
    assert again.returncode == 0, said


# ---------------------------------------------------------------------------------------------- a meter that goes away


def test_a_meter_that_dies_costs_its_trial_the_energy_and_not_the_outcome(
    tmp_path: Path, tree: PowercapTree, daemon: Daemon
) -> None:
    """The next trial finds no meter: the run ends with one refusal, status 6, its record written, and goes on once
    there is a meter again (design 7, J34: no silent fallback).
    """
    suite = small_suite(tmp_path / "suite", "a", "b")
    solver = command(tmp_path, "fixes", "printf '#!/bin/sh\\nexit 0\\n' > program.sh")
    wish = Wish(socket=daemon.socket)

    def die() -> None:
        if daemon.process.poll() is None:
            daemon.stop(signal.SIGKILL)

    with pytest.raises(MeterRefused, match="went away and does not come back") as refusal:
        measured_run(tmp_path / "r", suite, solver, wish=wish, meter=lambda real: Between(real, die, lambda: None))
    assert refusal.value.status == 6
    assert "--resume" in (refusal.value.mend or "")
    (result,) = Record.read(tmp_path / "r" / "records" / "fixes.json").trials
    assert result.outcome == "resolved"
    assert result.energy is not None
    assert result.energy.readings is None
    assert (result.energy.total.gross_uj, result.energy.total.net_uj) == (None, None)
    assert "does not answer" in (result.energy.total.missing or "")
    assert left_of(run_id(tmp_path / "r") or "") == []

    with meter_daemon(tmp_path, tree.root, socket=tmp_path / "second.sock") as second:
        again = measured_run(tmp_path / "r", suite, solver, wish=Wish(socket=second.socket), resume=True)
    assert again.ended.started == 1
    record = records(again.ended)[0]
    assert [result.outcome for result in record.trials] == ["resolved", "resolved"]
    assert record.trials[1].energy is not None
    assert record.trials[1].energy.total.gross_uj is not None


def test_a_meter_that_comes_back_measures_the_next_trial(tmp_path: Path, tree: PowercapTree, daemon: Daemon) -> None:
    """As a service that is restarted: only the trial in whose window it died has no energy."""
    suite = small_suite(tmp_path / "suite", "a", "b")
    solver = command(tmp_path, "fixes", "printf '#!/bin/sh\\nexit 0\\n' > program.sh")
    with ExitStack() as second:

        def restart() -> None:
            if daemon.process.poll() is None:
                daemon.stop(signal.SIGKILL)
                daemon.socket.unlink(missing_ok=True)
                second.enter_context(meter_daemon(tmp_path, tree.root))

        ran = measured_run(
            tmp_path / "r",
            suite,
            solver,
            wish=Wish(socket=daemon.socket),
            meter=lambda real: Between(real, restart, lambda: None),
        )
    first, other = records(ran.ended)[0].trials
    assert (first.outcome, other.outcome) == ("resolved", "resolved")
    assert first.energy is not None
    assert first.energy.total.missing
    assert first.energy.readings is None
    assert other.energy is not None
    assert other.energy.total.gross_uj is not None
    assert left_of(ran.ended.run) == []


def test_a_meter_of_the_runs_own_that_is_killed_is_started_anew(tmp_path: Path, tree: PowercapTree) -> None:
    """One trial without energy, the next with; nothing of either meter stays."""
    suite = small_suite(tmp_path / "suite", "a", "b")
    killed: list[int] = []

    def kill() -> None:
        if not killed:
            killed.extend(meters_of(os.getpid()))
            os.kill(killed[0], signal.SIGKILL)

    ran = measured_run(
        tmp_path / "r",
        suite,
        command(tmp_path, "fixes", "printf '#!/bin/sh\\nexit 0\\n' > program.sh"),
        wish=Wish(powercap=tree.root),
        meter=lambda real: Between(real, kill, lambda: None),
    )
    first, other = records(ran.ended)[0].trials
    assert (first.outcome, other.outcome) == ("resolved", "resolved")
    assert first.energy is not None
    assert first.energy.total.missing
    assert other.energy is not None
    assert other.energy.total.gross_uj is not None
    assert meters_of(os.getpid()) == []
    assert left_of(ran.ended.run) == []


# ---------------------------------------------------------------------------------------------- estimates over a daemon


def test_an_estimator_takes_its_cpu_time_from_the_meter_that_was_named(
    tmp_path: Path, tree: PowercapTree, daemon: Daemon
) -> None:
    """Cgroups and CPU time are the daemon's, the joules a labelled model's, with no look at the idle machine
    (formats 9, L1)."""
    suite = small_suite(tmp_path / "suite")
    solver = command(tmp_path, "burn", "end=$(($(date +%s) + 1)); while [ $(date +%s) -lt $end ]; do :; done")
    ran = measured_run(
        tmp_path / "r", suite, solver, wish=Wish(socket=daemon.socket), mode="estimator:curve", scheduling="shared"
    )
    record = records(ran.ended)[0]
    (result,) = record.trials
    assert result.cpu_source == "cgroup_parent"
    assert (result.cpu_seconds["solver"] or 0) > 0
    assert result.energy is not None
    assert (result.energy.total.basis, result.energy.readings) == ("modelled", None)
    assert record.meter.idle is None
    assert left_of(ran.ended.run) == []


def test_a_daemon_without_counters_still_gives_cgroups(tmp_path: Path) -> None:
    """`auto` says why it estimates (J36, formats 9)."""
    suite = small_suite(tmp_path / "suite")
    with meter_daemon(tmp_path) as bare:
        ran = measured_run(
            tmp_path / "r", suite, find_solver("noop"), wish=Wish(socket=bare.socket), mode="auto", scheduling="shared"
        )
        with MeterClient.connect(bare.socket) as client:
            assert client.status()["windows"] == 0
        with pytest.raises(MeterRefused, match="NoCounter") as refusal:
            decide("measured", Wish(socket=bare.socket), watts_set=False)
    assert refusal.value.status == 6
    record = records(ran.ended)[0]
    assert record.meter.reason
    assert record.trials[0].energy is not None
    assert record.trials[0].energy.total.basis == "modelled"
    assert record.trials[0].cpu_source == "cgroup_parent"
