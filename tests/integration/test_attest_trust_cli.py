"""`appliance trust` and `sign --trust` with deployments, as they are typed."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sigstore._utils import read_embedded

from attest.trust.local import open_or_init
from tests.record_builder import record
from tests.sigstore_twin import PERSON, WORKFLOW, Twin, TwinRepository, running
from tests.typed_cli import Typed

RECORD = "run/records/noop.json"


@pytest.fixture
def twin(tmp_path: Path) -> Iterator[Twin]:
    with running(tmp_path / "twin") as found:
        yield found


@pytest.fixture
def typed(tmp_path: Path) -> Typed:
    """A home with a record in it that nobody signed, outside of CI."""
    made = Typed(tmp_path / "home")
    made.home.mkdir()
    made.keep(record())
    for name in ("GITHUB_ACTIONS", "GITLAB_CI", "BUILDKITE", "CIRCLECI"):
        made.environment.pop(name, None)
    made.environment["XDG_CACHE_HOME"] = str(made.home / "cache")
    made.environment["HOME"] = str(made.home)
    return made


@pytest.fixture
def lab(typed: Typed, twin: Twin) -> Typed:
    """That home, where the deployment is known as `lab`, and a token for it lies."""
    (typed.home / "lab.json").write_bytes(twin.trust_config())
    (typed.home / "token").write_text(twin.token())
    typed("trust", "init", "--name", "lab", "--config", "lab.json")
    return typed


SIGN = ("sign", RECORD, "--trust", "lab", "--identity-token", "token")


def test_a_deployment_is_made_known_by_its_config_and_signs_by_name(lab: Typed, twin: Twin) -> None:
    """Config in, pin in roots.toml, a record signed, the printed line verifies it, with the services gone (V1, V2)."""
    done = lab(*SIGN)
    line = next(text for text in done.stderr.splitlines() if "check it with: " in text).partition("check it with: ")[2]
    assert line == f"appliance verify {RECORD} --trust lab --identity {WORKFLOW} --issuer {twin.issuer}"
    twin.close()
    found = lab.json(*line.split()[1:], "--allow-missing-blobs")
    assert found["verified"]
    assert found["assurance"] == "private"
    assert found["identity"] == WORKFLOW
    for missing in ("--identity", "--issuer"):
        words = line.split()[1:]
        at = words.index(missing)
        refused = lab.json(*words[:at], *words[at + 2 :], status=2)
        assert refused["error"]["reason"] == "usage"


def test_the_same_config_twice_is_no_change_and_another_one_by_that_name_is_refused(lab: Typed, tmp_path: Path) -> None:
    """A config has no version, so nobody could say which is the newer root (V14)."""
    roots = (lab.home / "config/bench-appliance/roots.toml").read_bytes()
    again = lab.json("trust", "init", "--name", "lab", "--config", "lab.json")
    assert again["rootSha256Before"] == again["rootSha256"]
    with running(tmp_path / "other") as other:
        (lab.home / "other.json").write_bytes(other.trust_config())
        refused = lab.json("trust", "init", "--name", "lab", "--config", "other.json", status=7)
        assert refused["error"]["reason"] == "trust_root"
        assert "already names another root" in refused["error"]["message"]
    assert (lab.home / "config/bench-appliance/roots.toml").read_bytes() == roots
    assert [one["state"] for one in lab.json("trust", "show")["roots"]] == ["as pinned"]


def test_a_config_file_signs_without_being_made_known(typed: Typed, twin: Twin) -> None:
    """`--trust CONFIG`: what verifies it is the root's digest, which the line says."""
    (typed.home / "lab.json").write_bytes(twin.trust_config())
    typed.environment["LAB_TOKEN"] = twin.token(PERSON)
    found = typed.json("sign", RECORD, "--trust", "lab.json", "--token-env", "LAB_TOKEN", "--rekor-version", "1")
    assert (found["identity"], found["assurance"]) == (PERSON, "private")
    (typed.home / "root.json").write_text(json.dumps(twin.trusted_root(), sort_keys=True, separators=(",", ":")))
    digest = hashlib.sha256((typed.home / "root.json").read_bytes()).hexdigest()
    words = ("--trusted-root", "root.json", "--root-sha256", digest, "--identity", PERSON, "--issuer", twin.issuer)
    assert typed.json("verify", RECORD, *words, "--allow-missing-blobs")["verified"]


def test_a_person_is_told_that_a_log_of_version_1_keeps_the_whole_statement(lab: Typed, twin: Twin) -> None:
    """Before it is sent; the newer version keeps a digest, and nothing is said (attest 2)."""
    assert f"the log {twin.url}/rekor keeps the whole statement" in lab(*SIGN, "--rekor-version", "1").stderr
    assert "keeps the whole statement" not in lab(*SIGN).stderr


@pytest.mark.parametrize(
    ("service", "fault"), [("fulcio", "silent"), ("rekor", "error"), ("rekor", "drips"), ("tsa", "late")]
)
def test_a_record_stays_as_it_is_when_a_service_fails_and_the_line_that_signs_it_later_works(
    lab: Typed, twin: Twin, service: str, fault: str
) -> None:
    """Status 7, one line that names the service, the unsigned record kept (issue 5)."""
    before = lab.record.read_bytes()
    twin.faults[service] = fault  # type: ignore[index,assignment]
    done = lab(*SIGN, "--sign-timeout", "4", status=7)
    assert done.stdout == ""
    assert len([text for text in done.stderr.splitlines() if twin.url in text]) == 1
    kept = next(text for text in done.stderr.splitlines() if "unsigned" in text)
    assert lab.record.read_bytes() == before
    assert sorted(path.name for path in lab.record.parent.iterdir()) == ["noop.json"]
    twin.faults.clear()
    again = kept.partition("once that is mended: appliance ")[2].split()
    lab(*again)
    assert lab.bundle.is_file()


UNFIT: tuple[tuple[str, int, str], ...] = (
    (f"sign {RECORD} --trust nobody", 2, "no trust is known by this name"),
    (f"sign {RECORD} --trust lab --identity-token token --token-env X", 2, "comes from one place"),
    (f"sign {RECORD} --trust lab", 7, "no identity token"),
    (f"sign {RECORD} --trust lab --identity-token absent", 7, "No such file"),
    ("trust init --name new", 2, "nothing says where this deployment is"),
    ("trust init --name ../up --config lab.json", 2, "a name is lower-case letters"),
    ("trust init --name local --config lab.json", 2, "a name is lower-case letters"),
    ("trust init --config lab.json", 2, "a name is lower-case letters"),
    (f"trust init --name new --config {RECORD}", 7, "not a client trust config"),
    ("trust init --name new --config absent", 7, "No such file"),
    ("trust init --name new --config lab.json --public", 2, "comes from one place"),
    ("trust init --name new --tuf-root lab.json", 2, "goes with --tuf"),
    ("trust anchor", 2, "nothing to do"),
    ("trust anchor --with local", 2, "cannot vouch for its own time"),
    ("trust checkpoint --proof lab.json", 2, "goes with --verify"),
)


def test_words_that_do_not_fit_are_one_refusal_with_its_mend(lab: Typed) -> None:
    """Bad input is one line with a place and a mend, in the document of --json as well."""
    for words, status, said in UNFIT:
        error = lab.json(*words.split(), status=status)["error"]
        assert said in error["message"], words
        assert error["mend"], words
    assert not lab.bundle.exists()


def test_a_root_that_only_verifies_says_what_it_lacks_to_sign(lab: Typed) -> None:
    """roots.toml may hold a root by hand, as before."""
    config = lab.home / "share/bench-appliance/trust/lab/trust_config.json"
    config.rename(config.with_name("away"))
    error = lab.json(*SIGN, status=2)["error"]
    assert "known to verify with" in error["message"]
    shown = lab.json("trust", "show")["roots"]
    assert [(one["name"], one["signs"], one["state"]) for one in shown] == [("lab", False, "as pinned")]


def test_a_swapped_root_or_config_of_a_known_deployment_signs_nothing(lab: Typed, twin: Twin, tmp_path: Path) -> None:
    """The pin in roots.toml decides; no token is sent (V14)."""
    folder = lab.home / "share/bench-appliance/trust/lab"
    with running(tmp_path / "other") as other:
        own = (folder / "trust_config.json").read_bytes()
        (folder / "trust_config.json").write_bytes(other.trust_config())
        error = lab.json(*SIGN, status=7)["error"]
        assert (error["reason"], "another root" in error["message"]) == ("trust_root", True)
        (folder / "trust_config.json").write_bytes(own)
        (folder / "trusted_root.json").write_text(json.dumps(other.trusted_root()))
        error = lab.json(*SIGN, status=7)["error"]
        assert (error["reason"], "sha256 is" in error["message"]) == ("trust_root", True)
        assert "refused" in lab.json("trust", "show", status=7)["roots"][0]["state"]
        assert other.asked == twin.asked == []


# ------------------------------------------------------------------------------------------------ TUF


@pytest.fixture
def mirror(twin: Twin, typed: Typed) -> TwinRepository:
    found = TwinRepository(twin)
    found.publish(twin.trusted_root(), twin.signing_config())
    (typed.home / "tuf_root.json").write_bytes(found.root)
    (typed.home / "token").write_text(twin.token())
    return found


def init(mirror: TwinRepository) -> tuple[str, ...]:
    return ("trust", "init", "--name", "lab", "--tuf", mirror.url, "--tuf-root", "tuf_root.json")


def test_a_deployment_is_made_known_by_its_mirror_and_its_new_root_is_pinned_when_it_is_looked_at_again(
    typed: Typed, twin: Twin, mirror: TwinRepository
) -> None:
    """The metadata seen before vouch for the new one; what was signed before still verifies (attest 2: TUF)."""
    first = typed.json(*init(mirror))
    assert (first["signs"], first["rootSha256Before"]) == (True, None)
    typed(*SIGN)
    newer = twin.trusted_root()
    newer["tlogs"].append({**newer["tlogs"][0], "baseUrl": "https://next.twin.example"})
    newer["tlogs"].reverse()
    mirror.publish({**twin.trusted_root(), "tlogs": twin.trusted_root()["tlogs"]}, twin.signing_config())
    assert typed.json("trust", "init", "--name", "lab")["rootSha256"] == first["rootSha256"]
    changed = twin.trusted_root()
    changed["certificateAuthorities"][0]["uri"] = "https://fulcio.twin.example"
    mirror.publish(changed, twin.signing_config())
    second = typed.json("trust", "init", "--name", "lab")
    assert second["rootSha256Before"] == first["rootSha256"] != second["rootSha256"]
    assert [one["state"] for one in typed.json("trust", "show")["roots"]] == ["as pinned"]
    words = ("--trust", "lab", "--identity", WORKFLOW, "--issuer", twin.issuer, "--allow-missing-blobs")
    assert typed.json("verify", RECORD, *words)["root"]["sha256"] == second["rootSha256"]


def _rotated(twin: Twin, mirror: TwinRepository, uri: str) -> None:
    changed = twin.trusted_root()
    changed["certificateAuthorities"][0]["uri"] = uri
    mirror.publish(changed, twin.signing_config())


def test_a_new_root_of_a_mirror_is_pinned_where_the_old_one_has_a_second_name(
    typed: Typed, twin: Twin, mirror: TwinRepository
) -> None:
    """The other name keeps the old root, in the file that it always was; both are as pinned (V14)."""
    first = typed.json(*init(mirror))
    roots = typed.home / "config/bench-appliance/roots.toml"
    second = roots.read_text().replace('"lab"', '"lab-2026"')
    roots.write_text(f"{second}\n{roots.read_text()}")
    _rotated(twin, mirror, "https://fulcio.twin.example")
    newest = typed.json("trust", "init", "--name", "lab")
    assert newest["rootSha256Before"] == first["rootSha256"] != newest["rootSha256"]
    shown = {one["name"]: one for one in typed.json("trust", "show")["roots"]}
    assert {name: one["sha256"] for name, one in shown.items()} == {
        "lab-2026": first["rootSha256"],
        "lab": newest["rootSha256"],
    }
    assert {one["state"] for one in shown.values()} == {"as pinned"}
    typed(*SIGN)


def test_whoever_ends_while_a_new_root_comes_in_leaves_the_old_one_pinned_and_whole(
    typed: Typed, twin: Twin, mirror: TwinRepository
) -> None:
    """Nothing that is pinned changes before its pin does: here roots.toml cannot be written, once all else is (V14)."""
    first = typed.json(*init(mirror))
    roots = typed.home / "config/bench-appliance/roots.toml"
    own = roots.read_text()
    roots.write_text(own.replace("[[root]]", '[["root"]]'))  # TOML just the same, but no line that we look for
    _rotated(twin, mirror, "https://fulcio.twin.example")
    refused = typed.json("trust", "init", "--name", "lab", status=7)["error"]
    assert "cannot be written into it" in refused["message"]
    [shown] = typed.json("trust", "show")["roots"]
    assert (shown["sha256"], shown["state"]) == (first["rootSha256"], "as pinned")
    typed(*SIGN)
    roots.write_text(own)
    assert typed.json("trust", "init", "--name", "lab")["rootSha256Before"] == first["rootSha256"]


@pytest.mark.parametrize("source", ["config", "mirror"])
def test_a_level_that_is_asked_for_later_is_refused_and_none_that_is_not(
    typed: Typed, twin: Twin, mirror: TwinRepository, source: str
) -> None:
    """roots.toml says the level, and what is printed is what stands there (V14)."""
    (typed.home / "lab.json").write_bytes(twin.trust_config())
    words = ("trust", "init", "--name", "lab", "--config", "lab.json") if source == "config" else init(mirror)
    typed(*words, "--assurance", "public")
    refused = typed.json(*words, "--assurance", "private", status=7)["error"]
    assert (refused["reason"], "stands there as public" in refused["message"]) == ("trust_root", True)
    assert typed.json(*words)["assurance"] == "public"
    assert [one["assurance"] for one in typed.json("trust", "show")["roots"]] == ["public"]


def test_another_machines_own_root_is_no_deployment(typed: Typed, twin: Twin, tmp_path: Path) -> None:
    """A config may be written around it: its certificates say whose word it is (V14, P12)."""
    root = json.loads(open_or_init(tmp_path / "other").root.content)
    config = json.loads(twin.trust_config())
    (typed.home / "evil.json").write_text(json.dumps({**config, "trustedRoot": root}))
    (typed.home / "token").write_text(twin.token())
    for level in ((), ("--assurance", "public")):
        refused = typed.json("trust", "init", "--name", "lab", "--config", "evil.json", *level, status=7)["error"]
        assert "nobody else's word" in refused["message"]
    assert "nobody else's word" in typed("sign", RECORD, "--trust", "evil.json", status=7).stderr
    assert typed.json("trust", "show")["roots"] == []


def test_a_mirror_that_is_older_than_it_was_changes_nothing(typed: Typed, twin: Twin, mirror: TwinRepository) -> None:
    """Rollback of the trusted root (attest 6, written and tested apart): class replay, the pin stays."""
    old = mirror.timestamp()
    changed = twin.trusted_root()
    changed["certificateAuthorities"][0]["uri"] = "https://fulcio.twin.example"
    mirror.publish(changed, twin.signing_config())
    newest = typed.json(*init(mirror))
    mirror.put_back(old)
    error = typed.json("trust", "init", "--name", "lab", status=7)["error"]
    assert error["reason"] == "replay"
    assert "older than it was" in error["message"]
    assert mirror.url in error["where"]
    assert typed.json("trust", "show")["roots"][0]["sha256"] == newest["rootSha256"]


@pytest.mark.parametrize(("fault", "said"), [("error", "500"), ("garbage", "the mirror of"), ("drips", "has not")])
def test_a_mirror_that_fails_is_named_and_leaves_nothing_behind(
    typed: Typed, twin: Twin, mirror: TwinRepository, fault: str, said: str
) -> None:
    """Within the bound, as every service; a folder is made whole or not at all."""
    twin.faults["tuf"] = fault  # type: ignore[assignment]
    error = typed.json(*init(mirror), "--sign-timeout", "4", status=7)["error"]
    assert error["reason"] == "trust_root"
    assert said in error["message"]
    assert mirror.url in error["where"]
    folder = typed.home / "share/bench-appliance/trust"
    assert [path.name for path in folder.iterdir()] == [".lab.lock"]
    assert not (typed.home / "config").exists()


def test_a_mirror_by_other_keys_or_out_of_its_time_is_refused(
    typed: Typed, twin: Twin, mirror: TwinRepository, tmp_path: Path
) -> None:
    """Root metadata of somebody else; metadata that ran out, as of a mirror that is held back."""
    with running(tmp_path / "other") as other:
        foreign = TwinRepository(other)
        (typed.home / "tuf_root.json").write_bytes(foreign.root)
        assert "does not hold" in typed.json(*init(mirror), status=7)["error"]["message"]
    (typed.home / "tuf_root.json").write_bytes(mirror.root)
    mirror.publish(twin.trusted_root(), twin.signing_config(), days=-1)
    assert "has run out" in typed.json(*init(mirror), status=7)["error"]["message"]
    error = typed.json(*init(mirror)[:-2], status=7)["error"]
    assert "--tuf-root FILE" in error["mend"]


def test_a_mirror_without_services_verifies_and_signs_nothing(typed: Typed, twin: Twin, mirror: TwinRepository) -> None:
    """Somebody else's deployment: their root is enough to check what they signed."""
    mirror.publish(twin.trusted_root(), None)
    assert typed.json(*init(mirror))["signs"] is False
    assert "known to verify with" in typed.json(*SIGN, status=2)["error"]["message"]


def test_the_public_instance_is_the_one_that_the_library_was_released_with_whatever_lies_in_a_cache(
    typed: Typed,
) -> None:
    """Offline, from the package itself: ~/.cache/sigstore-python is neither read nor written (attest 2)."""
    cache = typed.home / "cache/sigstore-python/tuf/https%3A%2F%2Ftuf-repo-cdn.sigstore.dev"
    cache.mkdir(parents=True)
    (cache / "trusted_root.json").write_text("{}")
    found = typed.json("trust", "init", "--public")
    embedded = read_embedded("trusted_root.json", "https://tuf-repo-cdn.sigstore.dev")
    assert found["rootSha256"] == hashlib.sha256(embedded).hexdigest()
    assert (found["name"], found["assurance"], found["signs"]) == ("public", "public", True)
    assert [path.name for path in cache.iterdir()] == ["trusted_root.json"]
    assert (cache / "trusted_root.json").read_text() == "{}"


# ------------------------------------------------------------------------------------------------ the local log


@pytest.fixture
def signed(lab: Typed) -> Typed:
    """A record that is signed with the local trust, its log two entries long."""
    lab("sign", RECORD)
    shutil.copy(lab.bundle, lab.home / "first.sigstore.json")
    lab("sign", RECORD)
    return lab


def test_whoever_kept_a_checkpoint_is_shown_that_the_log_still_begins_with_it(signed: Typed, tmp_path: Path) -> None:
    """The note, a proof made on the log's machine, and its check elsewhere by the pinned root alone (attest 3)."""
    signed("trust", "checkpoint", "--out", "kept")
    for _ in range(3):
        signed("sign", RECORD)
    assert signed.json("trust", "checkpoint", "--verify", "kept", "--out", "proof.json")["size"] == 5
    root = signed.json("trust", "export", "--out", "root.json")["rootSha256"]
    away = Typed(tmp_path / "away")
    away.home.mkdir()
    for name in ("kept", "proof.json", "root.json"):
        shutil.copy(signed.home / name, away.home / name)
    words = ("trust", "checkpoint", "--verify", "kept", "--proof", "proof.json")
    found = away.json(*words, "--trusted-root", "root.json", "--root-sha256", root)
    assert (found["consistent"], found["size"]) == (True, 5)
    value = json.loads((away.home / "proof.json").read_bytes())
    forged = {**value, "hashes": value["hashes"][::-1] + value["hashes"][:1]}
    (away.home / "proof.json").write_text(json.dumps(forged))
    error = away.json(*words, "--trusted-root", "root.json", "--root-sha256", root, status=7)["error"]
    assert error["reason"] == "replay"


@pytest.mark.parametrize("act", ["shortened", "rewritten", "forked"])
def test_a_log_that_does_not_begin_with_what_was_kept_is_refused(signed: Typed, act: str) -> None:
    """Shrunk, rewritten or begun anew from a copy: class replay (attest 6, written and tested apart)."""
    log = signed.home / "share/bench-appliance/trust/local/log"
    shutil.copytree(log, signed.home / "copy")
    signed("sign", RECORD)
    signed("trust", "checkpoint", "--out", "kept")
    shutil.rmtree(log)
    shutil.copytree(signed.home / "copy", log)
    if act == "forked":
        signed("sign", RECORD)
        signed("sign", RECORD)
    elif act == "rewritten":
        shutil.rmtree(log)
        shutil.copytree(signed.home / "copy", log)
        lines = (log / "entries.jsonl").read_bytes().splitlines(keepends=True)
        (log / "entries.jsonl").write_bytes(lines[1] + lines[0])
    error = signed.json("trust", "checkpoint", "--verify", "kept", status=7)["error"]
    assert error["reason"] == "replay"


def test_a_checkpoint_of_another_log_is_not_held_against_this_one(signed: Typed, tmp_path: Path) -> None:
    """A note that this log's key never signed says nothing of it."""
    other = Typed(tmp_path / "other")
    other.home.mkdir()
    other.keep(record())
    other("sign", RECORD)
    (signed.home / "kept").write_text(other("trust", "checkpoint").stdout)
    error = signed.json("trust", "checkpoint", "--verify", "kept", status=7)["error"]
    assert error["reason"] == "log_proof"
    (signed.home / "kept").write_text("not a note")
    assert signed.json("trust", "checkpoint", "--verify", "kept", status=7)["error"]["reason"] == "log_proof"


def test_an_empty_log_has_no_checkpoint_and_nothing_to_anchor(lab: Typed) -> None:
    """Said, with what makes one."""
    lab("trust", "init")
    for words in (("trust", "checkpoint"), ("trust", "anchor", "--with", "lab", "--identity-token", "token")):
        error = lab.json(*words, status=2)["error"]
        assert "is empty" in error["message"]
        assert error["mend"] == "appliance sign RECORD"


def test_an_anchored_log_is_shown_and_the_line_that_it_prints_bounds_a_records_time(signed: Typed, twin: Twin) -> None:
    """One signature by a deployment bounds the time of every record before it, checked with it gone (attest 3)."""
    done = signed("trust", "anchor", RECORD, "--with", "lab", "--identity-token", "token")
    document = signed.record.with_name("noop.anchor.json")
    assert done.stdout.splitlines()[-1] == str(document.relative_to(signed.home))
    twin.close()
    line = next(text for text in done.stderr.splitlines() if "check it with: " in text).partition("check it with: ")[2]
    checks = signed.json(*line.split()[1:], "--allow-missing-blobs")["checks"]
    assert [check["status"] for check in checks if "signed before" in check["name"]] == ["passed"]
    assert [kept["size"] for kept in signed.json("trust", "show")["local"]["anchors"]] == [2]
    before = document.read_bytes()
    document.unlink()
    signed("trust", "anchor", RECORD)
    assert document.read_bytes() == before
    signed("sign", RECORD, "--replace")
    error = signed.json("trust", "anchor", RECORD, status=7)["error"]
    assert error["reason"] == "log_proof"
    assert "came after the anchor" in error["message"]
    refused = signed.json(*line.split()[1:], "--allow-missing-blobs", status=7)
    assert refused["error"]["reason"] == "log_proof"


def test_who_keeps_another_machines_note_is_told_what_holds_its_log_to_it(signed: Typed, tmp_path: Path) -> None:
    """The mend is a line for the keeper, who has no log; none is made for him."""
    away = Typed(tmp_path / "away")
    away.home.mkdir()
    (away.home / "kept").write_text(signed("trust", "checkpoint").stdout)
    error = away.json("trust", "checkpoint", "--verify", "kept", status=2)["error"]
    assert error["mend"] == "another's log is held to it by --proof FILE --trusted-root FILE --root-sha256 HEX"
    assert not (away.home / "share").exists()


# ------------------------------------------------------------------------------------------- signing once more


def test_a_bundle_that_is_there_stays_when_its_provenance_is_signed(signed: Typed) -> None:
    """Nothing new stands in the log for the record, so an anchor of its entry still holds."""
    before = signed.bundle.read_bytes()
    found = signed.json("sign", RECORD, "--provenance")
    assert (signed.bundle.read_bytes(), signed.json("trust", "show")["local"]["size"]) == (before, 3)
    assert found["bundleSha256"] == hashlib.sha256(before).hexdigest()
    assert "stays as it was" in signed("sign", RECORD, "--provenance").stderr
    signed("sign", RECORD, "--provenance", "--replace")
    assert signed.bundle.read_bytes() != before


def test_anothers_signature_is_replaced_by_request_alone(signed: Typed) -> None:
    """Who signed is said, and what was there stays; a bundle over other bytes is nobody's signature of these."""
    before = signed.bundle.read_bytes()
    error = signed.json(*SIGN, status=2)["error"]
    assert f"is signed already, by {signed.json('trust', 'show')['local']['identity']}" in error["message"]
    assert (error["mend"], signed.bundle.read_bytes()) == ("--replace puts yours in its place", before)
    assert signed.json(*SIGN, "--replace")["identity"] == WORKFLOW
    signed.json("sign", RECORD, status=2)
    signed.keep(record(date="2026-01-03T00:00:00Z"))
    assert signed.json("sign", RECORD)["assurance"] == "local"


def test_a_signature_that_an_anchor_is_of_is_replaced_by_request_alone(signed: Typed) -> None:
    """Another entry of the log has no anchor."""
    signed("trust", "anchor", RECORD, "--with", "lab", "--identity-token", "token")
    before = signed.bundle.read_bytes()
    error = signed.json("sign", RECORD, status=2)["error"]
    assert "noop.anchor.json is of this signature alone" in error["message"]
    assert signed.bundle.read_bytes() == before


def test_the_line_that_signs_later_has_every_option_that_was_given(lab: Typed, twin: Twin) -> None:
    """As typed it works, once the service is back."""
    twin.faults["rekor"] = "error"
    lab.environment["LAB_TOKEN"] = twin.token()
    words = ("--token-env", "LAB_TOKEN", "--rekor-version", "1", "--provenance")
    done = lab("sign", RECORD, "--trust", "lab", *words, status=7)
    line = next(text for text in done.stderr.splitlines() if "once that is mended: " in text)
    again = line.partition("once that is mended: appliance ")[2].split()
    assert again == ["sign", RECORD, "--trust", "lab", *words]
    twin.faults.clear()
    lab(*again)
    assert lab.record.with_name("noop.provenance.sigstore.json").is_file()


def test_what_is_no_token_is_told_from_one_that_is_old(lab: Typed, twin: Twin) -> None:
    """A JSON answer with a token in it is none; no clock is to blame."""
    (lab.home / "token").write_text(json.dumps({"value": twin.token()}))
    error = lab.json(*SIGN, status=7)["error"]
    assert (error["message"], error["mend"]) == ("not an identity token", "a JWT, and nothing beside it")


# ------------------------------------------------------------------------------------------- places


def test_a_folder_or_key_that_others_may_look_into_is_closed_by_the_printed_line(signed: Typed) -> None:
    """The mend names its path, so it can be typed."""
    folder = signed.home / "share/bench-appliance/trust/local"
    for path, mode, other in ((folder, "700", 0o755), (folder / "keys/ca.pem", "600", 0o644)):
        path.chmod(other)
        mend = signed.json("sign", RECORD, status=7)["error"]["mend"].partition(", and")[0]
        assert mend == f"chmod {mode} {path}"
        path.chmod(int(mode, 8))


def test_what_takes_no_names_is_one_refusal(signed: Typed) -> None:
    """Such a file system says `no such file` of what is to be made there."""
    pack = ("submission", "pack", RECORD, "--without-suite", "--to")
    for words in (("trust", "export", "--out"), ("trust", "checkpoint", "--out"), pack):
        error = signed.json(*words, "/proc/x.json", status=4)["error"]
        assert error["message"] == "nothing can be made here"


def test_a_folder_of_records_is_no_record_and_the_mend_names_those_in_it(signed: Typed) -> None:
    """`sign` and `reproduce` take one."""
    for verb in ("sign", "reproduce"):
        error = signed.json(verb, "run", status=3)["error"]
        assert (error["where"], error["mend"]) == ("run", f"name a record in it: {RECORD}")


# ------------------------------------------------------------------------------------------------ exports


def test_every_export_prints_a_line_that_names_its_program_and_its_root(signed: Typed) -> None:
    """A root in the file that each program reads, and the line by which it verifies (issue 5: cosign, gh)."""
    for form, file in (
        ("cosign", "trusted_root.json"),
        ("gh", "trusted_root.jsonl"),
        ("sigstore", "trust_config.json"),
    ):
        found = signed.json("trust", "export", "--format", form)
        assert found["command"][0] == form
        assert file in found["command"]
        assert found["identity"] in found["command"]
        assert (signed.home / file).is_file()
    lines = (signed.home / "trusted_root.jsonl").read_text().splitlines(keepends=True)
    assert [line[-1] for line in lines] == ["\n"]
    assert "workflow of GitHub's" in signed("trust", "export", "--format", "gh").stderr


@pytest.mark.parametrize("trust", ["local", "lab"])
def test_sigstores_own_program_verifies_by_the_exported_line_and_refuses_a_changed_record(
    signed: Typed, twin: Twin, trust: str
) -> None:
    """The judge is sigstore-python's command line, offline, with nothing but what was exported."""
    identity, issuer = WORKFLOW, twin.issuer
    if trust == "lab":
        signed(*SIGN, "--replace")
    found = signed.json("trust", "export", "--format", "sigstore", "--trust", trust)
    names = {"NAME": identity, "URL": issuer, "RECORD.json": RECORD, "RECORD.sigstore.json": str(signed.bundle)}
    words = [names.get(word, word) for word in found["command"][1:]]

    def judged() -> int:
        return subprocess.run(
            [sys.executable, "-m", "sigstore", *words], cwd=signed.home, env=signed.environment, check=False
        ).returncode

    assert judged() == 0
    signed.record.write_bytes(signed.record.read_bytes() + b"\n")
    assert judged() == 1
