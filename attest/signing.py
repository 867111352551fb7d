"""Signing one record: its statement, and the bundle over it."""

from __future__ import annotations

from typing import Any

from attest import canonical, statement
from attest.errors import Refused
from attest.predicate import Claims, Predicate
from attest.trust import TrustMode
from attest.verification import verify


def sign_record(trust: TrustMode, record_bytes: bytes, claims: Claims, *, name: str = "record.json") -> bytes:
    """The bundle, JSON, of a record given as its stored bytes. It was verified before it is returned.

    Raises Refused (record) where the bytes are not their own canonical form.
    """
    if record_bytes.startswith(b"DSSEv1 "):
        # Row V23: to a Rekor v2 log such a blob could pass for an attestation.
        raise Refused("record", "bytes that begin with 'DSSEv1 ' are never signed")
    try:
        canonical.loads_canonical(record_bytes)
    except canonical.NotCanonical as error:
        raise Refused("record", error.message, where=f"record {error.path}") from error
    predicate = Predicate.of(claims, trust.identity, trust.last_checkpoint(), trust.assurance)
    bundle = trust.sign(statement.build(name, record_bytes, predicate.json_value()))
    # A clock that jumped, an authority that ran out: found here rather than by a stranger.
    verify(record_bytes, bundle, trust.root, trust.identity, trust.issuer)
    return bundle


def sign_verdict(trust: TrustMode, verdict_bytes: bytes, predicate: dict[str, Any], *, name: str) -> bytes:
    """The bundle, JSON, of a reproduction's verdict given as its stored bytes.

    Raises Refused (record) where the bytes are not their own canonical form.
    """
    try:
        canonical.loads_canonical(verdict_bytes)
    except canonical.NotCanonical as error:
        raise Refused("record", error.message, where=f"verdict {error.path}") from error
    signer = {"id": trust.identity, "assurance": trust.assurance}
    return trust.sign(statement.build(name, verdict_bytes, {**predicate, "verifier": signer}, statement.VERDICT_TYPE))
