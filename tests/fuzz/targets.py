"""What is fuzzed: one function of bytes a reader, with seeds that it takes."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

from appliance.audit.checks import record_checks
from appliance.audit.documents import record_of
from appliance.audit.plausibility import plausibility_checks
from appliance.audit.policy import policy_of
from appliance.audit.policy_checks import policy_checks
from appliance.audit.trust import agreement_check, claims_of
from appliance.energy.readings import Malformed, pack, unpack
from appliance.errors import Refusal
from appliance.files import store_blob
from appliance.records import journal
from appliance.records.record import Record
from appliance.submissions import published, state
from appliance.submissions.challenge import challenge_of
from attest import anchor, bundle, canonical, checkpoints, library, roots, statement, timestamp_form, verify, vsa
from attest.canonical_check import check_canonical
from attest.checks import Noted, NotRun, Verified
from attest.errors import Refused
from attest.predicate import Predicate, Sha256Digest
from attest.trust.config import TrustConfig
from attest.trust.local import ISSUER, LocalTrust
from attest.verification import SignedStatement
from tests import policy_builder, record_builder
from tests.attest_corpus.families import corpus
from tests.attest_corpus.workshop import workshop
from tests.attest_forge import HEX, RECORD
from tests.attest_forge import predicate as good_predicate
from tests.lab import lab_root
from tests.measured_builder import Measured, measured, window

WHEN: Final = datetime(2026, 1, 2, 4, tzinfo=UTC)
WHERE: Final = "fuzzed"


@dataclass(frozen=True)
class Target:
    run: Callable[[bytes], object]
    """Raises nothing for any bytes, or has found something."""
    seeds: Callable[[], list[bytes]]


def _of_corpus(reason: str | None = None, most: int = 40) -> list[bytes]:
    """Bundles of the corpus that need no signing to be made."""
    shop = workshop()
    found = []
    for case in corpus():
        if not case.signed_again and (reason is None or case.reason == reason) and len(found) < most:
            made = getattr(shop.made(case), "bundle", None)
            if made and len(made) < 20_000:
                found.append(made)
    return found


# ------------------------------------------------------------------------------------------------ bundles, statements


def parse_bundle(content: bytes) -> None:
    with contextlib.suppress(Refused):
        bundle.parse(content)


def verify_bundle(content: bytes) -> None:
    """Everything that a verification does before the record is read; an `internal` refusal is a finding too."""
    shop = workshop()
    try:
        verify(RECORD, content, shop.own.trust.root, shop.own.identity, ISSUER)
    except Refused as refused:
        if refused.reason == "internal":
            raise AssertionError(str(refused)) from refused


def _bundles() -> list[bytes]:
    shop = workshop()
    return [shop.good.bundle, shop.promised.bundle, shop.stamped.bundle, *_of_corpus()]


def parse_statement(content: bytes) -> None:
    try:
        stated = statement.parse(content)
        statement.check_predicate_type(stated)
        statement.check_subject(stated, RECORD)
        Predicate.parse(stated.predicate)
    except Refused:
        pass


def _statements() -> list[bytes]:
    own = workshop().own
    return [own.statement(), own.statement(subject=[]), own.statement(predicate={})]


def parse_predicate(content: bytes) -> None:
    with contextlib.suppress(Refused, canonical.NotCanonical):
        Predicate.parse(canonical.loads(content))


def parse_vsa(content: bytes) -> None:
    """A statement that somebody signed: its signature is not the question here."""
    try:
        stated = statement.parse(content)
        vsa.read(SignedStatement(stated, content, "who", ISSUER, WHEN, "local", HEX, HEX, "1"))
    except Refused:
        pass


def _summaries() -> list[bytes]:
    policy = vsa.Policy(uri="https://bench-appliance.invalid/policies/example/1", digest=Sha256Digest(sha256=HEX))
    bad = vsa.Judged(status="excluded", reasons=(vsa.Reason(word="replayed", message="seen before"),))
    again = vsa.Reproduced(
        again=HEX, verdict=HEX, checked="verified", compared_trials=1, recorded_trials=2,
        outcome="reproduced", energy="incomparable", cost="incomparable",
    )  # fmt: skip
    found = []
    for details in (vsa.Judged(status="accepted", tier="auditable"), bad, again):
        looked_at = vsa.Attestation(uri=vsa.bundle_uri(HEX), digest=Sha256Digest(sha256=HEX))
        levels = vsa.levels_of(details)
        one = vsa.Vsa(
            verifier=vsa.Verifier(id="who", version={"bench-appliance": "0.1.0"}),
            time_verified="2026-01-02T03:04:05Z",
            resource_uri=vsa.record_uri(HEX),
            policy=policy,
            input_attestations=(looked_at,),
            verification_result="FAILED" if levels == (vsa.FAILED,) else "PASSED",
            verified_levels=levels,
            details=details,
        )
        found.append(vsa.build(one, "record.json", HEX))
    return found


def parse_timestamp(content: bytes) -> None:
    with contextlib.suppress(Refused):
        timestamp_form.check(content, set())


def _timestamps() -> list[bytes]:
    shop = workshop()
    found = []
    for one in (shop.good.bundle, shop.stamped.bundle, *_of_corpus("time", 30)):
        try:
            found += bundle.parse(one).timestamps
        except Refused:
            continue
    return found


def parse_note(content: bytes) -> None:
    shop = workshop()
    try:
        text, note = checkpoints.read_note(content, WHERE)
        checkpoints.check_note(text, note, shop.own.trust.root, WHERE)
    except Refused:
        pass
    with contextlib.suppress(Refused):
        checkpoints.check_consistency(content, _notes()[0], shop.own.trust.root, WHERE)


@cache
def _notes() -> list[bytes]:
    shop = workshop()
    log = shop.own.trust.log
    note = log.head().checkpoint.encode()
    found = [note, checkpoints.prove(log, note, shop.own.trust.root, WHERE).content()]
    for one in _of_corpus("log_proof", 30):
        value = json.loads(one)["verificationMaterial"]["tlogEntries"][0]
        found.append(value["inclusionProof"]["checkpoint"]["envelope"].encode())
    return found


# ------------------------------------------------------------------------------------------------------- whole records


@cache
def _measured() -> tuple[Measured, Path]:
    one = measured()
    folder = Path(tempfile.mkdtemp(prefix="fuzz-", dir=workshop().folder))
    for digest, blob in one.blobs.items():
        store_blob(folder, blob, digest)
    return one, folder


@cache
def _policy() -> Any:
    return policy_builder.policy(workshop().own.trust)


def read_record(content: bytes) -> None:
    """As a file at the door, and by every check of ours and of a policy, none of which may rely on another."""
    with contextlib.suppress(Refusal):
        record_of(content, WHERE)
    try:
        value = canonical.loads(content)
        content = canonical.dumps(value)
    except canonical.NotCanonical:
        return
    try:
        claims = claims_of(Record.model_validate_json(content))
        stated = claims.model_dump(mode="json", by_alias=True)
        predicate = {**good_predicate("who"), **stated, "runner": {**stated["runner"], "id": "who"}}
    except (ValueError, Refused):
        predicate = good_predicate("who")
    verified = Verified(content, value, predicate, "who", ISSUER, WHEN, "local")
    folder = _measured()[1]
    for check in (
        *record_checks(folder, allow_missing=True),
        agreement_check(),
        *policy_checks(_policy(), now=WHEN, blobs=folder, challenge=None),
        *plausibility_checks(_policy(), now=WHEN),
    ):
        try:
            check.run(verified)
        except (Refused, NotRun, Noted):
            continue


def _records() -> list[bytes]:
    shop = workshop()
    return [shop.record.canonical(), _measured()[0].record.canonical(), record_builder.record().canonical()]


def read_journal(content: bytes) -> None:
    try:
        told = journal.decode(content, WHERE)
    except Refusal:
        return
    for digest in told.header.plan_digests:
        told.results(digest)
    told.baselines()
    told.hosts_after()
    told.idle()
    told.calibration()


def _journals() -> list[bytes]:
    found = []
    for one in (workshop().record, _measured()[0].record):
        found.append(record_builder.journal_bytes(one.plan, one.baselines, one.trials, one.hosts, one.meter))
    return found


def read_readings(content: bytes) -> None:
    """As they lie among the blobs, and as the lines that they unpack to."""
    for packed in (content, pack(content)):
        try:
            for _ in unpack(packed, 1 << 20).samples():
                pass
        except Malformed:
            continue


def _readings() -> list[bytes]:
    return [gzip.decompress(window(number)) for number in range(2)] + [window(0)]


def compare_canonical(content: bytes) -> None:
    """The quick readers and the slow one are of one mind, and what is canonical reads back as itself."""
    verdicts = []
    for read in (check_canonical, canonical.loads_canonical):
        try:
            read(content)
            verdicts.append(True)
        except canonical.NotCanonical:
            verdicts.append(False)
    assert verdicts[0] == verdicts[1], verdicts
    try:
        value = canonical.loads(content)
        form = canonical.dumps(value)
    except canonical.NotCanonical:
        assert not verdicts[1]
        return
    assert (form == content) == verdicts[1]
    assert canonical.dumps(canonical.loads_canonical(form)) == form
    assert json.loads(form) == json.loads(content)


def _canonicals() -> list[bytes]:
    from tests.attest_corpus.statements import RECORDS

    small = [content for _, content in RECORDS.values() if len(content) < 2_000]
    return [*small, *_records(), b'{"a":[{"b":1},{"c":"\\u20ac"}]}']


# ------------------------------------------------------------------------------- policies, challenges, roots, indexes


def read_policy(content: bytes) -> None:
    with contextlib.suppress(Refusal):
        policy_of(content, WHERE)


def _policies() -> list[bytes]:
    trust = workshop().own.trust
    tables = policy_builder.tables
    several: list[dict[str, Any]] = [
        tables(trust),
        tables(trust, least_tier="reported", signers=[], freshness={"challenge": "required", "most_age_seconds": 60}),
        tables(trust, revoked=[{"identity": trust.identity, "after": "2026-01-02T03:04:05Z", "reason": "lost"}]),
        tables(
            trust,
            exclusions={"most_share": 0.5},
            plausibility={"most_round_walls": 3},
            provenance={"floor": "simulated"},
        ),
    ]
    return [policy_builder.toml(one).encode() for one in several]


def read_challenge(content: bytes) -> None:
    try:
        found = challenge_of(content, WHERE)
        assert found.expires
        assert found.sha256
    except Refusal:
        pass


def _challenges() -> list[bytes]:
    plan = record_builder.plan()
    value = {
        "schema": "challenge-v1",
        "nonce": "0" * 64,
        "suite": {"name": plan.suite.name, "digest": plan.suite.digest},
        "policy": {"name": "example", "version": 1, "sha256": HEX},
        "issuedAt": "2026-01-02T03:04:05Z",
        "expiresAt": "2026-02-02T03:04:05Z",
        "store": "0" * 64,
    }
    return [canonical.dumps(value)]


def read_roots(content: bytes) -> None:
    """roots.toml, a client's trust config, a trusted root: what a person is given to trust by."""
    path = workshop().folder / "roots.toml"
    path.write_bytes(content)
    with contextlib.suppress(Refused):
        roots.known_roots(path)
    with contextlib.suppress(Refused):
        TrustConfig.parse(content, WHERE)
    try:
        pinned = roots.PinnedRoot(WHERE, content, _digest(content), "local")
        library.load_root(pinned)
        roots.signer_of_local(pinned)
    except Refused as refused:
        if refused.reason == "internal":
            raise AssertionError(str(refused)) from refused


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _roots() -> list[bytes]:
    root = workshop().own.trust.root.content
    config = {
        "mediaType": "application/vnd.dev.sigstore.clienttrustconfig.v0.1+json",
        "trustedRoot": json.loads(root),
        "signingConfig": {
            "mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json",
            "caUrls": [_service("http://127.0.0.1:1/ca", 1)],
            "oidcUrls": [_service("http://127.0.0.1:1/oidc", 1)],
            "rekorTlogUrls": [_service("http://127.0.0.1:1/log", 2)],
            "tsaUrls": [_service("http://127.0.0.1:1/tsa", 1)],
            "rekorTlogConfig": {"selector": "ANY"},
            "tsaConfig": {"selector": "ANY"},
        },
    }
    entry = b'[[root]]\nname = "x"\npath = "x.json"\nsha256 = "%s"\nassurance = "local"\n' % (b"0" * 64)
    return [entry, root, json.dumps(config).encode()]


def _service(url: str, version: int) -> dict[str, Any]:
    return {
        "url": url,
        "majorApiVersion": version,
        "validFor": {"start": "2026-01-01T00:00:00Z"},
        "operator": "x",
    }


def read_index_lines(content: bytes) -> None:
    """Lines of a store and of a published folder, once their index is believed; and what follows from them."""
    entries = []
    for line in content.split(b"\n")[:200]:
        try:
            value = canonical.loads(line)
        except canonical.NotCanonical:
            continue
        if isinstance(value, dict):
            entries.append(value)
    for read in (
        lambda: state.state_of(state.parse_lines(entries, WHERE)),
        lambda: published.parse_lines(entries, WHERE),
    ):
        try:
            read()
        except Refused:
            continue


def _index_lines() -> list[bytes]:
    when, signer = "2026-01-02T03:04:05Z", {"root": HEX, "identity": "x", "issuer": "y"}
    decision = {
        "kind": "decision", "submission": HEX, "file": "records/a.json", "record": HEX, "bundle": HEX, "trials": HEX,
        "plan": HEX, "challenge": None, "log": {"root": HEX, "index": 3},
        "decision": {"status": "accepted", "tier": "auditable", "reasons": []},
        "reached": "auditable", "verdict": HEX, "reproductions": [HEX], "receivedAt": when,
        "policy": {"name": "x", "version": 1, "sha256": HEX, "uri": "x"}, "roots": [{"name": "x", "sha256": HEX}],
    }  # fmt: skip
    act = {
        "kind": "act", "act": "release", "record": HEX, "reason": "asked", "statement": HEX, "verdict": HEX,
        "tier": "auditable", "at": when,
    }  # fmt: skip
    record = {
        "schema": "published-v1", "kind": "record", "record": HEX, "bundle": HEX, "signer": signer,
        "suite": {"name": "x", "version": "1", "digest": HEX}, "solver": "x", "model": "none", "version": None,
        "commit": None, "selfCorrect": False, "baseline": None, "withheld": [HEX],
    }  # fmt: skip
    twin = {"schema": "published-v1", "kind": "provenance", "record": HEX, "bundle": HEX, "signer": signer}
    held = {**decision, "decision": {"status": "quarantined", "tier": None, "reasons": [
        {"word": "implausible", "message": "too fast", "where": None}]}}  # fmt: skip
    return [
        canonical.dumps(decision),
        canonical.dumps(held) + b"\n" + canonical.dumps(act),
        canonical.dumps(record) + b"\n" + canonical.dumps(twin),
    ]


def read_anchor(content: bytes) -> None:
    shop = workshop()
    try:
        found = anchor.read_anchor(content, _private(), shop.own.identity, ISSUER)
    except Refused as refused:
        if refused.reason == "internal":
            raise AssertionError(str(refused)) from refused
        return
    record = Verified(RECORD, {}, {}, "who", ISSUER, WHEN, "local")
    with contextlib.suppress(Refused, NotRun, Noted):
        anchor.anchor_check(found, shop.good.bundle).run(record)


@cache
def _private() -> roots.PinnedRoot:
    return lab_root(workshop().own.trust.root)


@cache
def _anchors() -> list[bytes]:
    """Of the instance by itself, under a root that the verifier calls private."""
    shop = workshop()
    trust: LocalTrust = shop.own.trust
    kept = anchor.anchor(trust, trust)
    return [anchor.document(trust, kept, shop.good.bundle)]


TARGETS: Final[dict[str, Target]] = {
    "record": Target(read_record, _records),
    "bundle": Target(parse_bundle, _bundles),
    "verification": Target(verify_bundle, _bundles),
    "statement": Target(parse_statement, _statements),
    "predicate": Target(parse_predicate, lambda: [canonical.dumps(good_predicate("who"))]),
    "summary": Target(parse_vsa, _summaries),
    "timestamp": Target(parse_timestamp, _timestamps),
    "note": Target(parse_note, _notes),
    "anchor": Target(read_anchor, _anchors),
    "journal": Target(read_journal, _journals),
    "readings": Target(read_readings, _readings),
    "canonical": Target(compare_canonical, _canonicals),
    "policy": Target(read_policy, _policies),
    "challenge": Target(read_challenge, _challenges),
    "roots": Target(read_roots, _roots),
    "index": Target(read_index_lines, _index_lines),
}
