"""Solvers that would rather be excluded than scored, and others that break what they can."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.trials.room import LAID_MIB
from tests.trials_bench import left_of, run_suite, trial
from tests.trials_suites import command, small_suite

pytestmark = pytest.mark.docker
LIMITS = {"wall_seconds": 6.0, "memory_mib": 256.0, "pids": 64.0, "disk_mib": 32.0}


@pytest.mark.parametrize(
    "script",
    [
        "for i in 1 2 3 4 5; do truncate -s 50M hole$i; done",
        "head -c 8000000 /dev/zero > a; for i in $(seq 20); do ln a b$i; done",
    ],
    ids=["sparse", "links"],
)
def test_a_tree_larger_than_its_disk_is_graded(tmp_path: Path, script: str) -> None:
    """Holes and hard links cost a solver no block, and the grader every one: it has room for them, so that nobody is
    excluded by their own doing (H16, H23).
    """
    solver = command(tmp_path, "large", script)
    ended = run_suite(tmp_path / "run", small_suite(tmp_path / "suite"), solver, limits=LIMITS)
    found = trial(ended)
    assert (found.outcome, found.reason) == ("unresolved", "tests_failed"), found.detail
    assert left_of(ended.run) == []


@pytest.mark.parametrize(
    "script",
    ["kill -9 -1; sleep 30", "for p in 1 2 3 4 5 6 7 8 9; do kill -9 $p; done; sleep 30"],
    ids=["everything", "each"],
)
def test_a_solver_that_kills_all_it_can_reach_is_graded(tmp_path: Path, script: str) -> None:
    """Its container's main process with it, perhaps: that is its own doing, and no failure of the engine (H23)."""
    solver = command(tmp_path, "killer", f"printf 'exit 0\\n' > program.sh; {script}")
    ended = run_suite(tmp_path / "run", small_suite(tmp_path / "suite"), solver, limits=LIMITS)
    found = trial(ended)
    assert found.outcome == "resolved", found.detail
    assert found.cause in {"signal", "timeout"}


def test_graders_have_room_for_the_largest_harvest() -> None:
    """The bound is the harvest's own (formats 9)."""
    from appliance.engine import harvest

    blocks = harvest.MAX_ENTRIES * 4096
    assert harvest.TOTAL_BYTES + blocks < LAID_MIB * 1024 * 1024
