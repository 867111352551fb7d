"""The SLSA provenance of a record, beside its bundle: `X.provenance.sigstore.json` beside `X.json`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from appliance.audit.trust import claims_of, refusals_translated
from appliance.records.record import Record
from attest import provenance, statement
from attest.errors import Refused
from attest.predicate import Claims

if TYPE_CHECKING:
    from attest.trust import TrustMode


def twin_path(record: Path) -> Path:
    return record.with_name(f"{record.name.removesuffix('.json')}.provenance.sigstore.json")


def provenance_of(record: Record, claims: Claims, signer: str) -> provenance.Provenance:
    """`signer`: the name in the certificate that the twin is signed with. Raises Refused (statement)."""
    try:
        return _provenance_of(record, claims, signer)
    except ValueError as error:
        words = " ".join(str(error).split())[:200]
        raise Refused("statement", f"the record's provenance cannot be stated: {words}") from error


def _provenance_of(record: Record, claims: Claims, signer: str) -> provenance.Provenance:
    asked = provenance.Asked(
        suite=provenance.Resource(
            name=record.suite.name, uri=claims.suite.uri, digest={"sha256": claims.suite.digest.sha256}
        ),
        suite_version=record.suite.version,
        solver=record.solver.name,
        solver_version=record.solver.version,
        model=record.model.name if record.model else "none",
        plan=record.plan_digest,
        challenge=record.challenge,
    )
    journal = provenance.Resource(name="journal", digest={"sha256": record.journal.sha256})
    return provenance.Provenance.of(claims, signer, asked, (journal,))


def sign_twin(record: Record, content: bytes, name: str, trust: TrustMode) -> bytes:
    """The bundle over the record's provenance; `content`: the record's bytes as stored, `name`: its file's.

    Raises AttestationRefused.
    """
    from attest.signing import sign_statement

    with refusals_translated():
        twin = provenance_of(record, claims_of(record), trust.identity)
        return sign_statement(trust, provenance.build(twin, name, content), statement.PROVENANCE_TYPE)
