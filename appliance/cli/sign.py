"""`appliance sign`: a bundle beside a record."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from appliance.cli.output import emit_json, line, note
from appliance.errors import UsageRefused

app = typer.Typer()


@app.command()
def sign(
    record: Annotated[Path, typer.Argument(help="A record, as `run` wrote it.", show_default=False)],
    trust: Annotated[str, typer.Option(help="The trust to sign with.")] = "local",
    json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Sign RECORD's bytes as they are stored; write X.sigstore.json beside X.json."""
    from appliance.audit import trust as trusts
    from appliance.digests import sha256_of_file
    from appliance.records.record import Record

    if trust != trusts.LOCAL:
        raise UsageRefused(f"cannot sign with {trust!r}", mend=f"--trust {trusts.LOCAL}")
    Record.read(record)  # before a trust is made for what is no record
    signer, made = trusts.open_or_init_local()
    if made:
        note(f"made a trust of this machine's own in {signer.folder}")
    bundle = trusts.sign_file(record, signer)
    if json:
        emit_json(
            {
                "record": str(record),
                "recordSha256": sha256_of_file(record),
                "bundle": str(bundle),
                "bundleSha256": sha256_of_file(bundle),
                "trust": trust,
                "assurance": signer.assurance,
                "identity": signer.identity,
                "issuer": signer.issuer,
            }
        )
        return
    line(f"{bundle}")
    note(f"signed by {signer.identity} (assurance: {signer.assurance})")
    note(f"check it with: appliance verify {record} --trust {trust}")
