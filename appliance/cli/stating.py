"""`appliance verify X.sigstore.json`: whatever we sign beside records, named as what it is, held to whom and to what it
is about."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from appliance.cli.output import emit_json, line
from appliance.cli.trusting import TrustWords, read_bounded_bundle
from appliance.errors import AttestationRefused, InputRefused, UsageRefused
from attest import statement
from attest.canonical import MAX_BYTES

if TYPE_CHECKING:
    from attest.verification import SignedStatement

_BUNDLE: Final = ".sigstore.json"


@dataclass(frozen=True)
class Kind:
    """A type of statement, and where the file lies that it is about: in the bundle's place, with another ending."""

    name: str
    ending: str = ".json"
    bundle: str = _BUNDLE
    lies: str | None = None
    """The file's own name, where it does not follow from the bundle's."""

    def subject(self, bundle: Path) -> Path:
        return bundle.with_name(self.lies or f"{bundle.name.removesuffix(self.bundle)}{self.ending}")


KINDS: Final[dict[str, Kind]] = {
    statement.PREDICATE_TYPE: Kind("record"),
    statement.VSA_TYPE: Kind("verdict"),
    statement.PROVENANCE_TYPE: Kind("SLSA provenance", bundle=f".provenance{_BUNDLE}"),
    statement.CHALLENGE_TYPE: Kind("challenge"),
    statement.INDEX_CHECKPOINT_TYPE: Kind("checkpoint of an index", lies="index.jsonl"),
    statement.LOG_CHECKPOINT_TYPE: Kind("checkpoint of a log", ending=".checkpoint"),
    statement.SUBMISSION_ACT_TYPE: Kind("act on a submission"),
}


def kind_of(path: Path) -> str | None:
    """The type of statement that a bundle says it is, one of KINDS; None for another, or for no bundle. Nothing of it
    is believed yet."""
    from attest import bundle
    from attest.errors import Refused

    try:
        found = statement.parse(bundle.parse(read_bounded_bundle(path)).payload).predicate_type
    except Refused:
        return None
    return found if isinstance(found, str) and found in KINDS else None


def verify_stated(path: Path, words: TrustWords, json: bool) -> bool:
    """Whether `path` was a bundle or its subject, and was checked as such; False where it has to be a record.

    Raises AttestationRefused, UsageRefused.
    """
    if not path.name.endswith(_BUNDLE):
        _refuse_other(path)
        return False
    if not path.exists():
        raise UsageRefused("no such file or directory", where=str(path), reason="usage")
    kind = kind_of(path)
    if kind is None:
        return False
    if kind == statement.VSA_TYPE:
        from appliance.cli.verdicting import verify_verdict

        verify_verdict(path, words, json)
    elif kind == statement.PREDICATE_TYPE:
        beside = KINDS[kind].subject(path)
        raise UsageRefused(
            "a bundle, not a record", where=str(path), mend=f"appliance verify {beside}: the record that it is of"
        )
    else:
        _verify(path, kind, words, json)
    return True


def _refuse_other(path: Path) -> None:
    """Raises AttestationRefused for the subject of a statement that is no benchmark result, InputRefused for what has
    no bundle and says itself that it is no record."""
    bundle = path.with_name(f"{path.name.removesuffix('.json')}{_BUNDLE}")
    if not path.is_file():
        return
    if not bundle.exists():
        _refuse_other_schema(path)
    kind = kind_of(bundle)
    if kind not in (None, statement.PREDICATE_TYPE):
        raise AttestationRefused(
            f"its bundle is of a {KINDS[kind].name}, not of a record",
            where=str(path),
            mend=f"appliance verify {bundle}",
            reason="predicate_type",
        )


def _refuse_other_schema(path: Path) -> None:
    from appliance.cli.trusting import read_bounded_record
    from attest import canonical

    try:
        value = canonical.loads(read_bounded_record(path))
    except canonical.NotCanonical:
        return
    named = value.get("schema") if isinstance(value, dict) else None
    if isinstance(named, str) and named != "record-v1":
        words = f"not a record, but {named!r:.80}, and nothing signed lies beside it"
        raise InputRefused(words, where=str(path), mend=f"appliance schema check {path} tells whether it is one")


def _verify(path: Path, kind: str, words: TrustWords, json: bool) -> None:
    from appliance.audit.trust import refusals_translated
    from attest.verification import verify_statement

    with refusals_translated():
        signed = verify_statement(read_bounded_bundle(path), *words.held_to(), kind)
        subject = statement.subject_sha256(signed.statement)
        beside = _held(KINDS[kind].subject(path), subject)
    document = _document(signed, kind, subject, beside)
    if json:
        emit_json(document)
        return
    from attest.roots import MEANING

    about = f"{beside}" if beside else "not here: only its digest is known"
    for key, value in (
        ("statement", KINDS[kind].name),
        ("about", f"sha256:{subject}"),
        ("file", about),
        ("signer", f"{signed.identity} (issuer {signed.issuer})"),
        ("signed at", document["signedAt"]),
        ("assurance", f"{signed.assurance}: {MEANING[signed.assurance]}"),
        ("verdict", "verified"),
    ):
        line(f"{key:<11}{value}")


def _held(beside: Path, sha256: str) -> Path | None:
    """The file that it is about, if it is here. Raises Refused (subject) where another one lies there."""
    from appliance.digests import sha256_hex
    from appliance.reading import read_regular
    from attest.errors import Refused

    try:
        content = read_regular(beside, MAX_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Refused("subject", error.strerror or str(error), where=str(beside)) from error
    if sha256_hex(content) != sha256:
        raise Refused("subject", f"not the bytes that were signed, {sha256}", where=str(beside))
    return beside


def _document(signed: SignedStatement, kind: str, subject: str, beside: Path | None) -> dict[str, Any]:
    return {
        "verified": True,
        "statement": KINDS[kind].name,
        "predicateType": kind,
        "predicate": signed.statement.predicate,
        "subjectSha256": subject,
        "subject": str(beside) if beside else None,
        "identity": signed.identity,
        "issuer": signed.issuer,
        "signedAt": f"{signed.signed_at:%Y-%m-%dT%H:%M:%SZ}",
        "assurance": signed.assurance,
        "rootSha256": signed.root_sha256,
        "bundleSha256": signed.bundle_sha256,
    }
