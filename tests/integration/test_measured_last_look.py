"""The look at the idle machine that a start did not come to, and the joules that a meter took with it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from appliance.meter.opening import Wish
from appliance.records import journal
from appliance.records.record import Record
from appliance.report.render import render
from appliance.solvers.finding import find_solver
from tests.integration.test_measured_faults import left_of, run_id, said_by, started, until
from tests.integration.test_measured_rest import calibrated  # noqa: F401  a fixture
from tests.measured_bench import Between, idle_words, journal_kinds, measured_run, plain_tree, trial_lines
from tests.meter_bench import Daemon, meter_daemon
from tests.sysfs_tree import PowercapTree
from tests.trials_bench import lines, records
from tests.trials_suites import command, small_suite

pytestmark = [pytest.mark.docker, pytest.mark.root]
ONE_SIDED = "nobody looked at the idle machine after the last trials of a start"


@pytest.fixture
def tree(tmp_path: Path) -> PowercapTree:
    return plain_tree(tmp_path / "powercap")


@pytest.fixture
def daemon(tmp_path: Path, tree: PowercapTree) -> Iterator[Daemon]:
    with meter_daemon(tmp_path, tree.root) as running:
        yield running


@pytest.fixture
def there(tmp_path: Path) -> Path:
    small_suite(tmp_path / "tasks" / "small", "a", "b")
    return tmp_path


def cut_after_the_last_trial(out: Path) -> None:
    """As a kill -9 during the look after it leaves the folder."""
    content = (out / "journal.jsonl").read_bytes().splitlines(keepends=True)
    last = max(at for at, line in enumerate((None, *lines(out))) if isinstance(line, journal.TrialLine))
    (out / "journal.jsonl").write_bytes(b"".join(content[: last + 1]))
    for record in (out / "records").iterdir():
        record.unlink()


class Blind:
    """A meter that is gone whenever the idle machine is to be looked at."""

    def __init__(self, real: Any):
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def idle(self, run: str, pause: Callable[[], None]) -> bytes | None:
        del run, pause
        return None


def test_a_run_killed_in_its_last_look_takes_it_when_it_goes_on(
    tmp_path: Path, tree: PowercapTree, daemon: Daemon
) -> None:
    """No trial runs again, idle stands on both sides, and the program's version is not forgotten; once the look was
    taken, nothing is looked at any more (J38).
    """
    suite, out = small_suite(tmp_path / "suite"), tmp_path / "r"
    solver = command(tmp_path, "tool", "true", 'version_argv = ["python3", "--version"]\n')
    wish = Wish(socket=daemon.socket)
    first = measured_run(out, suite, solver, wish=wish)
    version = records(first.ended)[0].version
    cut_after_the_last_trial(out)
    again = measured_run(out, suite, solver, wish=wish, resume=True)
    assert again.ended.started == 0
    assert idle_words(out) == ["before", "after"]
    assert journal_kinds(out)[-3:] == ["host", "idle", "fitness"]
    record = records(again.ended)[0]
    assert record.version == version
    assert version is not None
    assert [look.when for look in record.meter.idle or ()] == ["before", "after"]
    assert not any(ONE_SIDED in warning for warning in record.warnings)
    written = (out / "records" / "tool.json").read_bytes()
    assert measured_run(out, suite, solver, wish=wish, resume=True).ended.started == 0
    assert (out / "records" / "tool.json").read_bytes() == written


def test_a_last_look_that_cannot_be_taken_is_said_in_record_and_report(
    tmp_path: Path, tree: PowercapTree, daemon: Daemon
) -> None:
    """Net then stands on one side (J38), and the next resume may still mend it."""
    suite, solver, out = small_suite(tmp_path / "suite"), find_solver("noop"), tmp_path / "r"
    wish = Wish(socket=daemon.socket)
    measured_run(out, suite, solver, wish=wish)
    cut_after_the_last_trial(out)
    blind = measured_run(out, suite, solver, wish=wish, resume=True, meter=Blind)
    (record,) = records(blind.ended)
    assert any(ONE_SIDED in warning for warning in record.warnings)
    assert ONE_SIDED in render((record,), "text")
    mended = measured_run(out, suite, solver, wish=wish, resume=True)
    assert idle_words(out) == ["before", "after"]
    assert not any(ONE_SIDED in warning for warning in records(mended.ended)[0].warnings)


def test_a_run_on_a_stored_calibration_is_held_against_it_once_more(
    tmp_path: Path,
    tree: PowercapTree,
    calibrated: Daemon,  # noqa: F811
) -> None:
    """The missing look is the short one, and the calibration stays the record's (J38)."""
    suite, solver, out = small_suite(tmp_path / "suite"), find_solver("noop"), tmp_path / "r"
    wish = Wish(socket=calibrated.socket)
    measured_run(out, suite, solver, wish=wish)
    cut_after_the_last_trial(out)
    again = measured_run(out, suite, solver, wish=wish, resume=True)
    assert idle_words(out) == ["check", "check"]
    record = records(again.ended)[0]
    assert record.meter.calibration is not None
    assert not any(ONE_SIDED in warning for warning in record.warnings)


def test_ctrl_c_in_the_last_look_keeps_the_trials_and_the_resumed_run_takes_a_look_of_the_same_length(
    there: Path, tree: PowercapTree
) -> None:
    """What was asked by --idle-seconds is remembered; only the record in between says what it lacks (J38, design 7)."""
    words = ("--suite", "small", "--solver", "noop", "--powercap-root", str(tree.root), "--energy", "measured")
    process = started(there, "run", *words, "--idle-seconds", "3", "--no-sign", "--out", "r")
    run = until(lambda: run_id(there / "r"))
    until(lambda: len(trial_lines(there / "r")) == 2)
    process.send_signal(signal.SIGINT)
    said = said_by(process)
    assert process.returncode == 130, said
    path = there / "r" / "records" / "noop.json"
    assert any(ONE_SIDED in warning for warning in Record.read(path).warnings)
    again = started(there, "run", "--resume", "r", "--powercap-root", str(tree.root), "--no-sign")
    said = said_by(again)
    assert again.returncode == 0, said
    assert "measuring the idle machine (3 s)" in said
    assert idle_words(there / "r") == ["before", "after"]
    assert not any(ONE_SIDED in warning for warning in Record.read(path).warnings)
    assert left_of(run) == []


def test_a_meter_that_dies_is_told_at_once_and_its_lost_joules_stay_what_they_were_of(
    tmp_path: Path, tree: PowercapTree, daemon: Daemon
) -> None:
    """A line while the run goes on, the reason beside the count in the report, no number of the system's, and counters
    that were simulated are not the kernel's because nothing was read (J34, L2).
    """
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
    (record,) = records(ran.ended)
    energy = record.trials[0].energy
    assert energy is not None
    assert (energy.total.provenance, energy.total.claimed) == ("simulated", "hw_shunt")
    reason = energy.total.missing
    assert reason is not None
    assert "Errno" not in reason
    assert f"the joules of fixes a are lost: {reason}" in ran.notes
    summed = record.summary.passes[0].energy
    assert summed is not None
    assert summed.provenance == "simulated"
    assert f"1 of 2 without joules ({reason}): no sum, no ranking" in render((record,), "text")
