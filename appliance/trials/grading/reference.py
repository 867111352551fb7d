"""A task's reference as changes to its pristine tree."""

from __future__ import annotations

from appliance.ports import Changes
from appliance.tasks.model import Task
from appliance.trials.grading.applying import apply_patch
from appliance.trials.grading.tree import entries_of, file_changes, pristine_nodes


def reference_changes(task: Task) -> Changes | None:
    """None where the task has no reference. Raises PatchRejected for a reference.patch that does not fit."""
    reference = task.reference
    if reference is None:
        return None
    pristine = pristine_nodes(task.before)
    if reference.is_dir():
        fixed = pristine | pristine_nodes(reference)
        return Changes(entries_of(file_changes(pristine, fixed)), ())
    return Changes(apply_patch(pristine, reference.read_bytes()), ())
