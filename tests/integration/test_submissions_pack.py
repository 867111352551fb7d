"""`submission pack`: everything that a receiver needs, and nothing that its sender did not mean to show."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from appliance.cli import output
from appliance.cli.main import run
from appliance.digests import sha256_hex
from appliance.records.record import Record, SuiteStamp
from appliance.tasks.archive import archive_suite
from appliance.tasks.reader import read_suite
from tests import record_builder as build
from tests.submissions_bench import Receiver, Sender, files_of, genuine
from tests.tasks_made import make_task


@dataclass
class Run:
    """A run folder as `run` leaves it, its suite's archive among the blobs."""

    folder: Path
    record: Record
    archive: bytes

    @property
    def path(self) -> Path:
        return self.folder / "records/reference.json"


@pytest.fixture
def sender(tmp_path: Path) -> Sender:
    return Sender(tmp_path / "sender")


@pytest.fixture
def receiver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], sender: Sender
) -> Receiver:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "receiver/share"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "receiver/config"))
    found = Receiver(tmp_path / "receiver", capsys)
    found.keeps(sender)
    return found


@pytest.fixture
def ran(tmp_path: Path, sender: Sender) -> Run:
    make_task(tmp_path / "tasks/small", "t1")
    make_task(tmp_path / "tasks/small", "t2", reference=False)
    archive = archive_suite(read_suite(tmp_path / "tasks/small"))
    planned = build.plan(("t1", "t2"))
    suite = SuiteStamp(
        name=planned.suite.name,
        version=planned.suite.version,
        digest=planned.suite.digest,
        weight=planned.suite.weight,
        archive=build.blob(archive),
        license="CC-BY-4.0",
        checks=None,
    )
    record = genuine(planned, suite=suite)
    made = sender.add(sender.home / "run", record, name="reference")
    (sender.home / "run/blobs/sha256" / sha256_hex(archive)).write_bytes(archive)
    return Run(made.parent.parent, record, archive)


def packed(receiver: Receiver, ran: Run, *more: str, status: int = 0) -> Any:
    to = str(ran.folder.parent / "packed")
    return receiver.json("submission", "pack", str(ran.path), "--to", to, *more, status=status)


def test_a_suite_with_answers_goes_along_only_where_that_was_said(receiver: Receiver, ran: Run) -> None:
    """Reference solutions and hidden tests: refused by name (status 2), nothing written; both ways out are named."""
    refused = packed(receiver, ran, status=2)
    assert "reference solutions or hidden tests of 2 tasks (t1, t2)" in refused["error"]["message"]
    assert "--with-suite" in refused["error"]["mend"]
    assert "--without-suite" in refused["error"]["mend"]
    assert {path.name for path in ran.folder.parent.iterdir()} == {"run", "trust", ".trust.lock"}


def test_with_the_suite_it_says_what_it_reveals_and_takes_everything(receiver: Receiver, ran: Run) -> None:
    """Record, bundle and every blob that the record names; a receiver has all he needs (row P1)."""
    found = packed(receiver, ran, "--with-suite")
    [shown] = found["reveals"]
    assert (shown["references"], shown["hiddenTests"]) == (["t1"], ["t1", "t2"])
    assert (shown["transcripts"], shown["diffs"], shown["referenceDiffs"]) == (1, 0, 1)
    folder = Path(found["folder"])
    sha256 = sha256_hex(ran.record.canonical())
    assert files_of(folder)[f"records/{sha256}.json"] == sha256
    assert files_of(folder)[f"records/{sha256}.sigstore.json"]
    blobs = {*build.blobs(ran.record), sha256_hex(ran.archive)}
    assert {path.name for path in (folder / "blobs/sha256").iterdir()} == blobs
    assert found["missing"] == []


def test_without_the_suite_it_is_auditable_still(receiver: Receiver, ran: Run, sender: Sender) -> None:
    """Its digest says which suite it was: the archive alone may stay at home."""
    found = packed(receiver, ran, "--without-suite")
    assert not (Path(found["folder"]) / "blobs/sha256" / sha256_hex(ran.archive)).exists()
    assert found["reveals"][0]["references"] == []
    assert receiver.intake(Path(found["folder"]), sender)["records"][0]["tier"] == "auditable"


def test_what_it_reveals_is_said_to_people_too(receiver: Receiver, ran: Run) -> None:
    """On standard error, a line a kind; standard output is the folder alone."""
    receiver.capsys.readouterr()
    output._emitted = False
    to = ran.folder.parent / "packed"
    assert run(["submission", "pack", str(ran.path), "--to", str(to), "--with-suite"]) == 0
    said = receiver.capsys.readouterr()
    assert said.out == f"{to}\n"
    for words in (
        "reference solutions: 1 (t1)",
        "hidden tests: 2 (t1, t2)",
        "transcripts: 1",
        "which are reference solutions: 1",
    ):
        assert words in said.err


def test_an_altered_blob_is_found_before_anybody_gets_it(receiver: Receiver, ran: Run) -> None:
    """Row A43: status 3, the file by name, no folder."""
    path = ran.folder / "blobs/sha256" / build.blob(build.PATCH).sha256
    path.write_bytes(build.PATCH.upper())
    refused = packed(receiver, ran, "--with-suite", status=3)
    assert refused["error"]["where"] == str(path)
    assert not (ran.folder.parent / "packed").exists()


def test_a_missing_blob_and_a_missing_signature_are_said(receiver: Receiver, ran: Run, sender: Sender) -> None:
    """Packed all the same: whether it is enough, the policy says, and `check` tells."""
    lost = build.blob(build.PATCH).sha256
    (ran.folder / "blobs/sha256" / lost).unlink()
    ran.path.with_suffix(".sigstore.json").unlink()
    found = packed(receiver, ran, "--with-suite")
    assert (found["missing"], found["unsigned"]) == ([lost], [sha256_hex(ran.record.canonical())])
    checked = receiver.check(Path(found["folder"]), sender, status=7)
    assert {reason["word"] for reason in checked["records"][0]["reasons"]} == {"policy"}


def test_nothing_that_lies_there_is_overwritten(receiver: Receiver, ran: Run) -> None:
    """Status 2; an empty folder may be there."""
    to = ran.folder.parent / "packed"
    to.mkdir()
    (to / "mine").write_text("mine")
    packed(receiver, ran, "--with-suite", status=2)
    assert files_of(to) == {"mine": sha256_hex(b"mine")}
    (to / "mine").unlink()
    packed(receiver, ran, "--with-suite")


def test_a_reproducers_verdict_goes_along(receiver: Receiver, ran: Run, sender: Sender, tmp_path: Path) -> None:
    """Row P3, from pack to intake."""
    doubter = Sender(tmp_path / "doubter")
    bundle = ran.path.with_suffix(".sigstore.json").read_bytes()
    (tmp_path / "verdict.sigstore.json").write_bytes(doubter.reproduced(ran.record, bundle))
    found = packed(receiver, ran, "--without-suite", "--verdict", str(tmp_path / "verdict.sigstore.json"))
    assert len(found["verdicts"]) == 1
    receiver.keeps(sender, verifiers=[doubter])
    taken = receiver.intake(Path(found["folder"]), sender, doubter)
    assert taken["records"][0]["tier"] == "verified"


def test_several_records_share_their_blobs(receiver: Receiver, ran: Run, sender: Sender) -> None:
    """One folder of a whole run, each file once."""
    other = sender.add(ran.folder, genuine(hour=6), name="other")
    to = str(ran.folder.parent / "packed")
    words = ("submission", "pack", str(ran.path), str(other), "--to", to, "--without-suite")
    found = receiver.json(*words)
    assert len(found["records"]) == 2
    assert receiver.intake(Path(to), sender)["accepted"] == 2


def test_links_in_a_run_folder_are_not_followed(receiver: Receiver, ran: Run, tmp_path: Path) -> None:
    """What goes out is what the record names, byte by byte: a link to something else is nothing of it."""
    path = ran.folder / "blobs/sha256" / build.blob(build.PATCH).sha256
    shutil.move(path, tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    packed(receiver, ran, "--with-suite", status=3)


def test_a_run_folder_is_packed_as_it_is(receiver: Receiver, ran: Run, sender: Sender) -> None:
    """All its records; a bundle whose record was taken away ends it."""
    sender.add(ran.folder, genuine(hour=6), name="other")
    to = str(ran.folder.parent / "packed")
    words = ("submission", "pack", str(ran.folder), "--without-suite", "--to")
    assert len(receiver.json(*words, to)["records"]) == 2
    ran.path.unlink()
    refused = receiver.json(*words, f"{to}-again", status=3)
    assert refused["error"]["where"] == str(ran.path.with_suffix(".sigstore.json"))


def test_a_suite_that_was_asked_for_goes_along_or_nothing_does(receiver: Receiver, ran: Run) -> None:
    """Status 3, the blob by its digest, no folder."""
    (ran.folder / "blobs/sha256" / sha256_hex(ran.archive)).unlink()
    refused = packed(receiver, ran, "--with-suite", status=3)
    assert sha256_hex(ran.archive) in refused["error"]["message"]
    assert not (ran.folder.parent / "packed").exists()
    packed(receiver, ran, "--without-suite")


def test_what_is_no_verdict_about_these_records_is_not_packed_as_one(
    receiver: Receiver, ran: Run, sender: Sender, tmp_path: Path
) -> None:
    """A root, a record's own bundle, a verdict about another record: each by name, and no folder."""
    other = genuine(hour=6)
    (tmp_path / "other.sigstore.json").write_bytes(sender.reproduced(other, sender.signed(other)))
    for path, status, words in (
        (sender.trust.root_path, 3, "no signed verdict"),
        (ran.path.with_suffix(".sigstore.json"), 3, "no signed verdict"),
        (tmp_path / "other.sigstore.json", 2, f"is about record {sha256_hex(other.canonical())[:12]}"),
    ):
        refused = packed(receiver, ran, "--without-suite", "--verdict", str(path), status=status)
        assert words in refused["error"]["message"]
        assert refused["error"]["where"] == f"--verdict {path}"
    assert not (ran.folder.parent / "packed").exists()
