"""What `publish` does not put out: nothing is written, and one line says why."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appliance.audit.trust import bundle_path
from appliance.records.record import ModelStamp, Record, SolverStamp
from tests import record_builder as build
from tests.measured_builder import measured
from tests.measured_builder import plan as measured_plan
from tests.publish_bench import Home, archived, files, suite_archive
from tests.readings_builder import simulated


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    return Home(tmp_path / "publisher", monkeypatch)


def _of_a_command(**stamped: Any) -> Record:
    plan = build.plan(solver="agent", kind="command", model=stamped.pop("model", None))
    fields: dict[str, Any] = {
        "name": "agent",
        "kind": "command",
        "digest": plan.solver.digest,
        "version": "1.0",
        "commit": "a" * 40,
        "source": "flag",
        "binary_sha256": None,
    }
    solver = SolverStamp(**{**fields, **stamped.pop("solver", {})})
    return build.record(plan, solver=solver, version=solver.version, commit=solver.commit, **stamped)


def _self_correcting(**changes: Any) -> Record:
    return build.record(build.plan(self_correct=True, **{"auto": "high", **changes}))


_NAMELESS = ModelStamp(name=" ", provider=None, digest=None, sampling=None, engine=None)
_STAMPS: dict[str, tuple[str, Callable[[], Record]]] = {
    "a dirty tree": ("$.harness.dirty", lambda: build.record(harness=build.harness_stamp(dirty=True))),
    "a tree that nobody looked at": ("$.harness.dirty", lambda: build.record(harness=build.harness_stamp(dirty=None))),
    "a program that nobody can tell": (
        "$.harness.version",
        lambda: build.record(harness=build.harness_stamp(commit=None, dirty=None, version="0+unknown")),
    ),
    "a commit that is marked dirty": (
        "$.harness.commit",
        lambda: build.record(harness=build.harness_stamp(commit=f"{'a' * 40}-dirty")),
    ),
    "an unknown subject": (
        "$.solver.source",
        lambda: _of_a_command(solver={"version": None, "commit": None, "source": "unknown"}),
    ),
    "a subject marked dirty": ("$.solver.commit", lambda: _of_a_command(solver={"commit": "v1-3-gabcdef-dirty"})),
    "an incomplete record": ("$.complete", lambda: build.record(build.plan(rollouts=2), [build.trial("t1")])),
    "a model without a name": (
        "$.model",
        lambda: _of_a_command(model="m").model_copy(update={"model": _NAMELESS}),
    ),
    "a model that the record forgot": ("$.model", lambda: _of_a_command(model="m").model_copy(update={"model": None})),
    "half a delta": ("$.selfCorrect", _self_correcting),
    "a self-correction for a report only": ("$.auto", lambda: _self_correcting(auto="low")),
}


@pytest.mark.parametrize("name", list(_STAMPS))
def test_stamps_that_no_published_record_has_are_refused_with_their_place(home: Home, name: str) -> None:
    """Dirty, unknown, incomplete, model-less, half a delta: status 3 and the JSON path (rows Z08, Z29, Z38, Z40, Z42;
    decisions: Stamps)."""
    path, made = _STAMPS[name]
    record = home.signed(made())
    refused = home.refused("publish", record, "--to", "site", "--with-suite", status=3)
    assert refused["where"] == f"{record}: {path}"
    assert refused["reason"] == "unpublishable"
    assert refused["message"]
    assert not files(home.folder / "site")


def test_a_release_of_the_harness_and_of_the_subject_may_be_published(home: Home) -> None:
    """A wheel knows no commit, a release of a solver none either: both have a version (decisions: Stamps)."""
    release = {"commit": None, "source": "release"}
    record = _of_a_command(solver=release, harness=build.harness_stamp(commit=None, dirty=None))
    [done] = home.json("publish", home.signed(record), "--to", "site", "--with-suite")["published"]
    assert (done["line"]["version"], done["line"]["commit"], done["line"]["model"]) == ("1.0", None, "none")


def test_a_dry_run_is_no_result(home: Home) -> None:
    """Row Z33."""
    plan = build.plan()
    record = build.record(plan, [build.trial("t1", "skipped")], []).model_copy(update={"dry_run": True})
    path = home.keep(record)
    refused = home.refused("publish", path, "--to", "site", "--with-suite", status=3)
    assert refused["where"].endswith("$.dryRun")


# ---------------------------------------------------------------------------------------------------- not verifiable


def _unsigned(home: Home, path: Path) -> None:
    bundle_path(path).unlink()


def _altered(_: Home, path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"wallSeconds":1', b'"wallSeconds":2', 1))


def _another_bundle(home: Home, path: Path) -> None:
    other = home.folder / home.signed(build.record(date="2026-01-02T03:04:06Z"), "other")
    bundle_path(path).write_bytes(bundle_path(other).read_bytes())


def _blob_missing(_: Home, path: Path) -> None:
    next((path.parent.parent / "blobs/sha256").iterdir()).unlink()


def _blob_altered(_: Home, path: Path) -> None:
    blob = next((path.parent.parent / "blobs/sha256").iterdir())
    blob.write_bytes(bytes([blob.read_bytes()[0] ^ 1]) + blob.read_bytes()[1:])


def _no_blobs(_: Home, path: Path) -> None:
    (path.parent.parent / "blobs").rename(path.parent.parent / "elsewhere")


def _false_summary(home: Home, path: Path) -> None:
    value = json.loads(path.read_bytes())
    value["summary"]["passes"][0]["resolution"] = 0.5
    from attest import canonical

    path.write_bytes(canonical.dumps(value))
    home("sign", str(path))


_UNVERIFIABLE: dict[str, tuple[Callable[[Home, Path], None], int, str | None]] = {
    "unsigned": (_unsigned, 3, None),
    "altered since": (_altered, 7, "subject"),
    "with another record's bundle": (_another_bundle, 7, "subject"),
    "without a blob": (_blob_missing, 7, "blob"),
    "with an altered blob": (_blob_altered, 7, "blob"),
    "without any blobs": (_no_blobs, 3, None),
    "with sums that its trials do not have": (_false_summary, 7, "aggregate"),
}


@pytest.mark.parametrize("name", list(_UNVERIFIABLE))
def test_a_record_that_nobody_could_verify_is_not_published(home: Home, name: str) -> None:
    """Every check of `verify` is made before anything is written (attest.md 7)."""
    spoil, status, reason = _UNVERIFIABLE[name]
    record = home.signed(build.record())
    spoil(home, home.folder / record)
    refused = home.refused("publish", record, "--to", "site", "--with-suite", status=status)
    assert refused["reason"] == reason
    assert record.removesuffix("one.json") in refused["where"]
    assert not files(home.folder / "site")


def test_one_bad_record_among_good_ones_keeps_all_of_them_back(home: Home) -> None:
    """All or nothing of one command."""
    good, bad = home.signed(build.record()), home.signed(build.record(date="2026-01-02T03:04:06Z"), "two")
    _altered(home, home.folder / bad)
    home("publish", good, bad, "--to", "site", "--with-suite", status=7)
    assert not files(home.folder / "site")


def test_joules_of_simulated_counters_are_never_published(home: Home) -> None:
    """Class policy, though `verify` takes them with a note (formats 6)."""
    fake = measured(measured_plan(["t1"], solver="reference", kind="reference"), counters=[simulated()])
    record = home.signed(fake.record, blobs=fake.blobs)
    home("verify", record, "--trust", "local")
    assert home.refused("publish", record, "--to", "site", "--with-suite", status=7)["reason"] == "policy"
    assert not files(home.folder / "site")


def test_a_record_of_somebody_else_is_held_to_whom_the_publisher_names(home: Home, tmp_path: Path) -> None:
    """The bundle never chooses: another signer is class `identity` or worse, whoever they are (V2, V13)."""
    other = Home(tmp_path / "other", home._monkeypatch)
    record = other.signed(build.record())
    home("trust", "init")
    refused = home.refused("publish", str(other.folder / record), "--to", "site", "--with-suite", status=7)
    assert refused["reason"] in {"time", "certificate", "identity"}
    wrong = ("--identity", "https://appliance.local.invalid/0")
    own = home.signed(build.record())
    assert home.refused("publish", own, "--to", "site", "--with-suite", *wrong, status=7)["reason"] == "identity"


# ------------------------------------------------------------------------------------------------------- where to


def test_a_folder_that_holds_something_else_is_left_alone(home: Home) -> None:
    """Nothing of ours is strewn among somebody's files."""
    record = home.signed(build.record())
    (home.folder / "docs").mkdir()
    (home.folder / "docs/mine.txt").write_text("mine")
    assert "mine.txt" in home.refused("publish", record, "--to", "docs", "--with-suite", status=2)["message"]
    (home.folder / "file").write_text("x")
    home("publish", record, "--to", "file", "--with-suite", status=2)
    assert files(home.folder / "docs") == {"mine.txt": b"mine"}


def test_nothing_to_publish_is_a_refusal(home: Home) -> None:
    """No record, an empty folder, a verdict without its root."""
    (home.folder / "empty").mkdir()
    home("publish", "--to", "site", "--with-suite", status=2)
    home("publish", "empty", "--to", "site", "--with-suite", status=3)
    record = home.signed(build.record())
    home("publish", record, "--to", "site", "--with-suite", "--verdict", "v.sigstore.json", status=2)
    home("publish", record, "--to", "site", "--with-suite", "--verdict-trust", "local", status=2)
    assert not (home.folder / "site").exists()


# ------------------------------------------------------------------------------------------------------- answers


def test_answers_are_named_and_asked_for_before_they_go_out(home: Home) -> None:
    """A suite's archive with reference solutions and hidden tests: status 2 without a word for it (issue 5, 3)."""
    record, blobs = archived(suite_archive(home.folder / "tasks/pair"))
    path = home.signed(record, blobs=blobs)
    refused = home.refused("publish", path, "--to", "site", status=2)
    assert "(one, two)" in refused["message"]
    assert "--with-suite" in refused["mend"]
    assert "--without-suite" in refused["mend"]
    for said in ("reference solutions: 2 (one, two)", "hidden tests: 2 (one, two)", "transcripts"):
        assert said in home.err
    assert not files(home.folder / "site")
