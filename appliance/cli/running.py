"""What `appliance run` does with its words: plan, say what it takes, run, sign, report."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from appliance.cli.output import emit_json, line, note
from appliance.cli.progress import shown
from appliance.digests import sha256_of_file
from appliance.energy.estimators import active_watts
from appliance.errors import HostRefused, InputRefused, TrialsIncomplete, UsageRefused
from appliance.files import write_atomically
from appliance.records.plan import MAX_TRIALS, PlannedEnergy, RunPlan, TrialPlan
from appliance.records.words import EnergyMode
from appliance.solvers.definition import Auto, SolverDefinition
from appliance.solvers.finding import find_solver, find_solvers
from appliance.tasks.model import Suite
from appliance.tasks.reader import find_suite, read_suite
from appliance.trials.adapters import images_here, this_machine, writable_places
from appliance.trials.estimate import Estimate, estimate, keep_speeds, known_speeds, refuse_short_disk
from appliance.trials.folder import RunFolder, Sources
from appliance.trials.planning import PlanOptions, chosen_tasks, plan_trials, resolve_images, scheduling
from appliance.trials.session import RunEnded, RunOptions, new_run_id, run_plans
from appliance.trials.stamps import harness_version, subject_of


@dataclass(frozen=True)
class Ask:
    """The command line of `run`, word by word."""

    suite: str | None
    solver: str | None
    model: str | None
    mode: str | None
    self_correct: bool
    auto: Auto | None
    passes: int
    rollouts: int
    jobs: int
    energy: EnergyMode
    scheduling: Literal["exclusive", "shared"] | None
    tasks: str | None
    retry_errored: bool
    resume: Path | None
    dry_run: bool
    sign: bool
    out: Path | None
    version: str | None
    commit: str | None
    challenge: Path | None
    limits: Mapping[str, float]
    include_quarantined: bool
    keep_suite: bool
    strict_host: bool
    report_format: Literal["text", "json"]
    as_json: bool


@dataclass(frozen=True)
class _Question:
    """Everything that is decided before this machine is asked for anything but its images' pins."""

    suite: Suite
    solvers: Mapping[str, SolverDefinition]
    plans: tuple[TrialPlan, ...]


def carry_out(ask: Ask) -> int:
    """The exit status. Raises the refusals of whatever it calls."""
    if ask.resume is not None and ask.out is not None and ask.out.suffix != ".json":
        raise UsageRefused("a resumed run stays in its folder", where="--out", mend="leave --out away")
    watts = active_watts(os.environ)
    question = _question(ask, watts)
    wanted = estimate(question.plans, ask.jobs, known_speeds())
    if ask.dry_run:
        _show_plan(ask, question, wanted)
        return 0
    run = new_run_id()
    folder, single = _folder(ask, run)
    if ask.resume is None:
        _refuse_unwritable(folder)
        for text in wanted.lines():
            note(text)
        refuse_short_disk(wanted, (folder, *writable_places()))
    options = RunOptions(
        run=run,
        subjects={
            name: subject_of(ask.version, ask.commit, os.environ, definition)
            for name, definition in question.solvers.items()
        },
        jobs=ask.jobs,
        resume=ask.resume is not None,
        retry_errored=ask.retry_errored,
        trust="local" if ask.sign else None,
        keep_suite=ask.keep_suite,
        strict_host=ask.strict_host,
    )
    adapters = this_machine(question.plans, note)
    started = time.monotonic()
    with shown() as watcher:
        ended = run_plans(
            question.plans,
            question.suite,
            solvers=question.solvers,
            adapters=adapters,
            out=folder,
            options=options,
            watcher=watcher,
        )
    if ended.started:
        keep_speeds(question.plans, (time.monotonic() - started) * min(ask.jobs, ended.started) / ended.started)
    bundles = _signed(ended) if ask.sign else ()
    if single is not None:
        write_atomically(single, ended.records[0].read_bytes())
    _say(ask, ended, bundles, single)
    return _status(ended)


# ---------------------------------------------------------------------------------------------- the question


def _question(ask: Ask, watts: float | None) -> _Question:
    before = RunPlan.read(_plan_of(ask.resume)).plans if ask.resume else ()
    sources = Sources.of(RunFolder(ask.resume)) if ask.resume else None
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
    solvers = {definition.name: definition for definition in definitions}
    if before and _only_locates(ask) and solvers.keys() == {plan.solver.name for plan in before}:
        # Nothing was asked anew: the plans are the ones that lie in the folder.
        return _Question(suite, solvers, before)
    options = PlanOptions(
        energy=PlannedEnergy(
            mode=ask.energy,
            active_watts=None if ask.energy == "measured" else watts,
            scheduling=scheduling(ask.scheduling, counters=False),
        ),
        harness_version=harness_version(),
        model=ask.model,
        mode=ask.mode,
        self_correct=ask.self_correct,
        auto=ask.auto,
        passes=ask.passes,
        rollouts=ask.rollouts,
        tasks=ask.tasks,
        include_quarantined=ask.include_quarantined,
        limits=ask.limits,
        challenge=_challenge(ask.challenge),
    )
    for definition in definitions:
        definition.check_model(ask.model)
        definition.flags(mode=ask.mode, auto=ask.auto, self_correct=ask.self_correct)
    chosen = chosen_tasks(suite, options)
    images = images_here(note, needs_engine=not ask.dry_run)
    plans = tuple(
        plan_trials(suite, definition, resolve_images(chosen, definition, images), options)
        for definition in definitions
    )
    trials = sum(len(plan.tasks) * plan.passes * plan.rollouts for plan in plans)
    if trials > MAX_TRIALS:
        raise UsageRefused(f"over {MAX_TRIALS} trials: {trials}", where="--solver", mend="run the solvers one by one")
    return _Question(suite, solvers, plans)


def _only_locates(ask: Ask) -> bool:
    """No flag that a plan holds was given: `--suite` and `--solver` say where a resumed run's are, no more."""
    asked = (ask.model, ask.mode, ask.auto, ask.tasks, ask.challenge, ask.scheduling)
    flagged = ask.self_correct or ask.include_quarantined or bool(ask.limits)
    return (
        not flagged and all(word is None for word in asked) and (ask.passes, ask.rollouts, ask.energy) == (1, 1, "auto")
    )


def _plan_of(folder: Path) -> Path:
    path = folder / "plan.json"
    if not path.is_file():
        raise UsageRefused("holds no run", where=f"--resume {folder}", mend="give the folder of a run")
    return path


def _challenge(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        return sha256_of_file(path)
    except OSError as error:
        raise InputRefused(error.strerror or str(error), where=f"--challenge {path}") from error


def _folder(ask: Ask, run: str) -> tuple[Path, Path | None]:
    """Where the run lies, and the one file that was asked for beside it."""
    if ask.resume is not None:
        return ask.resume, ask.out
    if ask.out is None:
        return Path("runs") / run, None
    if ask.out.suffix != ".json":
        return ask.out, None
    if ask.solver is not None and "," in ask.solver:
        raise UsageRefused(
            "one file holds the record of one solver", where=f"--out {ask.out}", mend="give a folder, or one solver"
        )
    return ask.out.with_suffix(""), ask.out


def _refuse_unwritable(folder: Path) -> None:
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise UsageRefused("is no folder", where=f"--out {there}", mend="name another place")
    if not os.access(there, os.W_OK | os.X_OK):
        raise HostRefused("no permission to write", where=str(there), mend="--out DIR, where you may")


# ---------------------------------------------------------------------------------------------- what is said


def _show_plan(ask: Ask, question: _Question, wanted: Estimate) -> None:
    if ask.as_json or ask.report_format == "json":
        emit_json(
            {
                "planDigests": [plan.digest for plan in question.plans],
                "plan": RunPlan(plans=question.plans).json_value(),
                "estimate": {
                    "trials": wanted.trials,
                    "baselines": wanted.baselines,
                    "diskMib": wanted.disk_mib,
                    "seconds": wanted.seconds,
                    "secondsFrom": wanted.seconds_from,
                },
            }
        )
        return
    for plan in question.plans:
        line(f"plan {plan.digest}")
        line(f"  suite   {plan.suite.name} {plan.suite.version} ({plan.suite.digest[:12]})")
        line(f"  solver  {plan.solver.name} ({plan.solver.digest[:12]}), model {plan.model or 'none'}")
        line(f"  passes  {plan.passes}, rollouts {plan.rollouts}, energy {plan.energy.mode}, {plan.energy.scheduling}")
        for planned in plan.tasks:
            line(f"  task    {planned.spec.name} on {planned.spec.image} ({planned.images.composed.config[7:19]})")
        for name in plan.quarantined:
            line(f"  left out, quarantined: {name}")
    for text in wanted.lines():
        line(text)


def _signed(ended: RunEnded) -> tuple[Path, ...]:
    """A bundle beside each record; one that is there already and was not made stale by this run stays."""
    from appliance.audit import trust

    bundles = [path.with_name(f"{path.stem}.sigstore.json") for path in ended.records]
    if all(bundle.exists() for bundle in bundles):
        return tuple(bundles)
    signer, made = trust.open_or_init_local()
    if made:
        note(f"made a trust of this machine's own in {signer.folder}")
    return tuple(
        bundle if bundle.exists() else trust.sign_file(record, signer)
        for record, bundle in zip(ended.records, bundles, strict=True)
    )


def _say(ask: Ask, ended: RunEnded, bundles: tuple[Path, ...], single: Path | None) -> None:
    """The report is that of `appliance report` over the same place, byte for byte (J25)."""
    from appliance.report.load import load_records
    from appliance.report.render import render, report_value

    found = load_records([single or ended.folder])
    if ask.as_json:
        emit_json(_document(ended, bundles) | {"report": report_value(found)})
    else:
        sys.stdout.write(render(found, ask.report_format))
        sys.stdout.flush()
    note(f"run {ended.run} in {ended.folder}")
    if not ended.started:
        note("nothing was left to run")
    for record in ended.records if bundles else ():
        note(f"check it with: appliance verify {shlex.quote(str(record))} --trust local")


def _document(ended: RunEnded, bundles: tuple[Path, ...]) -> dict[str, object]:
    return {
        "run": ended.run,
        "folder": str(ended.folder),
        "started": ended.started,
        "incomplete": ended.incomplete,
        "records": [
            {
                "path": str(record),
                "sha256": sha256_of_file(record),
                "bundle": str(bundles[at]) if bundles else None,
            }
            for at, record in enumerate(ended.records)
        ],
    }


def _status(ended: RunEnded) -> int:
    if ended.failing is not None:
        note(f"appliance: three trials in a row failed for no reason of the solver's: {ended.failing}")
        note(f"mend it, then: appliance run --resume {ended.folder} --retry errored")
        return TrialsIncomplete.status
    if ended.incomplete:
        note(f"appliance: {ended.incomplete} trials errored or were excluded; `appliance show` has each")
        return TrialsIncomplete.status
    return 0
