"""What a run's plans name, against what it was given: the suite, the solvers, the images."""

from __future__ import annotations

from collections.abc import Mapping

from appliance.errors import InputRefused
from appliance.pins import Pin
from appliance.records.plan import TrialPlan
from appliance.solvers.definition import SolverDefinition
from appliance.tasks.model import Suite
from appliance.trials.bench import Trial
from appliance.trials.models import pins_of_upstream


def pins_of(trials: tuple[Trial, ...], *, replays: bool = False) -> tuple[Pin, ...]:
    """Each once: what graders and solvers of these trials run in, and what their models do. `replays`: these answer
    from what was recorded."""
    found: dict[str, Pin] = {}
    for trial in trials:
        ways = pins_of_upstream(trial.plan, replays=replays)
        for pin in (trial.planned.images.task, trial.planned.images.composed, *ways):
            found[pin.config] = pin
    return tuple(found.values())


def refuse_strangers(plans: tuple[TrialPlan, ...], suite: Suite, solvers: Mapping[str, SolverDefinition]) -> None:
    """Raises InputRefused where suite or solvers are not the planned ones."""
    for plan in plans:
        if plan.suite.digest != suite.digest:
            raise InputRefused(
                f"the plan is of suite digest {plan.suite.digest[:12]}, this is {suite.digest[:12]}",
                where=str(suite.folder),
                mend="take the suite that was planned",
            )
        definition = solvers.get(plan.solver.name)
        if definition is None or definition.digest != plan.solver.digest:
            there = f"this is {definition.digest[:12]}" if definition else "no such solver was given"
            raise InputRefused(
                f"the plan is of solver {plan.solver.name!r} with digest {plan.solver.digest[:12]}, {there}",
                where=str(definition.path) if definition else None,
                mend="take the solver that was planned",
            )
