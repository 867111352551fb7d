"""The roots that a policy names by digest, as far as this machine has their bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from appliance.audit.policy import Policy
from appliance.audit.policy_shapes import Signer
from appliance.audit.trust import refusals_translated, roots_file
from appliance.digests import sha256_hex
from appliance.errors import AttestationRefused, InputRefused
from appliance.reading import read_regular
from appliance.submissions.state import RootStamp
from attest.roots import MAX_ROOT_BYTES, Assurance, PinnedRoot, known_roots


def roots_of(policy: Policy, files: Sequence[Path] = ()) -> tuple[Mapping[str, PinnedRoot], tuple[RootStamp, ...]]:
    """By sha256; and by what names this machine knows them. The policy's digests are the pins of `files`.

    A file that the policy does not name is no root of it: InputRefused. AttestationRefused (trust_root) for a known
    one whose file is not the pinned one.
    """
    wanted = {one.root_sha256 for one in (*policy.signers, *policy.verifiers)}
    found: dict[str, PinnedRoot] = {}
    stamps: list[RootStamp] = []
    levels: dict[str, Assurance] = {}
    with refusals_translated():
        for known in known_roots(roots_file()):
            levels[known.sha256] = known.assurance
            if known.sha256 in wanted:
                found[known.sha256] = known.pinned()
                stamps.append(RootStamp(name=known.name, sha256=known.sha256))
        for path in files:
            content = _read(path)
            sha256 = sha256_hex(content)
            if sha256 not in wanted:
                raise InputRefused(
                    f"sha256 is {sha256}, which no signer or verifier of the policy has", where=f"--trusted-root {path}"
                )
            found[sha256] = PinnedRoot(str(path), content, sha256, levels.get(sha256, "local"))
    return found, tuple(sorted(stamps, key=lambda stamp: stamp.name))


def refuse_unknown(policy: Policy, roots: Mapping[str, PinnedRoot]) -> None:
    """For who judges for good: what cannot be checked here would be counted against its sender, or go unheard.

    Raises AttestationRefused (trust_root) for the first of the policy's roots that is not among `roots`.
    """
    for entry in (*policy.signers, *policy.verifiers):
        if entry.root_sha256 not in roots:
            raise unknown(policy, entry)


def unknown(policy: Policy, entry: Signer) -> AttestationRefused:
    """That nobody can check here what this signer or verifier says."""
    words = f"the policy's root {entry.root_sha256}, of {entry.identity}, is not known here"
    mend = "--trusted-root FILE, or a [[root]] entry in roots.toml"
    return AttestationRefused(words, where=policy.where, mend=mend, reason="trust_root")


def _read(path: Path) -> bytes:
    try:
        return read_regular(path, MAX_ROOT_BYTES)
    except OSError as error:
        raise InputRefused(error.strerror or str(error), where=f"--trusted-root {path}") from error
