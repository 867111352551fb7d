"""A root in the form that other programs read, and the line by which each verifies a record of ours."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from appliance.audit.trust import LOCAL, trust_folders
from attest import canonical
from attest.roots import MAX_ROOT_BYTES, PinnedRoot
from attest.statement import PREDICATE_TYPE

ExportFormat = Literal["appliance", "sigstore", "cosign", "gh"]
_FILES: Final[dict[ExportFormat, str]] = {
    "appliance": "trusted_root.json",
    "sigstore": "trust_config.json",
    "cosign": "trusted_root.json",
    "gh": "trusted_root.jsonl",
}
_RECORD, _BUNDLE = "RECORD.json", "RECORD.sigstore.json"


@dataclass(frozen=True)
class Exported:
    path: Path
    content: bytes
    command: tuple[str, ...]
    remarks: tuple[str, ...]


def exported(root: PinnedRoot, form: ExportFormat, identity: str, issuer: str, out: Path | None) -> Exported:
    """What to write, and the command; names of a signer or a record that are not known here stand in capitals."""
    path = out or Path(_FILES[form])
    file = str(path)
    named: tuple[str, ...] = ("--certificate-identity", identity, "--certificate-oidc-issuer", issuer)
    command: tuple[str, ...]
    words: tuple[str, ...]
    match form:
        case "appliance":
            words = ("--trusted-root", file, "--root-sha256", root.sha256, "--identity", identity, "--issuer", issuer)
            return Exported(path, root.content, ("appliance", "verify", "RECORD", *words), ())
        case "cosign":
            command = ("cosign", "verify-blob-attestation", "--bundle", _BUNDLE, "--trusted-root", file)
            return Exported(path, root.content, (*command, *named, "--type", PREDICATE_TYPE, _RECORD), ())
        case "sigstore":
            command = ("sigstore", "--trust-config", file, "verify", "identity", "--offline", "--bundle", _BUNDLE)
            words = ("--cert-identity", identity, "--cert-oidc-issuer", issuer, _RECORD)
            return Exported(path, _trust_config(root), (*command, *words), ())
        case "gh":
            content = json.dumps(json.loads(root.content), separators=(",", ":")).encode() + b"\n"
            command = ("gh", "attestation", "verify", _RECORD, "--bundle", _BUNDLE, "--custom-trusted-root", file)
            words = ("--predicate-type", PREDICATE_TYPE, "--cert-identity", identity, "--cert-oidc-issuer", issuer)
            remark = "gh takes only what a workflow of GitHub's signed: --owner is that of its repository"
            return Exported(path, content, (*command, *words, "--owner", "OWNER"), (remark,))


def _trust_config(root: PinnedRoot) -> bytes:
    """sigstore's own program reads no root by itself: it wants to know services too, though it asks none to verify."""
    from attest.trust.config import CONFIG_TYPE
    from attest.trust.known import CONFIG

    known = trust_folders() / root.name / CONFIG
    if root.name != LOCAL and known.is_file():
        return known.read_bytes()
    service = {
        "url": "https://nowhere.invalid",
        "majorApiVersion": 1,
        "validFor": {"start": "2020-01-01T00:00:00Z"},
        "operator": "none",
    }
    services = {
        "mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json",
        "caUrls": [service],
        "oidcUrls": [service],
        "rekorTlogUrls": [service],
        "rekorTlogConfig": {"selector": "ANY"},
        "tsaUrls": [service],
        "tsaConfig": {"selector": "ANY"},
    }
    parts = {"trustedRoot": canonical.loads(root.content, max_bytes=MAX_ROOT_BYTES), "signingConfig": services}
    return canonical.dumps({"mediaType": CONFIG_TYPE, **parts})
