"""What `appliance reproduce` says: the plan from the record alone, and the verdict."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Final

from appliance.cli.output import emit_json, line, note
from appliance.records.plan import TrialKey, trial_keys
from appliance.records.record import Record
from appliance.records.verdict import Verdict, VerdictPart

_SHOWN: Final = 20
_SHOWN_DIFF: Final = 60
_NAME: Final = re.compile(r"\$\.(?:trials\[\d+\]\.|summary\.passes\[\d+\]\.)?(\w+)")
"""Of the field at a path: a trial's or a pass's own, else the record's."""
"""Lines."""


def show_plan(record: Record, keys: tuple[TrialKey, ...], *, as_json: bool) -> None:
    """From the record alone: what it takes to do the same again, and what it was done with (row Z44)."""
    plan, harness = record.plan, record.harness
    if as_json:
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


def say_verdict(verdict: Verdict, path: Path, *, as_json: bool) -> None:
    if as_json:
        emit_json(verdict)
        note(f"verdict in {path}")
        return
    share = f"{verdict.compared_trials} of {verdict.recorded_trials} trials"
    line(f"{'record':<10}{verdict.recorded} ({verdict.checked})")
    line(f"{'saw':<10}{share}")
    for name in ("outcome", "energy", "cost"):
        part: VerdictPart = getattr(verdict, name)
        line(f"{name:<10}{part.verdict}")
        for reason in part.reasons[:_SHOWN]:
            line(f"{'':<10}  {reason}")
        if len(part.reasons) > _SHOWN:
            line(f"{'':<10}  and {len(part.reasons) - _SHOWN} more, all of them in {path}")
    _say_figures(verdict)
    _say_replay(verdict, path)
    for field in verdict.harness_differences:
        line(f"{'harness':<10}{field.path.rsplit('.', 1)[1]}: recorded {field.recorded}, now {field.again}")
    if verdict.harness_differences:
        line(f"{'':<10}to run with the recorded one: --at-recorded-commit, or install that version")
    differing = [field for field in verdict.fields if not field.equal and field.compare == "informative"]
    if differing:
        names = dict.fromkeys(found[1] for field in differing if (found := _NAME.match(field.path)))
        line(f"{'else':<10}{len(differing)} informative fields differ: {', '.join(names)}; {path} lists them")
    note(f"verdict in {path}")


def _say_figures(verdict: Verdict) -> None:
    """Rates, flips, joules and dollars, recorded and now side by side."""
    for rate in verdict.rates:
        interval = f"[{rate.interval[0]:.3f}, {rate.interval[1]:.3f}]"
        line(f"{'rate':<10}pass {rate.pass_}: recorded {rate.recorded:.3f}, now {rate.again:.3f} {interval}")
    if verdict.paired is not None:
        for task in verdict.paired.tasks:
            if task.only_recorded or task.only_again:
                lost, won = task.only_recorded, task.only_again
                line(f"{'flips':<10}{task.task}: {lost} resolved then alone, {won} now alone, {task.both} both times")
        line(f"{'flips':<10}p = {verdict.paired.p_value:.3g} by an exact sign test, over trials that were scored twice")
    for joules in verdict.energies:
        before, after = joules.recorded_uj / 1e6, joules.again_uj / 1e6
        held = "within" if joules.holds else "more than"
        line(f"{'joules':<10}pass {joules.pass_}: recorded {before:.6g} J, now {after:.6g} J, {held} {joules.band:g}x")
    if verdict.costs is not None:
        before_usd, after_usd = verdict.costs.recorded_usd or "unknown", verdict.costs.again_usd or "unknown"
        line(f"{'dollars':<10}recorded {before_usd}, now {after_usd}")


def _say_replay(verdict: Verdict, path: Path) -> None:
    replay = verdict.replay
    if replay is None:
        return
    recorded = sum(trial.recorded for trial in replay.trials)
    line(f"{'replay':<10}{replay.level or 'nothing was asked'}, {recorded - replay.unused} of {recorded} exchanges")
    if replay.unused:
        line(f"{'':<10}  {replay.unused} recorded exchanges were not asked for again")
    differing = [words for trial in replay.trials for words in trial.differences]
    for words in differing[:_SHOWN]:
        line(f"{'':<10}  {words}")
    if len(differing) > _SHOWN:
        line(f"{'':<10}  and {len(differing) - _SHOWN} more, all of them in {path}")
    if replay.first_divergence is not None:
        line(f"{'diverged':<10}{replay.divergences} of {len(replay.trials)} trials; the first asked:")
        shown = replay.first_divergence.splitlines()
        for words in shown[:_SHOWN_DIFF]:
            line(words)
        if len(shown) > _SHOWN_DIFF:
            line(f"and {len(shown) - _SHOWN_DIFF} lines more, all of them in {path}")
