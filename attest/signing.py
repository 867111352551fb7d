"""Signing: a record's statement, or any other statement of ours, and the bundle over it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from attest import canonical, statement
from attest.canonical_check import check_canonical
from attest.errors import Refused
from attest.predicate import Claims, Predicate
from attest.signable import refuse_unsignable
from attest.trust import TrustMode
from attest.verification import verify_statement

if TYPE_CHECKING:
    from attest.tpm import Quoter


def sign_record(
    trust: TrustMode,
    record_bytes: bytes,
    claims: Claims,
    *,
    name: str = "record.json",
    quoter: Quoter | None = None,
) -> bytes:
    """The bundle, JSON, of a record given as its stored bytes. It was verified before it is returned.

    `quoter`: a TPM that quotes the statement, too.
    Raises Refused (record) where the bytes are not their own canonical form.
    """
    _refuse_uncanonical(record_bytes, "record")
    return sign_written(trust, hashlib.sha256(record_bytes).hexdigest(), claims, name=name, quoter=quoter)


def sign_written(
    trust: TrustMode,
    record_sha256: str,
    claims: Claims,
    *,
    name: str = "record.json",
    quoter: Quoter | None = None,
) -> bytes:
    """As `sign_record`, for the caller who made these bytes from a value just now: he need not hold them again."""
    predicate = Predicate.of(claims, trust.identity, trust.last_checkpoint(), trust.assurance)
    stated = statement.build_about(name, record_sha256, predicate.json_value(), statement.PREDICATE_TYPE)
    if quoter is not None:
        from attest.tpm import with_quote

        stated = with_quote(stated, quoter)
    return sign_statement(trust, stated, statement.PREDICATE_TYPE)


def sign_statement(trust: TrustMode, statement_bytes: bytes, predicate_type: str) -> bytes:
    """The bundle, JSON, of a statement given as its canonical bytes (`statement.build`); verified before it is
    returned. There is no way to sign anything else: a blob could be read as a statement elsewhere (row V23).

    Raises Refused (statement, predicate_type) for bytes that are no such statement, and whatever the trust raises.
    """
    refuse_unsignable(statement_bytes)
    statement.check_predicate_type(statement.parse(statement_bytes), predicate_type)
    bundle = trust.sign(statement_bytes)
    # A clock that jumped, an authority that ran out: found here rather than by a stranger.
    signed = verify_statement(bundle, trust.root, trust.identity, trust.issuer, predicate_type)
    if signed.payload != statement_bytes:
        raise Refused("internal", "another statement was signed than the one that was given")
    return bundle


def _refuse_uncanonical(content: bytes, what: str) -> None:
    if content.startswith(b"DSSEv1 "):
        # Row V23: to a Rekor v2 log such a blob could pass for an attestation.
        raise Refused("record", "bytes that begin with 'DSSEv1 ' are never signed")
    try:
        check_canonical(content)
    except canonical.NotCanonical as error:
        raise Refused("record", error.message, where=f"{what} {error.path}") from error
