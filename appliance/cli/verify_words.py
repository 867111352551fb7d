"""What `verify` says of a record: the document of `--json`, its checks one a line, or one line of many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from appliance.errors import Refusal

if TYPE_CHECKING:
    from appliance.cli.verifying import Standing
    from attest.verification import Report

_MOMENT = "%Y-%m-%dT%H:%M:%SZ"
_STATUS = {"passed": "passed", "noted": "NOTE", "failed": "FAILED", "not_run": "not run"}


def told(record: Path, report: Report | None, refusal: Refusal | None, standing: Standing | None) -> dict[str, Any]:
    """The document. `standing`: under a policy, what its owner makes of the record."""
    document: dict[str, Any] = {"verified": refusal is None, "record": str(record)}
    if standing is not None:
        document["standing"] = standing
    if report is not None:
        document |= {
            "checks": [
                {
                    "number": outcome.number,
                    "name": outcome.name,
                    "status": outcome.status,
                    "why": outcome.why,
                    "reason": outcome.reason,
                    "word": outcome.refusal.word if outcome.refusal else None,
                }
                for outcome in report.outcomes
            ],
            "identity": report.identity,
            "issuer": report.issuer,
            "signedAt": f"{report.signed_at:{_MOMENT}}" if report.signed_at else None,
            "logIndex": report.log_index,
            "assurance": report.assurance,
            "root": {"name": report.root_name, "sha256": report.root_sha256},
            "provenance": _provenance(report),
            "recordSha256": report.record_sha256,
            "bundleSha256": report.bundle_sha256,
        }
    if refusal is not None:
        document["error"] = {
            "status": refusal.status,
            "reason": refusal.reason,
            "message": refusal.message,
            "where": refusal.where,
            "mend": refusal.mend,
        }
        # A class as `replay` says too much where a receiver's word says it.
        word = getattr(refusal.__cause__, "word", None) if standing is not None else None
        if word is not None:
            document["error"]["word"] = word
    return document


def checks_one_a_line(report: Report, refusal: Refusal | None, standing: Standing | None) -> Iterator[str]:
    # What was not looked at is read last, so that nobody takes it for looked at.
    for outcome in sorted(report.outcomes, key=lambda found: found.status == "not_run"):
        why = f": {outcome.why}" if outcome.why else ""
        yield f"{outcome.number:>3}  {_STATUS[outcome.status]:<8} {outcome.name}{why}"
    yield ""
    for key, value in _facts(report).items():
        yield f"{key:<11}{value}"
    # Simulated counters are all that a check may note.
    noted = any(outcome.status == "noted" for outcome in report.outcomes)
    verified = f"verified{' (simulated counters: nothing to publish)' if noted else ''}"
    unseen = any(outcome.status == "not_run" and outcome.reason == "blob" for outcome in report.outcomes)
    verified += ", but for blobs that are not here" if unseen else ""
    yield f"{'verdict':<11}{verified if refusal is None else f'refused: {refusal.reason}'}"
    if standing is not None:
        yield f"{'standing':<11}{standing}{_words(report)}"


def one_line(document: Mapping[str, Any]) -> str:
    """Of many: what it came to, which record, and for a refused one why."""
    state = document.get("standing") or ("verified" if document["verified"] else "refused")
    state = "verified" if state == "accepted" else state
    if document["verified"]:
        signed = document["signedAt"] or "no time"
        lack = unseen_blobs(document)
        rest = f"  but for blobs that are not here: {lack}" if lack else ""
        return f"{state:<11} {document['record']}  {document['assurance']}  {signed}  {document['identity']}{rest}"
    error = document["error"]
    place = f"{error['where']}: " if error["where"] and error["where"] != document["record"] else ""
    why = error.get("word") or error["reason"] or "unread"
    mend = f" ({error['mend']})" if error["mend"] else ""
    return f"{state.upper():<11} {document['record']}  {why}: {place}{error['message']}{mend}"


def unseen_blobs(document: Mapping[str, Any]) -> str | None:
    """Of a record that verified: why not all of its blobs were looked at, where they were not."""
    unmade = (check for check in document["checks"] if check["status"] == "not_run" and check["reason"] == "blob")
    return next((check["why"] for check in unmade), None)


def _words(report: Report) -> str:
    words = sorted({found.refusal.word for found in report.outcomes if found.refusal and found.refusal.word})
    return f": {', '.join(words)}" if words else ""


def _facts(report: Report) -> dict[str, str]:
    from attest.roots import MEANING

    signed = f"{report.signed_at:{_MOMENT}}" if report.signed_at else "not established"
    return {
        "signer": f"{report.identity} (issuer {report.issuer})",
        "signed at": signed,
        "assurance": f"{report.assurance}: {MEANING[report.assurance]}",
        "root": f"{report.root_name} sha256:{report.root_sha256}",
        "provenance": _provenance(report) or ("no energy stated" if report.verified else "not read"),
        "record": f"sha256:{report.record_sha256}",
        "bundle": f"sha256:{report.bundle_sha256}",
    }


def _provenance(report: Report) -> str | None:
    """The worst provenance of the record's sums. The record may have failed its schema: nothing of it is presumed."""
    from appliance.records.words import PROVENANCE_BEST_FIRST

    record = report.verified.record if report.verified else None
    summary = record.get("summary") if isinstance(record, Mapping) else None
    passes = summary.get("passes") if isinstance(summary, Mapping) else None
    sums = [sweep.get("energy") for sweep in passes if isinstance(sweep, Mapping)] if isinstance(passes, list) else []
    said = [found.get("provenance") for found in sums if isinstance(found, Mapping)]
    return next((word for word in reversed(PROVENANCE_BEST_FIRST) if word in said), None)
