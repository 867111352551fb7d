"""Two records of one plan, field by field as their schema's `x-compare` says. Pure.

A field that is `exact` for every solver is what was asked: where it differs, outcomes are incomparable. One that is
`exact` for deterministic solvers and a `rate` for live models is what came out: where it differs, they diverged.
The harness is the exception: what another release reproduces holds the better for it, and only what it does not
reproduce is incomparable; another major version always is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from pydantic.fields import FieldInfo

from appliance.digests import sha256_hex
from appliance.records import bands
from appliance.records.plan import TrialKey
from appliance.records.record import Record
from appliance.records.trial import TrialResult
from appliance.records.verdict import ComparedField, ComparedRate, Flip, Replay, Verdict, VerdictPart
from appliance.records.words import Outcome
from appliance.wire import Comparison, Wire

NO_EVIDENCE: Final[frozenset[Outcome]] = frozenset({"excluded", "skipped", "cancelled"})
"""Outcomes of a new run that say nothing about the old one."""
_SHOWN: Final = 80


@dataclass(frozen=True)
class Compared:
    """A field with both columns of its `x-compare`."""

    field: ComparedField
    asked: bool
    """Exact whatever the solver."""


def is_live(record: Record) -> bool:
    """Whether a model answers when this plan runs again without its recorded responses, or a cascade."""
    if record.plan.solver.kind == "cascade":
        return True
    return record.plan.model is not None and record.plan.solver.kind not in ("reference", "noop")


def compare(
    recorded: Record,
    again: Record,
    *,
    keys: Sequence[TrialKey] | None = None,
    live: bool | None = None,
    tolerance: float | None = None,
    verified: bool = False,
    replay: Replay | None = None,
) -> Verdict:
    """`keys`: the sample that was run (None: all of the record's trials); `live` False for a replay; `tolerance` in
    the unit of a rate, instead of Wilson's interval; `verified`: the record's signature was checked beforehand;
    `replay`: what is known of the cassettes that answered.
    """
    as_live = is_live(recorded) if live is None else live
    wanted = {trial.key for trial in recorded.trials} if keys is None else set(keys)
    old = {trial.key: trial for trial in recorded.trials if trial.key in wanted}
    new = {trial.key: trial for trial in again.trials if trial.key in wanted}
    sample = len(old) < len(recorded.trials)
    compared = list(_fields(recorded, again, wanted, as_live, sample=sample))
    rates = bands.rates(old.values(), new.values(), tolerance) if as_live else ()
    outcome, first = _outcome(compared, old, new, rates, live=as_live)
    outcome = _as_replayed(outcome, replay)
    cost, costs = bands.cost(recorded, again, old, new, live=as_live)
    energy, energies = bands.energy(recorded, again, old, new, outcome.verdict)
    return Verdict(
        recorded=sha256_hex(recorded.canonical()),
        again=sha256_hex(again.canonical()),
        checked="verified" if verified else "unverified",
        live=as_live,
        tolerance=tolerance,
        compared_trials=len(old),
        recorded_trials=len(recorded.trials),
        outcome=outcome,
        energy=energy,
        cost=cost,
        first_difference=first,
        harness_differences=tuple(one.field for one in compared if _of_harness(one.field) and not one.field.equal),
        flips=tuple(
            Flip(key=key, recorded=trial.outcome, again=new[key].outcome)
            for key, trial in old.items()
            if key in new and new[key].outcome != trial.outcome
        ),
        rates=rates,
        energies=energies,
        fields=tuple(one.field for one in compared),
        costs=costs,
        paired=bands.paired(old, new) if as_live else None,
        replay=replay,
    )


def _as_replayed(outcome: VerdictPart, replay: Replay | None) -> VerdictPart:
    """A trial that asked what was not recorded is not reproduced, whatever it ended as both times."""
    if replay is None or not replay.divergences or outcome.verdict == "incomparable":
        return outcome
    apart = [f"{_name(one.key)} asked what its cassette does not hold" for one in replay.trials if one.diverged]
    return VerdictPart(verdict="diverged", reasons=(*apart, *outcome.reasons))


def _outcome(
    compared: Sequence[Compared],
    old: dict[TrialKey, TrialResult],
    new: dict[TrialKey, TrialResult],
    rates: Sequence[ComparedRate],
    *,
    live: bool,
) -> tuple[VerdictPart, ComparedField | None]:
    # Energy never decides resolution: how it was planned and obtained is judged by its own part.
    judged = [one for one in compared if ".energy." not in one.field.path and not one.field.equal]
    harness = [one.field for one in judged if _of_harness(one.field) and one.field.compare == "exact"]
    asked = [one.field for one in judged if one.asked and one.field.compare == "exact" and one.field not in harness]
    asked += [field for field in harness if _another_major(field)]
    came_out = [one.field for one in judged if not one.asked and one.field.compare == "exact"]
    incomparable = [
        *(_difference(field) for field in asked),
        *(f"{_name(key)} was not run again" for key in old if key not in new),
        *(
            f"{_name(key)} is now {new[key].outcome}: {new[key].reason}"
            for key, trial in old.items()
            if key in new and new[key].outcome in NO_EVIDENCE and trial.outcome not in NO_EVIDENCE
        ),
    ]
    if not old:
        incomparable.append("no trial to compare")
    if live and not rates:
        incomparable.append("nothing was scored on both sides")
    first = next(iter([*asked, *came_out]), None)
    if incomparable:
        return VerdictPart(verdict="incomparable", reasons=tuple(incomparable)), first
    diverged = [_difference(field) for field in came_out] + [
        f"pass {rate.pass_}: recorded {rate.recorded:.4f}, not in [{rate.interval[0]:.4f}, {rate.interval[1]:.4f}]"
        for rate in rates
        if not rate.holds
    ]
    if diverged and harness:
        # Whether the claim or the other harness is to blame cannot be told from here.
        named = [f"another harness: {_difference(field)}" for field in harness]
        return VerdictPart(verdict="incomparable", reasons=(*named, *diverged)), first
    return VerdictPart(verdict="diverged" if diverged else "reproduced", reasons=tuple(diverged)), first


def _of_harness(field: ComparedField) -> bool:
    return field.path.startswith("$.harness.") or field.path == "$.plan.harnessVersion"


def _another_major(field: ComparedField) -> bool:
    """Whether two versions differ in the number that the cohort key holds (decisions: Comparability)."""
    if not field.path.endswith(("harness.version", "harnessVersion")):
        return field.path == "$.harness.name"
    return str(field.recorded).split(".", maxsplit=1)[0] != str(field.again).split(".", maxsplit=1)[0]


def _name(key: TrialKey) -> str:
    case = f" case {key.case}" if key.case else ""
    return f"{key.task}{case} pass {key.pass_} rollout {key.rollout}"


def _difference(field: ComparedField) -> str:
    return f"{field.path}: recorded {_short(field.recorded)}, now {_short(field.again)}"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


# -------------------------------------------------------------------------------------------- the walk over both


def _fields(recorded: Record, again: Record, wanted: set[TrialKey], live: bool, *, sample: bool) -> Iterator[Compared]:
    """Every field that decides something, and the informative ones that differ; trials are matched by key."""
    walk = _Walk(live)
    names = {key.task for key in wanted}
    apart = {"plan", "baselines", "trials", "images", "summary", "complete", "plan_digest"}
    for name, field in Record.model_fields.items():
        if name not in apart:
            yield from walk.field(getattr(recorded, name), getattr(again, name), f"$.{field.alias}", field)
    if recorded.plan_digest == again.plan_digest:
        yield walk.leaf(recorded.plan_digest, again.plan_digest, "$.planDigest", "exact", "exact")
    else:
        yield from _plan_fields(walk, recorded, again, names, sample=sample)
    pins = {image.role: image for image in again.images}
    for at, image in enumerate(recorded.images):
        if image.role in pins or not sample:
            yield from walk.part(image, pins.get(image.role), f"$.images[{at}]", "exact", "exact")
    known = {(baseline.task, baseline.image): baseline for baseline in again.baselines}
    for at, baseline in enumerate(recorded.baselines):
        if baseline.task in names:
            other = known.get((baseline.task, baseline.image))
            yield from walk.part(baseline, other, f"$.baselines[{at}]", "exact", "exact")
    new = {trial.key: trial for trial in again.trials}
    for at, trial in enumerate(recorded.trials):
        if trial.key in wanted and trial.key in new:
            yield from walk.part(trial, new[trial.key], f"$.trials[{at}]", "exact", "exact")
    if not sample:
        yield walk.leaf(recorded.complete, again.complete, "$.complete", "exact", "exact")
        yield from walk.part(recorded.summary, again.summary, "$.summary", "exact", "rate")


def _plan_fields(walk: _Walk, recorded: Record, again: Record, names: set[str], *, sample: bool) -> Iterator[Compared]:
    """What differs between two plans by name; a sample may be planned with fewer tasks, passes and rollouts."""
    left_out = {"tasks"} | ({"passes", "rollouts", "filtered"} if sample else set())
    for name, field in type(recorded.plan).model_fields.items():
        if name not in left_out:
            here = f"$.plan.{field.alias}"
            yield from walk.field(getattr(recorded.plan, name), getattr(again.plan, name), here, field)
    tasks = {task.spec.name: task for task in again.plan.tasks}
    for at, task in enumerate(recorded.plan.tasks):
        if task.spec.name in names or not sample:
            yield from walk.part(task, tasks.get(task.spec.name), f"$.plan.tasks[{at}]", "exact", "exact")


class _Walk:
    """Two values of one model, down to the leaves, each with the rule of the field that holds it."""

    def __init__(self, live: bool):
        self._live = live

    def field(self, left: Any, right: Any, path: str, field: FieldInfo) -> Iterator[Compared]:
        extra = cast(dict[str, Any], field.json_schema_extra or {})
        rules = extra.get("x-compare", {"deterministic": "exact", "live": "exact"})
        yield from self.part(left, right, path, rules["deterministic"], rules["live"])

    def part(self, left: Any, right: Any, path: str, plain: Comparison, live: Comparison) -> Iterator[Compared]:
        if isinstance(left, Wire) and type(left) is type(right):
            for name, field in type(left).model_fields.items():
                yield from self.field(getattr(left, name), getattr(right, name), f"{path}.{field.alias}", field)
        elif _is_list_of_wires(left) and isinstance(right, tuple) and len(left) == len(right):
            for at, (one, other) in enumerate(zip(left, right, strict=True)):
                yield from self.part(one, other, f"{path}[{at}]", plain, live)
        elif isinstance(left, dict) and isinstance(right, dict) and left.keys() == right.keys() and left:
            for key in left:
                yield from self.part(left[key], right[key], f"{path}.{key}", plain, live)
        else:
            found = self.leaf(left, right, path, plain, live)
            if not found.field.equal or found.field.compare != "informative":
                yield found

    def leaf(self, left: Any, right: Any, path: str, plain: Comparison, live: Comparison) -> Compared:
        one, other = _json(left), _json(right)
        rule = live if self._live else plain
        field = ComparedField(path=path, compare=rule, recorded=one, again=other, equal=one == other)
        return Compared(field, asked=plain == live == "exact")


def _is_list_of_wires(value: Any) -> bool:
    return isinstance(value, tuple) and bool(value) and all(isinstance(item, Wire) for item in value)


def _json(value: Any) -> Any:
    if isinstance(value, Wire):
        return value.json_value()
    if isinstance(value, tuple | list):
        return [_json(item) for item in value]
    if isinstance(value, dict):
        return {key: _json(item) for key, item in value.items()}
    return value
