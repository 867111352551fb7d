"""A plan: one solver on one suite before anything has happened. No id, no clock: equal digest, same experiment."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Annotated, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, model_validator

from appliance.digests import sha256_hex
from appliance.pins import Pin, Sha256
from appliance.records.money import Usd
from appliance.records.words import EnergyMode, Provider, SolverKind
from appliance.tasks.model import TaskSpec
from appliance.wire import EXACT, Wire


class PlannedImages(Wire):
    """The three pins of a task's trials; grading runs on `task` alone."""

    task: Annotated[Pin, EXACT]
    solver: Annotated[Pin | None, EXACT]
    """The solver's layers; None where the task's image has all that it needs."""
    composed: Annotated[Pin, EXACT]
    """Task image + solver layers: what the solver runs in; equal to `task` where there are none."""
    rebuildable: Annotated[bool, EXACT]
    """False for an image that was pinned but has no lock of ours."""


class PlannedTask(Wire):
    spec: Annotated[TaskSpec, EXACT]
    images: Annotated[PlannedImages, EXACT]


class PlannedSuite(Wire):
    name: Annotated[str, EXACT]
    version: Annotated[str, EXACT]
    digest: Annotated[Sha256, EXACT]
    timeout_resolves: Annotated[bool, EXACT]
    weight: Annotated[float, EXACT]


class PlannedSolver(Wire):
    name: Annotated[str, EXACT]
    kind: Annotated[SolverKind, EXACT]
    digest: Annotated[Sha256, EXACT]
    """Of its TOML and templates."""
    argv: Annotated[tuple[str, ...], EXACT]
    """With the flags of this run in place and the placeholders still standing; empty for reference and noop."""


class PlannedBudget(Wire):
    """What may be asked of a model; None: as much as is wanted."""

    tokens: Annotated[int | None, EXACT] = Field(default=None, ge=1)
    """Input and output together."""
    usd: Annotated[Usd | None, EXACT] = None
    exchanges: Annotated[int | None, EXACT] = Field(default=None, ge=1)


class PlannedServer(Wire):
    """A model server of the run's own, on this host."""

    weights: Annotated[Sha256, EXACT]
    image: Annotated[Pin, EXACT]
    """Of the engine that serves them."""
    slots: Annotated[int, EXACT] = Field(ge=1)
    threads: Annotated[int, EXACT] = Field(ge=1)
    context: Annotated[int, EXACT] = Field(ge=1)
    """Tokens."""
    gpus: Annotated[bool, EXACT]
    sampling: Annotated[dict[str, float], EXACT]
    """What the server assumes where a request does not say: `temperature`, `seed`."""


class PlannedUpstream(Wire):
    """Where the answers of the model come from, and how much may be asked."""

    # The schema says what the validator below says, for readers in other languages.
    model_config = ConfigDict(
        json_schema_extra={
            "if": {"properties": {"provider": {"const": "local"}}},
            "then": {"properties": {"server": {"type": "object"}}},
            "else": {"properties": {"server": {"type": "null"}}},
            "anyOf": [
                {"properties": {"provider": {"enum": ["anthropic", "openai", "google", "local"]}}},
                {"properties": {"baseUrl": {"type": "string"}}},
            ],
        }
    )

    provider: Annotated[Provider, EXACT]
    base_url: Annotated[str | None, EXACT]
    """None: the provider's own."""
    forwarder: Annotated[Pin, EXACT]
    """The image of the sidecar that carries a solver's requests out of its container."""
    server: Annotated[PlannedServer | None, EXACT]
    """Provider `local` alone has one."""
    budget: Annotated[PlannedBudget, EXACT]
    """Of each trial."""
    run_budget: Annotated[PlannedBudget, EXACT]

    @property
    def is_far(self) -> bool:
        """Whether the answers are made on another machine, as far as its URL says."""
        return self.provider != "local" and not self.is_beside

    @property
    def is_beside(self) -> bool:
        """A server that somebody else started on this very host: its energy is nobody's here."""
        return self.base_url is not None and is_loopback(self.base_url)

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if (self.provider == "local") != (self.server is not None):
            raise ValueError("a model server is planned for the provider local, and for no other")
        if self.provider == "compatible" and self.base_url is None:
            raise ValueError("the provider compatible has no place of its own: it needs a URL")
        return self


class PlannedEnergy(Wire):
    mode: Annotated[EnergyMode, EXACT]
    active_watts: Annotated[float | None, EXACT]
    """What `wall` multiplies by, where it was set; None is the default of the estimator."""
    scheduling: Annotated[Literal["exclusive", "shared"], EXACT]
    gpu_sharing: Annotated[Literal["device_total", "sm_utilisation"], EXACT] = Field(
        default="device_total", exclude_if=lambda asked: asked == "device_total"
    )
    """What is told of a GPU on which others were too; not written where it is the board's total, as plans of before."""


def is_loopback(url: str) -> bool:
    """Whether a URL's host is this one, by its name or its address alone."""
    try:
        host = (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return False
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


MAX_TRIALS: Final = 100_000
"""Of all plans of a run: the index of a trial has five digits (formats 5), and a stranger's plan is listed whole."""


def _refuse_countless(trials: int) -> None:
    if trials > MAX_TRIALS:
        raise ValueError(f"over {MAX_TRIALS} trials")


class TrialPlan(Wire):
    """`planDigest` is the sha256 of the canonical bytes of this."""

    schema_: Annotated[Literal["plan-v1"], EXACT] = Field(default="plan-v1", alias="schema")
    suite: Annotated[PlannedSuite, EXACT]
    solver: Annotated[PlannedSolver, EXACT]
    model: Annotated[str | None, EXACT]
    upstream: Annotated[PlannedUpstream | None, EXACT] = Field(default=None, exclude_if=lambda one: one is None)
    """None: the solver is given no way to a model; it is not written then, so that such a plan's digest is what it was
    before there were any."""
    tasks: Annotated[tuple[PlannedTask, ...], EXACT]
    """Sorted by name; quarantined and filtered ones are not here."""
    quarantined: Annotated[tuple[str, ...], EXACT]
    """Names of the tasks left out because their checks failed."""
    filtered: Annotated[tuple[str, ...], EXACT]
    """Names of the tasks left out by `--tasks`."""
    passes: Annotated[int, EXACT] = Field(ge=1)
    rollouts: Annotated[int, EXACT] = Field(ge=1)
    energy: Annotated[PlannedEnergy, EXACT]
    self_correct: Annotated[bool, EXACT]
    auto: Annotated[Literal["low", "medium", "high"] | None, EXACT]
    mode: Annotated[str | None, EXACT]
    limit_overrides: Annotated[dict[str, float], EXACT]
    """`--limit-KEY V`: already applied to every task's limits, listed so that a policy can refuse them."""
    challenge: Annotated[Sha256 | None, EXACT]
    harness_version: Annotated[str, EXACT]

    @model_validator(mode="after")
    def _can_be_counted(self) -> Self:
        _refuse_countless(len(self.tasks) * self.passes * self.rollouts)
        return self

    @property
    def digest(self) -> str:
        return sha256_hex(self.canonical())

    def task(self, name: str) -> PlannedTask:
        return next(task for task in self.tasks if task.spec.name == name)


class TrialKey(Wire):
    """Which trial of a plan; `case` is for suites of cases inside a task."""

    task: Annotated[str, EXACT]
    pass_: Annotated[int, EXACT] = Field(alias="pass", ge=0)
    rollout: Annotated[int, EXACT] = Field(ge=0)
    case: Annotated[str | None, EXACT] = None


def trial_keys(plan: TrialPlan) -> tuple[TrialKey, ...]:
    """Every trial of the plan, in the order they run: pass, then task, then rollout."""
    return tuple(
        TrialKey(task=task.spec.name, pass_=sweep, rollout=rollout)
        for sweep in range(plan.passes)
        for task in plan.tasks
        for rollout in range(plan.rollouts)
    )


class RunPlan(Wire):
    """plan.json: one plan a solver, in the order asked for."""

    schema_: Annotated[Literal["run-plan-v1"], EXACT] = Field(default="run-plan-v1", alias="schema")
    plans: Annotated[tuple[TrialPlan, ...], EXACT]

    @model_validator(mode="after")
    def _can_be_counted(self) -> Self:
        _refuse_countless(sum(len(plan.tasks) * plan.passes * plan.rollouts for plan in self.plans))
        return self
