"""`appliance trust`: this machine's own signing instance, and the roots that signatures are checked against."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from appliance.cli.output import emit_json, line, note
from appliance.errors import UsageRefused

if TYPE_CHECKING:
    from attest.errors import Refused
    from attest.roots import KnownRoot

app = typer.Typer()

Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


@app.command()
def init(json: Json = False) -> None:
    """Make the local instance, once, and name its root `local` in roots.toml."""
    from appliance.audit import trust as trusts

    trust, made = trusts.open_or_init_local()
    found = {
        "made": made,
        "folder": str(trust.folder),
        "root": str(trust.root_path),
        "rootSha256": trust.root.sha256,
        "identity": trust.identity,
        "issuer": trust.issuer,
        "assurance": trust.assurance,
        "roots": str(trusts.roots_file()),
    }
    if json:
        emit_json(found)
        return
    note("made a trust of this machine's own" if made else "this machine has one already")
    for key in ("folder", "identity", "issuer", "root", "rootSha256", "roots"):
        line(f"{key:<11}{found[key]}")


@app.command()
def show(json: Json = False) -> None:
    """Every root that is known here, whether its file is still the pinned one, and the local log, read again."""
    from appliance.audit import trust as trusts
    from attest.roots import known_roots

    with trusts.refusals_translated():
        roots = [_shown(root) for root in known_roots(trusts.roots_file())]
    own, refusal = _local_log()
    if json:
        emit_json({"roots": roots, "local": own})
    else:
        _print(roots, own)
    if refusal is not None:
        raise trusts.translated(refusal) from refusal


def _print(roots: list[dict[str, Any]], own: dict[str, Any] | None) -> None:
    if not roots:
        note("no root is known here (appliance trust init)")
    for root in roots:
        line(f"{root['name']}: {root['assurance']}, {root['state']}")
        line(f"  {root['path']}")
        line(f"  sha256 {root['sha256']}")
    if own:
        line(f"local signer {own['identity']}")
        line(f"local log    {own['size']} entries, root {own['root']}")


def _holds(path: Path, content: bytes) -> bool:
    from appliance.reading import read_regular

    try:
        return read_regular(path, len(content)) == content
    except OSError:
        return False


@app.command()
def export(
    trust: Annotated[str, typer.Option(help="The root to export, by its name in roots.toml.")] = "local",
    out: Annotated[Path, typer.Option(help="Where to write it.")] = Path("trusted_root.json"),
    json: Json = False,
) -> None:
    """Write a root for others, and print the line by which they verify what was signed under it."""
    from appliance.audit import trust as trusts
    from appliance.files import write_atomically
    from attest.roots import find_root, signer_of_local
    from attest.trust.local import ISSUER

    with trusts.refusals_translated():
        root = find_root(trusts.roots_file(), trust)
        own = root.name == trusts.LOCAL
        identity, issuer = (signer_of_local(root), ISSUER) if own else ("NAME", "URL")
    if os.path.lexists(out) and not _holds(out, root.content):
        raise UsageRefused("another file is there already", where=str(out), mend="--out FILE")
    write_atomically(out, root.content)
    words = ["--trusted-root", str(out), "--root-sha256", root.sha256, "--identity", identity, "--issuer", issuer]
    if json:
        emit_json(
            {
                "root": str(out),
                "rootSha256": root.sha256,
                "assurance": root.assurance,
                "identity": identity if own else None,
                "issuer": issuer if own else None,
            }
        )
        return
    note(f"wrote {out}; tell its sha256 by another way than the file itself")
    line(f"appliance verify RECORD {shlex.join(words)}")


def _shown(root: KnownRoot) -> dict[str, Any]:
    from attest.errors import Refused

    state = "as pinned"
    try:
        root.pinned()
    except Refused as refused:
        state = f"refused: {refused.message}"
    return {
        "name": root.name,
        "path": str(root.path),
        "sha256": root.sha256,
        "assurance": root.assurance,
        "state": state,
    }


def _local_log() -> tuple[dict[str, Any] | None, Refused | None]:
    """This machine's instance, its log read again from end to end; and why it cannot be believed, where it can't."""
    from appliance.audit import trust as trusts
    from attest.errors import Refused
    from attest.trust.local import LocalTrust

    folder = trusts.local_folder()
    if not folder.exists():
        return None, None
    try:
        trust = LocalTrust(folder)
        frontier = trust.log.audit().frontier
        found = {
            "folder": str(folder),
            "identity": trust.identity,
            "issuer": trust.issuer,
            "size": frontier.size,
            "root": frontier.root.hex(),
        }
    except Refused as refused:
        return None, refused
    return found, None
