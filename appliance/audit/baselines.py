"""The baselines against themselves and against what was excluded for them: leaving out failures lifts a rate."""

from __future__ import annotations

from typing import Final

from appliance.records.record import Record
from appliance.records.trial import Baseline
from appliance.records.words import Outcome, Reason
from appliance.tasks.model import TaskSpec
from attest.errors import Refused

_BY_BASELINE: Final[frozenset[Reason]] = frozenset({"baseline_passed", "baseline_error"})
_CANNOT_RUN: Final = frozenset({126, 127, *range(129, 193)})
"""Not found, not executable, killed by a signal: no failure of a test (row J07)."""
_NEEDS_FAILED: Final[frozenset[Outcome]] = frozenset({"resolved", "unresolved"})


def bear_out(record: Record) -> None:
    specs = {(task.spec.name, task.images.task.config): task.spec for task in record.plan.tasks}
    found: dict[str, Baseline] = {}
    for at, baseline in enumerate(record.baselines):
        here = f"$.baselines[{at}]"
        spec = specs.get((baseline.task, baseline.image))
        if spec is None:
            raise Refused("aggregate", "the plan has no such task on this image", where=here)
        if baseline.task in found:
            raise Refused("aggregate", "a second baseline of this task", where=here)
        found[baseline.task] = baseline
        _speaks_for_itself(baseline, spec, here)
    for at, trial in enumerate(record.trials):
        verdict = found[trial.key.task].verdict if trial.key.task in found else None
        here = f"$.trials[{at}]"
        if trial.outcome in _NEEDS_FAILED and verdict != "failed":
            raise Refused("aggregate", f"scored, and its baseline is {verdict or 'missing'}", where=f"{here}.outcome")
        if trial.reason in _BY_BASELINE and verdict != trial.reason:
            raise Refused("aggregate", f"{trial.reason}, and its baseline is {verdict}", where=f"{here}.reason")
        if trial.outcome == "errored" and verdict not in ("failed", None):
            raise Refused("aggregate", f"errored, and its baseline is {verdict}", where=f"{here}.outcome")


def _speaks_for_itself(baseline: Baseline, spec: TaskSpec, here: str) -> None:
    """`failed` needs a failure of what must fail, `baseline_passed` a pass of all that is asked."""
    ids = {entry.id: entry.status for entry in baseline.ids}
    listed = {*spec.oracle.fail_to_pass, *spec.oracle.pass_to_pass}
    if strangers := set(ids) - listed:
        raise Refused("aggregate", f"the task lists no id {min(strangers)!r}", where=f"{here}.ids")
    all_pass = baseline.exit == 0 and not baseline.timed_out and all(ids.get(name) == "passed" for name in listed)
    if baseline.verdict == "baseline_passed" and not all_pass:
        raise Refused("aggregate", "says baseline_passed, and something failed", where=f"{here}.verdict")
    if baseline.verdict != "failed":
        return
    if baseline.timed_out or baseline.exit is None or baseline.exit in _CANNOT_RUN:
        raise Refused("aggregate", f"says failed, and test_cmd ended as {baseline.exit}", where=f"{here}.verdict")
    if not spec.oracle.lists_ids:
        if baseline.exit == 0:
            raise Refused("aggregate", "says failed, and its exit is 0", where=f"{here}.verdict")
        return
    for name in spec.oracle.fail_to_pass:
        if ids.get(name) == "passed":
            raise Refused("aggregate", f"says failed, and {name!r} did not fail", where=f"{here}.ids")
    for name in spec.oracle.pass_to_pass:
        if ids.get(name) != "passed":
            raise Refused("aggregate", f"says failed, and {name!r} did not pass as it must", where=f"{here}.ids")
