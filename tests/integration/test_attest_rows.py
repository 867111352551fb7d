"""Hostile bundles, made with the genuine instance, each refused for its class (rows V of the attestation page)."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sigstore.models import Bundle
from sigstore.verify import Verifier, policy

from attest import Refused, canonical, library, verify
from attest.checks import Check, NotRun, Verified
from attest.local.keys import key_id
from attest.local.log import LocalLog
from attest.roots import PinnedRoot
from attest.signing import sign_record
from attest.statement import NAMESPACE, STATEMENT_TYPE
from attest.trust.local import ISSUER
from tests.attest_forge import (
    HEX,
    RECORD,
    Forge,
    SkewedClock,
    claims,
    edited,
    entry,
    pinned,
    predicate,
    stamps,
)

Change = Callable[[dict[str, Any]], Any]


@pytest.fixture(scope="module")
def forge(tmp_path_factory: pytest.TempPathFactory) -> Forge:
    return Forge(tmp_path_factory.mktemp("own") / "local")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Forge:
    return Forge(tmp_path_factory.mktemp("stranger") / "local")


@pytest.fixture(scope="module")
def good(forge: Forge) -> bytes:
    for _ in range(4):  # so that the proof has hashes in it
        forge.bundle()
    return sign_record(forge.trust, RECORD, claims())


def refused(
    forge: Forge, bundle: bytes, record: bytes = RECORD, root: PinnedRoot | None = None, identity: str | None = None
) -> str:
    """The class for which `verify` refuses."""
    with pytest.raises(Refused) as caught:
        verify(record, bundle, root or forge.trust.root, identity or forge.identity, ISSUER)
    report = caught.value.report
    assert report is not None
    failed = [outcome for outcome in report.outcomes if outcome.status == "failed"]
    assert [outcome.reason for outcome in failed] == [caught.value.reason]
    assert all(outcome.status == "not_run" for outcome in report.outcomes[failed[0].number :])
    return caught.value.reason


def test_a_signed_record_passes_every_check_in_order(forge: Forge, good: bytes) -> None:
    """What `sign_record` gives is what `verify` takes: 18 checks, numbered from 1, all passed (attest 0, 1)."""
    report = verify(RECORD, good, forge.trust.root, forge.identity, ISSUER)
    assert [(outcome.number, outcome.status) for outcome in report.outcomes] == [(n, "passed") for n in range(1, 19)]
    assert report.assurance == "local"
    assert report.record_sha256 == hashlib.sha256(RECORD).hexdigest()


def test_sigstore_python_itself_accepts_the_bundle(forge: Forge, good: bytes) -> None:
    """The bundle is a plain Sigstore one: `Verifier.verify_dsse` takes it unmodified (attest 0)."""
    exact = policy.Identity(identity=forge.identity, issuer=ISSUER)
    kind, payload = Verifier(trusted_root=library.load_root(forge.root())).verify_dsse(Bundle.from_json(good), exact)
    assert kind == "application/vnd.in-toto+json"
    assert json.loads(payload)["subject"][0]["digest"] == {"sha256": hashlib.sha256(RECORD).hexdigest()}


@pytest.mark.parametrize(("identity", "issuer"), [("", ISSUER), ("x", ""), ("", "")])
def test_without_an_exact_name_and_issuer_nothing_is_verified(
    forge: Forge, good: bytes, identity: str, issuer: str
) -> None:
    """No identity, or no issuer: a usage refusal before anything is read (V1)."""
    with pytest.raises(Refused) as caught:
        verify(RECORD, good, forge.trust.root, identity, issuer)
    assert caught.value.reason == "usage"


@pytest.mark.parametrize(("record", "bundle"), [(b"", b"x"), (RECORD, b""), (b"", b"")])
def test_a_verification_over_nothing_is_refused(forge: Forge, record: bytes, bundle: bytes) -> None:
    """An empty set is not verified, it is refused (attest 6)."""
    with pytest.raises(Refused) as caught:
        verify(record, bundle, forge.trust.root, forge.identity, ISSUER)
    assert caught.value.reason == "usage"


def test_another_signers_name_is_refused_however_near(forge: Forge, good: bytes) -> None:
    """Another subject's valid bundle, a name that begins like ours, the right name under another issuer (V2)."""
    mine = "https://appliance.local.invalid/unit-1"
    near = forge.bundle(subject="https://appliance.local.invalid/unit-10")
    assert refused(forge, near, identity=mine) == "identity"
    assert refused(forge, forge.bundle(subject="https://example.invalid/other")) == "identity"
    with pytest.raises(Refused) as caught:
        verify(RECORD, good, forge.trust.root, forge.identity, "https://oidc.local.invalid/")
    assert caught.value.reason == "identity"


@pytest.mark.parametrize("record", [RECORD + b"\n", RECORD.replace(b"12", b"13"), b"{}", b"not json"])
def test_a_bundle_says_nothing_of_another_record(forge: Forge, good: bytes, record: bytes) -> None:
    """One byte changed, a line feed added, another record: not the subject, before anything is parsed (V3)."""
    assert refused(forge, good, record=record) == "subject"


def _swap_payload(bundle: dict[str, Any]) -> None:
    bundle["dsseEnvelope"]["payload"] = base64.b64encode(b'{"a":1}').decode()


def _change_payload_type(bundle: dict[str, Any]) -> None:
    bundle["dsseEnvelope"]["payloadType"] = "application/vnd.in-toto+jsom"


@pytest.mark.parametrize("change", [_swap_payload, _change_payload_type])
def test_what_was_signed_cannot_be_exchanged(forge: Forge, good: bytes, change: Change) -> None:
    """Payload or payload type edited under a signature that stays (V4)."""
    assert refused(forge, edited(good, change)) == "signature"


def test_envelope_and_timestamp_of_another_bundle_do_not_fit_this_certificate(forge: Forge, good: bytes) -> None:
    """Envelope and timestamp swapped together, so that the time holds: the signature does not (V4)."""
    other = json.loads(forge.bundle())

    def change(bundle: dict[str, Any]) -> None:
        bundle["dsseEnvelope"] = other["dsseEnvelope"]
        stamps(bundle)[:] = stamps(other)

    assert refused(forge, edited(good, change)) == "signature"


def test_a_timestamp_is_over_its_own_signature(forge: Forge, good: bytes) -> None:
    """Signature or whole envelope swapped while the timestamp stays; a timestamp taken from elsewhere (V5, V11)."""
    other = json.loads(forge.bundle())

    def signature(bundle: dict[str, Any]) -> None:
        bundle["dsseEnvelope"]["signatures"] = other["dsseEnvelope"]["signatures"]

    def envelope(bundle: dict[str, Any]) -> None:
        bundle["dsseEnvelope"] = other["dsseEnvelope"]

    def stamp(bundle: dict[str, Any]) -> None:
        stamps(bundle)[:] = stamps(other)

    assert [refused(forge, edited(good, change)) for change in (signature, envelope, stamp)] == ["time"] * 3


def test_the_log_entry_of_another_bundle_proves_nothing(forge: Forge, good: bytes) -> None:
    """A valid proof, but of somebody else's entry (V6)."""
    other = json.loads(forge.bundle())

    def change(bundle: dict[str, Any]) -> None:
        bundle["verificationMaterial"]["tlogEntries"] = other["verificationMaterial"]["tlogEntries"]

    assert refused(forge, edited(good, change)) == "log_entry"


def _use_key(bundle: dict[str, Any]) -> None:
    del bundle["verificationMaterial"]["certificate"]
    bundle["verificationMaterial"]["publicKey"] = {"hint": "a key"}


def _use_chain(bundle: dict[str, Any]) -> None:
    certificate = bundle["verificationMaterial"].pop("certificate")
    bundle["verificationMaterial"]["x509CertificateChain"] = {"certificates": [certificate]}


SHAPES: dict[str, Change] = {
    "no log entry": lambda b: b["verificationMaterial"].update(tlogEntries=[]),
    "two log entries": lambda b: b["verificationMaterial"]["tlogEntries"].append(entry(b)),
    "no proof": lambda b: entry(b).pop("inclusionProof"),
    "no checkpoint": lambda b: entry(b)["inclusionProof"].pop("checkpoint"),
    "another media type": lambda b: b.update(mediaType="application/vnd.dev.sigstore.bundle+json;version=0.3"),
    "an unknown field": lambda b: b.update(extra=1),
    "an unknown field deep inside": lambda b: entry(b)["logId"].update(hint="x"),
    "a snake case field": lambda b: b.update(media_type=b.pop("mediaType")),
    "both contents": lambda b: b.update(messageSignature={"signature": "AA=="}),
    "a message signature": lambda b: b.update(messageSignature={"signature": b.pop("dsseEnvelope") and "AA=="}),
    "a public key": _use_key,
    "a certificate chain": _use_chain,
    "no signature": lambda b: b["dsseEnvelope"].update(signatures=[]),
    "two signatures": lambda b: b["dsseEnvelope"]["signatures"].append(b["dsseEnvelope"]["signatures"][0]),
    "a key hint": lambda b: b["dsseEnvelope"]["signatures"][0].update(keyid="x"),
    "a number as a number": lambda b: entry(b).update(logIndex=4),
    "a number with a zero before it": lambda b: entry(b).update(logIndex="04"),
    "base64 with a line feed": lambda b: b["dsseEnvelope"].update(payload=b["dsseEnvelope"]["payload"] + "\n"),
    "base64 for URLs": lambda b: entry(b)["logId"].update(keyId="-_-_"),
    "no timestamps": lambda b: stamps(b).clear(),
    "no timestamp data": lambda b: b["verificationMaterial"].pop("timestampVerificationData"),
    "an unsigned time instead": lambda b: (stamps(b).clear(), entry(b).update(integratedTime="1790000000")),
    "a root that is no hash": lambda b: entry(b)["inclusionProof"].update(rootHash="AAAA"),
    "a certificate that is none": lambda b: b["verificationMaterial"]["certificate"].update(rawBytes="AAAA"),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_malformed_bundle_is_refused(forge: Forge, good: bytes, shape: str) -> None:
    """Every part is there once, in its one form, and nothing else is (V7, V10)."""
    assert refused(forge, edited(good, SHAPES[shape])) == "bundle"


def test_a_bundle_is_read_whole_or_not_at_all(forge: Forge, good: bytes) -> None:
    """Truncated anywhere, with bytes behind it, not JSON, too large, with a key twice (V7, V20)."""
    hostile = [
        good[: len(good) // 2],
        good + b"x",
        b"\xef\xbb\xbf" + good,
        b"[]",
        b"{" * 100_000,
        b" " * (9 * 1024 * 1024),
        good.replace(b'{"mediaType":', b'{"mediaType":"x","mediaType":', 1),
        good.replace(b'"logIndex":', b'"logIndex":"0","logIndex":', 1),
    ]
    assert [refused(forge, bundle) for bundle in hostile] == ["bundle"] * len(hostile)


def _flip_base64(text: str) -> str:
    content = bytearray(base64.b64decode(text))
    content[5] ^= 1
    return base64.b64encode(content).decode()


def _edit_proof(key: str) -> Change:
    def change(bundle: dict[str, Any]) -> None:
        proof = entry(bundle)["inclusionProof"]
        if key == "hashes":
            proof["hashes"][0] = _flip_base64(proof["hashes"][0])
        elif key == "rootHash":
            proof["rootHash"] = _flip_base64(proof["rootHash"])
        else:
            proof[key] = str(int(proof[key]) - 1)

    return change


def _edit_checkpoint(line: int, into: str) -> Change:
    def change(bundle: dict[str, Any]) -> None:
        checkpoint = entry(bundle)["inclusionProof"]["checkpoint"]
        lines = checkpoint["envelope"].split("\n")
        lines[line] = into
        checkpoint["envelope"] = "\n".join(lines)

    return change


def _other_signer_hint(bundle: dict[str, Any]) -> None:
    checkpoint = entry(bundle)["inclusionProof"]["checkpoint"]
    before, _, signature = checkpoint["envelope"].rstrip("\n").rpartition(" ")
    content = bytearray(base64.b64decode(signature))
    content[0] ^= 1
    checkpoint["envelope"] = f"{before} {base64.b64encode(content).decode()}\n"


def _other_signer_name(bundle: dict[str, Any]) -> None:
    checkpoint = entry(bundle)["inclusionProof"]["checkpoint"]
    note, signature = checkpoint["envelope"].split("\n\n")
    checkpoint["envelope"] = f"{note}\n\n{signature.replace('.log.local.invalid', '.log.other.invalid')}"


PROOFS: dict[str, Change] = {
    "a hash": _edit_proof("hashes"),
    "the root": _edit_proof("rootHash"),
    "the index": _edit_proof("logIndex"),
    "the tree's size": _edit_proof("treeSize"),
    "the tree's size, by one more": lambda b: entry(b)["inclusionProof"].update(treeSize="6"),
    "the checkpoint's size": _edit_checkpoint(1, "99"),
    "the checkpoint's origin": _edit_checkpoint(0, "other.invalid"),
    "the entry's index": lambda b: entry(b).update(logIndex="77777"),
    "the log's id": lambda b: entry(b)["logId"].update(keyId=_flip_base64(entry(b)["logId"]["keyId"])),
    "the checkpoint signer's hint": _other_signer_hint,
    "the checkpoint signer's name": _other_signer_name,
}


@pytest.mark.parametrize("part", PROOFS)
def test_an_edited_proof_is_refused(forge: Forge, good: bytes, part: str) -> None:
    """Proof, index, log id or checkpoint edited; also the parts that sigstore-python leaves unread (V8, V9, V24)."""
    assert refused(forge, edited(good, PROOFS[part])) == "log_proof"


def test_a_checkpoint_of_another_size_does_not_prove_this_entry(forge: Forge, good: bytes) -> None:
    """A genuine checkpoint, of the tree one entry later (V8)."""
    later = json.loads(forge.bundle())
    checkpoint = entry(later)["inclusionProof"]["checkpoint"]
    moved = edited(good, lambda b: entry(b)["inclusionProof"].update(checkpoint=checkpoint))
    assert refused(forge, moved) == "log_proof"


def test_a_log_with_an_unpinned_key_proves_nothing(forge: Forge, stranger: Forge, tmp_path: Path) -> None:
    """Everything of this root but the log's key (V8)."""
    own_log = forge.context(others={"log": stranger.keys}, log=LocalLog.create(tmp_path / "log", stranger.keys))
    assert refused(forge, forge.bundle(context=own_log)) == "log_proof"


class RenamedLog(LocalLog):
    """Signs checkpoints of another log's name with its own key, under its own name."""

    def _checkpoint(self, size: int, root: bytes) -> str:
        note = f"another.log.local.invalid\n{size}\n{base64.b64encode(root).decode()}\n"
        signature = key_id(self._keys.public("log"))[:4] + self._keys.sign("log", note.encode())
        return f"{note}\n\u2014 {self.origin} {base64.b64encode(signature).decode()}\n"


def test_a_checkpoint_of_the_same_key_under_another_name_is_refused(forge: Forge, tmp_path: Path) -> None:
    """The origin is compared whole, although the key signed it (V8, V24)."""
    renamed = forge.context(log=RenamedLog.create(tmp_path / "log", forge.keys))
    bundle = forge.bundle(context=renamed)
    exact = policy.Identity(identity=forge.identity, issuer=ISSUER)
    Verifier(trusted_root=library.load_root(forge.root())).verify_dsse(Bundle.from_json(bundle), exact)
    assert refused(forge, bundle) == "log_proof"


def test_a_certificate_with_a_second_name_is_refused(forge: Forge, monkeypatch: pytest.MonkeyPatch) -> None:
    """The right name among others is not exactly the right name (V2)."""
    from asn1crypto import x509

    from attest.local import certificates

    whole = certificates._extension

    def with_another(identifier: str, value: Any, critical: bool) -> Any:
        if identifier == "subject_alt_name":
            value = [*value, x509.GeneralName("uniform_resource_identifier", "https://example.invalid/other")]
        return whole(identifier, value, critical)

    monkeypatch.setattr(certificates, "_extension", with_another)
    assert refused(forge, forge.bundle()) == "identity"


def _promise(bundle: dict[str, Any]) -> None:
    entry(bundle).update(integratedTime="1790000000", inclusionPromise={"signedEntryTimestamp": "AAAA"})


TIMES: dict[str, Change] = {
    "a promise of a log that makes none": _promise,
    "a time of a log that keeps none": lambda b: entry(b).update(integratedTime="1790000000"),
    "the same timestamp twice": lambda b: stamps(b).append(stamps(b)[0]),
    "more than 32 timestamps": lambda b: stamps(b).extend(stamps(b) * 32),
}


@pytest.mark.parametrize("what", TIMES)
def test_a_time_that_nobody_pinned_stated_is_refused(forge: Forge, good: bytes, what: str) -> None:
    """Promises and times that a v2 log cannot make, repeated timestamps, too many of them (V11)."""
    assert refused(forge, edited(good, TIMES[what])) == "time"


def _replace_last(old: str, new: str) -> Callable[[bytes], bytes]:
    def change(token: bytes) -> bytes:
        before, found, after = token.rpartition(bytes.fromhex(old))
        assert found
        return before + bytes.fromhex(new) + after

    return change


def _with_certificate(der: bytes) -> Callable[[bytes], bytes]:
    def change(token: bytes) -> bytes:
        from asn1crypto import cms, tsp, x509

        response = tsp.TimeStampResp.load(token)
        signed = response["time_stamp_token"]["content"]
        certificates = [each.chosen for each in signed["certificates"]] + [x509.Certificate.load(der)]
        signed["certificates"] = cms.CertificateSet(certificates)
        return bytes(response.dump(force=True))

    return change


AROUND_THE_SIGNATURE: dict[str, Callable[[bytes], bytes]] = {
    "the envelope's version": _replace_last(
        "020103310f300d0609608648016503040201", "020101310f300d0609608648016503040201"
    ),
    "the signer's version": _replace_last("0201013061304d", "0201033061304d"),
    "the signature algorithm's name": _replace_last("2a8648ce3d040302", "2a8648ce3d040303"),
    "a signature algorithm that none is": _replace_last("2a8648ce3d040302", "2a8648ce3d04037f"),
}


@pytest.mark.parametrize("part", [*AROUND_THE_SIGNATURE, "a certificate too many"])
def test_what_lies_around_a_timestamps_signature_cannot_be_edited(
    forge: Forge, stranger: Forge, good: bytes, part: str
) -> None:
    """sigstore-python takes each of these; one encoding is taken here (V24)."""
    change = AROUND_THE_SIGNATURE.get(part) or _with_certificate(stranger.ca)

    def edit(bundle: dict[str, Any]) -> None:
        stamp = stamps(bundle)[0]
        stamp["signedTimestamp"] = base64.b64encode(change(base64.b64decode(stamp["signedTimestamp"]))).decode()

    bundle = edited(good, edit)
    exact = policy.Identity(identity=forge.identity, issuer=ISSUER)
    Verifier(trusted_root=library.load_root(forge.root())).verify_dsse(Bundle.from_json(bundle), exact)
    assert refused(forge, bundle) == "time"


def test_an_unpinned_timestamp_authority_states_no_time(forge: Forge, stranger: Forge) -> None:
    """A stranger's authority; and our own one outside the window that the root gives it (V11)."""
    theirs = forge.context(tsa=SkewedClock(stranger.keys, stranger.tsa, timedelta()))
    assert refused(forge, forge.bundle(context=theirs)) == "time"
    retired = forge.root(lambda r: r["timestampAuthorities"][0]["validFor"].update(end="2026-01-01T00:00:00Z"))
    assert refused(forge, forge.bundle(), root=retired) == "time"


@pytest.mark.parametrize("skew", [timedelta(minutes=30), -timedelta(minutes=30)])
def test_a_certificate_is_good_for_its_ten_minutes_only(forge: Forge, skew: timedelta) -> None:
    """A trusted timestamp before or after the certificate's own time (V12)."""
    skewed = forge.context(tsa=SkewedClock(forge.keys, forge.tsa, skew))
    assert refused(forge, forge.bundle(context=skewed)) == "certificate"


def test_an_authority_of_the_same_name_is_not_the_authority(forge: Forge, stranger: Forge) -> None:
    """Another CA called the same; a certificate that stands in a CT log which nobody pinned (V12)."""
    same_name = forge.context(others={"ca": stranger.keys}, ca=stranger.ca)
    assert refused(forge, forge.bundle(context=same_name)) == "certificate"
    unknown_log = forge.context(others={"ct": stranger.keys})
    assert refused(forge, forge.bundle(context=unknown_log)) == "certificate"


def test_everything_of_another_root_is_refused_at_its_time(forge: Forge, stranger: Forge) -> None:
    """A stranger's whole instance, in our name (V13)."""
    content = stranger.bundle(forge.statement(), subject=forge.identity)
    assert refused(forge, content) == "time"
    with pytest.raises(Refused, match=f"^no certificate authority of the root {forge.trust.root.name} issued") as told:
        verify(RECORD, content, forge.trust.root, forge.identity, ISSUER)
    assert "no timestamp authority of it signed its time" in told.value.message
    assert told.value.mend == "signed under another root? --trust NAME, of that one"


def test_a_bundle_of_this_root_with_a_strangers_time_is_not_said_to_be_of_another(
    forge: Forge, stranger: Forge
) -> None:
    """Its certificate is this root's: naming another one mends nothing (V11)."""
    content = forge.bundle(context=forge.context(tsa=SkewedClock(stranger.keys, stranger.tsa, timedelta())))
    with pytest.raises(Refused) as told:
        verify(RECORD, content, forge.trust.root, forge.identity, ISSUER)
    assert (told.value.reason, told.value.mend) == ("time", None)


def test_only_a_pinned_root_is_ever_used(forge: Forge, tmp_path: Path) -> None:
    """Other bytes than the pinned ones, no pin, an odd pin, a file that is no root (V14)."""
    content, pin = forge.trust.root.content, forge.trust.root.sha256
    (tmp_path / "root.json").write_bytes(content)
    for build in (
        lambda: PinnedRoot("x", content + b" ", pin, "local"),
        lambda: PinnedRoot("x", content, pin.upper(), "local"),
        lambda: PinnedRoot.read(tmp_path / "root.json", None),
        lambda: PinnedRoot.read(tmp_path / "root.json", HEX),
        lambda: PinnedRoot.read(tmp_path / "none.json", pin),
        lambda: library.load_root(pinned(b"{}")),
        lambda: library.load_root(pinned(content.replace(b'"tlogs":', b'"tlogs":[],"tlogs":'))),
    ):
        with pytest.raises(Refused) as caught:
            build()
        assert caught.value.reason == "trust_root"


WINDOWS = {
    "certificateAuthorities": ("certificate", lambda r: r["certificateAuthorities"][0]),
    "ctlogs": ("certificate", lambda r: r["ctlogs"][0]["publicKey"]),
    "tlogs": ("log_proof", lambda r: r["tlogs"][0]["publicKey"]),
}


@pytest.mark.parametrize("part", WINDOWS)
@pytest.mark.parametrize("bound", [{"end": "2026-01-01T00:00:00Z"}, {"start": "2020-01-01T00:00:00Z"}])
def test_a_retired_key_signs_nothing_more(forge: Forge, good: bytes, part: str, bound: dict[str, str]) -> None:
    """CA, CT and log keys outside their `validFor`, which sigstore-python does not enforce (V15)."""
    reason, find = WINDOWS[part]
    root = forge.root(lambda r: find(r)["validFor"].update(bound))
    if "end" in bound:
        assert refused(forge, good, root=root) == reason
    else:
        verify(RECORD, good, root, forge.identity, ISSUER)


@pytest.mark.parametrize("part", WINDOWS)
def test_a_key_is_not_valid_before_its_time(forge: Forge, part: str) -> None:
    """A window that had not begun when the key signed, but has when somebody verifies (V15)."""
    reason, find = WINDOWS[part]
    bundle = forge.bundle()
    signed_at = verify(RECORD, bundle, forge.trust.root, forge.identity, ISSUER).signed_at
    assert signed_at is not None
    begins = signed_at + timedelta(seconds=1)
    while datetime.now(UTC) <= begins:
        time.sleep(0.05)  # the library takes no key whose window lies in the future
    root = forge.root(lambda r: find(r)["validFor"].update(start=f"{begins:%Y-%m-%dT%H:%M:%SZ}"))
    assert refused(forge, bundle, root=root) == reason


@pytest.mark.parametrize("kind", ["application/json", "text/plain", "application/vnd.in-toto+json;v=2"])
def test_a_genuine_signature_over_another_payload_type_is_refused(forge: Forge, kind: str) -> None:
    """The type is compared whole (V16)."""
    assert refused(forge, forge.bundle(payload_type=kind)) == "payload_type"


@pytest.mark.parametrize("kind", [f"{NAMESPACE}benchmark-result/v2", "https://slsa.dev/provenance/v1", "", 1])
def test_a_genuine_statement_of_another_type_is_refused(forge: Forge, kind: object) -> None:
    """Another predicate type is another claim (V17)."""
    assert refused(forge, forge.bundle(forge.statement(predicateType=kind))) == "predicate_type"


def test_a_genuine_signature_over_no_statement_is_refused(forge: Forge) -> None:
    """Version 0.1, not JSON, a key twice, not canonical, a field too many, a field missing (V18)."""
    good = forge.statement()
    hostile = [
        forge.statement(_type="https://in-toto.io/Statement/v0.1"),
        forge.statement(_type=["https://in-toto.io/Statement/v1"]),
        b"not json",
        b"\xff\xfe",
        good.replace(b'"subject":', b'"subject":[],"subject":', 1),
        json.dumps(json.loads(good)).encode(),
        forge.statement(extra=1),
        forge.statement(predicate=None),
        b"[]",
    ]
    assert [refused(forge, forge.bundle(payload)) for payload in hostile] == ["statement"] * len(hostile)
    assert STATEMENT_TYPE.encode() in good


def test_a_genuine_statement_about_anything_but_this_one_record_is_refused(forge: Forge) -> None:
    """No subject, two, an upper-case digest, sha1 only, sha1 beside it, no list, no name (V19)."""
    digest = hashlib.sha256(RECORD).hexdigest()
    right = {"name": "record.json", "digest": {"sha256": digest}}
    hostile: list[Any] = [
        [],
        [right, right],
        [{"name": "record.json", "digest": {"sha256": digest.upper()}}],
        [{"name": "record.json", "digest": {"sha1": "0" * 40}}],
        [{"name": "record.json", "digest": {"sha256": digest, "sha1": "0" * 40}}],
        [{"digest": {"sha256": digest}}],
        [{"name": "record.json", "digest": digest}],
        [{"name": "record.json", "digest": {"sha256": digest[:-1]}}],
        {"0": right},
        "record.json",
    ]
    found = [refused(forge, forge.bundle(forge.statement(subject=subject))) for subject in hostile]
    assert found == ["subject"] * len(hostile)


def test_a_genuine_statement_with_an_open_predicate_is_refused(forge: Forge) -> None:
    """The predicate's schema is closed, and its runner is the signer (attest 4)."""
    base = predicate(forge.identity)
    hostile: list[Any] = [
        {**base, "extra": 1},
        {key: value for key, value in base.items() if key != "suite"},
        {**base, "runner": {**base["runner"], "id": "https://appliance.local.invalid/other"}},
        {**base, "assurance": "certified"},
        {**base, "suite": {**base["suite"], "digest": {"sha256": HEX.upper()}}},
        [],
        "x",
    ]
    found = [refused(forge, forge.bundle(forge.statement(predicate=value))) for value in hostile]
    assert found == ["statement"] * len(hostile)


RECORDS = {
    "a key twice": b'{"a":1,"a":2}',
    "NaN": b'{"a":NaN}',
    "infinity by size": b'{"a":1e400}',
    "an integer beyond 2^53": b'{"a":9007199254740993}',
    "a float that is an integer": b'{"a":1.0}',
    "a byte order mark": b'\xef\xbb\xbf{"a":1}',
    "unsorted keys": b'{"b":1,"a":2}',
    "white space": b'{"a": 1}',
    "an escape that is not needed": b'{"a":"\\u0061"}',
    "not UTF-8": b'{"a":"\xff"}',
    "a lone surrogate": b'{"a":"\\ud800"}',
    "a line feed at the end": b'{"a":1}\n',
    "nested too deeply": b"[" * 5000 + b"]" * 5000,
    "not JSON": b"record",
}


@pytest.mark.parametrize("record", RECORDS)
def test_a_genuine_record_with_two_meanings_is_refused(forge: Forge, record: str) -> None:
    """Signed by the genuine key, subject and all, yet not its own canonical form (V21)."""
    content = RECORDS[record]
    assert refused(forge, forge.bundle(forge.statement(content)), record=content) == "record"
    with pytest.raises(Refused) as caught:
        sign_record(forge.trust, content, claims())
    assert caught.value.reason == "record"


def test_nothing_that_could_pass_for_an_attestation_is_signed(forge: Forge) -> None:
    """A blob that begins with the pre-authentication encoding is refused at signing, and so is every blob (V23)."""
    payload = forge.statement()
    blob = b"DSSEv1 28 application/vnd.in-toto+json %d %s" % (len(payload), payload)
    before = forge.trust.log.head().size
    with pytest.raises(Refused):
        forge.trust.sign(blob)
    with pytest.raises(Refused):
        sign_record(forge.trust, blob, claims())
    from attest.local.instance import mint_token

    with (
        forge.trust._context.signer(mint_token(forge.keys, forge.identity)) as signer,
        pytest.raises(Refused) as caught,
    ):
        signer.sign_artifact(blob)
    assert caught.value.reason == "usage"
    assert forge.trust.log.head().size == before


def test_further_checks_all_run_and_the_first_that_fails_names_the_class(forge: Forge, good: bytes) -> None:
    """Each is numbered on from 18, and a failure hides none of the others (formats 8)."""
    seen: list[str] = []

    def fail(verified: Verified) -> None:
        seen.append(verified.record["schema"])
        raise Refused("aggregate", "sums to something else")

    def not_run(_: Verified) -> None:
        raise NotRun("no folder of blobs", acceptable=True)

    checks = [Check("blobs", not_run, "blob"), Check("sums", fail), Check("last", lambda v: seen.append(v.identity))]
    with pytest.raises(Refused) as caught:
        verify(RECORD, good, forge.trust.root, forge.identity, ISSUER, checks)
    report = caught.value.report
    assert report is not None
    assert caught.value.reason == "aggregate"
    assert [(o.number, o.status) for o in report.outcomes[18:]] == [(19, "not_run"), (20, "failed"), (21, "passed")]
    assert seen == ["record-v1", forge.identity]


def test_a_check_that_could_not_run_refuses_unless_that_was_allowed(forge: Forge, good: bytes) -> None:
    """A blob that is not there: passed over only where the caller said so (formats 8)."""

    def missing(acceptable: bool) -> Check:
        def run(_: Verified) -> None:
            raise NotRun("not there", acceptable=acceptable)

        return Check("blobs", run, "blob")

    held_to = (forge.trust.root, forge.identity, ISSUER)
    assert verify(RECORD, good, *held_to, [missing(True)]).outcomes[-1].status == "not_run"
    with pytest.raises(Refused) as caught:
        verify(RECORD, good, *held_to, [missing(False)])
    assert caught.value.reason == "blob"


def test_a_record_of_the_same_bytes_signed_twice_gives_two_bundles_that_both_hold(forge: Forge) -> None:
    """Every signing is an entry of its own: keys, certificates and proofs differ, the subject does not."""
    first, second = (sign_record(forge.trust, RECORD, claims()) for _ in range(2))
    reports = [verify(RECORD, bundle, forge.trust.root, forge.identity, ISSUER) for bundle in (first, second)]
    assert reports[1].log_index == (reports[0].log_index or 0) + 1
    assert canonical.loads(first) != canonical.loads(second)
