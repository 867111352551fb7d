"""What a trial is before it runs, and what all trials of a run share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from appliance.ports import Engine, Meter, Solver, Workspaces
from appliance.records.plan import PlannedTask, TrialKey, TrialPlan
from appliance.tasks.model import Task
from appliance.trials.baselines import Baselines
from appliance.trials.folder import RunFolder
from appliance.trials.grading.grader import Grader
from appliance.trials.models import Models
from appliance.trials.stopping import Stop
from appliance.trials.turns import Turns


@dataclass(frozen=True)
class Trial:
    """A trial that is about to run; `index` counts over all plans of plan.json."""

    index: int
    plan: TrialPlan
    plan_digest: str
    key: TrialKey
    planned: PlannedTask
    task: Task
    solver: Solver

    @property
    def name(self) -> str:
        return f"{self.index:05d}"


@dataclass(frozen=True)
class Bench:
    """What every trial of a run shares."""

    run: str
    host: int
    folder: RunFolder
    scratch: Path
    """Absolute: an engine mounts nothing else."""
    labels: Mapping[str, str]
    engine: Engine
    image_ids: Mapping[str, str]
    """Config digest of a pin -> the engine's id."""
    workspaces: Workspaces
    meter: Meter
    grader: Grader
    baselines: Baselines
    turns: Turns
    stop: Stop
    models: Models
