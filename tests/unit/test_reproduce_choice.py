"""Which trials are run again, and what a record may ask of a host: pure decisions."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.errors import HostRefused, UsageRefused
from appliance.records.plan import trial_keys
from appliance.reproduce.caps import Caps, host_caps, refuse_beyond
from appliance.reproduce.sample import chosen_keys
from tests import record_builder

_ROOMY = Caps(wall_seconds=None, cpus=64.0, memory_mib=1 << 20, pids=1 << 20, disk_mib=1 << 20)


def test_without_a_choice_every_trial_is_run_again() -> None:
    """No `--trials` and no `--task`: the plan's keys in their order (R1)."""
    plan = record_builder.plan()
    assert chosen_keys(plan, "0" * 64, None, None) == trial_keys(plan)


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
        with pytest.raises(UsageRefused):
            chosen_keys(plan, "0" * 64, trials, task)


@pytest.mark.parametrize("name", ["cpus", "memory_mib", "pids", "disk_mib", "wall_seconds"])
def test_a_record_gets_no_more_of_this_host_than_its_caps(name: str) -> None:
    """Each limit over its cap is refused with status 4, naming task, limit and the flag that allows it (R4)."""
    plan = record_builder.plan()
    caps = Caps(**{**_ROOMY.__dict__, name: 0.5 if name in {"cpus", "wall_seconds"} else 1})
    with pytest.raises(HostRefused, match=f"--max-{name.replace('_', '-')}"):
        refuse_beyond(plan, caps, "record.json")
    refuse_beyond(plan, _ROOMY, "record.json")


def test_caps_default_to_the_host_and_flags_replace_them(tmp_path: Path) -> None:
    """Cores, memory and free disk bound a record unless `--max-*` says otherwise (R4)."""
    own = host_caps(tmp_path / "not" / "there")
    assert own.cpus >= 1
    assert own.memory_mib > 100
    assert own.disk_mib > 0
    assert host_caps(tmp_path, cpus=2.5, memory_mib=7).cpus == 2.5
    assert host_caps(tmp_path, cpus=2.5, memory_mib=7).memory_mib == 7
