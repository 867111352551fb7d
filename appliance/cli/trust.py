"""`appliance trust`: this machine's own signing instance, deployments, and the roots that signatures are checked by."""

from __future__ import annotations

import os
import shlex
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from appliance.cli import trust_log
from appliance.cli.output import emit_json, line, note
from appliance.errors import UsageRefused

if TYPE_CHECKING:
    from attest.errors import Refused
    from attest.roots import Assurance, KnownRoot, PinnedRoot
    from attest.trust.known import Known

app = typer.Typer()
app.command()(trust_log.checkpoint)
app.command()(trust_log.anchor)

Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


class AssuranceChoice(StrEnum):
    """Whose word a deployment is."""

    PRIVATE = "private"
    PUBLIC = "public"


class FormatChoice(StrEnum):
    """Whose program reads it."""

    APPLIANCE = "appliance"
    SIGSTORE = "sigstore"
    COSIGN = "cosign"
    GH = "gh"


@app.command()
def init(  # noqa: PLR0917  the options of a verb
    name: Annotated[str | None, typer.Option(help="What to call it; a mirror by this name is looked at again.")] = None,
    config: Annotated[Path | None, typer.Option(help="A deployment's client trust config.")] = None,
    tuf: Annotated[str | None, typer.Option(metavar="URL", help="A deployment's TUF repository.")] = None,
    tuf_root: Annotated[Path | None, typer.Option(help="The first root metadata of this repository.")] = None,
    public: Annotated[bool, typer.Option("--public", help="The public-good instance.")] = False,
    assurance: Annotated[AssuranceChoice | None, typer.Option(help="Whose word it is (private).")] = None,
    sign_timeout: Annotated[float, typer.Option(min=1, metavar="SECONDS", help="What the mirror may take.")] = 60,
    tpm: Annotated[
        str | None, typer.Option(metavar="TCTI", help="The TPM that keeps the key of the local instance's CA.")
    ] = None,
    json: Json = False,
) -> None:
    """Make the local instance, once; or make a deployment known by name. Either is pinned in roots.toml."""
    if config is not None and (tuf is not None or public):
        raise UsageRefused("a deployment comes from one place", where="--config, --tuf, --public", mend="keep one")
    if tuf_root is not None and tuf is None:
        raise UsageRefused("goes with --tuf", where="--tuf-root", mend="--tuf URL")
    if name in (None, "local") and config is None and tuf is None and not public:
        _init_local(json, tpm)
        return
    if tpm is not None:
        raise UsageRefused("keeps a key of the local instance", where="--tpm", mend="leave it out")
    known = _init_remote(name or ("public" if public else ""), config, tuf, tuf_root, public, assurance, sign_timeout)
    _say_remote(known, json)


def _init_local(json: bool, tpm: str | None) -> None:
    from appliance.audit import trust as trusts

    trust, made = trusts.open_or_init_local(tpm)
    if tpm is not None and not made:
        raise UsageRefused("this machine has an instance already, with its keys where they are", where="--tpm")
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


def _init_remote(  # noqa: PLR0917  the options of a verb
    name: str,
    config: Path | None,
    tuf: str | None,
    tuf_root: Path | None,
    public: bool,
    assurance: AssuranceChoice | None,
    seconds: float,
) -> Known:
    from appliance.audit import trust as trusts
    from appliance.errors import InputRefused
    from appliance.reading import read_regular
    from attest.trust import known
    from attest.trust.config import TrustConfig

    folders, roots = trusts.trust_folders(), trusts.roots_file()
    with trusts.refusals_translated():
        known.check_name(name)
        unasked = known.assurance_before(roots, name) or ("public" if public else "private")
        level: Assurance = assurance.value if assurance else unasked
        if config is not None:
            return known.init_from_config(folders, roots, name, known.read_config(config), level)
        url = tuf or (None if public else known.mirror_of(folders, name))
        if url is None and not public:
            raise UsageRefused(
                "nothing says where this deployment is",
                where=f"--name {name}",
                mend="--config FILE, --tuf URL --tuf-root FILE, or --public",
            )
        if url is None:
            root, services = (known.embedded(file) for file in ("trusted_root.json", "signing_config.v0.2.json"))
            made = TrustConfig.of(root, services, "sigstore-python's own copy")
            return known.init_from_config(folders, roots, name, made, level, root=root)
        bootstrap = known.embedded("root.json") if public else None
        if tuf_root is not None:
            try:
                bootstrap = read_regular(tuf_root, 1024 * 1024)
            except OSError as error:
                raise InputRefused(error.strerror or str(error), where=str(tuf_root)) from error
        return known.init_from_mirror(folders, roots, name, url, level, bootstrap=bootstrap, seconds=seconds)


def _say_remote(known: Known, json: bool) -> None:
    root = known.root
    found = {
        "name": root.name,
        "root": str(root.path),
        "rootSha256": root.sha256,
        "rootSha256Before": known.before,
        "assurance": root.assurance,
        "signs": known.signs,
        "services": [{"role": one.role, "url": one.url, "version": one.version} for one in known.services],
    }
    if json:
        emit_json(found)
        return
    changed = known.before not in (None, root.sha256)
    note(f"{root.name} is known{', with a new root' if changed else ''}; tell others its sha256, not only its file")
    for key in ("name", "assurance", "root", "rootSha256"):
        line(f"{key:<11}{found[key]}")
    for one in known.services:
        line(f"{one.role:<11}{one.url} (v{one.version})")
    if known.signs:
        note(f"sign with it: appliance sign RECORD --trust {root.name}")
    else:
        note("it does not say where its services are: it verifies, and signs nothing")


@app.command()
def show(json: Json = False) -> None:
    """Every root that is known here, whether its file is still the pinned one, and the local log, read again.

    Status 7 where one is not, or the log cannot be believed.
    """
    from appliance.audit import trust as trusts
    from attest.roots import known_roots

    with trusts.refusals_translated():
        known = known_roots(trusts.roots_file())
    unpinned = {root.name: _unpinned(root) for root in known}
    roots = [_shown(root, unpinned[root.name]) for root in known]
    own, refusal = _local_log()
    refusal = refusal or next(filter(None, unpinned.values()), None)
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
        line(f"{root['name']}: {root['assurance']}, {root['state']}{', signs' if root['signs'] else ', verifies'}")
        line(f"  {root['path']}")
        line(f"  sha256 {root['sha256']}")
    if own:
        line(f"local signer {own['identity']}")
        line(f"local log    {own['size']} entries, root {own['root']}")
        for anchored in own["anchors"]:
            line(f"  anchored at {anchored['size']} entries: {anchored['bundle']}")


@app.command()
def export(
    trust: Annotated[str, typer.Option(help="The root to export, by its name in roots.toml.")] = "local",
    out: Annotated[
        Path | None, typer.Option(help="Where to write it (by its format: trusted_root.json).", show_default=False)
    ] = None,
    format_: Annotated[FormatChoice, typer.Option("--format", help="The program that is to read it.")] = (
        FormatChoice.APPLIANCE
    ),
    json: Json = False,
) -> None:
    """Write a root for others, and print the line by which their program verifies what was signed under it."""
    from appliance.audit import trust as trusts
    from appliance.audit.trust_export import exported
    from appliance.files import write_atomically
    from attest.roots import find_root

    with trusts.refusals_translated():
        root = find_root(trusts.roots_file(), trust)
        identity, issuer = _signer_under(root)
        made = exported(root, format_.value, identity or "NAME", issuer or "URL", out)
    if os.path.lexists(made.path) and not _holds(made.path, made.content):
        raise UsageRefused("another file is there already", where=str(made.path), mend="--out FILE")
    write_atomically(made.path, made.content)
    if json:
        emit_json(
            {
                "root": str(made.path),
                "rootSha256": root.sha256,
                "format": format_.value,
                "assurance": root.assurance,
                "identity": identity,
                "issuer": issuer,
                "command": list(made.command),
            }
        )
        return
    note(f"wrote {made.path}; tell its sha256 by another way than the file itself")
    for text in made.remarks:
        note(text)
    line(shlex.join(made.command))


def _signer_under(root: PinnedRoot) -> tuple[str | None, str | None]:
    """Of the local instance the only ones; a deployment has many."""
    from appliance.audit import trust as trusts
    from attest.roots import signer_of_local
    from attest.trust.local import ISSUER

    return (signer_of_local(root), ISSUER) if root.name == trusts.LOCAL else (None, None)


def _holds(path: Path, content: bytes) -> bool:
    from appliance.reading import read_regular

    try:
        return read_regular(path, len(content)) == content
    except OSError:
        return False


def _unpinned(root: KnownRoot) -> Refused | None:
    """Why its file is not the pinned root."""
    from attest.errors import Refused

    try:
        root.pinned()
    except Refused as refused:
        return refused
    return None


def _shown(root: KnownRoot, refused: Refused | None) -> dict[str, Any]:
    from appliance.audit.trust import LOCAL
    from attest.trust.known import CONFIG

    return {
        "name": root.name,
        "path": str(root.path),
        "sha256": root.sha256,
        "assurance": root.assurance,
        "state": f"refused: {refused.message}" if refused else "as pinned",
        "signs": root.name == LOCAL or root.path.with_name(CONFIG).is_file(),
    }


def _local_log() -> tuple[dict[str, Any] | None, Refused | None]:
    """This machine's instance, its log read again from end to end; and why it cannot be believed, where it can't."""
    from appliance.audit import trust as trusts
    from attest.anchor import kept_anchors
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
            "anchors": [{"size": kept.size, "bundle": str(kept.bundle)} for kept in kept_anchors(trust)],
        }
    except Refused as refused:
        return None, refused
    return found, None
