"""`appliance sign`: a bundle beside a record."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from appliance.cli.output import emit_json, line, note
from appliance.cli.signer_options import (
    IdentityToken,
    OidcInteractive,
    SignTimeout,
    TokenEnv,
    TrustOption,
    again,
    token_of,
    words_to_verify,
)
from appliance.errors import AttestationRefused, UsageRefused

if TYPE_CHECKING:
    from attest.trust import TrustMode

app = typer.Typer()


@app.command()
def sign(  # noqa: PLR0917  the options of a verb
    record: Annotated[Path, typer.Argument(help="A record, as `run` wrote it.", show_default=False)],
    trust: TrustOption = "local",
    identity_token: IdentityToken = None,
    token_env: TokenEnv = None,
    oidc_interactive: OidcInteractive = False,
    sign_timeout: SignTimeout = None,
    rekor_version: Annotated[
        int | None, typer.Option(min=1, max=2, help="The log's version, where a config names logs of both.")
    ] = None,
    provenance: Annotated[
        bool, typer.Option("--provenance", help="SLSA's provenance of it, too: X.provenance.sigstore.json.")
    ] = False,
    tpm: Annotated[
        str | None,
        typer.Option(metavar="TCTI", help="A TPM that quotes the statement, too: device:/dev/tpmrm0, swtpm:path=…"),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Also in place of another's signature, or of one that is anchored.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Sign RECORD's bytes as they are stored; write X.sigstore.json beside X.json.

    With --provenance a bundle that is there stays as it is.
    """
    from appliance.audit import trust as trusts
    from appliance.audit.documents import read_record
    from appliance.audit.resigning import kept_bundle
    from appliance.digests import sha256_of_file
    from attest.trust.config import RekorVersion

    read_record(record)  # before a trust is made, or asked, for what is no record
    kept = None if replace else kept_bundle(record)
    token = token_of(identity_token, token_env, oidc_interactive)
    signer = trusts.open_trust(
        trust, token, seconds=sign_timeout, rekor_version=cast("RekorVersion | None", rekor_version), say=note
    )
    stays = kept is not None and provenance
    if kept is not None and not stays:
        with trusts.refusals_translated():
            kept.refuse_loss(signer.identity)
    try:
        bundle = kept.path if kept is not None and stays else trusts.sign_file(record, signer, tpm)
        twin = _twin(record, signer) if provenance else None
    except (AttestationRefused, UsageRefused):
        unsigned = "" if trusts.bundle_path(record).exists() else ", unsigned"
        options = {"--rekor-version": rekor_version, "--tpm": tpm}
        more = [word for name, value in options.items() if value is not None for word in (name, str(value))]
        more += ["--provenance"] * provenance + ["--replace"] * replace
        note(f"{record} is as it was{unsigned}; once that is mended: {again(record, trust, token, *more)}")
        raise
    if json:
        emit_json(
            {
                "record": str(record),
                "recordSha256": sha256_of_file(record),
                "bundle": str(bundle),
                "bundleSha256": sha256_of_file(bundle),
                "provenance": str(twin) if twin else None,
                "trust": trust,
                "assurance": signer.assurance,
                "identity": signer.identity,
                "issuer": signer.issuer,
            }
        )
        return
    for path in filter(None, (bundle, twin)):
        line(f"{path}")
    if stays:
        note(f"{bundle} stays as it was; the provenance is signed by {signer.identity} (assurance: {signer.assurance})")
        return
    note(f"signed by {signer.identity} (assurance: {signer.assurance})")
    note(f"check it with: appliance verify {shlex.quote(str(record))} {words_to_verify(signer, trust)}")


def _twin(record: Path, signer: TrustMode) -> Path:
    from appliance.audit.twin import sign_twin, twin_path
    from appliance.files import write_atomically
    from appliance.records.record import Record

    content = record.read_bytes()
    write_atomically(twin_path(record), sign_twin(Record.read(record), content, record.name, signer))
    return twin_path(record)
