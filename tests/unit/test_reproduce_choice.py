"""Which trials are run again, and what a record may ask of a host: pure decisions."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from appliance.errors import HostRefused, UsageRefused
from appliance.records.plan import trial_keys
from appliance.reproduce.caps import Caps, host_caps, refuse_beyond
from appliance.reproduce.sample import chosen_keys
from tests import record_builder

_ROOMY = Caps(wall_seconds=None, cpus=64.0, memory_mib=1 << 20, pids=1 << 20, disk_mib=1 << 20)


def test_without_a_choice_every_trial_is_run_again() -> None:
    """No `--trials` and no `--task`: the plan's keys in their order (R1)."""
    plan = record_builder.plan(("t2", "t1"), passes=2, rollouts=3)
    assert len(trial_keys(plan)) == 12
    assert chosen_keys(plan, "0" * 64, None, None) == trial_keys(plan)


def test_one_task_is_all_of_its_trials_and_a_sample_of_it_is_drawn_among_them() -> None:
    """`--task T` alone, and with `--trials K`: in the plan's order (R6)."""
    plan = record_builder.plan(("t1", "t2"), passes=2, rollouts=3)
    own = tuple(key for key in trial_keys(plan) if key.task == "t2")
    assert chosen_keys(plan, "0" * 64, None, "t2") == own
    for digest in ("0" * 64, "1" * 64):
        drawn = chosen_keys(plan, digest, 4, "t2")
        assert [key for key in own if key in drawn] == list(drawn)
        assert len(drawn) == 4


def test_the_sample_follows_the_records_digest_and_nothing_else() -> None:
    """`--trials K` draws K distinct trials, the same ones for one digest, others for another (R6)."""
    plan = record_builder.plan(rollouts=40)
    digests = [f"{n:064x}" for n in range(4)]
    samples = [chosen_keys(plan, digest, 3, None) for digest in digests]
    assert samples == [chosen_keys(plan, digest, 3, None) for digest in digests]
    assert all(len(set(sample)) == 3 and set(sample) <= set(trial_keys(plan)) for sample in samples)
    assert len(set(samples)) > 1


def test_a_sample_that_cannot_be_drawn_is_a_usage_error() -> None:
    """K of 0 or beyond the plan, and a task that it lacks, end with status 2 (R6)."""
    plan = record_builder.plan()
    for trials, task in ((0, None), (len(trial_keys(plan)) + 1, None), (None, "no such task")):
        with pytest.raises(UsageRefused) as refusal:
            chosen_keys(plan, "0" * 64, trials, task)
        assert refusal.value.status == 2


@pytest.mark.parametrize("name", ["cpus", "memory_mib", "pids", "disk_mib", "wall_seconds"])
def test_a_record_gets_no_more_of_this_host_than_its_caps(name: str) -> None:
    """Each limit over its cap is refused with status 4, naming task, limit and the flag that allows it (R4)."""
    plan = record_builder.plan()
    caps = Caps(**{**_ROOMY.__dict__, name: 0.5 if name in {"cpus", "wall_seconds"} else 1})
    with pytest.raises(HostRefused, match=f"task 't1' asks for {name} .*--max-{name.replace('_', '-')}"):
        refuse_beyond(plan, caps, "record.json")
    refuse_beyond(plan, _ROOMY, "record.json")


def test_caps_default_to_the_host_and_flags_replace_them(tmp_path: Path) -> None:
    """Cores, memory and free disk bound a record unless `--max-*` says otherwise; nothing bounds its time (R4)."""
    own = host_caps(tmp_path / "not" / "there")
    memory = int(Path("/proc/meminfo").read_text().split()[1]) // 1024
    assert own.cpus == os.cpu_count()
    assert memory - 2 <= own.memory_mib <= memory + 2
    assert 0 < own.disk_mib <= shutil.disk_usage(tmp_path).total // 1024**2
    assert 0 < own.pids < 1 << 22
    assert own.wall_seconds is None
    given: dict[str, Any] = {"wall_seconds": 1.5, "cpus": 2.5, "memory_mib": 7, "pids": 8, "disk_mib": 9}
    assert host_caps(tmp_path, **given) == Caps(**given)
