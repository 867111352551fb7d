"""`appliance verify X.sigstore.json` of a verdict: whose word it is, about which record, and what it says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from appliance.cli.output import emit_json, line
from appliance.cli.trusting import TrustWords, read_bounded_bundle

if TYPE_CHECKING:
    from attest.verification import SignedStatement
    from attest.vsa import Vsa


def verify_verdict(path: Path, words: TrustWords, json: bool) -> None:
    """Checks the signature of a verification summary, its form, and verdict.json beside it where it names one.

    Raises AttestationRefused, UsageRefused. What the verdict says is no refusal: a failed one verifies as well.
    """
    from appliance.audit.trust import refusals_translated
    from attest import statement, vsa
    from attest.verification import verify_statement

    with refusals_translated():
        signed = verify_statement(read_bounded_bundle(path), *words.held_to(), statement.VSA_TYPE)
        summary, record = vsa.read(signed)
        details = _details_checked(path, summary)
    document = _document(signed, summary, record, details)
    if json:
        emit_json(document)
        return
    for key, value in _lines(document, summary):
        line(f"{key:<11}{value}")


def _details_checked(path: Path, summary: Vsa) -> bool | None:
    """Whether verdict.json lies beside it and is the one that was signed; None where it names none."""
    from appliance.audit.trust import refusals_translated
    from appliance.digests import sha256_hex
    from appliance.reading import read_regular
    from attest import vsa
    from attest.canonical import MAX_BYTES
    from attest.errors import Refused

    if not isinstance(summary.details, vsa.Reproduced):
        return None
    beside = path.with_name(f"{path.name.removesuffix('.sigstore.json')}.json")
    try:
        content = read_regular(beside, MAX_BYTES)
    except FileNotFoundError:
        return False
    except OSError as error:
        with refusals_translated():
            raise Refused("blob", error.strerror or str(error), where=str(beside)) from error
    if sha256_hex(content) != summary.details.verdict:
        with refusals_translated():
            raise Refused("blob", f"not the verdict that was signed, {summary.details.verdict}", where=str(beside))
    return True


def _document(signed: SignedStatement, summary: Vsa, record: str, details: bool | None) -> dict[str, Any]:
    return {
        "verified": True,
        "statement": "verdict",
        "record": record,
        "result": summary.verification_result,
        "levels": list(summary.verified_levels),
        "verifier": summary.verifier.id,
        "details": summary.json_value()["benchAppliance_details"],
        "detailsChecked": details,
        "bundles": list(summary.bundles),
        "policy": {"uri": summary.policy.uri, "sha256": summary.policy.digest.sha256},
        "resourceUri": summary.resource_uri,
        "timeVerified": summary.time_verified,
        "identity": signed.identity,
        "issuer": signed.issuer,
        "signedAt": f"{signed.signed_at:%Y-%m-%dT%H:%M:%SZ}",
        "assurance": signed.assurance,
        "rootSha256": signed.root_sha256,
        "bundleSha256": signed.bundle_sha256,
    }


def _lines(document: dict[str, Any], summary: Vsa) -> list[tuple[str, str]]:
    from attest import vsa
    from attest.roots import MEANING

    found = [
        ("record", f"sha256:{document['record']}"),
        ("verdict", f"{document['result']}: {', '.join(document['levels'])}"),
    ]
    details = summary.details
    if isinstance(details, vsa.Reproduced):
        found += [
            ("saw", f"{details.compared_trials} of {details.recorded_trials} trials"),
            ("parts", f"outcome {details.outcome}, energy {details.energy}, cost {details.cost}"),
            ("signature", "of the record, checked before" if details.checked == "verified" else "not checked before"),
            ("details", "verdict.json beside it" if document["detailsChecked"] else "not here"),
        ]
    else:
        tier = f", tier {details.tier}" if details.tier else ""
        found += [("status", f"{details.status}{tier}")]
        found += [
            ("reason", f"{one.word}: {one.message}{f' ({one.where})' if one.where else ''}") for one in details.reasons
        ]
    found += [
        ("verifier", summary.verifier.id),
        ("policy", f"{summary.policy.uri} sha256:{summary.policy.digest.sha256}"),
        ("signer", f"{document['identity']} (issuer {document['issuer']})"),
        ("signed at", document["signedAt"]),
        ("assurance", f"{document['assurance']}: {MEANING[document['assurance']]}"),
    ]
    return found
