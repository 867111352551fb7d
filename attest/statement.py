"""The in-toto statement about one record: its bytes are our own RFC 8785 bytes, and it has exactly one subject."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any, Final

from attest import canonical
from attest.canonical import Json
from attest.errors import Refused

NAMESPACE: Final = "https://bench-appliance.invalid/"
"""The root of the predicate type; a test holds it equal to the one of the schemas."""
PREDICATE_TYPE: Final = f"{NAMESPACE}benchmark-result/v1"
VSA_TYPE: Final = "https://slsa.dev/verification_summary/v1"
"""SLSA's verification summary: a verifier's word about a record (attest/vsa.py)."""
PROVENANCE_TYPE: Final = "https://slsa.dev/provenance/v1"
"""SLSA's provenance: the twin of a record's statement, for tools that know no other (attest/provenance.py)."""
CHALLENGE_TYPE: Final = f"{NAMESPACE}challenge/v1"
INDEX_CHECKPOINT_TYPE: Final = f"{NAMESPACE}index-checkpoint/v1"
SUBMISSION_ACT_TYPE: Final = f"{NAMESPACE}submission-act/v1"
LOG_CHECKPOINT_TYPE: Final = f"{NAMESPACE}log-checkpoint/v1"
STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
MAX_STATEMENT_BYTES: Final = 4 * 1024 * 1024
_MEND: Final = "sign the statement's own bytes (cosign attest-blob --statement), not a bare predicate"
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Statement:
    """Parsed, its form checked; what its fields say is checked one by one by `verify`."""

    predicate_type: Json
    subject: Json
    predicate: Json


def build(
    subject_name: str, subject_bytes: bytes, predicate: dict[str, Any], predicate_type: str = PREDICATE_TYPE
) -> bytes:
    """Canonical bytes of a statement about one subject. `verify` takes only those of PREDICATE_TYPE."""
    return build_about(subject_name, hashlib.sha256(subject_bytes).hexdigest(), predicate, predicate_type)


def build_about(subject_name: str, subject_sha256: str, predicate: dict[str, Any], predicate_type: str) -> bytes:
    """The same, of a subject whose bytes are not at hand."""
    return canonical.dumps(
        {
            "_type": STATEMENT_TYPE,
            "subject": [{"name": subject_name, "digest": {"sha256": subject_sha256}}],
            "predicateType": predicate_type,
            "predicate": predicate,
        }
    )


def parse(payload: bytes) -> Statement:
    """Raises Refused (statement) unless these are the canonical bytes of a statement of version 1."""
    try:
        value = canonical.loads_canonical(payload, max_bytes=MAX_STATEMENT_BYTES)
    except canonical.NotCanonical as error:
        raise Refused("statement", error.message, where=f"payload {error.path}", mend=_MEND) from error
    if not isinstance(value, dict) or set(value) != {"_type", "subject", "predicateType", "predicate"}:
        raise Refused("statement", "an in-toto statement is _type, subject, predicateType, predicate", where="payload")
    if value["_type"] != STATEMENT_TYPE:
        raise Refused(
            "statement", f"_type is {value['_type']!r:.80}, not {STATEMENT_TYPE}", where="payload", mend=_MEND
        )
    return Statement(value["predicateType"], value["subject"], value["predicate"])


def check_predicate_type(statement: Statement, wanted: str = PREDICATE_TYPE) -> None:
    if statement.predicate_type != wanted:
        raise Refused("predicate_type", f"is {statement.predicate_type!r:.120}, not {wanted}", where="payload")


def check_subject(statement: Statement, record_bytes: bytes, what: str = "record") -> None:
    """Exactly one subject, named by sha256 alone, in lower case, and equal to the digest of the record's bytes."""
    check_subject_sha256(statement, hashlib.sha256(record_bytes).hexdigest(), what)


def check_subject_sha256(statement: Statement, found: str, what: str = "record") -> None:
    """The same, of bytes whose digest is known."""
    stated = subject_sha256(statement)
    if stated != found:
        raise Refused(
            "subject", f"not the bytes that were signed: the statement is about {stated}, this {what} is {found}"
        )


def subject_sha256(statement: Statement) -> str:
    """Of the only subject. Raises Refused (subject) where there is another number of them, or another name for it."""
    subjects = statement.subject
    if not isinstance(subjects, list) or len(subjects) != 1:
        count = len(subjects) if isinstance(subjects, list) else "no list of"
        raise Refused("subject", f"one subject is needed, the statement has {count}", where="payload $.subject")
    subject = subjects[0]
    if not isinstance(subject, dict) or set(subject) != {"name", "digest"} or not isinstance(subject["name"], str):
        raise Refused("subject", "a subject has a name and a digest", where="payload $.subject[0]")
    digest = subject["digest"]
    if not isinstance(digest, dict) or set(digest) != {"sha256"}:
        raise Refused("subject", "the subject is named by sha256, and by it alone", where="payload $.subject[0].digest")
    if not isinstance(digest["sha256"], str) or not _SHA256.fullmatch(digest["sha256"]):
        raise Refused("subject", "sha256 is 64 lower-case hex digits", where="payload $.subject[0].digest.sha256")
    return digest["sha256"]
