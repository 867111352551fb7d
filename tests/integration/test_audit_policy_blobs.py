"""Blobs that a policy requires, and the suite's own files, against records that were signed genuinely."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appliance.digests import sha256_hex
from appliance.records.plan import PlannedSuite, TrialPlan
from appliance.tasks.archive import MAX_BYTES, archive_suite
from appliance.tasks.model import Limits, Suite, TaskSpec
from appliance.tasks.reader import read_suite
from attest.trust.local import LocalTrust, open_or_init
from tests import record_builder as build
from tests.integration.test_audit_policy_signed import failed, judged
from tests.policy_builder import Made, believable, metered, policy
from tests.tasks_made import make_task

REQUIRED = {"required": ["journal", "readings", "diff", "streams", "baselines"]}
EXPECTED_BLOB = "the blobs that are required are there"
FILES = "its plan is what its suite's files say"


@pytest.fixture(scope="module")
def trust(tmp_path_factory: pytest.TempPathFactory) -> LocalTrust:
    return open_or_init(tmp_path_factory.mktemp("policy") / "local")


PARTS: dict[str, tuple[Callable[[Made], str], str]] = {
    "journal": (lambda made: made.record.journal.sha256, "$.journal"),
    "readings of rest": (lambda made: made.record.meter.idle[1].readings.sha256, "$.meter.idle[1].readings"),  # type: ignore[index]
    "readings of a trial": (
        lambda made: made.record.trials[2].energy.readings.sha256,  # type: ignore[union-attr]
        "$.trials[2].energy.readings",
    ),
    "diff": (lambda _: sha256_hex(build.PATCH), "$.trials[0].harvest.diff"),
    "stream": (lambda _: sha256_hex(build.PRINTED), "$.trials[0].streams.stdout.blob"),
    "baseline's output": (lambda _: sha256_hex(build.BASELINE_OUTPUT), "$.baselines[0].output"),
}


@pytest.mark.parametrize("part", PARTS)
def test_a_required_blob_that_is_not_there_is_named(part: str, trust: LocalTrust, tmp_path: Path) -> None:
    """`--allow-missing-blobs` does not take back what the policy requires (row P6)."""
    digest_of, where = PARTS[part]
    made = metered(lambda _: 25.0)
    folder = made.store(tmp_path)
    (folder / "sha256" / digest_of(made)).unlink()
    found = failed(judged(trust, made, folder, policy(trust, blobs=REQUIRED)))
    assert [outcome.name for outcome in found] == [EXPECTED_BLOB]
    refusal = found[0].refusal
    assert refusal is not None
    assert (refusal.reason, refusal.word, refusal.where) == ("blob", "blob_missing", where)
    assert digest_of(made)[:12] in refusal.message


@pytest.mark.parametrize("part", PARTS)
def test_a_required_blob_of_another_length_is_named(part: str, trust: LocalTrust, tmp_path: Path) -> None:
    """By this check and by that of digests (row P6)."""
    digest_of, where = PARTS[part]
    made = metered(lambda _: 25.0)
    folder = made.store(tmp_path)
    path = folder / "sha256" / digest_of(made)
    content = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(content + b"x")
    found = failed(judged(trust, made, folder, policy(trust, blobs=REQUIRED)))
    refusal = next(outcome.refusal for outcome in found if outcome.name == EXPECTED_BLOB)
    assert refusal is not None
    assert (refusal.word, refusal.where) == ("blob_mismatch", where)
    assert f"has {len(content) + 1} bytes" in refusal.message
    assert "its blobs have their digests" in {outcome.name for outcome in found}


def test_a_link_in_the_place_of_a_blob_is_no_blob(trust: LocalTrust, tmp_path: Path) -> None:
    """It may lead out of the folder (rows P6, P11)."""
    made = believable()
    folder = made.store(tmp_path / "blobs")
    path = folder / "sha256" / made.record.journal.sha256
    path.rename(tmp_path / "journal")
    path.symlink_to(tmp_path / "journal")
    found = failed(judged(trust, made, folder, policy(trust, blobs=REQUIRED)))
    refusal = next(outcome.refusal for outcome in found if outcome.name == EXPECTED_BLOB)
    assert refusal is not None
    assert (refusal.word, refusal.where) == ("blob_mismatch", "$.journal")
    assert refusal.message.endswith("is no regular file")


def test_without_any_blobs_the_first_that_is_required_is_named(trust: LocalTrust) -> None:
    """Row P6."""
    found = failed(judged(trust, believable(), None, policy(trust)))
    assert [(outcome.name, outcome.refusal.word if outcome.refusal else None) for outcome in found] == [
        (EXPECTED_BLOB, "blob_missing")
    ]


# ------------------------------------------------------------------------------------------- the suite's own files


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    folder = tmp_path_factory.mktemp("suites") / "small"
    for name in ("one", "two"):
        make_task(folder, name)
    return read_suite(folder)


def carried(suite: Suite, change: Callable[[TaskSpec], dict[str, Any]] | None = None, **planned: Any) -> Made:
    """A record of this suite that carries its files; `change` is what its publisher changed of the plan alone."""
    specs = [task.spec.model_copy(update=change(task.spec) if change else {}) for task in suite.tasks]
    fields = {"version": suite.version, "timeout_resolves": suite.timeout_resolves, "weight": suite.weight}
    stated = PlannedSuite(name="small", digest=suite.digest, **{**fields, **planned.pop("stated", {})})
    specs = planned.pop("specs", lambda found: found)(specs)
    of = build.plan(specs, suite=stated, passes=4, **planned)
    content = archive_suite(suite)
    stamp = build.stamps(of).suite.model_copy(update={"archive": build.blob(content)})
    made = believable(lambda number: without_ids(of, number), of, suite=stamp, baselines=baselines(of))
    return Made(made.record, made.blobs | {sha256_hex(content): content})


def without_ids(of: TrialPlan, number: int) -> dict[str, Any]:
    """These tasks list no ids: their oracle is an exit status."""
    limits = of.tasks[number % len(of.tasks)].spec.limits
    outcome = "unresolved" if number % 4 == 3 else "resolved"
    return {
        "grade": build.grade(outcome, ids=(), oracle="exit_code"),
        "limits": {"asked": limits, "effective": limits},
    }


def baselines(of: TrialPlan) -> list[Any]:
    return [build.baseline(task.spec.name, ids=()) for task in of.tasks]


def by_files(trust: LocalTrust, suite: Suite, **changes: Any) -> Any:
    """Nothing is pinned but the digest: limits are those of the suite's files."""
    rule = {"name": "small", "digest": suite.digest, "any_image": True, **changes}
    return policy(trust, suites=[rule], blobs={"required": ["suite", "journal"]})


def test_a_plan_that_says_what_its_suite_s_files_say_passes(trust: LocalTrust, suite: Suite, tmp_path: Path) -> None:
    """The premise: unpacked, read and compared, and every check made (row P7)."""
    made = carried(suite)
    report = judged(trust, made, made.store(tmp_path), by_files(trust, suite))
    assert {outcome.name for outcome in report.outcomes if outcome.status != "passed"} == {
        "its trials began after its challenge",
        "its walls fit since its challenge",
    }


CHANGED: dict[str, tuple[Callable[[Suite], Made], str, str]] = {
    "a longer wall": (
        lambda suite: carried(suite, lambda _: {"limits": Limits(wall_seconds=3600.0)}),
        "$.plan.tasks[0].spec.limits.wallSeconds",
        "wanted 600.0 (the suite's files), found 3600.0",
    ),
    "another test command": (
        lambda suite: carried(suite, lambda spec: {"test_cmd": ("true",)} if spec.name == "two" else {}),
        "$.plan.tasks[1].spec.testCmd",
        "wanted ['python3', 'test_it.py'] (the suite's files), found ['true']",
    ),
    "another name of a digest": (
        lambda suite: carried(suite, lambda _: {"digest": "1" * 64}),
        "$.plan.tasks[0].spec.digest",
        f"(the suite's files), found {'1' * 64}",
    ),
    "a suite that resolves by timeout": (
        lambda suite: carried(suite, stated={"timeout_resolves": False}),
        "$.plan.suite.timeoutResolves",
        "wanted True (the suite's files), found False",
    ),
    "a task that nobody named as left out": (
        lambda suite: carried(suite, specs=lambda found: found[:1]),
        "$.plan.tasks",
        "wanted two (the suite's files), found no such task",
    ),
    "a task of its own": (
        lambda suite: carried(suite, lambda spec: {"name": "zero"} if spec.name == "two" else {}),
        "$.plan.tasks[1].spec.name",
        "wanted a task of the suite (the suite's files), found zero",
    ),
}


def test_an_archive_whose_keys_would_keep_the_parser_busy_is_refused(
    trust: LocalTrust, suite: Suite, tmp_path: Path
) -> None:
    """One dotted key within the bounds of a file would have held a receiver for hours (attest 5, rows P7, P11)."""
    hostile = io.BytesIO()
    with tarfile.open(fileobj=hostile, mode="w", format=tarfile.PAX_FORMAT) as archive:
        key = f"{'.'.join('a' * 10_000)} = 1\n".encode()
        for name, content in (("one/before/a.py", b""), ("one/task.toml", key), ("one/tests/a.py", b"")):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    files = hostile.getvalue()
    made = carried(suite)
    stamp = made.record.suite.model_copy(update={"archive": build.blob(files)})
    made = Made(made.record.model_copy(update={"suite": stamp}), made.blobs | {sha256_hex(files): files})
    [found] = failed(judged(trust, made, made.store(tmp_path), by_files(trust, suite)))
    assert found.name == FILES
    assert "a key of more than 32 parts" in (found.why or "")


@pytest.mark.parametrize("name", CHANGED)
def test_a_plan_that_differs_from_its_suite_s_digest_pinned_files_is_excluded(
    name: str, trust: LocalTrust, suite: Suite, tmp_path: Path
) -> None:
    """Consistent from plan to grade, and another experiment: field, wanted, found (rows P7, H5)."""
    make, where, words = CHANGED[name]
    made = make(suite)
    found = failed(judged(trust, made, made.store(tmp_path), by_files(trust, suite)))
    assert [outcome.name for outcome in found] == [FILES]
    refusal = found[0].refusal
    assert refusal is not None
    assert (refusal.reason, refusal.word, refusal.where) == ("policy", "policy", where)
    assert words in refusal.message


def test_another_suite_s_files_under_this_digest_are_excluded(trust: LocalTrust, suite: Suite, tmp_path: Path) -> None:
    """The digest that the policy lists is made again from the files (row P7)."""
    other = tmp_path / "suites" / "small"
    make_task(other, "one")
    content = archive_suite(read_suite(other))
    made = carried(suite)
    stamp = made.record.suite.model_copy(update={"archive": build.blob(content)})
    made = Made(made.record.model_copy(update={"suite": stamp}), made.blobs | {sha256_hex(content): content})
    found = failed(judged(trust, made, made.store(tmp_path / "blobs"), by_files(trust, suite)))
    assert [outcome.name for outcome in found] == [FILES]
    assert found[0].refusal is not None
    assert found[0].refusal.where == "$.suite.archive"


@pytest.mark.parametrize("content", [b"no archive", b"\0" * 10_240], ids=["text", "an empty tar"])
def test_what_is_no_archive_is_refused_and_nothing_else_happens(
    content: bytes, trust: LocalTrust, suite: Suite, tmp_path: Path
) -> None:
    """A stranger's bytes (rows P7, P11)."""
    made = carried(suite)
    stamp = made.record.suite.model_copy(update={"archive": build.blob(content)})
    made = Made(made.record.model_copy(update={"suite": stamp}), made.blobs | {sha256_hex(content): content})
    found = failed(judged(trust, made, made.store(tmp_path / "blobs"), by_files(trust, suite)))
    assert [(outcome.name, outcome.refusal.word if outcome.refusal else None) for outcome in found] == [
        (FILES, "policy")
    ]


def test_an_altered_archive_is_not_unpacked(trust: LocalTrust, suite: Suite, tmp_path: Path) -> None:
    """Of the same length, with another digest: named by the check of digests too (row P6)."""
    made = carried(suite)
    folder = made.store(tmp_path)
    archive = made.record.suite.archive
    assert archive is not None
    path = folder / "sha256" / archive.sha256
    path.chmod(0o644)
    path.write_bytes(path.read_bytes().replace(b"VALUE = 0", b"VALUE = 1"))
    found = {outcome.name: outcome.refusal for outcome in failed(judged(trust, made, folder, by_files(trust, suite)))}
    assert set(found) == {FILES, "its blobs have their digests"}
    assert (found[FILES].reason, found[FILES].word) == ("blob", "blob_mismatch")  # type: ignore[union-attr]


def test_an_archive_that_says_it_is_huge_is_not_read(trust: LocalTrust, suite: Suite, tmp_path: Path) -> None:
    """The bound is that of any suite's archive (row P11)."""
    made = carried(suite)
    archive = made.record.suite.archive
    assert archive is not None
    huge = made.record.suite.model_copy(update={"archive": archive.model_copy(update={"bytes": MAX_BYTES + 1})})
    made = Made(made.record.model_copy(update={"suite": huge}), made.blobs)
    found = {
        outcome.name: outcome.refusal
        for outcome in failed(judged(trust, made, made.store(tmp_path), by_files(trust, suite)))
    }
    refusal = found[FILES]
    assert refusal is not None
    assert refusal.word == "blob_mismatch"
    assert f"over the bound of {MAX_BYTES}" in refusal.message
