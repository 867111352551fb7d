"""Folders that nobody means well with: refused within bounds, by name, before anything is written."""

from __future__ import annotations

import gzip
import io
import os
import socket
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appliance.audit.trust import claims_of
from appliance.digests import sha256_hex
from appliance.errors import InputRefused
from appliance.records.record import Record
from appliance.submissions.tree import TreeBounds, copy_submission, list_submission
from attest import canonical
from attest.signing import sign_record
from tests import record_builder as build
from tests.submissions_bench import Receiver, Sender, files_of, genuine, trials

MIB = 1024 * 1024


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


def _ten_thousand_files(folder: Path) -> None:
    crowd = folder / "blobs/sha256"
    for at in range(10_000):
        (crowd / sha256_hex(str(at).encode())).touch()


def _a_sparse_blob(folder: Path) -> None:
    path = folder / "blobs/sha256" / sha256_hex(b"large")
    path.touch()
    os.truncate(path, 5 * 1024 * MIB)


def _five_large_ones(folder: Path) -> None:
    for at in range(5):
        path = folder / "blobs/sha256" / sha256_hex(str(at).encode())
        path.touch()
        os.truncate(path, 1024 * MIB)


def _a_link(folder: Path) -> None:
    (folder / "records/passwd.json").symlink_to("/etc/passwd")


def _a_linked_folder(folder: Path) -> None:
    (folder / "challenges").symlink_to("/etc")


def _a_link_out_of_the_blobs(folder: Path) -> None:
    path = folder / "blobs/sha256" / build.blob(build.PATCH).sha256
    (folder.parent / "elsewhere").write_bytes(path.read_bytes())
    path.unlink()
    path.symlink_to("../../../elsewhere")


def _a_hard_link(folder: Path) -> None:
    path = folder / "blobs/sha256" / build.blob(build.PATCH).sha256
    os.link(path, folder.parent / "mine-still")


def _a_pipe(folder: Path) -> None:
    os.mkfifo(folder / "records/pipe.json")


def _a_socket(folder: Path) -> None:
    here = Path.cwd()
    os.chdir(folder)
    try:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind("verdicts.sigstore.json")
    finally:
        os.chdir(here)


def _deep_folders(folder: Path) -> None:
    (folder / "/".join(["d"] * 20)).mkdir(parents=True)


def _a_name_that_drives_a_terminal(folder: Path) -> None:
    (folder / "records/\x1b[2J.json").touch()


def _many_records(folder: Path) -> None:
    for at in range(300):
        (folder / f"records/{at}.json").write_bytes(b"{}")


def _many_verdicts(folder: Path) -> None:
    (folder / "verdicts").mkdir()
    for at in range(1025):
        (folder / f"verdicts/{at}.sigstore.json").touch()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (_ten_thousand_files, "over the bound of 8192 files"),
        (_a_sparse_blob, "5120 MiB, over the bound of 1024 MiB for one file"),
        (_five_large_ones, "over the bound of 4096 MiB for all its files"),
        (_a_link, "a symbolic link"),
        (_a_linked_folder, "a symbolic link"),
        (_a_link_out_of_the_blobs, "a symbolic link"),
        (_a_hard_link, "hard link"),
        (_a_pipe, "a named pipe"),
        (_a_socket, "a socket"),
        (_deep_folders, "over the bound of 8 folders in each other"),
        (_a_name_that_drives_a_terminal, "a name that cannot be printed"),
        (_many_records, "over the bound of 256 records"),
        (_many_verdicts, "over the bound of 1024 verdicts"),
    ],
)
@pytest.mark.parametrize("verb", ["intake", "check"])
def test_a_folder_beyond_its_bounds_is_refused_naming_the_bound(
    sender: Sender, receiver: Receiver, change: Callable[[Path], None], says: str, verb: str
) -> None:
    """Row P11: status 3, no store, nothing read through a link."""
    folder = sender.submission(genuine())
    change(folder)
    refused = receiver.json(*receiver.words(verb, folder, sender), status=3)
    assert says in refused["error"]["message"]
    assert refused["error"]["where"].startswith(str(folder))
    assert not receiver.store.exists()


def _zip_bomb() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("records/r.json", bytes(64 * MIB))
    return made.getvalue()


def _tar_bomb() -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        member = tarfile.TarInfo("../../escaped")
        member.size = 64 * MIB
        archive.addfile(member, io.BytesIO(bytes(member.size)))
    return made.getvalue()


@pytest.mark.parametrize("archive", [_zip_bomb, _tar_bomb])
@pytest.mark.parametrize("verb", ["intake", "check"])
def test_an_archive_given_as_a_folder_is_not_unpacked(
    sender: Sender, receiver: Receiver, tmp_path: Path, archive: Callable[[], bytes], verb: str
) -> None:
    """Row P11: what is not a folder is no submission."""
    (tmp_path / "bomb").write_bytes(archive())
    refused = receiver.json(*receiver.words(verb, tmp_path / "bomb", sender), status=3)
    assert "no archive is unpacked" in refused["error"]["message"]
    assert not receiver.store.exists()


def test_a_bomb_among_the_files_is_passed_over(sender: Sender, receiver: Receiver) -> None:
    """Row P11: what is no part of a submission is neither opened nor kept, and said."""
    folder = sender.submission(genuine())
    (folder / "records.zip").write_bytes(_zip_bomb())
    taken = receiver.intake(folder, sender)
    assert taken["passedOver"] == ["records.zip"]
    assert "records.zip" not in {Path(name).name for name in files_of(receiver.store)}


def test_readings_that_unpack_without_end_are_not_unpacked_to_it(sender: Sender, receiver: Receiver) -> None:
    """Row P11: a gzip of zeros in a readings blob's place ends in a reason, within what its window can hold."""
    bomb = gzip.compress(bytes(64 * MIB), mtime=0)
    of = build.plan(("t1", "t2"))
    first, *rest = trials(of)
    assert first.energy is not None
    energy = first.energy.model_copy(update={"readings": build.blob(bomb)})
    record = build.record(of, [first.model_copy(update={"energy": energy}), *rest], version="1.0", commit="1" * 40)
    folder = sender.submission(record)
    (folder / "blobs/sha256" / sha256_hex(bomb)).write_bytes(bomb)
    refused = receiver.intake(folder, sender, status=7)
    assert refused["excluded"] == 1


def _in_its_solver(record: Record) -> Record:
    name = "../../escaped"
    plan = record.plan.model_copy(update={"solver": record.plan.solver.model_copy(update={"name": name})})
    return build.record(plan, record.trials, version="1.0", commit="1" * 40)


def _in_its_id(record: Record) -> Record:
    return record.model_copy(update={"record_id": "../../escaped"})


@pytest.mark.parametrize("named", [_in_its_solver, _in_its_id])
def test_no_name_in_a_record_leads_out_of_the_store(
    sender: Sender, receiver: Receiver, named: Callable[[Record], Record]
) -> None:
    """Rows P11, A43: files are called by digests alone."""
    folder = sender.submission(named(genuine()))
    before = files_of(receiver.home.parent)
    receiver.json(*receiver.words("intake", folder, sender), status=0)
    written = set(files_of(receiver.home.parent)) - set(before)
    assert all(name.startswith(("receiver/store/", "receiver/share/", "receiver/config/")) for name in written)
    assert not any("escaped" in name for name in written)


def test_the_bounds_are_the_receivers_to_widen(sender: Sender, receiver: Receiver) -> None:
    """Row P11: by flags of his own, never by anything in the folder."""
    folder = sender.submission(genuine())
    words = receiver.words("intake", folder, sender)
    refused = receiver.json(*words, "--max-files", "5", status=3)
    assert "over the bound of 5 files" in refused["error"]["message"]
    assert receiver.json(*words, "--max-files", "50", "--max-mib", "1")["accepted"] == 1


def _grown(path: Path) -> None:
    with path.open("ab") as stream:
        stream.truncate(8 * MIB)


def _made_a_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


def _made_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _gone(path: Path) -> None:
    path.unlink()


def _folder_exchanged(path: Path) -> None:
    path.parent.rename(path.parent.with_name("aside"))
    path.parent.symlink_to("/etc")


@pytest.mark.parametrize("change", [_grown, _made_a_link, _made_a_pipe, _gone, _folder_exchanged])
def test_what_changes_between_the_look_and_the_copy_is_refused(
    sender: Sender, tmp_path: Path, change: Callable[[Path], Any]
) -> None:
    """Row P11: nothing is followed, waited for or copied beyond its bound, whatever its sender does meanwhile."""
    folder = sender.submission(genuine())
    listing = list_submission(folder, TreeBounds(file_mib=4, total_mib=4))
    change(folder / "blobs/sha256" / build.blob(build.PATCH).sha256)
    with pytest.raises(InputRefused, match="changed while it was read"):
        copy_submission(listing, tmp_path / "copy")


@pytest.mark.parametrize(
    "content", [b"", b"x", b"[]", b"\xef\xbb\xbf{}", b'{"challenge":"' + b"f" * 64 + b'"}', b"[" * 5000]
)
@pytest.mark.parametrize("what", ["record", "bundle", "challenge", "verdict", "journal"])
def test_any_bytes_in_any_place_come_to_a_decision(
    sender: Sender, receiver: Receiver, content: bytes, what: str
) -> None:
    """Row P11: no traceback; whatever is beside it, the genuine record is judged by what is its own."""
    record = genuine()
    folder = sender.submission(record)
    [path] = [one for one in (folder / "records").glob("*.json") if "sigstore" not in one.name]
    places = {
        "record": folder / "records/other.json",
        "bundle": path.with_suffix(".sigstore.json"),
        "challenge": folder / "challenges" / f"{sha256_hex(content)}.json",
        "verdict": folder / "verdicts/x.sigstore.json",
        "journal": folder / "blobs/sha256" / record.journal.sha256,
    }
    places[what].parent.mkdir(exist_ok=True)
    places[what].write_bytes(content)
    own = what in ("bundle", "journal")
    found = receiver.intake(folder, sender, status=7 if own or what == "record" else 0)
    [judged] = [one for one in found["records"] if one["record"] == sha256_hex(record.canonical())]
    assert judged["status"] == ("excluded" if own else "accepted")


@pytest.mark.parametrize("signed", [False, True], ids=["unsigned", "signed"])
def test_a_record_that_fits_no_schema_is_refused_for_that_once_and_never_read(
    sender: Sender, receiver: Receiver, signed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A megabyte of lists took 25 s: each of 49 checks read it anew, and said the same of it (row P7). What is said
    beside it is not about its content: that it is unsigned, or that its statement repeats it rightly."""
    asked: list[str] = []

    class Counting(Record):
        @classmethod
        def model_validate_json(cls, *words: Any, **options: Any) -> Record:
            asked.append("model")
            return Record.model_validate_json(*words, **options)

        @classmethod
        def from_canonical(cls, *words: Any, **options: Any) -> Record:
            asked.append("canonical")
            return Record.from_canonical(*words, **options)

    monkeypatch.setattr("appliance.audit.opened.Record", Counting)
    monkeypatch.setattr("appliance.submissions.examining.Record", Counting)
    folder = sender.submission(genuine(), unsigned=not signed)
    (record,) = [path for path in (folder / "records").glob("*.json") if "sigstore" not in path.name]
    if signed:
        value = canonical.loads(record.read_bytes())
        value["trials"] = [{}] * 500
        content = canonical.dumps(value)
        record.write_bytes(content)
        claims = claims_of(genuine())
        record.with_name(f"{record.stem}.sigstore.json").write_bytes(
            sign_record(sender.trust, content, claims, name=record.name)
        )
    else:
        record.write_bytes(b"[" + b"[]," * 500 + b"[]]")
    (found,) = receiver.check(folder, sender, status=7)["records"]
    first, other = found["reasons"]
    assert first["word"] == "schema_mismatch"
    assert "not checked: the record does not fit" in other["message"] if signed else other["word"] == "policy"
    assert asked == []


def test_a_machine_without_the_memory_for_it_is_said_to_be_that(
    sender: Sender, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row P11: status 4 and one line, whatever was too long to be held."""

    def exhausted(*_: Any) -> None:
        raise MemoryError

    monkeypatch.setattr("appliance.submissions.intake.check_submission", exhausted)
    refused = receiver.json(*receiver.words("check", sender.submission(genuine()), sender), status=4)
    assert refused["error"]["message"] == "out of memory"
