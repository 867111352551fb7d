"""What a record says twice: its plan against digest, trials, stamps and what was in force; its summary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from appliance.digests import sha256_hex
from appliance.records.models import model_stamp
from appliance.records.plan import trial_keys
from appliance.records.record import Record
from appliance.records.summarise import summarise
from appliance.records.trial import TrialResult
from appliance.records.words import Outcome
from attest.errors import Refused

RAN: Final[frozenset[Outcome]] = frozenset({"resolved", "unresolved", "unscored"})
"""Outcomes of trials whose solver ran in a container that started."""


def no_dry_run(record: Record) -> None:
    if record.dry_run:
        raise Refused("record", "a dry run is no result", where="$.dryRun")
    for at, trial in enumerate(record.trials):
        if trial.reason == "dry_run":
            raise Refused("record", "a trial of a dry run in a record that is none", where=f"$.trials[{at}].reason")


def digest_holds(record: Record, plan: str) -> None:
    """`plan`: the record's, its canonical text."""
    digest = sha256_hex(plan.encode())
    if digest != record.plan_digest:
        raise _contradiction("$.planDigest", "is not the sha256 of the plan", record.plan_digest, digest)


def trials_are_planned(record: Record) -> None:
    """Each at most once, in the plan's order; all of them where the record says that it is complete."""
    planned = trial_keys(record.plan)
    place = {key: at for at, key in enumerate(planned)}
    last = -1
    for at, trial in enumerate(record.trials):
        here = place.get(trial.key)
        if here is None:
            raise Refused("aggregate", "the plan has no such trial", where=f"$.trials[{at}].key")
        if here == last:
            raise Refused("aggregate", "this trial stands here twice", where=f"$.trials[{at}].key")
        if here < last:
            raise Refused("aggregate", "not in the plan's order", where=f"$.trials[{at}].key")
        last = here
        if trial.host >= len(record.hosts):
            raise Refused("aggregate", f"there is no host {trial.host}", where=f"$.trials[{at}].host")
    # Each is another of the plan's: as many as it has are all of them.
    ended = sum(trial.outcome != "cancelled" for trial in record.trials)
    if record.complete != (ended == len(place)):
        missing = len(planned) - ended
        raise Refused("aggregate", f"says {record.complete}, and {missing} planned trials lack", where="$.complete")


def stamps_agree(record: Record) -> None:
    for path, stamped, planned in _twice_said(record):
        if stamped != planned:
            raise _contradiction(path, "is not what the plan says", stamped, planned)
    stamped_pins = {image.pin for image in record.images}
    for at, task in enumerate(record.plan.tasks):
        for name in ("task", "solver", "composed"):
            pin = getattr(task.images, name)
            if pin is not None and pin not in stamped_pins:
                raise Refused("aggregate", "images has no such pin", where=f"$.plan.tasks[{at}].images.{name}")
        if task.images.solver is None and task.images.composed != task.images.task:
            where = f"$.plan.tasks[{at}].images.composed"
            words = "without an image of the solver's own, is not the task's"
            raise _contradiction(where, words, task.images.composed.config, task.images.task.config)
    for at, image in enumerate(record.images):
        if not any(image.pin in (t.images.task, t.images.solver, t.images.composed) for t in record.plan.tasks):
            raise Refused("aggregate", "the plan has no such pin", where=f"$.images[{at}].pin")


def _twice_said(record: Record) -> Iterator[tuple[str, Any, Any]]:
    plan = record.plan
    for name in ("name", "version", "digest", "weight"):
        yield f"$.suite.{name}", getattr(record.suite, name), getattr(plan.suite, name)
    for name in ("name", "kind", "digest"):
        yield f"$.solver.{name}", getattr(record.solver, name), getattr(plan.solver, name)
    asked = model_stamp(plan)
    for name in ("name", "provider", "digest", "sampling", "engine"):
        yield f"$.model.{name}", getattr(record.model, name, None), getattr(asked, name, None)
    yield "$.mode", record.mode, plan.mode
    yield "$.selfCorrect", record.self_correct, plan.self_correct
    yield "$.auto", record.auto, plan.auto
    yield "$.challenge", record.challenge, plan.challenge
    yield "$.harness.version", record.harness.version, plan.harness_version
    yield "$.meter.mode", record.meter.mode, plan.energy.mode


def in_force_as_asked(record: Record) -> None:
    """Asked is the plan's; effective, as read back from the runtime, is what was asked (row H5)."""
    specs = {task.spec.name: task.spec for task in record.plan.tasks}
    for at, trial in enumerate(record.trials):
        spec = specs.get(trial.key.task)
        if spec is None:
            continue  # check 4 has named it
        here = f"$.trials[{at}]"
        for name, in_force, planned in (
            ("limits", trial.limits, spec.limits),
            ("network", trial.network, spec.network),
        ):
            if in_force.asked != planned:
                raise _contradiction(f"{here}.{name}.asked", "is not the plan's", in_force.asked, planned)
            if in_force.effective is None and trial.outcome in RAN:
                raise Refused("aggregate", "a trial that ran has none in force", where=f"{here}.{name}.effective")
            if in_force.effective not in (None, planned) and not _was_given_up(trial):
                raise _contradiction(f"{here}.{name}.effective", "is not what was asked", in_force.effective, planned)


def _was_given_up(trial: TrialResult) -> bool:
    """The one honest record of other limits: the harness saw them, ran no solver under them, and counts it nowhere."""
    ran = (trial.cause, trial.wall_seconds, trial.streams, trial.grade)
    return trial.reason == "engine_error" and all(part is None for part in ran)


def summary_recomputes(record: Record) -> None:
    try:
        again = summarise(record.plan, record.trials)
    except KeyError as error:
        raise Refused("aggregate", f"the plan has no pass {error}", where="$.trials") from error
    if again == record.summary:
        return
    path, stated, recomputed = first_difference(record.summary.json_value(), again.json_value(), "$.summary")
    raise _contradiction(path, "is not what its trials give", stated, recomputed)


def first_difference(left: Any, right: Any, path: str) -> tuple[str, Any, Any]:
    """Where two unequal JSON values first part, and both sides of it."""
    if isinstance(left, dict) and isinstance(right, dict) and left.keys() == right.keys():
        for key in left:
            if left[key] != right[key]:
                return first_difference(left[key], right[key], f"{path}.{key}")
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for at, (one, other) in enumerate(zip(left, right, strict=True)):
            if one != other:
                return first_difference(one, other, f"{path}[{at}]")
    return path, left, right


def _contradiction(path: str, words: str, stated: object, expected: object) -> Refused:
    return Refused("aggregate", f"{words}: {short(stated)}, not {short(expected)}", where=path)


def short(value: object) -> str:
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


_LONGEST: Final = 120
