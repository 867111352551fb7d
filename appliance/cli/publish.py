"""`appliance publish`: records as static files that any web server can carry, and anyone can verify."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from appliance.cli.output import counted, emit_json, line, note
from appliance.cli.signer_options import (
    LOCAL,
    IdentityToken,
    OidcInteractive,
    SignTimeout,
    TokenEnv,
    TrustOption,
    token_of,
)
from appliance.errors import UsageRefused

if TYPE_CHECKING:
    from appliance.submissions.publish import Done, Published
    from appliance.submissions.publish_pieces import Piece, Verdict
    from appliance.submissions.published import Signer
    from attest.trust import TrustMode

app = typer.Typer()


@app.command()
def publish(  # noqa: PLR0917  the options of a verb
    records: Annotated[
        list[Path], typer.Argument(metavar="RECORD...", help="Records, or run folders.", show_default=False)
    ],
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="The folder to publish in.", show_default=False)],
    trust: TrustOption = LOCAL,
    blobs: Annotated[Path | None, typer.Option(help="Their blobs; by default ../blobs, seen from each record.")] = None,
    records_trust: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The known root of the records, where it is not the one of --trust."),
    ] = None,
    identity: Annotated[
        str, typer.Option(help="Who signed the records, where it is not the one who signs the index.")
    ] = "",
    issuer: Annotated[str, typer.Option(help="The issuer of that name.")] = "",
    verdict: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="A signed verdict about one of the records, to go along.")
    ] = None,
    verdict_trust: Annotated[
        str | None, typer.Option(metavar="NAME", help="The known root that the verdicts are checked against.")
    ] = None,
    verdict_identity: Annotated[str, typer.Option(metavar="NAME", help="Who signed the verdicts.")] = "",
    verdict_issuer: Annotated[str, typer.Option(metavar="URL", help="The issuer of that name.")] = "",
    with_suite: Annotated[
        bool | None,
        typer.Option(
            "--with-suite/--without-suite",
            help="Whether the suite's answers go along: its archive, the reference solver's diffs, what tests printed.",
        ),
    ] = None,
    with_transcripts: Annotated[
        bool,
        typer.Option(
            "--with-transcripts/--without-transcripts", help="Whether what solvers printed and models answered does."
        ),
    ] = True,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything and say what would go out; write nothing.")
    ] = False,
    identity_token: IdentityToken = None,
    token_env: TokenEnv = None,
    oidc_interactive: OidcInteractive = False,
    sign_timeout: SignTimeout = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Put RECORD and all that its check needs into DIR, under a signed index that only grows."""
    from appliance.audit.trust import open_trust, refusals_translated
    from appliance.cli.trusting import TrustWords
    from appliance.report.load import record_paths
    from appliance.submissions.publish import looked_at, publish, refuse_other
    from appliance.submissions.publish_pieces import gather, read_verdict

    if bool(verdict) != (verdict_trust is not None):
        raise UsageRefused("a verdict is checked against one root", where="--verdict", mend="--verdict-trust NAME")
    refuse_other(to)
    paths = [found for given in records for found in record_paths(given)]
    signer = open_trust(trust, token_of(identity_token, token_env, oidc_interactive), seconds=sign_timeout, say=note)
    with refusals_translated():
        if records_trust is None:
            held_to = (signer.root, identity or signer.identity, issuer or signer.issuer)
        else:
            held_to = TrustWords(records_trust, None, None, identity, issuer).held_to()
        pieces = gather(paths, held_to, with_suite=with_suite, with_transcripts=with_transcripts, blobs=blobs, say=note)
        verdicts: Sequence[Verdict] = ()
        if verdict:
            words = TrustWords(verdict_trust, None, None, verdict_identity, verdict_issuer, of="verdict-")
            verdicts = [read_verdict(path, words.held_to()) for path in verdict]
        published = looked_at(pieces, verdicts, to, signer) if dry_run else publish(pieces, verdicts, to, signer)
    if json:
        emit_json(_document(published, pieces, to, signer, dry_run))
        return
    for done in published.done:
        line(_row(done))
    if dry_run:
        note("nothing was written: --dry-run")
        return
    size = published.checkpoint.size if published.checkpoint else 0
    note(f"the index of {to} has {size} entries, signed by {signer.identity} (assurance: {signer.assurance})")
    note(f"anyone checks it with: {_words_to_verify(to, published, signer)}")


def _row(done: Done) -> str:
    from appliance.submissions.published import RecordLine, VerdictLine

    told = done.line
    head = f"{done.state:<6}{told.record[:12]}  "
    if isinstance(told, RecordLine):
        held = f", {counted(len(told.withheld), 'blob')} withheld" if told.withheld else ""
        half = f", against {told.baseline[:12]}" if told.baseline else ""
        return (
            f"{head}{told.suite.name} {told.suite.version}, {told.solver}, model {told.model}"
            f"{', self-correcting' if told.self_correct else ''}{half}{held}"
        )
    if isinstance(told, VerdictLine):
        return f"{head}verdict {'passed' if told.passed else 'failed'} ({', '.join(told.levels)}) by {told.verifier}"
    return f"{head}SLSA provenance"


def _words_to_verify(to: Path, published: Published, signer: TrustMode) -> str:
    """Of the whole folder as it is now, and not of what this command added."""
    from appliance.submissions.published import ROOT, Signer, known_records, root_path

    records = known_records(published.lines).values()
    signers = {line.signer for line in records}
    index = Signer(root=signer.root.sha256, identity=signer.identity, issuer=signer.issuer)
    words = ["appliance", "verify", str(to)]
    if len(signers) > 1:
        words += ["--policy", "FILE"]  # which names them all
    else:
        [one] = signers
        words += _held_to(one, to / ROOT if one == index else root_path(to, one.root))
    if signers != {index}:
        words += _held_to(index, to / ROOT, "index-")
    if any(line.withheld for line in records):
        words.append("--allow-missing-blobs")
    return shlex.join(words)


def _held_to(signer: Signer, root: Path, of: str = "") -> list[str]:
    return [
        *(f"--{of}trusted-root", str(root), f"--{of}root-sha256", signer.root),
        *(f"--{of}identity", signer.identity, f"--{of}issuer", signer.issuer),
    ]


def _document(
    published: Published, pieces: Sequence[Piece], to: Path, signer: TrustMode, dry_run: bool
) -> dict[str, Any]:
    checkpoint = published.checkpoint
    return {
        "to": str(to),
        "dryRun": dry_run,
        "published": [
            {"path": str(done.path), "state": done.state, "line": done.line.json_value()} for done in published.done
        ],
        "reveals": {
            piece.sha256: {
                "references": list(piece.reveals.references),
                "hiddenTests": list(piece.reveals.hidden_tests),
                "transcripts": piece.reveals.transcripts,
                "diffs": piece.reveals.diffs,
                "referenceDiffs": piece.reveals.reference_diffs,
                "testOutputs": piece.reveals.test_outputs,
            }
            for piece in pieces
        },
        "checkpoint": checkpoint.json_value() if checkpoint else None,
        "rootSha256": signer.root.sha256,
        "identity": signer.identity,
        "issuer": signer.issuer,
        "assurance": signer.assurance,
    }
