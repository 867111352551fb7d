"""What `appliance reproduce` does with its words: check, find what the plan needs, run, compare, say."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from appliance.audit.documents import read_bytes, record_of
from appliance.audit.trust import bundle_path, open_trust, refusals_translated, refuse_unable_to_sign
from appliance.cli.output import emit_json, line, note
from appliance.cli.progress import shown
from appliance.cli.trusting import TrustWords, blobs_of
from appliance.digests import sha256_hex
from appliance.errors import AttestationRefused, HostRefused, InputRefused, NotReproduced, UsageRefused
from appliance.files import write_atomically
from appliance.meter.opening import Wish, decide
from appliance.records.comparison import compare, is_live
from appliance.records.plan import TrialKey, trial_keys
from appliance.records.record import Record
from appliance.records.verdict import Verdict, VerdictPart
from appliance.reproduce.caps import host_caps, refuse_beyond
from appliance.reproduce.recorded_commit import checkout_root, harness_at, run_there
from appliance.reproduce.sample import chosen_keys
from appliance.reproduce.suites import suite_of
from appliance.scratch import shared_scratch
from appliance.solvers.definition import SolverDefinition
from appliance.solvers.finding import find_solver
from appliance.trials.adapters import reachable_engine, this_machine
from appliance.trials.session import RunOptions, new_run_id, run_plans
from appliance.trials.stamps import Subject

if TYPE_CHECKING:
    from attest.trust.tokens import TokenSource
    from attest.verification import Report

_SHOWN_DIFFERENCES = 20


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
        _show_plan(ask, record, keys)
        return 0
    if ask.at_recorded_commit:
        with harness_at(checkout_root(), record.harness.commit, where) as python:
            note(f"running with the harness of {record.harness.commit}")
            return run_there(python, [word for word in sys.argv[1:] if word != "--at-recorded-commit"])
    report = _checked(ask, content)
    _refuse_unrunnable(ask, record, where)
    folder = ask.out or Path("runs") / f"reproduced-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    refuse_beyond(record.plan, host_caps(folder, **ask.caps), where)
    with ExitStack() as stack:
        scratch = stack.enter_context(shared_scratch())
        suite = suite_of(record, where, ask.suite, blobs_of(ask.record, ask.blobs), scratch)
        definition = _solver(ask, record, where)
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
                    report=note,
                ),
                watcher=watcher,
            )
    if ended.failing is not None:
        note(f"appliance: {ended.failing}")
    again = Record.read(ended.records[0])
    verdict = compare(
        record,
        again,
        keys=keys if len(keys) < len(trial_keys(record.plan)) else None,
        tolerance=ask.tolerance,
        verified=report is not None,
    )
    path = folder / "verdict.json"
    write_atomically(path, verdict.canonical())
    if ask.signing is not None:
        _sign(ask.signing, verdict, path, ask.record.name, report)
    _say(ask, verdict, path)
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
    if ask.replay and all(trial.cassette is None for trial in record.trials):
        raise UsageRefused("this record has no recorded model responses to replay", where="--replay", mend="--live")
    if is_live(record) and ask.replay is None:
        raise UsageRefused(
            f"{record.plan.model} answered here, and its responses were not recorded",
            mend="--live runs the model again, and compares rates",
        )
    for index, planned in enumerate(record.plan.tasks):
        if planned.spec.network != "none" and not ask.allow_network:
            raise HostRefused(
                f"task {planned.spec.name!r} asks for an open network",
                where=f"{where}: $.plan.tasks[{index}].spec.network",
                mend="--allow-network, once you have read what it runs",
            )


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


# ---------------------------------------------------------------------------------------------- what is said


def _show_plan(ask: Ask, record: Record, keys: tuple[TrialKey, ...]) -> None:
    """From the record alone: what it takes to do the same again, and what it was done with (row Z44)."""
    plan, harness = record.plan, record.harness
    if ask.as_json:
        emit_json(
            {
                "planDigest": plan.digest,
                "plan": plan.json_value(),
                "trials": [key.json_value() for key in keys],
                "harness": harness.json_value(),
                "version": record.version,
                "commit": record.commit,
                "solver": record.solver.json_value(),
                "images": [image.json_value() for image in record.images],
                "hosts": [host.json_value() for host in record.hosts],
                "date": record.date,
            }
        )
        return
    solver = record.solver
    line(f"plan    {plan.digest}")
    line(f"suite   {plan.suite.name} {plan.suite.version} (digest {plan.suite.digest})")
    line(f"solver  {plan.solver.name} ({plan.solver.kind}, digest {plan.solver.digest}), model {plan.model or 'none'}")
    if plan.solver.argv:
        line(f"argv    {shlex.join(plan.solver.argv)}")
    line(f"stamp   version {record.version or 'unknown'}, commit {record.commit or 'unknown'} (by {solver.source})")
    line(f"harness {harness.version}, commit {harness.commit or 'unknown'}{' (dirty)' if harness.dirty else ''}")
    for host in record.hosts:
        line(f"host    {host.os}, kernel {host.kernel}, {host.cpu}, {host.cores} cores, {host.memory_mib} MiB")
    line(f"trials  {len(keys)} of {len(trial_keys(plan))}")
    for pin, name in sorted({(planned.images.composed.config, planned.spec.image) for planned in plan.tasks}):
        line(f"image   {pin} ({name})")
    for name in dict.fromkeys(key.task for key in keys):
        limits = plan.task(name).spec.limits
        line(
            f"task    {name}: {limits.wall_seconds:g} s, {limits.cpus:g} CPU, {limits.memory_mib} MiB,"
            f" network {plan.task(name).spec.network}"
        )


def _say(ask: Ask, verdict: Verdict, path: Path) -> None:
    if ask.as_json:
        emit_json(verdict)
        note(f"verdict in {path}")
        return
    share = f"{verdict.compared_trials} of {verdict.recorded_trials} trials"
    line(f"{'record':<10}{verdict.recorded} ({verdict.checked})")
    line(f"{'saw':<10}{share}")
    for name in ("outcome", "energy", "cost"):
        part: VerdictPart = getattr(verdict, name)
        line(f"{name:<10}{part.verdict}")
        for reason in part.reasons[:_SHOWN_DIFFERENCES]:
            line(f"{'':<10}  {reason}")
        if len(part.reasons) > _SHOWN_DIFFERENCES:
            line(f"{'':<10}  and {len(part.reasons) - _SHOWN_DIFFERENCES} more, all of them in {path}")
    for field in verdict.harness_differences:
        line(f"{'harness':<10}{field.path.rsplit('.', 1)[1]}: recorded {field.recorded}, now {field.again}")
    if verdict.harness_differences:
        line(f"{'':<10}to run with the recorded one: --at-recorded-commit, or install that version")
    differing = [field for field in verdict.fields if not field.equal and field.compare == "informative"]
    if differing:
        line(f"{'else':<10}{len(differing)} informative fields differ (clocks, hosts, wall); {path} lists them")
    note(f"verdict in {path}")
