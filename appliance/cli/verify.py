"""`appliance verify`: every check of a record and its bundle, by number, and what it comes to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from appliance.cli.output import emit_json, line
from appliance.errors import Refusal

if TYPE_CHECKING:
    from attest.verification import Report

app = typer.Typer()


@app.command()
def verify(  # noqa: PLR0917  the options of a verb
    record: Annotated[Path, typer.Argument(help="The record.", show_default=False)],
    bundle: Annotated[Path | None, typer.Option(help="Its bundle; by default X.sigstore.json beside X.json.")] = None,
    blobs: Annotated[Path | None, typer.Option(help="Its blobs; by default ../blobs, seen from the record.")] = None,
    trust: Annotated[str | None, typer.Option(help="A root known here by this name.")] = None,
    trusted_root: Annotated[Path | None, typer.Option(help="A root in a file; needs --root-sha256.")] = None,
    root_sha256: Annotated[str | None, typer.Option(help="The sha256 that this file must have.")] = None,
    identity: Annotated[str, typer.Option(help="The exact name of the signer; --trust local implies it.")] = "",
    issuer: Annotated[str, typer.Option(help="The exact issuer of that name; --trust local implies it.")] = "",
    allow_missing_blobs: Annotated[bool, typer.Option(help="A blob that is not there may stay unchecked.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Check RECORD and its bundle without trusting whoever sent them. Status 7 with a reason class where they fail."""
    from appliance.cli.trusting import TrustWords, read_bounded_record, verify_record
    from attest.errors import Refused

    words = TrustWords(
        trust=trust, trusted_root=trusted_root, root_sha256=root_sha256, identity=identity, issuer=issuer
    )
    try:
        report = verify_record(
            record, read_bounded_record(record), bundle, blobs, words, allow_missing_blobs=allow_missing_blobs
        )
    except Refusal as refusal:
        refused = refusal.__cause__
        if isinstance(refused, Refused) and refused.report is not None:
            if any(o.refusal is refused and o.status == "not_run" for o in refused.report.outcomes):
                refusal.mend = "--blobs DIR, or --allow-missing-blobs"
            # Of a command line that asks for nothing there is no list to show.
            if json or refused.reason != "usage":
                _show(refused.report, json, refusal)
        raise
    _show(report, json, None)


def _show(report: Report, json: bool, refusal: Refusal | None) -> None:
    if json:
        emit_json(_document(report, refusal))
        return
    words = {"passed": "passed", "noted": "NOTE", "failed": "FAILED", "not_run": "not run"}
    # What was not looked at is read last, so that nobody takes it for looked at.
    for outcome in sorted(report.outcomes, key=lambda found: found.status == "not_run"):
        why = f": {outcome.why}" if outcome.why else ""
        line(f"{outcome.number:>3}  {words[outcome.status]:<8} {outcome.name}{why}")
    line()
    for key, value in _facts(report).items():
        line(f"{key:<11}{value}")
    # Simulated counters are all that a check may note.
    noted = any(outcome.status == "noted" for outcome in report.outcomes)
    verified = f"verified{' (simulated counters: nothing to publish)' if noted else ''}"
    line(f"{'verdict':<11}{verified if refusal is None else f'refused: {refusal.reason}'}")


def _facts(report: Report) -> dict[str, str]:
    from attest.roots import MEANING

    signed = f"{report.signed_at:%Y-%m-%dT%H:%M:%SZ}" if report.signed_at else "not established"
    return {
        "signer": f"{report.identity} (issuer {report.issuer})",
        "signed at": signed,
        "assurance": f"{report.assurance}: {MEANING[report.assurance]}",
        "root": f"{report.root_name} sha256:{report.root_sha256}",
        "provenance": _provenance(report) or ("no energy stated" if report.verified else "not read"),
        "record": f"sha256:{report.record_sha256}",
        "bundle": f"sha256:{report.bundle_sha256}",
    }


def _document(report: Report, refusal: Refusal | None) -> dict[str, Any]:
    document: dict[str, Any] = {
        "verified": refusal is None,
        "checks": [
            {
                "number": outcome.number,
                "name": outcome.name,
                "status": outcome.status,
                "why": outcome.why,
                "reason": outcome.reason,
            }
            for outcome in report.outcomes
        ],
        "identity": report.identity,
        "issuer": report.issuer,
        "signedAt": f"{report.signed_at:%Y-%m-%dT%H:%M:%SZ}" if report.signed_at else None,
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
    return document


def _provenance(report: Report) -> str | None:
    """The worst provenance of the record's sums. The record may have failed its schema: nothing of it is presumed."""
    from appliance.records.words import PROVENANCE_BEST_FIRST

    record = report.verified.record if report.verified else None
    summary = record.get("summary") if isinstance(record, Mapping) else None
    passes = summary.get("passes") if isinstance(summary, Mapping) else None
    sums = [sweep.get("energy") for sweep in passes if isinstance(sweep, Mapping)] if isinstance(passes, list) else []
    said = [found.get("provenance") for found in sums if isinstance(found, Mapping)]
    return next((word for word in reversed(PROVENANCE_BEST_FIRST) if word in said), None)
