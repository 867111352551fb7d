"""Verification of one record: a numbered list of checks, none of which the bundle or the record can switch off."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from attest import bundle as bundles
from attest import canonical, statement
from attest.checks import Check, Noted, NotRun, Outcome, Verified
from attest.errors import Refused
from attest.roots import Assurance, PinnedRoot
from attest.statement import Statement

if TYPE_CHECKING:
    from attest.library import Signed

OWN_CHECKS: Final = (
    "arguments: a record, a bundle, a name, an issuer",
    "trusted root is the pinned one",
    "bundle has one meaning",
    "signed time by a pinned authority",
    "certificate from a pinned authority",
    "identity and issuer",
    "log holds the entry",
    "signature of the statement",
    "log entry is about this signature",
    "every key was valid at the signed time",
    "log is the pinned one, at the stated index",
    "timestamp has one encoding",
    "payload type",
    "statement is in-toto v1, canonical",
    "predicate type",
    "subject is this record",
    "predicate keeps its schema",
    "record is canonical JSON",
)
"""Numbered from 1; the callers' checks are numbered on from there."""
_BY_LIBRARY: Final = {"time": 4, "certificate": 5, "identity": 6, "log_proof": 7, "signature": 8, "log_entry": 9}
_UNREACHED: Final = "a check before it failed"


@dataclass(frozen=True, slots=True)
class Report:
    """Every check with its outcome, in order. Returned by `verify` where all hold, carried by a Refused otherwise."""

    outcomes: tuple[Outcome, ...]
    root_name: str
    root_sha256: str
    assurance: Assurance
    identity: str
    issuer: str
    record_sha256: str
    bundle_sha256: str
    """Two bundles can say the same (an ECDSA signature has two forms); an index keeps this beside the record's."""
    signed_at: datetime | None
    log_index: int | None
    verified: Verified | None
    """None until the record was parsed."""


@dataclass(frozen=True, slots=True)
class SignedStatement:
    """A statement whose signature holds; its form is checked, what its fields say is not."""

    statement: Statement
    payload: bytes
    """As signed: canonical bytes."""
    identity: str
    issuer: str
    signed_at: datetime
    assurance: Assurance
    root_sha256: str
    bundle_sha256: str
    certificate_serial: str
    """Of the signer's certificate, in lower-case hex."""


def verify(  # noqa: PLR0917  bytes, bytes, and whom to hold them to: one signature, everywhere
    record_bytes: bytes,
    bundle_bytes: bytes,
    trust: PinnedRoot,
    identity: str,
    issuer: str,
    checks: Sequence[Check] = (),
) -> Report:
    """Check a record against its bundle, in this order, and stop at the first of the first 18 that fails:

    1.  Arguments: there is a record, a bundle, an exact name and an exact issuer (usage).
    2.  The trusted root is the pinned one, and is one (trust_root).
    3.  The bundle is strict JSON of version 0.3 with one meaning (bundle).
    4.  A timestamp authority of the root signed a time over the signature; so was every timestamp there is (time).
    5.  The certificate comes from a CA of the root, was valid then, and stands in a CT log of the root (certificate).
    6.  The certificate names exactly this identity and issuer, in its older field and its newer (identity).
    7.  A log of the root proves the entry, under a checkpoint it signed (log_proof).
    8.  The certificate's key signed the envelope (signature).
    9.  The log's entry is about this envelope and certificate (log_entry).
        4 to 9 are sigstore-python's own `verify_dsse`, in its own order.
    10. CA, CT and log keys were used within their `validFor` (certificate, log_proof).
    11. The entry's index, the log's id, the checkpoint's origin, size and signer are the proven ones (log_proof).
    12. The timestamp is in the one encoding that its fields have (time).
    13. The payload is an in-toto statement by its type (payload_type).
    14. The statement is of version 1, in canonical bytes (statement).
    15. It is a benchmark result, version 1 (predicate_type).
    16. Its one subject is the sha256 of the record's bytes (subject).
    17. Its predicate keeps the closed schema, and names the certificate's holder as the runner (statement).
    18. Only now is the record read: strict JSON in its canonical bytes (record).
    19. and on: `checks`, every one of them, whatever the others found.

    Raises Refused, with the report, for the first check that failed, or that could not run and should have.
    """
    ledger = _Ledger(record_bytes, bundle_bytes, (trust, identity, issuer), checks)
    try:
        verified = _own_checks(ledger, record_bytes, bundle_bytes)
        ledger.verified = verified
        for number, check in enumerate(checks, len(OWN_CHECKS) + 1):
            ledger.add(_outcome(number, check, verified))
    except Refused as refusal:
        refusal.report = ledger.report()
        raise
    report = ledger.report()
    for outcome in report.outcomes:
        if outcome.refusal is not None:
            outcome.refusal.report = report
            raise outcome.refusal
    return report


def verify_statement(
    bundle_bytes: bytes, trust: PinnedRoot, identity: str, issuer: str, predicate_type: str
) -> SignedStatement:
    """A statement of ours about something else than a record: the same checks 1 to 15, `predicate_type` in the last.

    Whose subject it is, and what its predicate holds, is its reader's to check. Raises Refused, without a report.
    """
    ledger = _Ledger(b"", bundle_bytes, (trust, identity, issuer), ())
    with ledger.check(1):
        _check_arguments(bundle_bytes, "bundle", identity, issuer)
    signed, stated = _statement_checks(ledger, bundle_bytes, predicate_type)
    return SignedStatement(
        statement=stated,
        payload=signed.payload,
        identity=identity,
        issuer=issuer,
        signed_at=signed.signed_at,
        assurance=trust.assurance,
        root_sha256=trust.sha256,
        bundle_sha256=hashlib.sha256(bundle_bytes).hexdigest(),
        certificate_serial=f"{signed.certificate.serial_number:x}",
    )


def _own_checks(ledger: _Ledger, record_bytes: bytes, bundle_bytes: bytes) -> Verified:
    trust, identity, issuer = ledger.trust, ledger.identity, ledger.issuer
    with ledger.check(1):
        _check_arguments(record_bytes, "record", identity, issuer)
        _check_arguments(bundle_bytes, "bundle", identity, issuer)
        if len(record_bytes) > canonical.MAX_BYTES:
            raise Refused("record", f"{len(record_bytes)} bytes, over the bound of {canonical.MAX_BYTES}")
    signed, stated = _statement_checks(ledger, bundle_bytes, statement.PREDICATE_TYPE)
    # Late, because it takes a third of a second: nothing of it is needed to say what is above.
    from attest.predicate import Predicate

    with ledger.check(16):
        statement.check_subject_sha256(stated, ledger.record_sha256)
    with ledger.check(17):
        predicate = Predicate.parse(stated.predicate)
        if predicate.runner.id != identity:
            raise Refused("statement", f"is {predicate.runner.id!r:.120}, signed by {identity}", where="$.runner.id")
    with ledger.check(18):
        try:
            record, parts = canonical.loads_canonical_parts(record_bytes)
        except canonical.NotCanonical as error:
            raise Refused("record", error.message, where=f"record {error.path}") from error
    return Verified(
        record_bytes=record_bytes,
        record=record,
        predicate=stated.predicate,
        identity=identity,
        issuer=issuer,
        signed_at=signed.signed_at,
        assurance=trust.assurance,
        root_sha256=trust.sha256,
        certificate_serial=f"{signed.certificate.serial_number:x}",
        payload=signed.payload,
        parts=parts,
    )


def _statement_checks(ledger: _Ledger, bundle_bytes: bytes, predicate_type: str) -> tuple[Signed, Statement]:
    """2 to 15: what a signature says, whatever it is about."""
    trust = ledger.trust
    from attest import library

    with ledger.check(2):
        library.load_root(trust)
    with ledger.check(3):
        parsed = bundles.parse(bundle_bytes)
        bundle = library.load_bundle(parsed)
        ledger.log_index = parsed.entry.proof_index
    with ledger.checks_of_library():
        signed = library.verify_dsse(trust, bundle, ledger.identity, ledger.issuer)
        ledger.signed_at = signed.signed_at
    with ledger.check(10):
        library.check_key_windows(trust, parsed, signed)
    with ledger.check(11):
        library.check_log_reference(trust, parsed.entry)
    with ledger.check(12):
        library.check_timestamp_form(trust, parsed)
    with ledger.check(13):
        if signed.payload_type != statement.PAYLOAD_TYPE:
            raise Refused("payload_type", f"is {signed.payload_type!r:.80}, not {statement.PAYLOAD_TYPE}")
    with ledger.check(14):
        stated = statement.parse(signed.payload)
    with ledger.check(15):
        statement.check_predicate_type(stated, predicate_type)
    return signed, stated


def _check_arguments(content: bytes, what: str, identity: str, issuer: str) -> None:
    if not identity or not issuer:
        missing = "identity" if not identity else "issuer"
        raise Refused("usage", f"no {missing} to hold the signature to", mend=f"--{missing}")
    if not content:
        raise Refused("usage", f"nothing to verify: the {what} is empty")


def _outcome(number: int, check: Check, verified: Verified) -> Outcome:
    try:
        check.run(verified)
    except Refused as refusal:
        return Outcome(number, check.name, "failed", str(refusal), refusal.reason, refusal)
    except Noted as note:
        return Outcome(number, check.name, "noted", note.what)
    except NotRun as reason:
        if reason.acceptable:
            return Outcome(number, check.name, "not_run", reason.why, check.reason, acceptable=True)
        unchecked = Refused(check.reason, f"not checked: {reason.why}", mend=reason.mend, word=reason.word)
        return Outcome(number, check.name, "not_run", reason.why, check.reason, unchecked)
    return Outcome(number, check.name, "passed")


class _Ledger:
    """Keeps what each check came to, so that a refusal can say it too."""

    def __init__(
        self,
        record_bytes: bytes,
        bundle_bytes: bytes,
        held_to: tuple[PinnedRoot, str, str],
        checks: Sequence[Check],
    ):
        self.trust, self.identity, self.issuer = held_to
        self.signed_at: datetime | None = None
        self.log_index: int | None = None
        self.verified: Verified | None = None
        self.record_sha256 = hashlib.sha256(record_bytes).hexdigest()
        self._bundle_sha256 = hashlib.sha256(bundle_bytes).hexdigest()
        self._names = (*OWN_CHECKS, *(check.name for check in checks))
        self._outcomes: list[Outcome] = []

    def add(self, outcome: Outcome) -> None:
        self._outcomes.append(outcome)

    @contextmanager
    def check(self, number: int) -> Iterator[None]:
        try:
            yield
        except Refused as refusal:
            self._failed(number, refusal)
            raise
        self._passed_up_to(number)

    @contextmanager
    def checks_of_library(self) -> Iterator[None]:
        """4 to 9 in one call: the class of its refusal says which failed; `internal` counts as the first of them."""
        try:
            yield
        except Refused as refusal:
            number = _BY_LIBRARY.get(refusal.reason, min(_BY_LIBRARY.values()))
            self._passed_up_to(number - 1)
            self._failed(number, refusal)
            raise
        self._passed_up_to(max(_BY_LIBRARY.values()))

    def report(self) -> Report:
        reached = len(self._outcomes)
        unreached = (
            Outcome(number, name, "not_run", _UNREACHED)
            for number, name in enumerate(self._names[reached:], reached + 1)
        )
        return Report(
            outcomes=(*self._outcomes, *unreached),
            root_name=self.trust.name,
            root_sha256=self.trust.sha256,
            assurance=self.trust.assurance,
            identity=self.identity,
            issuer=self.issuer,
            record_sha256=self.record_sha256,
            bundle_sha256=self._bundle_sha256,
            signed_at=self.signed_at,
            log_index=self.log_index,
            verified=self.verified,
        )

    def _passed_up_to(self, number: int) -> None:
        for n in range(len(self._outcomes) + 1, number + 1):
            self.add(Outcome(n, self._names[n - 1], "passed"))

    def _failed(self, number: int, refusal: Refused) -> None:
        self.add(Outcome(number, self._names[number - 1], "failed", str(refusal), refusal.reason, refusal))
