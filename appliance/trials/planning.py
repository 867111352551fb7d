"""From a suite, a solver and what was asked for to a plan: no clock, no id, no engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal

from pydantic import ValidationError

from appliance.errors import UsageRefused
from appliance.ports import Images
from appliance.records.plan import (
    MAX_TRIALS,
    PlannedEnergy,
    PlannedImages,
    PlannedSolver,
    PlannedSuite,
    PlannedTask,
    PlannedUpstream,
    TrialPlan,
)
from appliance.solvers.definition import Auto, SolverDefinition
from appliance.solvers.placeholders import with_flags
from appliance.solvers.programs import check_reference
from appliance.tasks.model import Limits, Suite, Task
from appliance.wire import first_problem


@dataclass(frozen=True)
class PlanOptions:
    """What the command line adds to a suite and a solver."""

    energy: PlannedEnergy
    harness_version: str
    model: str | None = None
    upstream: PlannedUpstream | None = None
    """For the solvers that speak to a model through the gateway."""
    mode: str | None = None
    self_correct: bool = False
    auto: Auto | None = None
    passes: int = 1
    rollouts: int = 1
    tasks: str | None = None
    """Globs on task names, separated by commas."""
    include_quarantined: bool = False
    limits: Mapping[str, float] = field(default_factory=dict)
    """Field of Limits -> value that stands in for every task's own."""
    challenge: str | None = None


def chosen_tasks(suite: Suite, options: PlanOptions) -> tuple[Task, ...]:
    """Those that the plan will hold. Raises UsageRefused where none is left."""
    asked = [task for task in suite.tasks if _matches(task.spec.name, options.tasks)]
    if not asked:
        known = ", ".join(task.spec.name for task in suite.tasks)
        raise UsageRefused(f"no task matches {options.tasks!r}", where="--tasks", mend=f"known: {known}")
    kept = tuple(task for task in asked if options.include_quarantined or task.spec.name not in suite.quarantined)
    if not kept:
        raise UsageRefused(
            "every task that was asked for is quarantined by the suite's checks",
            where=f"{suite.folder}/checks.json",
            mend="--include-quarantined plans them all the same",
        )
    return kept


def resolve_images(tasks: Iterable[Task], solver: SolverDefinition, images: Images) -> dict[str, PlannedImages]:
    """The pins of each image that a task names; the adapter raises where one cannot be resolved."""
    found: dict[str, PlannedImages] = {}
    for task in tasks:
        name = task.spec.image
        if name in found:
            continue
        pin, locked = images.pin(name)
        solver_pin, solver_locked = images.pin(solver.image) if solver.image else (None, True)
        found[name] = PlannedImages(
            task=pin,
            solver=solver_pin,
            composed=images.composed(name, solver.image) if solver.image else pin,
            rebuildable=locked and solver_locked,
        )
    return found


def plan_trials(
    suite: Suite, solver: SolverDefinition, images: Mapping[str, PlannedImages], options: PlanOptions
) -> TrialPlan:
    """Equal arguments, equal digest. `images` has every image that a chosen task names.

    Raises UsageRefused for what the command line asks of a suite or solver that lacks it, InputRefused for a task
    that this solver cannot take (`reference` without a reference).
    """
    solver.check_model(options.model)
    flags = solver.flags(mode=options.mode, auto=options.auto, self_correct=options.self_correct)
    chosen = chosen_tasks(suite, options)
    if len(chosen) * options.passes * options.rollouts > MAX_TRIALS:
        asked = f"{len(chosen)} tasks, {options.passes} passes, {options.rollouts} rollouts"
        largest = max((options.passes, "--passes"), (options.rollouts, "--rollouts"), (len(chosen), "--tasks"))[1]
        raise UsageRefused(f"over {MAX_TRIALS} trials: {asked}", where=largest, mend="ask for fewer")
    if solver.kind == "reference":
        for task in chosen:
            check_reference(task.folder)
    names = {task.spec.name for task in chosen}
    matching = {task.spec.name for task in suite.tasks if _matches(task.spec.name, options.tasks)}
    return TrialPlan(
        suite=PlannedSuite(
            name=suite.name,
            version=suite.version,
            digest=suite.digest,
            timeout_resolves=suite.timeout_resolves,
            weight=suite.weight,
        ),
        solver=PlannedSolver(
            name=solver.name,
            kind=solver.kind,
            digest=solver.digest,
            argv=() if solver.built_in else with_flags(solver.argv, flags),
        ),
        model=options.model if solver.needs_model else None,
        upstream=options.upstream if solver.wire is not None else None,
        tasks=tuple(_planned(task, images[task.spec.image], options.limits) for task in chosen),
        quarantined=tuple(sorted(matching - names)),
        filtered=tuple(sorted({task.spec.name for task in suite.tasks} - matching)),
        passes=options.passes,
        rollouts=options.rollouts,
        energy=options.energy,
        self_correct=options.self_correct,
        auto=options.auto,
        mode=options.mode,
        limit_overrides={name: float(value) for name, value in sorted(options.limits.items())},
        challenge=options.challenge,
        harness_version=options.harness_version,
    )


def scheduling(asked: Literal["exclusive", "shared"] | None, *, counters: bool) -> Literal["exclusive", "shared"]:
    """Exclusive wherever joules come from counters: nothing of ours may run inside a window."""
    return asked or ("exclusive" if counters else "shared")


def _planned(task: Task, images: PlannedImages, overrides: Mapping[str, float]) -> PlannedTask:
    spec = task.spec
    if overrides:
        whole = {"memory_mib", "pids", "disk_mib"}
        changed = {name: int(value) if name in whole else float(value) for name, value in overrides.items()}
        try:
            limits = Limits.model_validate({**spec.limits.model_dump(by_alias=False), **changed})
        except ValidationError as error:
            key = str(error.errors()[0]["loc"][0])
            raise UsageRefused(first_problem(error), where=f"--limit-{key.replace('_', '-')}") from error
        spec = spec.model_copy(update={"limits": limits})
    return PlannedTask(spec=spec, images=images)


def _matches(name: str, globs: str | None) -> bool:
    return globs is None or any(fnmatchcase(name, glob.strip()) for glob in globs.split(","))
