"""A published folder: what lies in it, that it only grows, and that it is whole after whatever came between."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appliance.digests import sha256_hex
from appliance.files import write_atomically
from appliance.records.comparison import compare
from appliance.records.record import Record
from appliance.reproduce.attesting import summary_of
from appliance.submissions import publish
from appliance.submissions.published import Site, read_site
from attest import statement, vsa
from attest.errors import Refused
from attest.index import CHECKPOINT
from attest.signing import sign_statement
from tests import record_builder as build
from tests.publish_bench import Home, archived, files, suite_archive

_ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    found = Home(tmp_path / "publisher", monkeypatch)
    for name, value in found.environment.items():
        monkeypatch.setenv(name, value)
    return found


def _another(number: int) -> Record:
    return build.record(date=f"2026-01-02T03:04:{10 + number}Z")


def _read(home: Home, name: str = "site") -> Site:
    trust = home.trust()
    return read_site(home.folder / name, trust.root, trust.identity, trust.issuer)


def _lines(home: Home) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (home.folder / "site/index.jsonl").read_text().splitlines()]


def test_every_file_is_named_by_its_content_and_verifies_as_it_lies(home: Home) -> None:
    """records/<sha256>.json, its bundle beside it, blobs by digest, the roots; `verify` takes the record where it lies,
    and so does sigstore's own verifier (attest.md 7)."""
    record = build.record()
    home("publish", home.signed(record), "--to", "site", "--with-suite")
    found = files(home.folder / "site")
    sha, root = sha256_hex(record.canonical()), home.trust().root
    assert set(found) == {
        "index.jsonl",
        "checkpoint.sigstore.json",
        "trusted_root.json",
        f"roots/{root.sha256}.json",
        f"records/{sha}.json",
        f"records/{sha}.sigstore.json",
        *(f"blobs/sha256/{digest}" for digest in build.blobs(record)),
    }
    assert found[f"records/{sha}.json"] == record.canonical()
    assert found["trusted_root.json"] == found[f"roots/{root.sha256}.json"] == root.content
    for path, content in found.items():
        if path.startswith(("blobs/", "roots/")):
            assert Path(path).name.removesuffix(".json") == sha256_hex(content)
    home("verify", f"site/records/{sha}.json", "--trust", "local")
    [listed] = _read(home).records
    assert (listed.line.record, listed.line.bundle) == (sha, sha256_hex(found[f"records/{sha}.sigstore.json"]))
    assert all((home.folder / "site" / path).stat().st_mode & 0o044 == 0o044 for path in found)


def test_published_twice_it_is_the_same_folder(home: Home) -> None:
    """Idempotent: not a byte changes, and every row says `there` (issue 5, 3)."""
    path = home.signed(build.record())
    home("publish", path, "--to", "site", "--with-suite")
    once = files(home.folder / "site")
    again = home.json("publish", path, "--to", "site", "--with-suite")
    assert [done["state"] for done in again["published"]] == ["there"]
    assert files(home.folder / "site") == once


def test_the_index_only_grows_and_each_checkpoint_names_the_last(home: Home) -> None:
    """A second record adds one line behind the first; whole run folders can be given (row P1's index)."""
    home("publish", home.signed(build.record()), "--to", "site", "--with-suite")
    first = (home.folder / "site/index.jsonl").read_bytes()
    home.signed(_another(1), "two")
    second = home.json("publish", "two", "--to", "site", "--with-suite")
    assert (home.folder / "site/index.jsonl").read_bytes().startswith(first)
    assert second["checkpoint"]["size"] == 2
    assert second["checkpoint"]["previous"]["size"] == 1
    assert [found.line.record for found in _read(home).records] == [line["record"] for line in _lines(home)]


def test_blobs_may_lie_elsewhere(home: Home) -> None:
    """`--blobs DIR`, as `verify` has it."""
    path = home.signed(build.record())
    (home.folder / "one/blobs").rename(home.folder / "elsewhere")
    home("publish", path, "--to", "site", "--with-suite", "--blobs", "elsewhere")
    assert (home.folder / "site/blobs/sha256" / sha256_hex(build.PATCH)).read_bytes() == build.PATCH


def test_a_dry_run_says_all_of_it_and_writes_nothing(home: Home) -> None:
    """`--dry-run`."""
    path = home.signed(build.record())
    found = home.json("publish", path, "--to", "site", "--with-suite", "--dry-run")
    assert [done["state"] for done in found["published"]] == ["added"]
    assert found["reveals"][found["published"][0]["line"]["record"]]["transcripts"] == 1
    assert not (home.folder / "site").exists()


def test_a_record_that_is_signed_anew_keeps_the_bundle_that_was_published(home: Home) -> None:
    """The index names a bundle's digest: another bundle never takes its place (V24)."""
    path = home.signed(build.record())
    home("publish", path, "--to", "site", "--with-suite")
    once = files(home.folder / "site")
    home("sign", path)
    home("publish", path, "--to", "site", "--with-suite")
    assert files(home.folder / "site") == once


def test_every_row_shows_a_model(home: Home) -> None:
    """Row Z40: `none` where no model has a part in it, its name where one has."""
    home("publish", home.signed(build.record()), "--to", "site", "--with-suite")
    assert "model none" in home.out
    named = build.record(build.plan(model="m-1"))
    home("publish", home.signed(named, "two"), "--to", "site", "--with-suite")
    assert "model m-1" in home.out
    assert [line["model"] for line in _lines(home)] == ["none", "m-1"]


# ------------------------------------------------------------------------------------------------- what is revealed


def test_the_suite_goes_along_where_that_was_asked_for_and_is_named_where_it_does_not(home: Home) -> None:
    """`--without-suite` withholds its answers, by digest; `--with-suite` later adds them and one line (issue 5, 3)."""
    archive = suite_archive(home.folder / "tasks/pair")
    record, blobs = archived(archive)
    path, digest = home.signed(record, blobs=blobs), sha256_hex(archive)
    answers = sorted([digest, sha256_hex(build.PATCH), sha256_hex(build.BASELINE_OUTPUT)])
    home("publish", path, "--to", "site", "--without-suite")
    assert _lines(home)[0]["withheld"] == answers
    assert not (home.folder / "site/blobs/sha256" / digest).exists()
    home("publish", path, "--to", "site", "--with-suite")
    assert [line["withheld"] for line in _lines(home)] == [answers, []]
    assert (home.folder / "site/blobs/sha256" / digest).read_bytes() == archive
    [listed] = _read(home).records
    assert not listed.line.withheld
    home("publish", path, "--to", "site", "--without-suite")
    assert len(_lines(home)) == 2


def test_transcripts_are_withheld_where_that_was_asked_for(home: Home) -> None:
    """`--without-transcripts` leaves out what solvers printed, and nothing else."""
    path = home.signed(build.record())
    home("publish", path, "--to", "site", "--with-suite", "--without-transcripts")
    assert _lines(home)[0]["withheld"] == [sha256_hex(build.PRINTED)]
    assert not (home.folder / "site/blobs/sha256" / sha256_hex(build.PRINTED)).exists()
    assert (home.folder / "site/blobs/sha256" / sha256_hex(build.PATCH)).exists()


# --------------------------------------------------------------------------------------------------------- a delta


def _halves() -> tuple[Record, Record]:
    return build.record(build.plan(auto="high")), build.record(build.plan(auto="high", self_correct=True))


def test_both_records_of_a_delta_are_published_together_or_one_after_the_other(home: Home) -> None:
    """The self-correcting one names the other; it is refused alone (row Z42; the refusal is tested beside the rest)."""
    without, corrected = (
        home.signed(record, name) for record, name in zip(_halves(), ("without", "with"), strict=True)
    )
    home("publish", corrected, "--to", "site", "--with-suite", status=3)
    home("publish", corrected, without, "--to", "site", "--with-suite")
    half = next(line for line in _lines(home) if line["selfCorrect"])
    assert half["baseline"] == sha256_hex(_halves()[0].canonical())
    home("publish", without, "--to", "later", "--with-suite")
    home("publish", corrected, "--to", "later", "--with-suite")
    assert _read(home, "later").checkpoint.size == 2


@pytest.mark.parametrize("changes", [{"auto": "medium"}, {"mode": "x"}, {"rollouts": 2}, {"solver": "other"}])
def test_a_record_of_another_experiment_is_no_half_of_a_delta(home: Home, changes: dict[str, Any]) -> None:
    """Row Z42: the pair is one plan but for self-correction."""
    other = home.signed(build.record(build.plan(**{"auto": "high", **changes})), "other")
    corrected = home.signed(_halves()[1], "with")
    assert (
        "$.selfCorrect" in home.refused("publish", corrected, other, "--to", "site", "--with-suite", status=3)["where"]
    )


def test_a_site_that_lost_one_half_of_a_delta_is_refused_by_who_reads_it(home: Home) -> None:
    """Row Z42, from the reader's side: signed by the genuine publisher all the same."""
    halves = [home.signed(record, name) for record, name in zip(_halves(), ("without", "with"), strict=True)]
    home("publish", *halves, "--to", "site", "--with-suite")
    lines = [line for line in _lines(home) if line["selfCorrect"]]
    for name in ("index.jsonl", "checkpoint.sigstore.json"):
        (home.folder / "site" / name).unlink()
    from attest.index import SignedIndex

    trust = home.trust()
    SignedIndex.open(home.folder / "site", trust.root, trust.identity, trust.issuer).append(lines, trust)
    with pytest.raises(Refused, match="half of a delta") as refused:
        _read(home)
    assert refused.value.reason == "record"


# --------------------------------------------------------------------------------------------- verdicts and the twin


def _verdict(doubter: Home, record: Record, folder: str = "again") -> Path:
    """As `reproduce --sign` leaves it."""
    doubter("trust", "init")
    again = build.record(record.plan, date="2026-02-02T03:04:05Z")
    verdict = compare(record, again, keys=None, tolerance=None, verified=True)
    place = doubter.folder / folder
    place.mkdir()
    (place / "verdict.json").write_bytes(verdict.canonical())
    trust = doubter.trust()
    summary = summary_of(verdict, verdict.canonical(), trust.identity, "c" * 64)
    content = vsa.build(summary, "one.json", verdict.recorded)
    (place / "verdict.sigstore.json").write_bytes(sign_statement(trust, content, statement.VSA_TYPE))
    return place / "verdict.sigstore.json"


def _known(home: Home, other: Home, name: str = "doubter") -> tuple[str, ...]:
    """Makes the other's root known here; the words that hold a verdict to them."""
    trust = other.trust()
    roots = home.folder / ".config/bench-appliance/roots.toml"
    entry = {"name": name, "path": str(trust.root_path), "sha256": trust.root.sha256, "assurance": "local"}
    told = "\n[[root]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in entry.items())
    roots.write_text(roots.read_text() + told)
    return ("--verdict-trust", name, "--verdict-identity", trust.identity, "--verdict-issuer", trust.issuer)


@pytest.fixture
def doubter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    return Home(tmp_path / "doubter", monkeypatch)


def test_a_doubters_verdict_goes_along_with_its_root_and_what_it_compared(home: Home, doubter: Home) -> None:
    """A signed verdict about a published record, checked against the doubter's own root (rows R5, P3)."""
    record = build.record()
    path, verdict = home.signed(record), _verdict(doubter, record)
    words = _known(home, doubter)
    home("publish", path, "--to", "site", "--with-suite", "--verdict", str(verdict), *words)
    assert "verdict passed (BENCH_REPRODUCED_WITHIN_TOLERANCE)" in home.out
    [told] = _read(home).verdicts
    bundle = verdict.read_bytes()
    assert (told.record, told.bundle) == (sha256_hex(record.canonical()), sha256_hex(bundle))
    assert told.passed
    assert told.signer.root == doubter.trust().root.sha256
    found = files(home.folder / "site")
    assert found[f"verdicts/{told.bundle}.sigstore.json"] == bundle
    assert found[f"roots/{told.signer.root}.json"] == doubter.trust().root.content
    assert found[f"blobs/sha256/{told.verdict}"] == verdict.with_name("verdict.json").read_bytes()
    home("publish", path, "--to", "site", "--with-suite", "--verdict", str(verdict), *words)
    assert files(home.folder / "site") == found


def test_a_verdict_that_does_not_hold_is_not_published(home: Home, doubter: Home) -> None:
    """Another's root, another record, another verdict.json: refused, and nothing is written."""
    record = build.record()
    path, verdict = home.signed(record), _verdict(doubter, record)
    words = _known(home, doubter)
    wrong = ("--verdict-trust", "local")
    assert home.refused("publish", path, "--to", "site", "--with-suite", "--verdict", str(verdict), *wrong, status=7)[
        "reason"
    ]
    stranger = _verdict(doubter, _another(1), "stranger")
    refused = home.refused(
        "publish", path, "--to", "site", "--with-suite", "--verdict", str(stranger), *words, status=3
    )
    assert "not published here" in refused["message"]
    beside = verdict.with_name("verdict.json")
    beside.write_bytes(beside.read_bytes().replace(b"reproduced", b"diverged", 1))
    refused = home.refused("publish", path, "--to", "site", "--with-suite", "--verdict", str(verdict), *words, status=3)
    assert refused["where"].endswith("verdict.json")
    beside.unlink()
    home("publish", path, "--to", "site", "--with-suite", "--verdict", str(verdict), *words, status=3)
    assert not files(home.folder / "site")


def test_the_slsa_twin_of_a_record_goes_along(home: Home) -> None:
    """`X.provenance.sigstore.json` beside the record: checked to be of this record, listed, and read by a program that
    knows SLSA alone (issue 5, 4)."""
    from appliance.audit.twin import sign_twin, twin_path

    record = build.record()
    path = home.folder / home.signed(record)
    twin = sign_twin(record, record.canonical(), path.name, home.trust())
    twin_path(path).write_bytes(twin)
    home("publish", str(path), "--to", "site", "--with-suite")
    [listed] = _read(home).twins
    sha = sha256_hex(record.canonical())
    assert (listed.record, listed.bundle) == (sha, sha256_hex(twin))
    assert files(home.folder / "site")[f"records/{sha}.provenance.sigstore.json"] == twin
    other = _another(1)
    twin_path(path).write_bytes(sign_twin(other, other.canonical(), path.name, home.trust()))
    assert home.refused("publish", str(path), "--to", "other", "--with-suite", status=7)["reason"] == "subject"


# ------------------------------------------------------------------------------------------------ changed by others


def _some(home: Home, pattern: str) -> Path:
    return next(path for path in sorted((home.folder / "site").glob(pattern)) if path.is_file())


_RECORD = f"records/{'?' * 64}.json"
_CHANGED: dict[str, tuple[str, Callable[[Home], Any]]] = {
    "a record gone": ("record", lambda h: _some(h, _RECORD).unlink()),
    "a record changed": ("record", lambda h: _append(_some(h, _RECORD))),
    "a bundle gone": ("bundle", lambda h: _some(h, "records/*.sigstore.json").unlink()),
    "a bundle changed": ("bundle", lambda h: _append(_some(h, "records/*.sigstore.json"))),
    "a line changed": ("replay", lambda h: _replace(h.folder / "site/index.jsonl", b'"none"', b'"some"')),
    "a line added": ("replay", lambda h: _append(h.folder / "site/index.jsonl")),
    "a line gone": ("replay", lambda h: (h.folder / "site/index.jsonl").write_bytes(b"")),
    "no index": ("replay", lambda h: (h.folder / "site/index.jsonl").unlink()),
    "no checkpoint": ("replay", lambda h: (h.folder / "site/checkpoint.sigstore.json").unlink()),
    "nothing": ("usage", lambda h: shutil.rmtree(h.folder / "site")),
    "a link for a record": ("record", lambda h: _linked(_some(h, _RECORD))),
}


def _append(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b" ")


def _replace(path: Path, old: bytes, new: bytes) -> None:
    path.write_bytes(path.read_bytes().replace(old, new))


def _linked(path: Path) -> None:
    moved = path.rename(path.with_name("moved"))
    path.symlink_to(moved)


@pytest.mark.parametrize("name", list(_CHANGED))
def test_a_site_that_somebody_changed_is_refused_by_who_reads_it(home: Home, name: str) -> None:
    """Each with its class; an unlisted file more is nobody's concern."""
    home("publish", home.signed(build.record()), "--to", "site", "--with-suite")
    (home.folder / "site/records" / f"{'f' * 64}.json").write_text("{}")
    _read(home)
    reason, change = _CHANGED[name]
    change(home)
    with pytest.raises(Refused) as refused:
        _read(home)
    assert refused.value.reason == reason


def test_lines_that_nobody_signed_are_cut_by_publishing_again(home: Home) -> None:
    """What a publisher who was cut off left, or somebody else: a reader is refused, `replay`, and told the mend."""
    path = home.signed(build.record())
    home("publish", path, "--to", "site", "--with-suite")
    _append(home.folder / "site/index.jsonl")
    refused = home.refused("verify", "site", "--trust", "local", status=7)
    assert (refused["reason"], refused["where"]) == ("replay", "site/index.jsonl")
    assert "goes on for 1 B behind what its checkpoint counts" in refused["message"]
    home("publish", path, "--to", "site", "--with-suite")
    home("verify", "site", "--trust", "local")


def test_what_lies_beside_a_record_is_none_for_any_verb_that_takes_a_folder(home: Home) -> None:
    """An anchor, a twin and a bundle, whatever they hold (docs/signing.md)."""
    path = home.folder / home.signed(build.record())
    home("sign", str(path), "--provenance")
    path.with_name("one.anchor.json").write_text('{"schema":"anchor-v1"}')
    assert home.json("verify", "one", "--trust", "local")["count"] == {"verified": 1}
    home("report", "one")
    assert [found["state"] for found in home.json("publish", "one", "--to", "site", "--with-suite")["published"]] == [
        "added",
        "added",
    ]


def test_a_site_put_back_to_an_older_state_is_refused_by_who_saw_the_newer(home: Home, tmp_path: Path) -> None:
    """Rollback: by its reader, and by its publisher before anything is written (row P9)."""
    paths = [home.signed(build.record()), home.signed(_another(1), "two"), home.signed(_another(2), "three")]
    home("publish", paths[0], "--to", "site", "--with-suite")
    shutil.copytree(home.folder / "site", tmp_path / "old")
    home("publish", paths[1], "--to", "site", "--with-suite")
    newest = home.folder / "newest"
    (home.folder / "site").rename(newest)
    shutil.copytree(tmp_path / "old", home.folder / "site")
    with pytest.raises(Refused, match="shrunk"):
        _read(home)
    before = files(home.folder / "site")
    assert home.refused("publish", paths[2], "--to", "site", "--with-suite", status=7)["reason"] == "replay"
    assert files(home.folder / "site") == before
    _read(home, "newest")


def test_a_site_that_vanished_is_not_begun_anew_where_it_was(home: Home) -> None:
    """The publisher remembers the folder as well: another origin there is a fork (row P9)."""
    path = home.signed(build.record())
    home("publish", path, "--to", "site", "--with-suite")
    shutil.rmtree(home.folder / "site")
    refused = home.refused("publish", path, "--to", "site", "--with-suite", status=7)
    assert refused["reason"] == "replay"
    assert "once had 1 entries" in refused["message"]
    home("publish", path, "--to", "anew", "--with-suite")


def test_a_site_of_another_publisher_is_not_written_to(home: Home, doubter: Home) -> None:
    """Its index is held to whoever publishes now."""
    home("publish", home.signed(build.record()), "--to", "site", "--with-suite")
    before = files(home.folder / "site")
    other = doubter.signed(_another(1))
    doubter("publish", other, "--to", str(home.folder / "site"), "--with-suite", status=7)
    assert files(home.folder / "site") == before


def test_a_blob_that_was_damaged_is_mended_by_publishing_again(home: Home) -> None:
    """The name says what it has to be."""
    path = home.signed(build.record())
    home("publish", path, "--to", "site", "--with-suite")
    once = files(home.folder / "site")
    _append(_some(home, "blobs/sha256/*"))
    _some(home, "records/*.sigstore.json").unlink()
    home("publish", path, "--to", "site", "--with-suite")
    assert files(home.folder / "site") == once


# --------------------------------------------------------------------------------------------- kills, crowds, disks

_KILLED = """
import os, signal, sys
import appliance.files, appliance.submissions.publish_files as files, attest.index as index
from appliance.cli.main import run
left = int(sys.argv[1])
def counted(write):
    def counting(*words):
        global left
        left -= 1
        if left == 0:
            if HALF:
                words[0].parent.mkdir(parents=True, exist_ok=True)
                (words[0].parent / f".{words[0].name[:60]}.draft_12").write_bytes(b"half")
            os.kill(os.getpid(), signal.SIGKILL)
        return write(*words)
    return counting
HALF = sys.argv[2] == "half"
for module, name in ((files, "write_atomically"), (files, "copy_blob"), (index, "write_atomically")):
    setattr(module, name, counted(getattr(module, name)))
import appliance.submissions.publish as publish
publish.copy_blob = files.copy_blob
sys.exit(run(sys.argv[3:]))
"""


@pytest.mark.parametrize("at", range(1, 11))
def test_a_publisher_killed_at_any_file_is_finished_by_the_same_command(home: Home, at: int) -> None:
    """kill -9 before each write in turn, every other time with half a draft of it: the reader sees nothing or all, and
    a second run ends as a first one would have (row P10's way of counting)."""
    path, half = home.signed(build.record()), "half" if at % 2 else "whole"
    words = [sys.executable, "-c", _KILLED, str(at), half, "publish", path, "--to", "site", "--with-suite"]
    environment = {**os.environ, **home.environment, "PYTHONPATH": str(_ROOT)}
    ended = subprocess.run(words, cwd=home.folder, env=environment, check=False, capture_output=True)
    assert ended.returncode == -signal.SIGKILL
    with pytest.raises(Refused) as refused:
        _read(home)
    begun = (home.folder / "site/trusted_root.json").exists() and not (home.folder / f"site/{CHECKPOINT}").exists()
    assert refused.value.reason == ("replay" if begun else "usage")
    home("publish", path, "--to", "site", "--with-suite")
    home("publish", path, "--to", "clean", "--with-suite")
    assert set(files(home.folder / "site")) == set(files(home.folder / "clean"))
    _read(home)


def test_hidden_files_of_others_stay(home: Home) -> None:
    """A folder that a web server or a CI system knows by its own dotfiles."""
    path = home.signed(build.record())
    home("publish", path, "--to", "site", "--with-suite")
    theirs = [
        home.folder / "site" / name for name in (".gitlab-ci.yml", ".well-known.txt", "records/.htaccess.old_copy")
    ]
    for one in theirs:
        one.write_text("theirs")
    draft = home.folder / "site/records" / f".{'a' * 60}.abcd_123"
    draft.write_text("half")
    home("publish", home.signed(_another(1), "two"), "--to", "site", "--with-suite")
    assert all(one.read_text() == "theirs" for one in theirs)
    assert not draft.exists()


def test_publishers_at_once_leave_one_site_with_every_record_once(home: Home) -> None:
    """Four of them, two with the same record (row P10)."""
    paths = [home.signed(_another(number), f"run{number}") for number in range(3)]
    environment = {**os.environ, **home.environment, "PYTHONPATH": str(_ROOT)}
    publishers = [
        subprocess.Popen(
            [sys.executable, "-m", "appliance.cli.main", "publish", path, "--to", "site", "--with-suite"],
            cwd=home.folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for path in (*paths, paths[0])
    ]
    assert [publisher.wait() for publisher in publishers] == [0] * 4
    assert sorted(line["record"] for line in _lines(home)) == sorted(
        sha256_hex(_another(number).canonical()) for number in range(3)
    )
    _read(home)


def test_a_publisher_waits_for_one_who_has_begun(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is to be added is decided under the lock: a second one with the same record finds it there (row P10)."""
    path = home.signed(build.record())
    environment = {**os.environ, **home.environment, "PYTHONPATH": str(_ROOT)}
    words = [sys.executable, "-m", "appliance.cli.main", "publish", path, "--to", "site", "--with-suite"]
    second: list[subprocess.Popen[bytes]] = []

    def written(*given: Any) -> None:
        started = subprocess.Popen(
            words, cwd=home.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        second.append(started)
        # Until the kernel says that it waits for a lock, or it is through.
        while started.poll() is None and not re.search(rf"-> FLOCK .* {started.pid} ", Path("/proc/locks").read_text()):
            time.sleep(0.01)
        write(*given)

    write = publish._write
    with monkeypatch.context() as patched:
        patched.setattr(publish, "_write", written)
        home("publish", path, "--to", "site", "--with-suite")
    told, _ = second[0].communicate()
    assert second[0].returncode == 0
    assert told.startswith(b"there")
    assert len(_lines(home)) == 1


def test_a_full_disk_is_the_hosts_fault_and_the_same_command_goes_on_from_there(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Status 4 and `disk_full`; no half file; done again once there is room (row P10)."""
    path, left = home.signed(build.record()), 3

    def full(where: Path, content: bytes) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(where))
        write_atomically(where, content)

    with monkeypatch.context() as patched:
        patched.setattr("appliance.submissions.publish_files.write_atomically", full)
        assert home.refused("publish", path, "--to", "site", "--with-suite", status=4)["reason"] == "disk_full"
    assert not [name for name in files(home.folder / "site") if Path(name).name.startswith(".")]
    home("publish", path, "--to", "site", "--with-suite")
    _read(home)
