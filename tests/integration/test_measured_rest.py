"""A calibration made earlier, and the short looks that hold the machine against it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.errors import HostRefused
from appliance.meter import calibration
from appliance.meter.conditions import conditions
from appliance.meter.opening import Wish
from appliance.records.record import Check
from appliance.solvers.finding import find_solver
from tests.measured_bench import (
    PACKAGE,
    feeding,
    idle_from,
    idle_words,
    journal_kinds,
    measured_run,
    plain_tree,
    trial_lines,
)
from tests.meter_bench import Daemon, meter_daemon, new_run
from tests.sysfs_tree import PowercapTree
from tests.trials_bench import blob, records
from tests.trials_suites import small_suite

pytestmark = [pytest.mark.docker, pytest.mark.root]


@pytest.fixture
def tree(tmp_path: Path) -> PowercapTree:
    return plain_tree(tmp_path / "powercap")


@pytest.fixture
def calibrated(tmp_path: Path, tree: PowercapTree, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    """A daemon, and a calibration of its counters made a moment ago: at rest, the package takes nothing."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with meter_daemon(tmp_path, tree.root) as running:
        with running.client() as client:
            readings = calibration.measure_rest(client, new_run(), lambda: time.sleep(2.5))
        calibration.store(calibration.calibration_of(readings, here=conditions()))
        yield running


def test_a_stored_calibration_that_holds_is_only_checked(
    tmp_path: Path, tree: PowercapTree, calibrated: Daemon
) -> None:
    """A short look before and one after; the calibration's readings are a blob of the record, and idle power is taken
    from it (J38).
    """
    suite = small_suite(tmp_path / "suite")
    ran = measured_run(
        tmp_path / "r", suite, find_solver("noop"), wish=Wish(socket=calibrated.socket), idle_seconds=30.0
    )
    kinds = [kind for kind in journal_kinds(tmp_path / "r") if kind != "baseline"]
    assert kinds == ["host", "idle", "calibration", "trial", "idle", "fitness"]
    assert idle_words(tmp_path / "r") == ["check", "check"]
    said = "holding the stored calibration against the idle machine (5 s)"
    assert [note for note in ran.notes if "idle" in note] == [said, said]
    record = records(ran.ended)[0]
    stored = calibration.load()
    assert stored is not None
    stamp = record.meter.calibration
    assert stamp is not None
    assert blob(ran.ended, stamp.readings.sha256) == stored.readings
    assert (stamp.at, stamp.expires_at) == (stored.at, stored.expires_at)
    assert stamp.conditions["kernel"] == stored.conditions["kernel"]
    idle = idle_from(ran.ended, record.meter)
    assert idle is not None
    assert idle.stored == stored.rest
    energy = record.trials[0].energy
    assert energy is not None
    assert energy.total.idle_uj == 0


class Uneasy:
    """A machine whose package jumps while it is looked at."""

    def __init__(self, real: Any, tree: PowercapTree):
        self._real, self._tree = real, tree

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def idle(self, run: str, pause: Callable[[], None]) -> bytes | None:
        def jump() -> None:
            time.sleep(0.5)
            self._tree.add(PACKAGE, 20_000_000)
            pause()

        return self._real.idle(run, jump)


class Calm:
    """A host without a warning, whatever runs beside this test."""

    def __init__(self, real: Any):
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def fitness(self) -> tuple[Check, ...]:
        return ()


def test_a_machine_that_is_not_at_rest_is_said_so_before_the_first_trial(tmp_path: Path, tree: PowercapTree) -> None:
    """Its trials keep their gross and have no net (energy 3.2); a strict host is refused with status 4, before any
    trial (harness: Machine fitness).
    """
    suite = small_suite(tmp_path / "suite")
    with meter_daemon(tmp_path, tree.root) as running:
        ran = measured_run(
            tmp_path / "r",
            suite,
            find_solver("noop"),
            wish=Wish(socket=running.socket),
            meter=lambda real: Uneasy(real, tree),
        )
        assert any("not at rest: package-0 varies" in note for note in ran.notes)
        energy = records(ran.ended)[0].trials[0].energy
        assert energy is not None
        assert energy.total.gross_uj is not None
        assert energy.total.net_uj is None
        assert energy.total.missing
        with pytest.raises(HostRefused, match="not at rest: package-0 varies") as refusal:
            measured_run(
                tmp_path / "strict",
                suite,
                find_solver("noop"),
                wish=Wish(socket=running.socket),
                meter=lambda real: Uneasy(real, tree),
                host=Calm,
                strict_host=True,
            )
    assert refusal.value.reason == "unfit"
    assert trial_lines(tmp_path / "strict") == []


def test_a_stored_calibration_that_the_machine_has_left_is_measured_anew(
    tmp_path: Path, tree: PowercapTree, calibrated: Daemon
) -> None:
    """The check says so, and the run takes looks of its own, whole ones (J38)."""
    suite = small_suite(tmp_path / "suite")
    with feeding(tree, 10):
        ran = measured_run(tmp_path / "r", suite, find_solver("noop"), wish=Wish(socket=calibrated.socket))
    assert idle_words(tmp_path / "r") == ["check", "before", "after"]
    assert any("does not hold" in note and "package-0" in note for note in ran.notes)
    record = records(ran.ended)[0]
    assert record.meter.calibration is None
    assert [look.when for look in record.meter.idle or ()] == ["check", "before", "after"]
