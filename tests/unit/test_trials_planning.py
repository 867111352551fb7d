"""Plans: equal questions have equal digests, and every question has its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.errors import InputRefused, UsageRefused
from appliance.records.plan import trial_keys
from appliance.solvers.finding import find_solver
from appliance.trials.planning import plan_trials, scheduling
from tests.trials_suites import command, images, options, small_suite, write_suite


def test_equal_questions_have_equal_digests_anywhere(tmp_path: Path) -> None:
    """No id, no clock, no path in a plan (H9, H21)."""
    one = small_suite(tmp_path / "here" / "suite", "a", "b")
    other = small_suite(tmp_path / "there" / "suite", "a", "b")
    noop = find_solver("noop")
    assert plan_trials(one, noop, images(), options()).digest == plan_trials(other, noop, images(), options()).digest


def test_one_changed_byte_anywhere_is_another_plan(tmp_path: Path) -> None:
    """Task, image, solver, limits, rollouts, mode of energy: each makes a new digest (H21)."""
    suite = small_suite(tmp_path / "suite")
    noop = find_solver("noop")
    before = plan_trials(suite, noop, images(), options()).digest
    (tmp_path / "other" / "x").mkdir(parents=True)
    changed = small_suite(tmp_path / "other" / "suite", check="sh ./program.sh # \n")
    digests = {
        before,
        plan_trials(changed, noop, images(), options()).digest,
        plan_trials(suite, noop, images(1), options()).digest,
        plan_trials(suite, command(tmp_path, "noop", "true"), images(), options()).digest,
        plan_trials(suite, noop, images(), options(limits={"wall_seconds": 3})).digest,
        plan_trials(suite, noop, images(), options(rollouts=2)).digest,
        plan_trials(suite, noop, images(), options(passes=2)).digest,
    }
    assert len(digests) == 7


def test_trials_are_passes_times_tasks_times_rollouts(tmp_path: Path) -> None:
    """J26, J30: rollout 0..N-1 of every task in every pass, tasks sorted by name (J01)."""
    suite = small_suite(tmp_path / "suite", "b", "a")
    plan = plan_trials(suite, find_solver("noop"), images(), options(passes=2, rollouts=3))
    keys = [(key.pass_, key.task, key.rollout) for key in trial_keys(plan)]
    assert keys == [(sweep, task, number) for sweep in (0, 1) for task in ("a", "b") for number in (0, 1, 2)]


def test_globs_choose_tasks_and_what_is_left_out_is_listed(tmp_path: Path) -> None:
    """--tasks; nothing left is a usage error that lists the known ones."""
    suite = small_suite(tmp_path / "suite", "add", "area", "sub")
    plan = plan_trials(suite, find_solver("noop"), images(), options(tasks="a*"))
    assert [task.spec.name for task in plan.tasks] == ["add", "area"]
    assert plan.filtered == ("sub",)
    with pytest.raises(UsageRefused, match="add, area, sub"):
        plan_trials(suite, find_solver("noop"), images(), options(tasks="zz*"))


def test_limits_of_the_command_line_stand_in_for_the_tasks_own(tmp_path: Path) -> None:
    """They are applied, and listed so that a policy can refuse them (formats 6)."""
    suite = small_suite(tmp_path / "suite", more="[limits]\nmemory_mib = 64\n")
    plan = plan_trials(suite, find_solver("noop"), images(), options(limits={"memory_mib": 128, "cpus": 0.5}))
    assert plan.tasks[0].spec.limits.memory_mib == 128
    assert plan.tasks[0].spec.limits.cpus == 0.5
    assert plan.limit_overrides == {"memory_mib": 128.0, "cpus": 0.5}
    with pytest.raises(UsageRefused, match="--limit-memory-mib"):
        plan_trials(suite, find_solver("noop"), images(), options(limits={"memory_mib": 1}))


def test_a_missing_reference_is_found_before_the_first_trial(tmp_path: Path) -> None:
    """J01: under that solver only, naming the path."""
    suite = small_suite(tmp_path / "suite", reference={})
    plan_trials(suite, find_solver("noop"), images(), options())
    with pytest.raises(InputRefused, match="suite/fix"):
        plan_trials(suite, find_solver("reference"), images(), options())


def test_quarantined_tasks_are_left_out_and_listed(tmp_path: Path) -> None:
    """H8: not planned, listed; --include-quarantined plans them."""
    from dataclasses import replace

    suite = replace(small_suite(tmp_path / "suite", "a", "b"), quarantined={"a": "reference 1/2"})
    plan = plan_trials(suite, find_solver("noop"), images(), options())
    assert [task.spec.name for task in plan.tasks] == ["b"]
    assert plan.quarantined == ("a",)
    whole = plan_trials(suite, find_solver("noop"), images(), options(include_quarantined=True))
    assert [task.spec.name for task in whole.tasks] == ["a", "b"]
    assert whole.quarantined == ()
    with pytest.raises(UsageRefused, match="quarantined"):
        plan_trials(suite, find_solver("noop"), images(), options(tasks="a"))


def test_a_model_is_planned_only_for_a_solver_that_takes_one(tmp_path: Path) -> None:
    """decisions, Model: fixtures record none."""
    suite = small_suite(tmp_path / "suite")
    assert plan_trials(suite, find_solver("noop"), images(), options(model="m")).model is None


def test_exclusive_is_the_default_wherever_counters_are_read() -> None:
    """design 8: nothing of ours inside a window that a counter measures."""
    assert scheduling(None, counters=True) == "exclusive"
    assert scheduling(None, counters=False) == "shared"
    assert scheduling("shared", counters=True) == "shared"


def test_the_suite_on_disk_is_as_before_once_it_is_planned(tmp_path: Path) -> None:
    """Planning only reads (J05)."""
    from appliance.digests import tree_digest

    folder = write_suite(tmp_path / "suite")
    before = tree_digest(folder)
    plan_trials(small_suite(folder), find_solver("reference"), images(), options())
    assert tree_digest(folder) == before
