"""What readers of a published folder type, and what other programs read of it."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sigstore.models import Bundle, TrustedRoot
from sigstore.verify import Verifier, policy

from appliance import schemas
from appliance.audit.trust import bundle_path
from appliance.audit.twin import sign_twin
from appliance.digests import sha256_hex
from appliance.records.plan import PlannedSolver
from appliance.records.record import Record, SolverStamp
from attest import canonical, provenance, statement, vsa
from attest.errors import Refused
from attest.signing import sign_statement
from attest.trust.local import LocalTrust
from attest.verification import verify_statement
from tests import record_builder as build
from tests.attest_forge import edited
from tests.publish_bench import Home, archived, files, suite_archive
from tests.sigstore_twin import WORKFLOW, Twin, running


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    for name in ("GITHUB_ACTIONS", "GITLAB_CI", "BUILDKITE", "CIRCLECI"):
        monkeypatch.delenv(name, raising=False)
    return Home(tmp_path / "publisher", monkeypatch)


def _judged(trust: LocalTrust, record: str, **details: Any) -> bytes:
    found = vsa.summary(
        "https://board.example",
        {"bench-appliance": "0.2.0"},
        "https://board.example/submissions/1",
        ("https://board.example/policy", "b" * 64),
        (),
        vsa.Judged(**details),
    )
    return sign_statement(trust, vsa.build(found, "r.json", record), statement.VSA_TYPE)


# ---------------------------------------------------------------------------------------------------- verify a site


def test_a_site_is_verified_by_the_line_that_publish_prints(home: Home) -> None:
    """Index and records, held to a root whose digest came by another way (issue 5, 3)."""
    home("publish", home.signed(build.record()), "--to", "site", "--with-suite")
    words = home.err.rpartition("anyone checks it with: appliance ")[2].split()
    found = home.json(*words)
    assert found["verified"]
    [index] = found["indexes"]
    assert (index["records"], index["checkpoint"]["size"]) == (1, 1)
    pin = words.index("--root-sha256")
    assert home.refused(*words[:pin], *words[pin + 2 :], status=7)["reason"] == "trust_root"


def test_the_line_that_publish_prints_is_of_the_folder_as_it_is(home: Home) -> None:
    """With a suite withheld, now or before, it lets blobs be missing, and the reader is told of it (issue 5, 3)."""
    archive = suite_archive(home.folder / "tasks/pair")
    record, blobs = archived(archive)
    home("publish", home.signed(record, blobs=blobs), "--to", "site", "--without-suite")
    home("publish", home.signed(build.record(), "two"), "--to", "site", "--with-suite")
    words = _line(home)
    assert words[-1] == "--allow-missing-blobs"
    told = home(*words).splitlines()
    assert sum("but for blobs that are not here: not there: $.suite.archive" in line for line in told) == 1
    assert told[-1] == "2 verified of 2 records (1 without all blobs)"
    assert "2 entries, 2 records, 0 verdicts" in home.err
    refused = home(*words[:-1], status=7)
    assert "(--blobs DIR, or --allow-missing-blobs)" in refused


def test_a_reader_who_can_remember_nothing_is_told_so_and_the_site_is_verified(home: Home) -> None:
    """A checkpoint is kept for later, and nothing that is checked now depends on it."""
    home("publish", home.signed(build.record()), "--to", "site", "--with-suite")
    words = _line(home)
    assert home.json(*words)["indexes"][0]["remembered"] is True
    home.environment["XDG_DATA_HOME"] = "/proc/none"  # takes no file, whoever asks
    assert home.json(*words)["indexes"][0]["remembered"] is False
    assert "is not remembered, so an older index would pass here: /proc/none/" in home.err


def test_a_place_that_takes_no_file_is_the_hosts_fault(home: Home) -> None:
    """Status 4 and the place, no traceback: /proc says `no such file` where others say `not permitted`."""
    path = home.signed(build.record())
    for words in (
        ("trust", "export", "--out", "/proc/x.json"),
        ("trust", "checkpoint", "--out", "/proc/x"),
        ("publish", path, "--to", "/proc/x", "--with-suite"),
    ):
        home(*words, status=4)
        assert "/proc" in home.err
        assert "nothing can be made here" in home.err


def _line(home: Home) -> list[str]:
    """What publish printed last for its readers, as a shell reads it."""
    return shlex.split(home.err.rpartition("anyone checks it with: appliance ")[2])


def test_a_run_folder_has_no_index_and_a_site_without_trust_options_says_that_its_was_not_looked_at(home: Home) -> None:
    """`indexes` is a list of what was checked, and of nothing else."""
    home("publish", home.signed(build.record()), "--to", "site", "--with-suite")
    assert home.json("verify", "one", "--trust", "local")["indexes"] == []


def test_a_site_put_back_to_an_older_state_is_refused_by_a_reader_who_came_before(home: Home) -> None:
    """Class `replay`, though every signature in it holds (row P9)."""
    home("publish", home.signed(build.record()), "--to", "site", "--with-suite")
    shutil.copytree(home.folder / "site", home.folder / "old")
    home("publish", home.signed(build.record(date="2026-01-02T03:04:06Z"), "two"), "--to", "site", "--with-suite")
    home("verify", "old", "--trust", "local", status=7)
    home("verify", "site", "--trust", "local")
    assert home.refused("verify", "old", "--trust", "local", status=7)["reason"] == "replay"


def test_a_record_that_was_taken_out_of_a_site_is_missed(home: Home) -> None:
    """With its bundle and its blobs: the index names it."""
    home("publish", home.signed(build.record()), "--to", "site", "--with-suite")
    home("publish", home.signed(build.record(date="2026-01-02T03:04:06Z"), "two"), "--to", "site", "--with-suite")
    gone = sorted((home.folder / "site/records").glob(f"{'?' * 64}.json"))[0]
    gone.unlink()
    bundle_path(gone).unlink()
    refused = home.refused("verify", "site", "--trust", "local", status=7)
    assert (refused["reason"], refused["where"]) == ("record", f"site/records/{gone.name}")


def test_a_board_publishes_others_records_under_its_own_index(home: Home, tmp_path: Path) -> None:
    """`--records-trust`: each record held to its own signer, the index to whoever keeps the board; a reader says both,
    and neither root serves for the other."""
    sender = Home(tmp_path / "sender", home._monkeypatch)
    record = sender.folder / sender.signed(build.record())
    home("trust", "init")
    own, theirs = home.trust(), sender.trust()
    entry = {"name": "sender", "path": str(theirs.root_path), "sha256": theirs.root.sha256, "assurance": "local"}
    with (home.folder / ".config/bench-appliance/roots.toml").open("a") as roots:
        roots.write("\n[[root]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in entry.items()))
    who = ("--identity", theirs.identity, "--issuer", theirs.issuer)
    home("publish", str(record), "--to", "board", "--with-suite", "--records-trust", "sender", *who)
    ready = _line(home)
    assert home.json(*ready)["verified"]
    [line] = [json.loads(text) for text in (home.folder / "board/index.jsonl").read_text().splitlines()]
    assert line["signer"] == {"root": theirs.root.sha256, "identity": theirs.identity, "issuer": theirs.issuer}
    assert (home.folder / "board/trusted_root.json").read_bytes() == own.root.content
    assert (home.folder / f"board/roots/{theirs.root.sha256}.json").read_bytes() == theirs.root.content
    assert home.json(*ready[: ready.index("--index-identity")], status=2)["error"]["mend"].startswith(
        "--index-identity"
    )
    home("publish", home.signed(build.record(date="2026-01-02T03:04:06Z"), "own"), "--to", "board2", "--with-suite")
    home("publish", str(record), "--to", "board2", "--with-suite", "--records-trust", "sender", *who)
    several = _line(home)
    assert several[2:4] == ["--policy", "FILE"]
    assert "--index-trusted-root" in several
    words = ("verify", "board", "--trust", "sender", *who)
    found = home.json(*words, "--index-trust", "local")
    assert (found["verified"], found["indexes"][0]["records"]) == (True, 1)
    home(*words, status=7)
    home("verify", "board", "--trust", "local", status=7)


# -------------------------------------------------------------------------------------------------- verify a verdict


def test_a_verdict_is_shown_after_it_was_checked(home: Home) -> None:
    """`verify X.sigstore.json`: whose word, about what, and what it says; a failed one verifies as well (row R5)."""
    home("trust", "init")
    path = home.folder / "verdict.sigstore.json"
    reasons = (vsa.Reason(word="replayed", message="seen before", where="$.trials"),)
    path.write_bytes(_judged(home.trust(), "a" * 64, status="excluded", reasons=reasons))
    found = home.json("verify", "verdict.sigstore.json", "--trust", "local")
    assert (found["statement"], found["record"], found["result"], found["levels"]) == (
        "verdict",
        "a" * 64,
        "FAILED",
        ["FAILED"],
    )
    assert found["details"]["reasons"][0]["word"] == "replayed"
    text = home("verify", "verdict.sigstore.json", "--trust", "local")
    for words in ("replayed: seen before ($.trials)", "excluded", "https://board.example", "assurance  local"):
        assert words in text


def test_a_verdict_that_does_not_hold_is_refused_with_its_class(home: Home) -> None:
    """Another's, a changed one; a bundle of a record is still named as what it is (rows V2, V4, R5)."""
    record = home.signed(build.record())
    path = home.folder / "verdict.sigstore.json"
    genuine = _judged(home.trust(), "a" * 64, status="accepted", tier="auditable")
    path.write_bytes(genuine)
    words = ("verify", "verdict.sigstore.json", "--trust", "local")
    home(*words)
    wrong = ("--identity", "https://appliance.local.invalid/0")
    assert home.refused(*words, *wrong, status=7)["reason"] == "identity"

    def flip(bundle: dict[str, Any]) -> None:
        text = bundle["dsseEnvelope"]["signatures"][0]["sig"]
        bundle["dsseEnvelope"]["signatures"][0]["sig"] = text[:20] + ("A" if text[20] != "A" else "B") + text[21:]

    path.write_bytes(edited(genuine, flip))
    assert home.refused(*words, status=7)["reason"] in {"signature", "time"}
    home("verify", str(bundle_path(Path(record))), "--trust", "local", status=2)
    assert "a bundle, not a record" in home.err


def test_the_details_beside_a_verdict_are_held_to_it(home: Home) -> None:
    """verdict.json is named by digest: there, not there, another (row R5)."""
    home("trust", "init")
    details = b'{"schema":"verdict-v1"}'
    made = vsa.Reproduced(
        again="b" * 64,
        verdict=sha256_hex(details),
        checked="verified",
        compared_trials=1,
        recorded_trials=2,
        outcome="diverged",
        energy="incomparable",
        cost="incomparable",
    )
    trust = home.trust()
    said = vsa.summary("urn:x", {"a": "1"}, "urn:r", ("urn:p", "b" * 64), (), made)
    bundle = sign_statement(trust, vsa.build(said, "r.json", "a" * 64), statement.VSA_TYPE)
    (home.folder / "verdict.sigstore.json").write_bytes(bundle)
    words = ("verify", "verdict.sigstore.json", "--trust", "local")
    assert home.json(*words)["detailsChecked"] is False
    (home.folder / "verdict.json").write_bytes(details)
    found = home.json(*words)
    assert (found["detailsChecked"], found["result"]) == (True, "FAILED")
    assert "1 of 2 trials" in home(*words)
    (home.folder / "verdict.json").write_bytes(details + b" ")
    assert home.refused(*words, status=7)["reason"] == "blob"


# -------------------------------------------------------------------------------------------- under other trusts


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Twin]:
    with running(tmp_path / "twin") as found:
        yield found


def test_a_site_is_signed_by_a_deployment_as_well(home: Home, deployment: Twin) -> None:
    """`publish --trust NAME` with a token: the records are held to the same name, and so is the index afterwards, with
    the services gone (issue 5, 1)."""
    (home.folder / "lab.json").write_bytes(deployment.trust_config())
    (home.folder / "token").write_text(deployment.token())
    home("trust", "init", "--name", "lab", "--config", "lab.json")
    token = ("--trust", "lab", "--identity-token", "token")
    record = home.keep(build.record())
    home("sign", record, *token)
    home("publish", record, "--to", "site", "--with-suite", *token)
    deployment.close()
    who = ("--trust", "lab", "--identity", WORKFLOW, "--issuer", deployment.issuer)
    found = home.json("verify", "site", *who)
    assert found["verified"]
    assert found["indexes"][0]["checkpoint"]["size"] == 1
    [line] = [json.loads(text) for text in (home.folder / "site/index.jsonl").read_text().splitlines()]
    assert line["signer"]["identity"] == WORKFLOW


def test_a_deployment_that_fails_leaves_the_index_as_it_was(home: Home, deployment: Twin) -> None:
    """Files that no line speaks of, and no line (row P10)."""
    (home.folder / "lab.json").write_bytes(deployment.trust_config())
    (home.folder / "token").write_text(deployment.token())
    home("trust", "init", "--name", "lab", "--config", "lab.json")
    token = ("--trust", "lab", "--identity-token", "token")
    record = home.keep(build.record())
    home("sign", record, *token)
    deployment.faults["rekor"] = "error"
    home("publish", record, "--to", "site", "--with-suite", *token, status=7)
    assert "index.jsonl" not in files(home.folder / "site")
    assert "checkpoint.sigstore.json" not in files(home.folder / "site")
    deployment.faults.clear()
    home("publish", record, "--to", "site", "--with-suite", *token)


# -------------------------------------------------------------------------------------------------- statements


def test_the_slsa_twin_is_what_slsa_says_provenance_is(home: Home) -> None:
    """Same subject, its own type, read by sigstore's own verifier; what it repeats is the record's (issue 5, 4)."""
    record = build.record()
    path = home.folder / home.signed(record)
    trust = home.trust()
    bundle = sign_twin(record, path.read_bytes(), path.name, trust)
    verifier = Verifier(trusted_root=TrustedRoot.from_file(str(trust.root_path)))
    kind, payload = verifier.verify_dsse(
        Bundle.from_json(bundle), policy.Identity(identity=trust.identity, issuer=trust.issuer)
    )
    said = json.loads(payload)
    assert (kind, said["predicateType"]) == ("application/vnd.in-toto+json", "https://slsa.dev/provenance/v1")
    assert said["subject"] == [{"name": "one.json", "digest": {"sha256": sha256_hex(path.read_bytes())}}]
    definition, details = said["predicate"]["buildDefinition"], said["predicate"]["runDetails"]
    assert definition["externalParameters"]["plan"] == record.plan_digest
    assert definition["externalParameters"]["model"] == "none"
    assert definition["resolvedDependencies"][0] == {"name": "harness", "digest": {"sha256": record.harness.digest}}
    assert details["builder"]["id"] == trust.identity
    assert details["metadata"]["invocationId"] == record.record_id
    assert details["byproducts"] == [{"name": "journal", "digest": {"sha256": record.journal.sha256}}]
    signed = verify_statement(bundle, trust.root, trust.identity, trust.issuer, statement.PROVENANCE_TYPE)
    provenance.read(signed, record.canonical())
    with pytest.raises(Refused) as refused:
        provenance.read(signed, record.canonical() + b" ")
    assert refused.value.reason == "subject"


def test_a_name_that_is_an_address_becomes_a_uri_of_the_builder() -> None:
    """SLSA asks for a URI; whoever signs in person has an e-mail address."""
    from appliance.audit.trust import claims_of
    from appliance.audit.twin import provenance_of

    record = build.record()
    assert provenance_of(record, claims_of(record), "me@lab.example").run_details.builder.id == "mailto:me@lab.example"


def test_the_statement_carries_the_schemas_digest(home: Home) -> None:
    """Row A33: lower-case hex, recomputed from the published schema's bytes; tampered with, nothing verifies."""
    path = home.folder / home.signed(build.record())
    bundle = bundle_path(path).read_bytes()
    trust = home.trust()
    signed = verify_statement(bundle, trust.root, trust.identity, trust.issuer, statement.PREDICATE_TYPE)
    stated = signed.statement.predicate["schema"]
    assert stated["digest"]["sha256"] == sha256_hex(schemas.committed("record-v1"))
    assert json.loads(schemas.committed("record-v1"))["$id"] == stated["uri"]
    payload = canonical.loads(signed.payload)
    payload["predicate"]["schema"]["digest"]["sha256"] = stated["digest"]["sha256"].upper()
    bundle_path(path).write_bytes(trust.sign(canonical.dumps(payload)))
    assert home.refused("verify", str(path), "--trust", "local", status=7)["reason"] == "statement"

    def tamper(value: dict[str, Any]) -> None:
        import base64

        payload["predicate"]["schema"]["digest"]["sha256"] = "0" * 64
        value["dsseEnvelope"]["payload"] = base64.b64encode(canonical.dumps(payload)).decode()

    bundle_path(path).write_bytes(edited(bundle, tamper))
    assert home.refused("verify", str(path), "--trust", "local", status=7)["reason"] == "signature"


def test_the_record_alone_says_what_it_takes_to_do_it_again(home: Home) -> None:
    """Row Z44: with everything but the record deleted, `reproduce --plan` lists images, suite, command, stamps."""
    argv = ("agent", "--model", "{model}", "{prompt}")
    solver = PlannedSolver(name="agent", kind="command", digest="d" * 64, argv=argv)
    plan = build.plan(kind="command", model="m-1").model_copy(update={"solver": solver})
    stamp = SolverStamp(
        name="agent", kind="command", digest="d" * 64, version="1.2", commit="c" * 40, source="flag", binary_sha256=None
    )
    record: Record = build.record(plan, solver=stamp, version="1.2", commit="c" * 40)
    (home.folder / "record.json").write_bytes(record.canonical())
    text = home("reproduce", "record.json", "--plan")
    for words in (
        record.suite.digest,
        record.plan.tasks[0].images.composed.config,
        "agent --model '{model}' '{prompt}'",
        "version 1.2, commit " + "c" * 40,
        "harness 0.1.0, commit " + "0" * 40,
        record.hosts[0].kernel,
        "model m-1",
    ):
        assert words in text
    shown = home.json("reproduce", "record.json", "--plan")
    assert (shown["version"], shown["commit"], shown["solver"]["source"]) == ("1.2", "c" * 40, "flag")
    assert shown["images"][0]["pin"]["config"] == record.images[0].pin.config
    assert shown["hosts"][0]["kernel"] == record.hosts[0].kernel
