"""What `appliance run` does with its words: plan, say what it takes, run, sign, report."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

from appliance.audit import trust
from appliance.cli.asking import Ask, Question, challenge_document, decided_for, plans_of, question_of
from appliance.cli.cascading import refuse_unasked
from appliance.cli.modelling import refuse_without_gpu, sources_of
from appliance.cli.output import emit_json, line, note
from appliance.cli.progress import shown
from appliance.cli.resuming import Progress, continued, progress
from appliance.cli.signer_options import again, words_to_verify
from appliance.digests import sha256_of_file
from appliance.energy.estimators import active_watts
from appliance.errors import AttestationRefused, HostRefused, TrialsIncomplete, UsageRefused
from appliance.files import writing_atomically
from appliance.meter.opening import Decided
from appliance.records.plan import PlannedUpstream, RunPlan, TrialPlan
from appliance.tasks.archive import refuse_unarchivable
from appliance.trials.adapters import host_gpus, this_machine, writable_places
from appliance.trials.estimate import Estimate, estimate, keep_speeds, known_speeds, refuse_short_disk
from appliance.trials.folder import RunFolder
from appliance.trials.resting import IDLE_SECONDS
from appliance.trials.session import RunEnded, RunOptions, new_run_id, run_plans
from appliance.trials.stamps import subject_of
from attest.trust import TrustMode


def carry_out(ask: Ask) -> int:
    """The exit status. Raises the refusals of whatever it calls."""
    if ask.resume is not None and ask.out is not None and ask.out.suffix != ".json":
        raise UsageRefused("a resumed run stays in its folder", where="--out", mend="leave --out away")
    watts = active_watts(os.environ)
    ask = continued(ask)
    question = question_of(ask)
    refuse_unasked(ask.cascade_socket, question.definitions)
    if ask.keep_suite:
        refuse_unarchivable(question.suite)
    with decided_for(ask, question, watts) as decided:
        plans = question.planned or plans_of(ask, question, decided, watts)
        return _carry_out(ask, question, plans, decided)


def _carry_out(ask: Ask, question: Question, plans: tuple[TrialPlan, ...], decided: Decided) -> int:
    rest = 2 * (ask.idle_seconds or IDLE_SECONDS) if decided.counts else 0.0
    wanted = estimate(plans, ask.jobs, known_speeds(), rest)
    if ask.dry_run:
        _show_plan(ask, plans, wanted, decided, progress(ask, plans))
        return 0
    sources = sources_of(ask.model_words, plans, question.weights)
    refuse_without_gpu(plans, host_gpus())
    run = new_run_id()
    folder, single = _folder(ask, run)
    if ask.resume is None:
        _refuse_unwritable(folder)
        for text in (*_model_words(plans), *wanted.lines(), decided.words):
            note(text)
        refuse_short_disk(wanted, (folder, *writable_places()))
    if ask.sign and not _stays_signed(ask, folder, plans):
        trust.refuse_unable_to_sign(ask.trust, ask.token)
    options = RunOptions(
        run=run,
        subjects={
            name: subject_of(ask.version, ask.commit, os.environ, definition)
            for name, definition in question.solvers.items()
        },
        jobs=ask.jobs,
        resume=ask.resume is not None,
        retry_errored=ask.retry_errored,
        trust=ask.trust if ask.sign else None,
        keep_suite=ask.keep_suite,
        challenge=challenge_document(ask, plans),
        strict_host=ask.strict_host,
        idle_seconds=ask.idle_seconds,
        model=sources,
        cascade_socket=ask.cascade_socket.absolute() if ask.cascade_socket else None,
        report=note if ask.resume is None else _behind(decided.words),
    )
    adapters = this_machine(plans, note, decided)
    started = time.monotonic()
    with shown() as watcher:
        ended = run_plans(
            plans,
            question.suite,
            solvers=question.solvers,
            adapters=adapters,
            out=folder,
            options=options,
            watcher=watcher,
        )
    if ended.started:
        worked = time.monotonic() - started - ended.rested_seconds
        keep_speeds(plans, worked * min(ask.jobs, ended.started) / ended.started)
    if single is not None:
        with ended.records[0].open("rb") as record, writing_atomically(single) as copy:
            shutil.copyfileobj(record, copy)
    signer, bundles = _signed(ask, ended) if ask.sign else (None, ())
    _say(ask, ended, signer, bundles, single)
    return _status(ended)


def _behind(words: str) -> Callable[[str], None]:
    """Reports, with `words` before the first: a run that goes on has the first to say once it is the same run."""
    waiting = [words]

    def report(text: str) -> None:
        while waiting:
            note(waiting.pop())
        note(text)

    return report


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


def _show_plan(
    ask: Ask, plans: tuple[TrialPlan, ...], wanted: Estimate, decided: Decided, come: Progress | None
) -> None:
    if ask.as_json or ask.report_format == "json":
        resumed = {"resumed": come.json_value()} if come else {}
        emit_json(
            {
                "planDigests": [plan.digest for plan in plans],
                "plan": RunPlan(plans=plans).json_value(),
                "estimate": {
                    "trials": wanted.trials,
                    "baselines": wanted.baselines,
                    "diskMib": wanted.disk_mib,
                    "seconds": wanted.seconds,
                    "secondsFrom": wanted.seconds_from,
                    "restSeconds": wanted.rest_seconds,
                    "dollars": {
                        "words": wanted.dollars.words,
                        "worstUsd": wanted.dollars.worst_usd,
                        "inputPerMillionUsd": wanted.dollars.input_per_million_usd,
                        "outputPerMillionUsd": wanted.dollars.output_per_million_usd,
                    },
                },
                **resumed,
            }
        )
        return
    for plan in plans:
        line(f"plan {plan.digest}")
        line(f"  suite   {plan.suite.name} {plan.suite.version} ({plan.suite.digest[:12]})")
        line(f"  solver  {plan.solver.name} ({plan.solver.digest[:12]}), model {plan.model or 'none'}")
        for words in _upstream_words(plan.upstream):
            line(f"  model   {words}")
        line(f"  passes  {plan.passes}, rollouts {plan.rollouts}, energy {plan.energy.mode}, {plan.energy.scheduling}")
        for planned in plan.tasks:
            line(f"  task    {planned.spec.name} on {planned.spec.image} ({planned.images.composed.config[7:19]})")
        for name in plan.quarantined:
            line(f"  left out, quarantined: {name}")
    line(decided.words)
    for text in (*wanted.lines(), *(come.lines() if come else ())):
        line(text)


def _model_words(plans: tuple[TrialPlan, ...]) -> list[str]:
    """Who is asked, and what may be asked of him: of solvers that share a model, once."""
    asked = dict.fromkeys((plan.model, plan.upstream) for plan in plans)
    return [f"model:   {model} {words}" for model, upstream in asked for words in _upstream_words(upstream)]


def _upstream_words(upstream: PlannedUpstream | None) -> list[str]:
    if upstream is None:
        return []
    place = f" at {upstream.base_url}" if upstream.base_url else ""
    words = [f"by {upstream.provider}{place}"]
    server = upstream.server
    if server is not None:
        words[0] += (
            f": weights {server.weights[:12]}, {server.slots} slot, {server.threads} threads,"
            f" {server.context} tokens of context{', GPUs' if server.gpus else ''}"
        )
    for budget, whose in ((upstream.budget, "each trial"), (upstream.run_budget, "the run")):
        bounds = [f"{value} {name}" for name, value in budget.json_value().items() if value is not None]
        words += [f"{', '.join(bounds)} at most for {whose}"] if bounds else []
    return words


def _stays_signed(ask: Ask, folder: Path, plans: tuple[TrialPlan, ...]) -> bool:
    """Whether nothing will be left to sign: a run that had ended, and was signed then."""
    bundles = (RunFolder(folder).bundle(plan.solver.name) for plan in plans)
    return ask.resume is not None and not ask.retry_errored and all(bundle.exists() for bundle in bundles)


def _signed(ask: Ask, ended: RunEnded) -> tuple[TrustMode | None, tuple[Path, ...]]:
    """A bundle beside each record, and who signed now; one that is there and was not made stale by this run stays."""
    bundles = [path.with_name(f"{path.stem}.sigstore.json") for path in ended.records]
    if all(bundle.exists() for bundle in bundles):
        return None, tuple(bundles)
    try:
        signer = trust.open_trust(ask.trust, ask.token, seconds=ask.sign_seconds, say=note)
        written = zip(ended.records, bundles, ended.digests, ended.outlines, strict=True)
        for record, bundle, digest, outline in written:
            if not bundle.exists():
                trust.sign_written(record, digest, outline, signer)
    except (AttestationRefused, UsageRefused):
        for record, bundle in zip(ended.records, bundles, strict=True):
            if not bundle.exists():
                note(f"{record} is kept, unsigned; once that is mended: {again(record, ask.trust, ask.token)}")
        raise
    return signer, tuple(bundles)


def _say(ask: Ask, ended: RunEnded, signer: TrustMode | None, bundles: tuple[Path, ...], single: Path | None) -> None:
    """The report is that of `appliance report` over the same place, byte for byte (J25)."""
    from appliance.report.render import render, report_value

    found = ended.outlines[:1] if single else ended.by_name()
    if ask.as_json:
        emit_json(_document(ended, bundles) | {"report": report_value(found)})
    else:
        sys.stdout.write(render(found, ask.report_format))
        sys.stdout.flush()
    note(f"run {ended.run} in {ended.folder}")
    if not ended.started:
        note("nothing was left to run")
    for record in ended.records if bundles else ():
        note(f"check it with: appliance verify {shlex.quote(str(record))} {words_to_verify(signer, ask.trust)}")


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
