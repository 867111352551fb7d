"""`appliance verify X.sigstore.json` of whatever is signed beside records, and of files that are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from appliance.tasks.reader import read_suite
from attest import statement
from attest.signing import sign_statement
from attest.trust.local import LocalTrust
from tests import record_builder as build
from tests.publish_bench import Home, suite_archive

_KINDS = {
    "challenge": (statement.CHALLENGE_TYPE, "c.sigstore.json", "c.json"),
    "checkpoint of an index": (statement.INDEX_CHECKPOINT_TYPE, "checkpoint.sigstore.json", "index.jsonl"),
    "checkpoint of a log": (statement.LOG_CHECKPOINT_TYPE, "2.sigstore.json", "2.checkpoint"),
    "SLSA provenance": (statement.PROVENANCE_TYPE, "r.provenance.sigstore.json", "r.json"),
    "act on a submission": (statement.SUBMISSION_ACT_TYPE, "a.sigstore.json", "a.json"),
}
LOCAL = ("--trust", "local")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    found = Home(tmp_path / "home", monkeypatch)
    found("trust", "init")
    return found


def _signed(trust: LocalTrust, content: bytes, kind: str) -> bytes:
    return sign_statement(trust, statement.build("x", content, {"says": "so"}, kind), kind)


@pytest.mark.parametrize("name", list(_KINDS))
def test_every_statement_is_named_and_held_to_its_signer_and_its_file(home: Home, name: str) -> None:
    """The file beside it, none, another one; another signer (rows V2, V12)."""
    kind, bundle, beside = _KINDS[name]
    (home.folder / bundle).write_bytes(_signed(home.trust(), b"content", kind))
    (home.folder / beside).write_bytes(b"content")
    found = home.json("verify", bundle, *LOCAL)
    assert (found["statement"], found["predicateType"], found["subject"]) == (name, kind, beside)
    assert found["predicate"] == {"says": "so"}
    assert f"statement  {name}\n" in home("verify", bundle, *LOCAL)
    (home.folder / beside).write_bytes(b"another")
    assert home.refused("verify", bundle, *LOCAL, status=7)["reason"] == "subject"
    (home.folder / beside).unlink()
    assert home.json("verify", bundle, *LOCAL)["subject"] is None
    nobody = ("--identity", "https://appliance.local.invalid/0")
    assert home.refused("verify", bundle, *LOCAL, *nobody, status=7)["reason"] == "identity"


def test_the_challenge_that_was_issued_verifies_as_it_was_handed_out(home: Home) -> None:
    """A store's own checkpoint as well: what the documents tell people to check can be checked (row P5)."""
    suite_archive(home.folder / "tasks/pair")
    digest = read_suite(home.folder / "tasks/pair").digest
    (home.folder / "p.toml").write_text(_POLICY.format(digest=digest))
    home("challenge", "new", "--suite", "tasks/pair", "--policy", "p.toml", "--into", "store", "--to", "c.json")
    assert home.json("verify", "c.sigstore.json", *LOCAL)["subject"] == "c.json"
    found = home.json("verify", "store/checkpoint.sigstore.json", *LOCAL)
    assert found["statement"] == "checkpoint of an index"
    refused = home.refused("verify", "c.json", *LOCAL, status=7)
    assert (refused["reason"], refused["mend"]) == ("predicate_type", "appliance verify c.sigstore.json")
    assert refused["message"] == "its bundle is of a challenge, not of a record"


_POLICY = """schema = "policy-v1"
name = "board"
version = 1
least_tier = "reported"
[[suites]]
name = "pair"
digest = "{digest}"
any_image = true
[blobs]
required = ["suite"]
"""


def test_a_file_that_is_no_record_is_told_what_it_is(home: Home) -> None:
    """A plan: what nobody signed and is no record is not to be signed by who looks at it."""
    (home.folder / "plan.json").write_text(json.dumps({"schema": "plan-v1"}))
    refused: Any = home.refused("verify", "plan.json", *LOCAL, status=3)
    assert refused["message"].startswith("not a record, but 'plan-v1'")
    home("verify", "none.sigstore.json", *LOCAL, status=2)
    assert "no such file or directory" in home.err


def test_a_bundle_in_a_records_place_is_named_by_every_verb_that_reads_records(home: Home) -> None:
    """The two names differ by a word, and whoever pastes takes the wrong one."""
    path = home.signed(build.record())
    bundle = path.replace(".json", ".sigstore.json")
    for status, words in (
        (3, ("publish", bundle, "--to", "site")),
        (2, ("submission", "pack", bundle, "--to", "sent")),
        (3, ("report", bundle)),
        (3, ("sign", bundle)),
    ):
        home(*words, status=status)
        assert "a bundle, not a record" in home.err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.replace("assurance", "asurance"), "no such key: 'asurance' (did you mean assurance?)"),
        (lambda text: text.replace("assurance", "#"), "assurance is missing"),
        (lambda text: text + "level = 1\n", "no such key: 'level' (an entry has assurance, name, path, sha256)"),
        (lambda text: text.replace('"local"\n', "7\n"), "is a text"),
    ],
)
def test_a_typing_error_in_roots_toml_names_entry_and_key(home: Home, change: Any, said: str) -> None:
    """Which of several entries, which key, and what was meant."""
    roots = home.folder / ".config/bench-appliance/roots.toml"
    roots.write_text(change(roots.read_text()))
    home("trust", "show", status=7)
    assert "roots.toml: [[root]] 1" in home.err
    assert said in home.err


def test_a_misspelt_root_is_answered_with_the_one_that_was_meant(home: Home) -> None:
    """Class trust_root; a name like none that is known is answered with the way to make it known."""
    path = home.signed(build.record())
    assert home.refused("verify", path, "--trust", "locl", status=7)["mend"] == "did you mean local?"
    assert home.refused("verify", path, "--trust", "board", status=7)["mend"] == "add a [[root]] entry"
