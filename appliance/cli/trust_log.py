"""`appliance trust checkpoint` and `trust anchor`: what others keep of the local log, and whose clock bounds it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from appliance.cli.output import emit_json, line, note
from appliance.cli.signer_options import IdentityToken, OidcInteractive, SignTimeout, TokenEnv, token_of
from appliance.errors import InputRefused, UsageRefused

if TYPE_CHECKING:
    from attest.anchor import Anchored
    from attest.bundle import Checkpoint
    from attest.trust.local import LocalTrust

Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


def checkpoint(  # noqa: PLR0917  the options of a verb
    verify: Annotated[
        Path | None,
        typer.Option(metavar="EARLIER", help="An earlier checkpoint, kept by somebody: does the log still begin so?"),
    ] = None,
    proof: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --verify, elsewhere: the proof to check, of --out there.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the checkpoint there; with --verify, the proof.")
    ] = None,
    trust: Annotated[str, typer.Option(help="With --proof: the root that the log is known by.")] = "local",
    trusted_root: Annotated[Path | None, typer.Option(help="With --proof: this root in a file.")] = None,
    root_sha256: Annotated[str | None, typer.Option(help="The sha256 that this file must have.")] = None,
    json: Json = False,
) -> None:
    """Print the local log's last signed checkpoint; or hold the log to one that a verifier has kept."""
    from appliance.audit import trust as trusts
    from attest.checkpoints import MAX_PROOF_BYTES, check_consistency, prove, read_note
    from attest.roots import PinnedRoot, find_root
    from attest.trust.local import is_made

    if proof is not None and verify is None:
        raise UsageRefused("goes with --verify", where="--proof", mend="--verify EARLIER")
    if proof is not None and verify is not None:
        with trusts.refusals_translated():
            root = (
                PinnedRoot.read(trusted_root, root_sha256)
                if trusted_root is not None
                else find_root(trusts.roots_file(), trust)
            )
            later = check_consistency(_read(proof, MAX_PROOF_BYTES), _read(verify, MAX_PROOF_BYTES), root, str(proof))
        _say_consistent(later, json)
        return
    if verify is not None and not is_made(trusts.local_folder()):
        raise UsageRefused(
            "this machine has no log of its own to hold to it",
            where=f"--verify {verify}",
            mend="another's log is held to it by --proof FILE --trusted-root FILE --root-sha256 HEX",
        )
    own = _local()
    with trusts.refusals_translated():
        if verify is not None:
            made = prove(own.log, _read(verify, MAX_PROOF_BYTES), own.root, str(verify))
            content, (_, later) = made.content(), read_note(made.later.encode(), "the local log")
        else:
            content, later = _note_of(own)
    if out is not None:
        _write(out, content)
    if verify is not None:
        _say_consistent(later, json)
        return
    if json:
        emit_json(
            {"checkpoint": content.decode(), "origin": later.origin, "size": later.size, "root": later.root.hex()}
        )
    elif out is None:
        typer.echo(content.decode(), nl=False)
    else:
        note(f"wrote {out}, of {later.size} entries: whoever keeps it can hold this log to it")


def anchor(  # noqa: PLR0917  the options of a verb
    records: Annotated[
        list[Path] | None, typer.Argument(metavar="[RECORD]...", help="Write X.anchor.json beside each of these.")
    ] = None,
    with_: Annotated[
        str | None,
        typer.Option(
            "--with",
            metavar="NAME|CONFIG",
            help="The deployment that is to sign; without it the first anchor that is kept and covers a record counts.",
        ),
    ] = None,
    identity_token: IdentityToken = None,
    token_env: TokenEnv = None,
    oidc_interactive: OidcInteractive = False,
    sign_timeout: SignTimeout = None,
    json: Json = False,
) -> None:
    """Have the local log's checkpoint signed by a deployment: its clock then bounds the time of every local record."""
    from appliance.audit import trust as trusts
    from attest.anchor import anchor as anchored_by
    from attest.anchor import kept_anchors

    if with_ is None and not records:
        raise UsageRefused("nothing to do", where="--with, RECORD", mend="appliance trust anchor --with NAME")
    if with_ == trusts.LOCAL:
        raise UsageRefused("a log cannot vouch for its own time", where="--with local", mend="--with NAME")
    own = _local()
    signer = None
    if with_ is not None:
        signer = trusts.open_trust(
            with_, token_of(identity_token, token_env, oidc_interactive), seconds=sign_timeout, say=note
        )
        with trusts.refusals_translated():
            kept: tuple[Anchored, ...] = (anchored_by(own, signer),)
    else:
        kept = kept_anchors(own)
        if not kept:
            raise UsageRefused("no anchor is kept yet", where="--with", mend="appliance trust anchor --with NAME")
    written = [_document_beside(record, own, kept) for record in records or ()]
    if json:
        emit_json(
            {
                "anchors": [
                    {"size": one.size, "checkpoint": str(one.checkpoint), "bundle": str(one.bundle)} for one in kept
                ],
                "documents": [str(path) for path in written],
                "identity": signer.identity if signer else None,
                "issuer": signer.issuer if signer else None,
            }
        )
        return
    for one in kept:
        line(f"{one.bundle}")
    for path in written:
        line(f"{path}")
    if signer is not None:
        note(f"anchored by {signer.identity} (assurance: {signer.assurance})")
        names = f"--anchor-identity {shlex.quote(signer.identity)} --anchor-issuer {shlex.quote(signer.issuer)}"
        for record, path in zip(records or (), written, strict=True):
            words = shlex.join(["--anchor", str(path), "--anchor-trust", str(with_)])
            note(f"check it with: appliance verify {shlex.quote(str(record))} --trust local {words} {names}")


def _document_beside(record: Path, own: LocalTrust, kept: tuple[Anchored, ...]) -> Path:
    from appliance.audit import trust as trusts
    from attest.anchor import document
    from attest.bundle import MAX_BUNDLE_BYTES, parse

    bundle = _read(trusts.bundle_path(record), MAX_BUNDLE_BYTES)
    with trusts.refusals_translated():
        index = parse(bundle).entry.proof_index
        # The first that covers it says the least time; where none does, the last one says why.
        chosen = next((one for one in kept if one.size > index), kept[-1])
        content = document(own, chosen, bundle)
    path = record.with_name(f"{record.name.removesuffix('.json')}.anchor.json")
    _write(path, content)
    return path


def _local() -> LocalTrust:
    from appliance.audit import trust as trusts
    from attest.trust.local import LocalTrust

    with trusts.refusals_translated():
        return LocalTrust(trusts.local_folder())


def _note_of(own: LocalTrust) -> tuple[bytes, Checkpoint]:
    from attest.checkpoints import read_note
    from attest.errors import Refused

    content = own.log.head().checkpoint.encode()
    if not content:
        raise Refused("usage", "the local log is empty", where=str(own.folder), mend="appliance sign RECORD")
    return content, read_note(content, str(own.folder))[1]


def _say_consistent(later: Checkpoint, json: bool) -> None:
    if json:
        emit_json({"consistent": True, "origin": later.origin, "size": later.size, "root": later.root.hex()})
        return
    line(f"consistent: the log of {later.size} entries begins with the one that was kept")
    note(f"root now {later.root.hex()}")


def _read(path: Path, most: int) -> bytes:
    from appliance.reading import read_regular

    try:
        return read_regular(path, most)
    except OSError as error:
        raise InputRefused(error.strerror or str(error), where=str(path)) from error


def _write(path: Path, content: bytes) -> None:
    from appliance.files import write_atomically

    write_atomically(path, content)
