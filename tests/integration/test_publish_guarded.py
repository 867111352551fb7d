"""A published folder in the hands of others: what was taken away, put in, linked elsewhere, or said falsely."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from appliance.audit.trust import bundle_path
from appliance.digests import sha256_hex
from appliance.errors import UsageRefused
from appliance.records.blob import Artifact
from appliance.records.record import Record
from appliance.records.trial import Harvest
from appliance.submissions.store import Store
from attest import canonical, statement, vsa
from attest.index import SignedIndex
from attest.signing import sign_statement
from tests import record_builder as build
from tests.policy_builder import believable, tables, toml
from tests.publish_bench import Home, archived, files, suite_archive

_LOCAL = ("--trust", "local")
_LATER = "2026-01-02T03:04:06Z"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    return Home(tmp_path / "publisher", monkeypatch)


@pytest.fixture
def two(home: Home) -> Home:
    """Two records, published, and nothing withheld."""
    records = home.signed(build.record()), home.signed(build.record(date=_LATER), "two")
    home("publish", *records, "--to", "site", "--with-suite")
    return home


def _index_words(home: Home) -> tuple[str, ...]:
    trust = home.trust()
    return "--index-trust", "local", "--index-identity", trust.identity, "--index-issuer", trust.issuer


def _records(home: Home, site: str = "site") -> list[Path]:
    return sorted((home.folder / site / "records").glob(f"{'?' * 64}.json"))


# ----------------------------------------------------------------------------------------------- what was taken away

_INDEX = ("index.jsonl", "checkpoint.sigstore.json", "trusted_root.json")


@pytest.mark.parametrize(
    ("gone", "dangling"),
    [
        *((gone, False) for gone in (_INDEX[2:], _INDEX[:1], _INDEX[1:2], _INDEX[:2], _INDEX[:1] + _INDEX[2:])),
        (_INDEX[1:], False),
        (_INDEX[2:], True),
        (_INDEX, True),
    ],
)
def test_a_site_without_part_of_its_index_is_a_site_still(two: Home, gone: tuple[str, ...], dangling: bool) -> None:
    """Whoever takes a record away can take the index away with it, the root, or make links of them that lead nowhere:
    never is the folder read as one that has none (rows P9, V22)."""
    taken = _records(two)[0]
    taken.unlink()
    bundle_path(taken).unlink()
    for name in gone:
        (two.folder / "site" / name).unlink()
        if dangling:
            (two.folder / "site" / name).symlink_to("/nowhere/at/all")
    refused = two.refused("verify", "site", *_LOCAL, status=7)
    assert refused["reason"] in {"replay", "record"}


def test_where_an_index_was_asked_for_there_has_to_be_one(two: Home) -> None:
    """`--index-trust` over a folder of which every trace of an index is gone (row P9)."""
    words = ("verify", "site", *_LOCAL, *_index_words(two))
    two(*words)
    for name in _INDEX:
        (two.folder / "site" / name).unlink()
    refused = two.refused(*words, status=7)
    assert (refused["reason"], refused["where"]) == ("replay", "site")


def test_only_what_its_line_withholds_may_lack_in_a_site(home: Home) -> None:
    """`--allow-missing-blobs` is for what the publisher kept back, and no licence for a mirror (class blob)."""
    record, blobs = archived(suite_archive(home.folder / "tasks/pair"))
    home("publish", home.signed(record, blobs=blobs), "--to", "site", "--without-suite")
    words = ("verify", "site", *_LOCAL, "--allow-missing-blobs")
    home(*words)
    lost = home.folder / "site/blobs/sha256" / sha256_hex(build.PRINTED)
    lost.unlink()
    [told] = home.json(*words, status=7)["records"]
    assert told["error"]["reason"] == "blob"
    assert lost.name in told["error"]["message"]
    shutil.rmtree(home.folder / "site/blobs")
    assert home.refused(*words, status=7)["reason"] == "blob"


# ----------------------------------------------------------------------------------------------------- what was put in


def test_a_record_that_no_line_names_is_not_the_sites(two: Home) -> None:
    """Genuine, and signed by the publisher: he did not publish it (class replay)."""
    other = two.folder / two.signed(build.record(date="2026-01-02T03:04:07Z"), "three")
    put = two.folder / "site/records/extra.json"
    shutil.copy(other, put)
    shutil.copy(bundle_path(other), bundle_path(put))
    found = two.json("verify", "site", *_LOCAL, status=7)
    assert found["count"] == {"refused": 1, "verified": 2}
    [refused] = [one["error"] for one in found["records"] if not one["verified"]]
    assert (refused["reason"], refused["where"]) == ("replay", "site/records/extra.json")
    two("verify", "site/records/extra.json", *_LOCAL, "--blobs", "three/blobs")


def test_a_receivers_store_is_held_to_its_own_index(home: Home) -> None:
    """It is no published folder, and has a signed index all the same: what it accepted is there, and nothing else."""
    made = believable()
    path = home.signed(made.record, blobs=made.blobs)
    trust = home.trust()
    (home.folder / "policy.toml").write_text(toml(tables(trust)))
    home("submission", "pack", path, "--to", "sent", "--without-suite")
    taken = ("--into", "store", "--policy", "policy.toml", "--trusted-root", str(trust.root_path))
    home("submission", "intake", "sent", *taken)
    words = ("verify", "store", *_LOCAL)
    home(*words)
    assert "a receiver's store" in home.err
    [record] = _records(home, "store")
    shutil.copy(record, record.with_name("extra.json"))
    shutil.copy(bundle_path(record), bundle_path(record.with_name("extra.json")))
    assert home.refused(*words, status=7)["reason"] == "replay"
    record.unlink()
    assert home.refused(*words, status=7)["reason"] == "record"


def test_a_site_that_calls_itself_a_store_has_to_be_one(two: Home) -> None:
    """A line that nobody signed for turns no check off."""
    words = ("verify", "site", *_LOCAL)
    index = two.folder / "site/index.jsonl"
    index.write_bytes(b'{"kind":"decision"}\n' + index.read_bytes())
    assert two.refused(*words, status=7)["reason"] == "rollback"


# -------------------------------------------------------------------------------------------------- what is said of it

_FALSE: dict[str, Mapping[str, Any]] = {
    "another solver": {"solver": "EVIL\n\x1b[2J"},
    "another model": {"model": "m-9"},
    "another version": {"version": "9"},
    "another commit": {"commit": "f" * 40},
    "another suite": {"suite": {"name": "other", "version": "9", "digest": "f" * 64}},
    "half of a delta": {"selfCorrect": True},
    "blobs that it does not name": {"withheld": ["a" * 64]},
    "another signer": {"signer": {"root": "a" * 64, "identity": "https://b.example", "issuer": "https://c.example"}},
}


@pytest.mark.parametrize("name", list(_FALSE))
def test_a_line_of_the_index_is_held_to_its_record(two: Home, name: str) -> None:
    """A publisher who signs rows that his records do not bear out (class record)."""
    trust = two.trust()
    index = SignedIndex.open(two.folder / "site", trust.root, trust.identity, trust.issuer)
    first = index.entries[0]
    assert isinstance(first, dict)
    index.append([{**first, **_FALSE[name]}], trust)
    [told] = [one for one in two.json("verify", "site", *_LOCAL, status=7)["records"] if not one["verified"]]
    assert told["error"]["reason"] == "record"
    assert "the index says" in told["error"]["message"]


def test_a_delta_is_against_the_record_that_is_its_other_half(home: Home) -> None:
    """And not against itself (row Z42)."""
    plans = build.plan(auto="high"), build.plan(auto="high", self_correct=True)
    halves = [home.signed(build.record(plan), name) for plan, name in zip(plans, ("one", "two"), strict=True)]
    home("publish", *halves, "--to", "site", "--with-suite")
    home("verify", "site", *_LOCAL)
    trust = home.trust()
    index = SignedIndex.open(home.folder / "site", trust.root, trust.identity, trust.issuer)
    [line] = [entry for entry in index.entries if isinstance(entry, dict) and entry["selfCorrect"]]
    index.append([{**line, "baseline": line["record"]}], trust)
    assert home.refused("verify", "site", *_LOCAL, status=7)["reason"] == "record"


def test_a_line_of_a_verdict_is_held_to_what_the_verdict_says(home: Home) -> None:
    """One that failed is not listed as one that passed (row R5)."""
    path = home.signed(build.record())
    trust = home.trust()
    held_to = (trust.root, trust.identity, trust.issuer)
    said = vsa.summary(
        trust.identity, {"a": "1"}, "urn:r", ("urn:p", "b" * 64), (), vsa.Judged(status="accepted", tier="auditable")
    )
    bundle = sign_statement(
        trust, vsa.build(said, "r.json", sha256_hex(build.record().canonical())), statement.VSA_TYPE
    )
    (home.folder / "v.sigstore.json").write_bytes(bundle)
    words = ("--verdict", "v.sigstore.json", "--verdict-trust", "local")
    home("publish", path, "--to", "site", "--with-suite", *words)
    home("verify", "site", *_LOCAL)
    index = SignedIndex.open(home.folder / "site", *held_to)
    line: Any = index.entries[1]
    index.append([{**line, "passed": False, "levels": ["FAILED"]}], trust)
    assert home.refused("verify", "site", *_LOCAL, status=7)["reason"] == "record"


# ------------------------------------------------------------------------------------------------ where a link leads

_LINKED = ("records", "verdicts", "roots", "blobs", "blobs/sha256", "index.jsonl", "trusted_root.json")


@pytest.mark.parametrize("name", [*_LINKED, "checkpoint.sigstore.json", ".publish.lock", ".index.lock"])
@pytest.mark.parametrize("begun", [False, True])
def test_nothing_is_written_through_a_link_below_the_folder(home: Home, name: str, begun: bool) -> None:
    """Status 2 and the link by name; what it leads to is as it was, there or not."""
    record = home.signed(build.record())
    victim = home.folder / "victim"
    site = home.folder / "site"
    if begun:
        home("publish", record, "--to", "site", "--with-suite")
    link = site / name
    link.parent.mkdir(parents=True, exist_ok=True)
    if link.is_dir():
        shutil.rmtree(link)
    link.unlink(missing_ok=True)
    link.symlink_to(victim)
    for there in (False, True):
        if there and "." in name:
            victim.write_bytes(b"precious\n")
        elif there:
            victim.mkdir()
            (victim / f".{'a' * 60}.abcdefgh").write_bytes(b"precious\n")
        before = files(victim) if victim.is_dir() else victim.read_bytes() if there else None
        refused = home.refused("publish", record, "--to", "site", "--with-suite", status=2)
        assert refused["where"] == str(Path("site") / name)
        assert victim.exists() == there
        if there:
            assert (files(victim) if victim.is_dir() else victim.read_bytes()) == before


def test_an_index_is_never_written_through_a_link(two: Home) -> None:
    """Also where nobody looked before: with a checkpoint over no lines, the file that a link leads to was cut to none
    (class replay)."""
    trust = two.trust()
    held_to = (trust.root, trust.identity, trust.issuer)
    precious = two.folder / "precious"
    precious.write_bytes(b"lines\n")
    SignedIndex.open(two.folder / "new", *held_to).append([], trust)
    opened = SignedIndex.open(two.folder / "new", *held_to)
    (two.folder / "new/index.jsonl").symlink_to(precious)
    with pytest.raises(Exception, match=r"symbolic|regular|links"):
        opened.append([{"n": 1}], trust)
    assert precious.read_bytes() == b"lines\n"


def test_a_store_is_not_kept_through_links_either(two: Home) -> None:
    """Nor tidied: what a link leads to is no leaving of an intake."""
    trust = two.trust()
    store = Store(two.folder / "store", (trust.root, trust.identity, trust.issuer))
    with store.alone(trust):
        pass
    victim = two.folder / "victim"
    victim.mkdir()
    (victim / ".hidden").write_bytes(b"precious")
    (two.folder / "store/records").symlink_to(victim)
    with pytest.raises(UsageRefused, match="a symbolic link"), store.alone(trust):
        pass
    assert files(victim) == {".hidden": b"precious"}


def test_blobs_are_not_read_through_a_link_that_somebody_sent(two: Home) -> None:
    """As the records are not; `--blobs` says where they lie."""
    site = two.folder / "site"
    (site / "blobs").rename(two.folder / "elsewhere")
    (site / "blobs").symlink_to(two.folder / "elsewhere")
    found = two.json("verify", "site", *_LOCAL, status=7)
    assert all("a symbolic link" in one["error"]["message"] for one in found["records"])
    two("verify", "site", *_LOCAL, "--blobs", "elsewhere")


# ------------------------------------------------------------------------------------------------ what else lies there


def _file(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"mine")


_ODD: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "a link loop": ("loop", lambda folder: (folder / "loop").symlink_to("loop")),
    "a file for a folder": ("site", lambda folder: _file(folder / "site/records")),
    "a folder for a file": ("site", lambda folder: (folder / "site/trusted_root.json").mkdir(parents=True)),
    "a folder for a lock": ("site", lambda folder: (folder / "site/.publish.lock").mkdir(parents=True)),
    "somebody's records": ("site", lambda folder: _file(folder / "site/records/mine.json")),
    "somebody's hidden file": ("site", lambda folder: _file(folder / f"site/roots/.{'a' * 60}.abcdefgh")),
}


@pytest.mark.parametrize("name", list(_ODD))
def test_a_folder_that_is_not_ours_is_refused_and_left_as_it_is(home: Home, name: str) -> None:
    """Status 2, no traceback; not even a file that looks like a draft of ours is removed."""
    to, make = _ODD[name]
    record = home.signed(build.record())
    make(home.folder)
    before = files(home.folder / "site") if (home.folder / "site").is_dir() else {}
    home.refused("publish", record, "--to", to, "--with-suite", status=2)
    assert (files(home.folder / "site") if (home.folder / "site").is_dir() else {}) == before


def test_a_folder_may_have_any_name_that_a_file_system_takes(home: Home) -> None:
    """UTF-8 or not."""
    record, name = home.signed(build.record()), os.fsdecode(b"\xff\xfe")
    home("publish", record, "--to", name, "--with-suite")
    home("publish", record, "--to", name, "--with-suite")
    assert (home.folder / name / "index.jsonl").exists()


# ------------------------------------------------------------------------------------------------- what is an answer

_SOLUTION = b"--- a/p.sh\n+++ b/p.sh\n@@ -1 +1 @@\n-echo bad\n+echo SECRET\n"
_QUOTED = b"FAILED tests/test_hidden.py: assert f(3) == SECRET\n"
_TRIED = b"FAILED tests/test_hidden.py: assert f(4) == SECRET\n"


def _telling(archive: bytes | None) -> tuple[Record, dict[str, bytes]]:
    """Of the reference solver: its diffs are solutions; what tests printed, before and after, quotes them."""
    plan = build.plan(("t1",))
    ran = build.trial(
        "t1",
        harvest=Harvest(diff=build.blob(_SOLUTION), changed=("p.sh",), dropped=(), restored=()),
        artifacts=(Artifact(name="oracle-stdout", media_type="text/plain", blob=build.blob(_TRIED)),),
    )
    stamps: dict[str, Any] = {}
    if archive is not None:
        stamps["suite"] = archived(archive)[0].suite
    record = build.record(plan, [ran], [build.baseline("t1", output=build.blob(_QUOTED))], **stamps)
    blobs = [_SOLUTION, _QUOTED, _TRIED, *([archive] if archive is not None else [])]
    return record, {sha256_hex(content): content for content in blobs}


@pytest.mark.parametrize("with_archive", [True, False])
def test_no_answer_goes_out_unasked_and_none_without_the_suite(home: Home, with_archive: bool) -> None:
    """A solution in a diff, a hidden test in what it printed, of baselines and of trials: asked about, with an archive
    or without one; withheld together with it, by digest (issue 5, 3)."""
    archive = suite_archive(home.folder / "tasks/pair") if with_archive else None
    record, blobs = _telling(archive)
    path = home.signed(record, blobs=blobs)
    refused = home.refused("publish", path, "--to", "site", status=2)
    assert "--without-suite" in refused["mend"]
    assert "outputs of tests that solvers may not have been shown: 2" in home.err
    home("publish", path, "--to", "site", "--without-suite", "--without-transcripts")
    assert not [name for name, content in files(home.folder / "site").items() if b"SECRET" in content]
    assert "which are reference solutions" not in home.err
    home("verify", "site", *_LOCAL, "--allow-missing-blobs")
    home("publish", path, "--to", "site", "--with-suite", "--without-transcripts")
    assert [name for name, content in files(home.folder / "site").items() if b"SECRET" in content]


def test_a_record_may_withhold_as_many_blobs_as_it_has(two: Home) -> None:
    """A line of the index is no shorter than what it has to list: thousands of transcripts are one entry."""
    trust = two.trust()
    index = SignedIndex.open(two.folder / "site", trust.root, trust.identity, trust.issuer)
    first = index.entries[0]
    assert isinstance(first, dict)
    line: Any = {**first, "withheld": [f"{number:064x}" for number in range(20_000)]}
    assert len(canonical.dumps(line)) > 1024 * 1024
    assert index.append([line], trust).size == 3
    assert SignedIndex.open(two.folder / "site", trust.root, trust.identity, trust.issuer).entries[2] == line
