"""What `appliance run` is asked: suite, solvers, where the joules come from, and the plans of it all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from appliance.cli.modelling import ModelAsk, upstream_of
from appliance.cli.output import note
from appliance.digests import sha256_hex
from appliance.errors import InputRefused, UsageRefused
from appliance.meter.opening import Decided, Wish, decide
from appliance.records.journal_file import read_journal
from appliance.records.plan import MAX_TRIALS, PlannedEnergy, RunPlan, TrialPlan
from appliance.records.words import EnergyMode
from appliance.solvers.definition import Auto, SolverDefinition
from appliance.solvers.finding import find_solver, find_solvers
from appliance.submissions.challenge import read_challenge, refuse_unmet
from appliance.tasks.model import Suite
from appliance.tasks.reader import find_suite, read_suite
from appliance.trials.adapters import images_here, reachable_engine
from appliance.trials.folder import RunFolder
from appliance.trials.planning import PlanOptions, chosen_tasks, plan_trials, resolve_images, scheduling
from appliance.trials.sources import Sources
from appliance.trials.stamps import harness_version
from attest.trust.tokens import TokenSource


@dataclass(frozen=True)
class Ask:
    """The command line of `run`, word by word."""

    suite: str | None
    solver: str | None
    model: str | None
    model_words: ModelAsk
    cascade_socket: Path | None
    """Where this host has the cascade: no word of any plan."""
    mode: str | None
    self_correct: bool
    auto: Auto | None
    passes: int
    rollouts: int
    jobs: int
    energy: EnergyMode
    scheduling: Literal["exclusive", "shared"] | None
    gpu_sharing: Literal["device_total", "sm_utilisation"] | None
    tasks: str | None
    retry_errored: bool
    resume: Path | None
    dry_run: bool
    sign: bool
    trust: str
    token: TokenSource
    sign_seconds: float | None
    """What a deployment's services may take; None: as long as it is usual."""
    out: Path | None
    version: str | None
    commit: str | None
    challenge: Path | None
    limits: Mapping[str, float]
    include_quarantined: bool
    keep_suite: bool
    strict_host: bool
    idle_seconds: float | None
    meter: Wish
    report_format: Literal["text", "json"]
    as_json: bool


@dataclass(frozen=True)
class Question:
    """Everything that is decided before this machine is asked for anything but its meter and its images' pins."""

    suite: Suite
    definitions: tuple[SolverDefinition, ...]
    planned: tuple[TrialPlan, ...]
    """By the run that goes on, if nothing was asked anew."""
    weights: Path | None = None
    """Where the run that goes on had its model's."""

    @property
    def solvers(self) -> Mapping[str, SolverDefinition]:
        return {definition.name: definition for definition in self.definitions}


def question_of(ask: Ask) -> Question:
    before = plans_before(ask.resume)
    sources = Sources.read(RunFolder(ask.resume).sources) if ask.resume else None
    suite_word = ask.suite or (str(sources.suite) if sources else before[0].suite.name if before else None)
    if suite_word is None:
        raise UsageRefused("missing", where="--suite", mend="`appliance tasks list` shows the known suites")
    if ask.solver is None and not before:
        raise UsageRefused("missing", where="--solver", mend="as --solver reference,noop")
    suite = read_suite(find_suite(suite_word))
    if ask.solver is not None:
        definitions = find_solvers(ask.solver)
    else:
        paths = sources.solvers if sources else {}
        words = [str(paths.get(plan.solver.name, plan.solver.name)) for plan in before]
        definitions = tuple(find_solver(word) for word in words)
    if before and only_locates(ask) and {one.name for one in definitions} == {plan.solver.name for plan in before}:
        # Nothing was asked anew: the plans are the ones that lie in the folder.
        return Question(suite, definitions, before, sources.weights if sources else None)
    for definition in definitions:
        definition.check_model(ask.model)
        definition.flags(mode=ask.mode, auto=ask.auto, self_correct=ask.self_correct)
    return Question(suite, definitions, (), sources.weights if sources else None)


def decided_for(ask: Ask, question: Question, watts: float | None) -> Decided:
    """Where the joules will come from; before the plan, which says by it how windows are held."""
    energy = question.planned[0].energy if question.planned else None
    return decide(
        energy.mode if energy else ask.energy,
        ask.meter,
        watts_set=(energy.active_watts if energy else watts) is not None,
        reachable=reachable_engine(),
        began_with=_began_with(ask.resume),
    )


def _began_with(folder: Path | None) -> Literal["counters", "model"] | None:
    """What the trials that have finished have figures of; None where there is none yet."""
    if folder is None or not RunFolder(folder).journal.is_file():
        return None
    told = read_journal(RunFolder(folder).journal)
    energies = [result.energy for result in told.finished().values() if result.energy is not None] if told else []
    if not energies:
        return None
    return "model" if any((energy.local or energy.total).basis == "modelled" for energy in energies) else "counters"


def plans_of(ask: Ask, question: Question, decided: Decided, watts: float | None) -> tuple[TrialPlan, ...]:
    suite, definitions = question.suite, question.definitions
    images = images_here(note, needs_engine=not ask.dry_run)
    options = PlanOptions(
        energy=PlannedEnergy(
            mode=ask.energy,
            active_watts=None if ask.energy == "measured" else watts,
            scheduling=scheduling(ask.scheduling, counters=decided.counts),
            gpu_sharing=ask.gpu_sharing or "device_total",
        ),
        harness_version=harness_version(),
        model=ask.model,
        upstream=upstream_of(ask.model_words, ask.model, definitions, images),
        mode=ask.mode,
        self_correct=ask.self_correct,
        auto=ask.auto,
        passes=ask.passes,
        rollouts=ask.rollouts,
        tasks=ask.tasks,
        include_quarantined=ask.include_quarantined,
        limits=ask.limits,
        challenge=_challenge(ask.challenge, suite),
    )
    chosen = chosen_tasks(suite, options)
    plans = tuple(
        plan_trials(suite, definition, resolve_images(chosen, definition, images), options)
        for definition in definitions
    )
    trials = sum(len(plan.tasks) * plan.passes * plan.rollouts for plan in plans)
    if trials > MAX_TRIALS:
        raise UsageRefused(f"over {MAX_TRIALS} trials: {trials}", where="--solver", mend="run the solvers one by one")
    return plans


def only_locates(ask: Ask) -> bool:
    """No flag that a plan holds was given: `--suite` and `--solver` say where a resumed run's are, no more."""
    asked = (ask.model, ask.mode, ask.auto, ask.tasks, ask.challenge, ask.scheduling, ask.gpu_sharing)
    flagged = ask.self_correct or ask.include_quarantined or bool(ask.limits) or ask.model_words.planned
    return (
        not flagged and all(word is None for word in asked) and (ask.passes, ask.rollouts, ask.energy) == (1, 1, "auto")
    )


def plans_before(folder: Path | None) -> tuple[TrialPlan, ...]:
    """Of the run that goes on; none of a new one. Raises UsageRefused for a folder without a run."""
    if folder is None:
        return ()
    path = RunFolder(folder).plan
    if not path.is_file():
        raise UsageRefused("holds no run", where=f"--resume {folder}", mend="give the folder of a run")
    return RunPlan.read(path).plans


def challenge_document(ask: Ask, plans: tuple[TrialPlan, ...]) -> bytes | None:
    """The bytes that the plans name the digest of. Raises InputRefused where they are no longer there."""
    if ask.challenge is None:
        return None
    _, content = read_challenge(ask.challenge)
    if any(plan.challenge != sha256_hex(content) for plan in plans):
        raise InputRefused("changed since it was read", where=f"--challenge {ask.challenge}", mend="start again")
    return content


def _challenge(path: Path | None, suite: Suite) -> str | None:
    if path is None:
        return None
    challenge, content = read_challenge(path)
    refuse_unmet(challenge, suite.name, suite.digest, datetime.now(UTC), f"--challenge {path}")
    return sha256_hex(content)
