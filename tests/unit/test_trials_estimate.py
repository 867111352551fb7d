"""What a run is about to take."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.errors import HostRefused
from appliance.solvers.finding import find_solver
from appliance.trials.estimate import estimate, keep_speeds, known_speeds, refuse_short_disk, speed_key
from appliance.trials.planning import plan_trials
from appliance.trials.room import LAID_MIB
from tests.trials_suites import images, options, small_suite


def test_time_comes_from_the_limits_until_a_run_was_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """H16, design 8: trials, disk, and a time from the last run or the limits, each with where it is from."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    more = "[limits]\nwall_seconds = 30\ntest_seconds = 10\ndisk_mib = 100\n"
    plan = plan_trials(
        small_suite(tmp_path / "suite", "a", "b", more=more), find_solver("noop"), images(), options(rollouts=2)
    )
    first = estimate((plan,), 2, known_speeds())
    assert (first.trials, first.baselines, first.seconds) == (4, 2, 80.0)
    assert first.seconds_from == "if every trial takes its limits"
    assert first.disk_mib == 2 * (100 + 100 + LAID_MIB) + 4
    keep_speeds((plan,), 1.5)
    then = estimate((plan,), 1, known_speeds())
    assert (then.seconds, then.seconds_from) == (6.0, "as the last run")


def test_a_cache_that_cannot_be_read_costs_only_the_estimate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "bench-appliance").mkdir()
    (tmp_path / "bench-appliance" / "speeds.json").write_text("{half")
    assert known_speeds() == {}


def test_too_little_disk_is_refused_before_the_start(tmp_path: Path) -> None:
    """Status 4, naming the file system and both figures (H16)."""
    more = "[limits]\ndisk_mib = 16000000\n"
    plan = plan_trials(small_suite(tmp_path / "suite", more=more), find_solver("noop"), images(), options())
    with pytest.raises(HostRefused, match="are free") as refused:
        refuse_short_disk(estimate((plan,), 1, {}), (tmp_path / "not" / "yet" / "there",))
    assert refused.value.where == str(tmp_path)


def test_another_solver_has_another_speed(tmp_path: Path) -> None:
    """The last run of the same suite, solver and model."""
    suite = small_suite(tmp_path / "suite")
    noop = plan_trials(suite, find_solver("noop"), images(), options())
    reference = plan_trials(suite, find_solver("reference"), images(), options())
    assert speed_key(noop) != speed_key(reference)
