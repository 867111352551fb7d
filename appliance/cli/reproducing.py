"""What `appliance reproduce` does with its words: check, find what the plan needs, run, compare, say."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from appliance.audit.documents import read_bytes, record_of
from appliance.audit.trust import bundle_path, open_trust, refusals_translated, refuse_unable_to_sign
from appliance.cli.cascading import refuse_unasked
from appliance.cli.output import note
from appliance.cli.progress import shown
from appliance.cli.reproducing_words import say_verdict, show_plan
from appliance.cli.trusting import TrustWords, blobs_of
from appliance.digests import sha256_hex
from appliance.errors import AttestationRefused, HostRefused, InputRefused, NotReproduced, UsageRefused
from appliance.files import write_atomically
from appliance.meter.opening import Wish, decide
from appliance.records.comparison import compare
from appliance.records.plan import TrialKey, trial_keys
from appliance.records.record import Record
from appliance.records.verdict import Verdict
from appliance.reproduce.caps import host_caps, refuse_beyond
from appliance.reproduce.recorded_commit import checkout_root, harness_at, run_there
from appliance.reproduce.replays import Cassettes, Mode, cassettes_of, mode_of, replay_of
from appliance.reproduce.sample import chosen_keys
from appliance.reproduce.suites import suite_of
from appliance.scratch import shared_scratch
from appliance.solvers.definition import SolverDefinition
from appliance.solvers.finding import find_solver
from appliance.trials.adapters import reachable_engine, this_machine
from appliance.trials.folder import RunFolder, refuse_taken
from appliance.trials.models import ModelSources
from appliance.trials.session import RunOptions, new_run_id, run_plans
from appliance.trials.stamps import Subject

if TYPE_CHECKING:
    from attest.trust.tokens import TokenSource
    from attest.verification import Report


@dataclass(frozen=True)
class Signing:
    """Who signs the verdict."""

    trust: str
    """A name, or a trust config's file."""
    token: TokenSource
    seconds: float | None


@dataclass(frozen=True)
class Ask:
    """The command line of `reproduce`, word by word."""

    record: Path
    bundle: Path | None
    blobs: Path | None
    plan_only: bool
    replay: bool | None
    model_url: str | None
    model_key_env: str | None
    model_file: Path | None
    cascade_socket: Path | None
    suite: Path | None
    solver: str | None
    trials: int | None
    task: str | None
    tolerance: float | None
    jobs: int
    at_recorded_commit: bool
    allow_network: bool
    caps: Mapping[str, float | None]
    trust: TrustWords
    signing: Signing | None
    out: Path | None
    meter: Wish
    idle_seconds: float
    strict_host: bool
    as_json: bool


def carry_out(ask: Ask) -> int:
    """The exit status: 0 where the outcome was reproduced. Raises the refusals of whatever it calls."""
    content, record = _read(ask.record)
    where = str(ask.record)
    keys = chosen_keys(record.plan, sha256_hex(content), ask.trials, ask.task)
    if ask.plan_only:
        _checked(ask, content)
        show_plan(record, keys, as_json=ask.as_json)
        return 0
    if ask.at_recorded_commit:
        with harness_at(checkout_root(), record.harness.commit, where) as python:
            note(f"running with the harness of {record.harness.commit}")
            return run_there(python, [word for word in sys.argv[1:] if word != "--at-recorded-commit"])
    report = _checked(ask, content)
    _refuse_unrunnable(ask, record, where)
    mode = mode_of(record, keys, ask.replay)
    _refuse_unasked_model(ask, mode)
    folder = ask.out or Path("runs") / f"reproduced-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    refuse_taken(RunFolder(folder), resumable=False)
    refuse_beyond(record.plan, host_caps(folder, **ask.caps), where)
    with ExitStack() as stack:
        scratch = stack.enter_context(shared_scratch())
        blobs = blobs_of(ask.record, ask.blobs)
        cassettes = cassettes_of(record, keys, blobs, where, scratch) if mode == "replay" else None
        keys = keys if cassettes is None else _replayed_keys(keys, cassettes)
        sources = _sources(ask, record, where) if mode == "live" else None
        suite = suite_of(record, where, ask.suite, blobs, scratch)
        definition = _solver(ask, record, where)
        refuse_unasked(ask.cascade_socket, (definition,))
        energy = record.plan.energy
        decided = stack.enter_context(
            decide(
                energy.mode,
                ask.meter,
                watts_set=energy.active_watts is not None,
                reachable=reachable_engine(),
                may_lack=True,
            )
        )
        adapters = this_machine((record.plan,), note, decided)
        if ask.signing is not None:
            refuse_unable_to_sign(ask.signing.trust, ask.signing.token)
        with shown() as watcher:
            ended = run_plans(
                (record.plan,),
                suite,
                solvers={definition.name: definition},
                adapters=adapters,
                out=folder,
                options=RunOptions(
                    run=new_run_id(),
                    subjects={definition.name: _subject(record)},
                    jobs=ask.jobs,
                    keep_suite=record.suite.archive is not None,
                    only=frozenset(keys),
                    strict_host=ask.strict_host,
                    idle_seconds=ask.idle_seconds,
                    replays=None if cassettes is None else cassettes.paths,
                    model=sources or ModelSources(),
                    cascade_socket=ask.cascade_socket.absolute() if ask.cascade_socket else None,
                    report=note,
                ),
                watcher=watcher,
            )
        if ended.failing is not None:
            note(f"appliance: {ended.failing}")
        again = Record.read(ended.records[0])
        replay = None if cassettes is None else replay_of(cassettes, again, folder / "blobs")
    verdict = compare(
        record,
        again,
        keys=keys if len(keys) < len(trial_keys(record.plan)) else None,
        live=mode == "live",
        tolerance=ask.tolerance,
        verified=report is not None,
        replay=replay,
    )
    path = folder / "verdict.json"
    write_atomically(path, verdict.canonical())
    if ask.signing is not None:
        _sign(ask.signing, verdict, path, ask.record.name, report)
    say_verdict(verdict, path, as_json=ask.as_json)
    if verdict.outcome.verdict == "reproduced":
        return 0
    return NotReproduced.status


def _read(path: Path) -> tuple[bytes, Record]:
    content = read_bytes(path)
    return content, record_of(content, str(path))


def _checked(ask: Ask, content: bytes) -> Report | None:
    """None where nobody vouches for it; with trust options given, a record that fails them is not run at all."""
    if not ask.trust.given:
        note("unverified: no --trust or --trusted-root was given, so nobody vouches for this record")
        return None
    from appliance.cli.trusting import verify_record

    report = verify_record(ask.record, content, ask.bundle, ask.blobs, ask.trust, allow_missing_blobs=True)
    note(f"verified: signed by {report.identity} ({report.assurance})")
    return report


def _refuse_unrunnable(ask: Ask, record: Record, where: str) -> None:
    if record.dry_run:
        raise InputRefused("a dry run has nothing to reproduce", where=f"{where}: $.dryRun")
    if not record.trials:
        raise InputRefused("holds no trials", where=f"{where}: $.trials")
    for index, planned in enumerate(record.plan.tasks):
        if planned.spec.network != "none" and not ask.allow_network:
            raise HostRefused(
                f"task {planned.spec.name!r} asks for an open network",
                where=f"{where}: $.plan.tasks[{index}].spec.network",
                mend="--allow-network, once you have read what it runs",
            )


def _refuse_unasked_model(ask: Ask, mode: Mode) -> None:
    """Raises UsageRefused for words about a model that nobody will ask."""
    given = {"--model-url": ask.model_url, "--model-key-env": ask.model_key_env, "--model-file": ask.model_file}
    flags = [flag for flag, word in given.items() if word is not None]
    if mode == "live" or not flags:
        return
    if mode == "replay":
        raise UsageRefused("a replay asks no model", where=flags[0], mend="add --live, or leave it away")
    raise UsageRefused("no model answered in this record", where=flags[0], mend="leave it away")


def _replayed_keys(keys: tuple[TrialKey, ...], cassettes: Cassettes) -> tuple[TrialKey, ...]:
    if cassettes.left_out:
        note(f"{len(cassettes.left_out)} trials never asked their model, for they were not run: they are left out")
    return tuple(key for key in keys if key in cassettes.paths)


def _sources(ask: Ask, record: Record, where: str) -> ModelSources:
    """What the model takes to be asked again. Raises HostRefused before a key could go to a place that the record's
    publisher chose.
    """
    from appliance.cli.modelling import ModelAsk, sources_of

    upstream = record.plan.upstream
    if upstream is None:
        return ModelSources()
    if upstream.base_url != ask.model_url:
        raise HostRefused(
            f"the model of this record is asked at {upstream.base_url or 'its provider'}, and you allowed"
            f" {ask.model_url or 'no other place than its provider'}",
            where=f"{where}: $.plan.upstream.baseUrl",
            mend="--model-url with that very URL, once you trust it with the prompts and your key",
        )
    bounds = upstream.run_budget.json_value()
    bound = ", ".join(f"{value} {name}" for name, value in bounds.items() if value is not None)
    note(f"asking {record.plan.model} again, {f'at most {bound}' if bound else 'with no bound on what it costs'}")
    return sources_of(ModelAsk(key_variable=ask.model_key_env, file=ask.model_file), (record.plan,))


def _solver(ask: Ask, record: Record, where: str) -> SolverDefinition:
    planned = record.plan.solver
    if ask.solver is None and "/" in planned.name:
        raise InputRefused("a solver's name is no path", where=f"{where}: $.plan.solver.name")
    try:
        definition = find_solver(ask.solver or planned.name)
    except UsageRefused as refusal:
        if ask.solver is not None:
            raise
        raise InputRefused(
            f"solver {planned.name!r} is not known here", where=f"{where}: $.plan.solver", mend="--solver PATH.toml"
        ) from refusal
    if definition.digest != planned.digest:
        raise InputRefused(
            f"solver {planned.name!r} has digest {planned.digest[:12]} in the record and {definition.digest[:12]} here",
            where=f"{where}: $.plan.solver.digest",
            mend="--solver PATH to that version's TOML",
        )
    return definition


def _subject(record: Record) -> Subject:
    """What is under test says the record; that it is so shows in its digest and its program's own version."""
    return Subject(version=record.version, commit=record.commit, source=record.solver.source)


def _sign(signing: Signing, verdict: Verdict, path: Path, record_name: str, report: Report | None) -> None:
    """A verification summary about the record, beside verdict.json, which it names by digest."""
    from appliance.reproduce.attesting import summary_of
    from attest import statement, vsa
    from attest.signing import sign_statement

    try:
        signer = open_trust(signing.trust, signing.token, seconds=signing.seconds, say=note)
        with refusals_translated():
            summary = summary_of(
                verdict, path.read_bytes(), signer.identity, report.bundle_sha256 if report is not None else None
            )
            bundle = sign_statement(signer, vsa.build(summary, record_name, verdict.recorded), statement.VSA_TYPE)
    except (AttestationRefused, UsageRefused):
        note(f"the verdict is in {path}, unsigned")
        raise
    write_atomically(bundle_path(path), bundle)
    note(f"signed: {bundle_path(path)}")
