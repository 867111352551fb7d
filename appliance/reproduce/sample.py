"""Which trials of a record to run again: all, one task's, or a sample that the publisher could not choose."""

from __future__ import annotations

from appliance.digests import sha256_hex
from appliance.errors import UsageRefused
from appliance.records.plan import TrialKey, TrialPlan, trial_keys


def chosen_keys(plan: TrialPlan, record_digest: str, trials: int | None, task: str | None) -> tuple[TrialKey, ...]:
    """The plan's keys, in its order, less what `--task` and `--trials` leave out.

    The sample takes the K trials whose sha256 of record digest and key is lowest: fixed once the record is, and
    known to nobody before. Raises UsageRefused for a task that the plan lacks and a K that is not within the plan.
    """
    keys = trial_keys(plan)
    if task is not None:
        keys = tuple(key for key in keys if key.task == task)
        if not keys:
            known = ", ".join(sorted({planned.spec.name for planned in plan.tasks}))
            raise UsageRefused(f"the record has no task {task!r}", mend=f"one of: {known}")
    if trials is None:
        return keys
    if not 1 <= trials <= len(keys):
        raise UsageRefused(f"--trials {trials}: the record has {len(keys)} to choose from")
    drawn = set(sorted(keys, key=lambda key: sha256_hex(record_digest.encode() + key.canonical()))[:trials])
    return tuple(key for key in keys if key in drawn)
