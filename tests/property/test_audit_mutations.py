"""A genuine record, changed in one place and made canonical again as a cheat with the key would: what refuses it.

The signature is no part of this: every case would be signed again with the genuine key.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from appliance.audit.checks import record_checks
from appliance.digests import sha256_hex
from appliance.files import store_blob
from appliance.records.fold import is_complete
from appliance.records.record import Record
from appliance.records.summarise import summarise
from attest import canonical
from attest.checks import NotRun, Verified
from attest.errors import Refused
from tests import record_builder as build

Mutation = Callable[[dict[str, Any]], None]

# Several suites share a machine: how long an example takes says nothing here.
BUSY = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])


def genuine() -> Record:
    """Every outcome that a run can give but `skipped`; two passes of three tasks."""
    of = build.plan(["t1", "t2", "t3"], passes=2)
    trials = [
        build.trial("t1"),
        build.trial("t2", "unresolved", wall=2.0),
        build.trial("t3", "excluded"),
        build.trial("t1", pass_=1, cause="timeout", solver_exit=None),
        build.trial("t2", "errored", pass_=1),
        build.trial("t3", "excluded", pass_=1),
    ]
    passed = build.baseline("t3", exit=0, verdict="baseline_passed", ids=tuple(build.grade().ids))
    return build.record(of, trials, [build.baseline("t1"), build.baseline("t2"), passed])


def refusal(value: Any, blobs: Path | None = None, *, allow_missing: bool = True) -> Refused | None:
    """The first refusal of the list, as `verify` comes to it."""
    content = canonical.dumps(value)
    verified = Verified(content, canonical.loads(content), {}, "who", "issuer", datetime.now(UTC), "local")
    for check in record_checks(blobs, allow_missing):
        try:
            check.run(verified)
        except Refused as refused:
            return refused
        except NotRun as why:
            assert why.acceptable == allow_missing
    return None


def at(path: str, change: Any) -> Mutation:
    """Set `trials.0.outcome`; a function changes what is there."""

    def mutate(value: dict[str, Any]) -> None:
        *way, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        inner: Any = value
        for part in way:
            inner = inner[part]
        inner[last] = change(inner[last]) if callable(change) else change

    return mutate


def both(*mutations: Mutation) -> Mutation:
    def mutate(value: dict[str, Any]) -> None:
        for one in mutations:
            one(value)

    return mutate


def resummarised(*mutations: Mutation) -> Mutation:
    """The cheat also mends summary, completeness and plan digest, where the model lets that be."""

    def mutate(value: dict[str, Any]) -> None:
        both(*mutations)(value)
        record = Record.from_canonical(canonical.dumps(value), "mutated")
        value["summary"] = summarise(record.plan, record.trials).json_value()
        value["complete"] = is_complete(record.plan, record.trials)
        value["planDigest"] = record.plan.digest

    return mutate


def drop(path: str) -> Mutation:
    def mutate(value: dict[str, Any]) -> None:
        *way, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        inner: Any = value
        for part in way:
            inner = inner[part]
        del inner[last]

    return mutate


def swap_trials(value: dict[str, Any]) -> None:
    trials = value["trials"]
    trials[0], trials[1] = trials[1], trials[0]


def repeat_trial(value: dict[str, Any]) -> None:
    value["trials"].insert(1, copy.deepcopy(value["trials"][0]))


def exclude_the_failure(value: dict[str, Any]) -> None:
    value["trials"][1].update(outcome="excluded", reason="baseline_passed")


CASES: dict[str, tuple[str, str, Mutation]] = {
    # name: (class, where it points, mutation)
    "a field more": ("record", "$.trials[0]", lambda v: v["trials"][0].update(note="x")),
    "a field less": ("record", "$", drop("warnings")),
    "snake_case name": ("record", "$", lambda v: v.update(record_id=v.pop("recordId"))),
    "a number for a word": ("record", "$.solver.name", at("solver.name", 1)),
    "an outcome of no vocabulary": ("record", "$.trials[0].outcome", at("trials.0.outcome", "solved")),
    "a reason of another outcome": ("record", "$.trials[0].reason", at("trials.0.reason", "timeout")),
    "an estimate without interval": (
        "record",
        "$.trials[0].energy.total.interval",
        at("trials.0.energy.total.interval", None),
    ),
    "an estimate called comparable": (
        "record",
        "$.trials[0].energy.total.comparable",
        at("trials.0.energy.total.comparable", True),
    ),
    "a dry run": ("record", "$.dryRun", at("dryRun", True)),
    "another plan digest": ("aggregate", "$.planDigest", at("planDigest", "0" * 64)),
    "another prompt": ("aggregate", "$.planDigest", at("plan.tasks.0.spec.prompt", "say hello")),
    "another image": ("aggregate", "$.planDigest", at("plan.tasks.0.images.task.config", f"sha256:{'0' * 64}")),
    "another image, planned": (
        "aggregate",
        "$.plan.tasks[0].images.task",
        resummarised(at("plan.tasks.0.images.task.config", f"sha256:{'0' * 64}")),
    ),
    "another test command, planned": (
        "aggregate",
        "$.journal",
        resummarised(at("plan.tasks.0.spec.testCmd", ["true"])),
    ),
    "a failure left out": ("aggregate", "$.complete", drop("trials.1")),
    "a failure left out and owned up": (
        "aggregate",
        "$.summary.passes[0].outcomes.unresolved",
        both(drop("trials.1"), at("complete", False)),
    ),
    "a failure left out, summed up again": ("aggregate", "$.trials", resummarised(drop("trials.1"))),
    "a trial of a task not planned": ("aggregate", "$.trials[0].key", at("trials.0.key.task", "t9")),
    "a trial of a pass not planned": ("aggregate", "$.trials[5].key", at("trials.5.key.pass", 7)),
    "a success twice": ("aggregate", "$.trials[1].key", repeat_trial),
    "trials out of order": ("aggregate", "$.trials[1].key", swap_trials),
    "a host that is not there": ("aggregate", "$.trials[0].host", at("trials.0.host", 3)),
    "another suite's digest": ("aggregate", "$.suite.digest", at("suite.digest", "0" * 64)),
    "another suite version": ("aggregate", "$.suite.version", at("suite.version", "2")),
    "another weight": ("aggregate", "$.suite.weight", at("suite.weight", 8)),
    "another solver's name": ("aggregate", "$.solver.name", at("solver.name", "gpt")),
    "a model that was not planned": (
        "aggregate",
        "$.model.name",
        at("model", {"digest": None, "engine": None, "name": "m", "provider": None, "sampling": None}),
    ),
    "self-correct as never planned": ("aggregate", "$.selfCorrect", at("selfCorrect", True)),
    "another harness version": ("aggregate", "$.harness.version", at("harness.version", "9.9.9")),
    "limits that were not asked": (
        "aggregate",
        "$.trials[0].limits.asked",
        at("trials.0.limits.asked.wallSeconds", 6000),
    ),
    "limits that were not held": (
        "aggregate",
        "$.trials[0].limits.effective",
        at("trials.0.limits.effective.memoryMib", 65536),
    ),
    "limits never read back": ("aggregate", "$.trials[0].limits.effective", at("trials.0.limits.effective", None)),
    "a network in force": ("aggregate", "$.trials[0].network.effective", at("trials.0.network.effective", "open")),
    "longer limits, planned": (
        "aggregate",
        "$.trials[0].limits.asked",
        resummarised(at("plan.tasks.0.spec.limits.wallSeconds", 6000)),
    ),
    "a failure called a success": (
        "aggregate",
        "$.trials[1].outcome",
        resummarised(at("trials.1.outcome", "resolved"), at("trials.1.reason", None)),
    ),
    "a success called a failure": (
        "aggregate",
        "$.trials[0].reason",
        resummarised(at("trials.0.outcome", "unresolved"), at("trials.0.reason", "tests_failed")),
    ),
    "a failure excluded": ("aggregate", "$.trials[1].reason", resummarised(exclude_the_failure)),
    "a failure excluded with its baseline": (
        "aggregate",
        "$.baselines[1].verdict",
        resummarised(exclude_the_failure, at("baselines.1.verdict", "baseline_passed")),
    ),
    "a failure unscored": (
        "aggregate",
        "$.trials[1].outcome",
        resummarised(at("trials.1.outcome", "unscored"), at("trials.1.reason", None)),
    ),
    "a failure errored": (
        "aggregate",
        "$.trials[1].grade",
        resummarised(at("trials.1.outcome", "errored"), at("trials.1.reason", "provider_failed")),
    ),
    "a failed baseline left out": ("aggregate", "$.trials[0].outcome", drop("baselines.0")),
    "a baseline that passed called failed": ("aggregate", "$.baselines[2].ids", at("baselines.2.verdict", "failed")),
    "a baseline of another image": ("aggregate", "$.baselines[0]", at("baselines.0.image", f"sha256:{'0' * 64}")),
    "an exit status that is not 0": ("aggregate", "$.trials[0].outcome", at("trials.0.grade.exit", 1)),
    "an oracle that ran into its limit": (
        "aggregate",
        "$.trials[0].outcome",
        both(at("trials.0.grade.timedOut", True), at("trials.0.grade.exit", None)),
    ),
    "a listed id that failed": ("aggregate", "$.trials[0].outcome", at("trials.0.grade.ids.0.status", "failed")),
    "a listed id that is expected to fail": (
        "aggregate",
        "$.trials[0].grade.ids[0].expected",
        at("trials.0.grade.ids.0.expected", "failed"),
    ),
    "a listed id left out": ("aggregate", "$.trials[1].grade.ids", drop("trials.1.grade.ids.0")),
    "every id left out": ("aggregate", "$.trials[0].outcome", at("trials.0.grade.ids", [])),
    "another oracle": ("aggregate", "$.trials[0].grade.oracle", at("trials.0.grade.oracle", "exit_code")),
    "tests that changed": ("aggregate", "$.trials[0].outcome", at("trials.0.grade.testsDigestAfter", "0" * 64)),
    "no grade": ("aggregate", "$.trials[0].grade", at("trials.0.grade", None)),
    "a cause without its exit": ("aggregate", "$.trials[0].cause", at("trials.0.solverExit", None)),
    "after the subject": ("aggregate", "$.trials[0].afterSubject", at("trials.0.afterSubject", True)),
    "a higher rate": ("aggregate", "$.summary.passes[0].resolution", at("summary.passes.0.resolution", 1)),
    "a count more": ("aggregate", "$.summary.passes[0].outcomes.resolved", at("summary.passes.0.outcomes.resolved", 2)),
    "fewer joules a resolved": (
        "aggregate",
        "$.summary.passes[0].joulesPerResolved",
        at("summary.passes.0.joulesPerResolved", 1),
    ),
    "a better provenance of the sum": (
        "aggregate",
        "$.summary.passes[0].energy.provenance",
        at("summary.passes.0.energy.provenance", "hw_shunt"),
    ),
    "a cause left out": ("aggregate", "$.summary.passes[1].causes", at("summary.passes.1.causes", {})),
    "a microjoule less": (
        "energy",
        "$.trials[0].energy.total.netUj",
        resummarised(
            at("trials.0.energy.total.netUj", lambda uj: uj - 1),
            at("trials.0.energy.byRole.solver.netUj", lambda uj: uj - 1),
        ),
    ),
    "a microjoule less, in the total alone": (
        "energy",
        "$.trials[0].energy.byRole",
        resummarised(at("trials.0.energy.total.netUj", lambda uj: uj - 1)),
    ),
    "a narrower interval": (
        "energy",
        "$.trials[0].energy.total.interval",
        resummarised(at("trials.0.energy.total.interval.0", lambda uj: uj + 1)),
    ),
    "a shorter window": ("energy", "$.trials[0].energy.total.netUj", at("trials.0.energy.total.inputs.wallNs", 1)),
    "a shorter wall": (
        "energy",
        "$.trials[0].energy.total.inputs.wallNs",
        resummarised(at("trials.0.wallSeconds", 0.5)),
    ),
    "other watts": ("energy", "$.trials[0].energy.total.inputs", at("trials.0.energy.total.inputs.watts", 20)),
    "watts not of the plan": (
        "energy",
        "$.trials[0].energy.total.inputs",
        at("trials.0.energy.total.inputs.wattsSource", "guess"),
    ),
    "an unknown model": ("energy", "$.trials[0].energy.total.model", at("trials.0.energy.total.model", "better/1")),
    "an estimate from a shunt": (
        "energy",
        "$.trials[0].energy.total.provenance",
        resummarised(at("trials.0.energy.total.provenance", "hw_shunt")),
    ),
    "less gross than net": (
        "energy",
        "$.trials[0].energy.total.grossUj",
        resummarised(at("trials.0.energy.total.grossUj", 1)),
    ),
}


def test_the_genuine_record_passes_every_check(tmp_path: Path) -> None:
    """What nobody changed is refused by nothing, blobs and journal included."""
    record = genuine()
    for digest, content in build.blobs(record).items():
        store_blob(tmp_path, content, digest)
    assert refusal(record.json_value(), tmp_path, allow_missing=False) is None


@pytest.mark.parametrize("name", CASES)
def test_a_record_changed_in_one_place_is_refused_for_its_reason(name: str, tmp_path: Path) -> None:
    """Each change is refused, with the class and the JSON path that name it (issue: fuzz, attest 6; H5, J44)."""
    record = genuine()
    for digest, content in build.blobs(record).items():
        store_blob(tmp_path, content, digest)
    reason, where, mutate = CASES[name]
    value = record.json_value()
    mutate(value)
    refused = refusal(value, tmp_path)
    assert refused is not None, "accepted"
    assert (refused.reason, refused.where) == (reason, where), str(refused)


def test_a_blob_that_was_changed_is_refused_and_one_that_lacks_is_not_run(tmp_path: Path) -> None:
    """A blob is believed by its digest alone; one that is not there is not run (formats 8)."""
    record = genuine()
    for digest, content in build.blobs(record).items():
        store_blob(tmp_path, content, digest)
    patch = tmp_path / "sha256" / sha256_hex(build.PATCH)
    patch.write_bytes(build.PATCH.replace(b"2", b"3"))
    refused = refusal(record.json_value(), tmp_path)
    assert refused is not None
    assert (refused.reason, refused.where) == ("blob", "$.trials[0].harvest.diff")
    patch.unlink()
    assert refusal(record.json_value(), tmp_path, allow_missing=True) is None
    patch.symlink_to(tmp_path / "sha256" / sha256_hex(build.PRINTED))
    refused = refusal(record.json_value(), tmp_path)
    assert refused is not None
    assert refused.reason == "blob"


_GENUINE = genuine()


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict) and value:
        return [leaf for key, item in value.items() for leaf in _leaves(item, (*path, key))]
    if isinstance(value, list) and value:
        return [leaf for key, item in enumerate(value) for leaf in _leaves(item, (*path, key))]
    return [path]


_JUDGED = [path for path in _leaves(json.loads(_GENUINE.canonical())) if path[0] in ("plan", "planDigest", "summary")]


@BUSY
@given(path=st.sampled_from(_JUDGED), other=st.sampled_from([None, True, 0, 1, -1, 1.5, "x", [], {}, "0" * 64]))
def test_no_leaf_of_plan_or_summary_can_be_changed_alone(path: tuple[Any, ...], other: Any) -> None:
    """Plan and summary are held by digest and recomputation: any other value of any leaf is refused."""
    value = json.loads(_GENUINE.canonical())
    inner = value
    for part in path[:-1]:
        inner = inner[part]
    if inner[path[-1]] == other and type(inner[path[-1]]) is type(other):
        return
    inner[path[-1]] = other
    if canonical.dumps(value) == _GENUINE.canonical():
        return
    assert refusal(value) is not None


_LEAVES = _leaves(json.loads(_GENUINE.canonical()))


@BUSY
@given(
    path=st.sampled_from(_LEAVES),
    other=st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.floats(0, 1e6), st.text(max_size=5)),
)
def test_whatever_a_record_holds_the_checks_end_in_a_refusal_or_none(path: tuple[Any, ...], other: Any) -> None:
    """Hostile values raise nothing but Refused and NotRun: no traceback, no endless loop."""
    value = json.loads(_GENUINE.canonical())
    inner = value
    for part in path[:-1]:
        inner = inner[part]
    inner[path[-1]] = other
    refusal(value)
