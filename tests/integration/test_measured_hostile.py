"""Measured runs on a host whose owner cheats, and with solvers that do: what is charged, and what is told of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.audit.readings import joules_follow
from appliance.cgroups import tasks_below
from appliance.meter.opening import Wish
from tests.measured_bench import Between, header_of, measured_run, plain_tree
from tests.sysfs_tree import PowercapTree
from tests.trials_bench import left_of, records
from tests.trials_suites import command, small_suite

pytestmark = [pytest.mark.docker, pytest.mark.root]


@pytest.fixture
def tree(tmp_path: Path) -> PowercapTree:
    return plain_tree(tmp_path / "powercap")


class Burners:
    """A busy CPU each, in no cgroup of ours."""

    def __init__(self) -> None:
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        words = [sys.executable, "-c", "while True: pass"]
        self._running = [subprocess.Popen(words) for _ in range(os.cpu_count() or 1)]

    def stop(self) -> None:
        while self._running:
            one = self._running.pop()
            one.kill()
            one.wait()


@pytest.fixture
def burners() -> Iterator[Burners]:
    several = Burners()
    yield several
    several.stop()


def test_work_while_the_machine_is_looked_at_is_told_of_every_figure(
    tmp_path: Path, tree: PowercapTree, burners: Burners
) -> None:
    """Busy at rest and quiet in the window, so that net comes out small: flagged, unranked, and `verify` says the
    same of the same readings (energy 3.2)."""
    burners.start()
    ran = measured_run(
        tmp_path / "r",
        small_suite(tmp_path / "suite"),
        command(tmp_path, "naps", "sleep 0.3"),
        wish=Wish(powercap=tree.root),
        meter=lambda real: Between(real, burners.stop, burners.start),
    )
    burners.stop()
    (record,) = records(ran.ended)
    (result,) = record.trials
    assert result.energy is not None
    assert "idle_busy" in result.energy.total.flags
    assert not result.energy.total.comparable
    joules_follow(record, tmp_path / "r" / "blobs", allow_missing=False)
    assert left_of(ran.ended.run) == []


FORKS = "for i in 1 2 3 4; do (setsid sh -c \"setsid sh -c 'while :; do :; done' &\" >/dev/null 2>&1 &); done; sleep 1"


def test_a_solver_that_forks_twice_and_leaves_is_charged_for_what_its_children_burnt(
    tmp_path: Path, tree: PowercapTree
) -> None:
    """They are in its cgroup whoever their parent is, seen at its exit, and gone with its container (C6, formats 5)."""
    ran = measured_run(
        tmp_path / "r",
        small_suite(tmp_path / "suite"),
        command(tmp_path, "forks", FORKS),
        wish=Wish(powercap=tree.root),
    )
    (record,) = records(ran.ended)
    (result,) = record.trials
    assert result.cause == "exit"
    # A shell that sleeps takes some milliseconds; four that never rest take what the machine has.
    assert (result.cpu_seconds["solver"] or 0) > 0.1
    assert header_of(tmp_path / "r", result).strangers_at_close
    joules_follow(record, tmp_path / "r" / "blobs", allow_missing=False)
    assert left_of(ran.ended.run) == []


def test_a_cgroup_nested_deeper_than_a_path_can_say_stops_nobodys_run(tmp_path: Path) -> None:
    """Whoever was given a cgroup of his own can do it; the look at the host saw it and ended every run (H13)."""
    (tmp_path / "cgroup.procs").write_text("1\n")
    at = os.open(tmp_path, os.O_RDONLY)
    for _ in range(20):
        os.mkdir("x" * 250, dir_fd=at)
        below = os.open("x" * 250, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    assert tasks_below(tmp_path) == {1}
    # Where a path ends, pytest's own tidying does too.
    subprocess.run(["rm", "-rf", str(tmp_path)], check=True)
