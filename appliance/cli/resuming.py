"""What `run --resume` is asked: its plan's own words wherever nothing else was said, and how far the run has come."""

from __future__ import annotations

import glob
from dataclasses import dataclass, replace
from typing import Final

from appliance.cli.asking import Ask, only_locates, plans_before
from appliance.records.plan import TrialKey, TrialPlan, trial_keys
from appliance.trials.folder import RunFolder, resume_folder
from appliance.trials.outcomes import worth_another_try
from appliance.trials.sources import Sources
from appliance.trials.stamps import harness_stamp

_SHOWN: Final = 20


def continued(ask: Ask) -> Ask:
    """With the words of the folder's plan for those that were not said, so that what was said is all that differs."""
    plans = plans_before(ask.resume)
    if ask.resume is None or not plans or only_locates(ask):
        return ask
    plan = next((plan for plan in plans if plan.upstream is not None), plans[0])
    sources = Sources.read(RunFolder(ask.resume).sources)
    same = ask.model in (None, plan.model)
    return replace(
        ask,
        model=ask.model or plan.model,
        model_words=ask.model_words.after(plan.upstream, sources.weights if sources else None, same_model=same),
        mode=ask.mode or plan.mode,
        self_correct=ask.self_correct or plan.self_correct,
        auto=ask.auto or plan.auto,
        passes=plan.passes if ask.passes == 1 else ask.passes,
        rollouts=plan.rollouts if ask.rollouts == 1 else ask.rollouts,
        energy=plan.energy.mode if ask.energy == "auto" else ask.energy,
        scheduling=ask.scheduling or plan.energy.scheduling,
        gpu_sharing=ask.gpu_sharing or plan.energy.gpu_sharing,
        tasks=ask.tasks or _tasks(plan),
        limits=ask.limits or plan.limit_overrides,
    )


def _tasks(plan: TrialPlan) -> str | None:
    if not plan.filtered:
        return None
    return ",".join(glob.escape(name) for name in (*(task.spec.name for task in plan.tasks), *plan.quarantined))


@dataclass(frozen=True)
class Progress:
    """Of a run that goes on."""

    finished: int
    left: tuple[tuple[str, TrialKey], ...]
    """(solver, trial), in the order they run."""

    def lines(self) -> tuple[str, ...]:
        named = [f"{solver} {key.task}:{key.pass_}:{key.rollout}" for solver, key in self.left]
        more = f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
        which = f": {', '.join(named[:_SHOWN])}{more}" if named else ""
        return (f"resumed: {self.finished} of {self.finished + len(named)} are finished, {len(named)} left{which}",)

    def json_value(self) -> dict[str, object]:
        left = [{"solver": solver, **key.json_value()} for solver, key in self.left]
        return {"finished": self.finished, "left": left}


def progress(ask: Ask, plans: tuple[TrialPlan, ...]) -> Progress | None:
    """None for a new run. Raises UsageRefused where the folder's run is another one."""
    if ask.resume is None:
        return None
    told = resume_folder(RunFolder(ask.resume), plans, harness_stamp())
    ended = told.finished() if told else {}
    trials = [(plan.solver.name, key) for plan in plans for key in trial_keys(plan)]
    left = tuple(
        trial
        for at, trial in enumerate(trials)
        if at not in ended or (ask.retry_errored and worth_another_try(ended[at].outcome, ended[at].reason))
    )
    return Progress(len(trials) - len(left), left)
