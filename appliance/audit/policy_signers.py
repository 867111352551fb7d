"""Whom a policy believes, and until when."""

from __future__ import annotations

from datetime import datetime
from typing import Final, Protocol

from appliance.audit.policy import Policy
from appliance.audit.policy_shapes import Revoked, Signer
from attest.checks import Check, Verified
from attest.errors import Refused

LEVELS: Final = ("local", "private", "public")


class Held(Protocol):
    """What `Verified` and `SignedStatement` both say of who signed when."""

    @property
    def identity(self) -> str: ...
    @property
    def issuer(self) -> str: ...
    @property
    def signed_at(self) -> datetime: ...
    @property
    def assurance(self) -> str: ...
    @property
    def root_sha256(self) -> str: ...
    @property
    def certificate_serial(self) -> str: ...


def candidates(policy: Policy, bundle: bytes) -> tuple[Signer, ...]:
    """The signers that this bundle may be held to: those with the name that its certificate claims, in their order.

    The claim only spares work: each candidate has its own exact root, name and issuer, and a verification decides.
    Raises Refused: `bundle` where there is no certificate to read, `identity` where nobody of that name is listed.
    """
    from attest import bundle as bundles
    from attest.library import claimed_names

    claimed = claimed_names(bundles.parse(bundle))
    found = tuple(signer for signer in policy.signers if signer.identity in claimed)
    if not found:
        shown = ", ".join(f"{name[:120]!r}" for name in claimed[:3]) or "nobody"
        words = f"signed in the name of {shown}, whom the policy does not list"
        raise Refused("identity", words, where="bundle", mend=f"[[signers]] in {policy.where}", word="policy")
    return found


def signer_checks(policy: Policy, existed_by: datetime) -> tuple[Check, ...]:
    """Of a record that was signed."""
    return (
        Check("its signer is one of the policy's", lambda verified: _is_listed(policy, verified), "policy"),
        Check("its root has the least level", lambda verified: _has_level(policy, verified), "policy"),
        Check(
            "nothing of its signature is revoked",
            lambda verified: refuse_revoked(policy, verified, existed_by),
            "policy",
        ),
    )


def entry_of(policy: Policy, held: Held) -> Signer | None:
    """The signer that holds root, name and issuer exactly."""
    wanted = (held.root_sha256, held.identity, held.issuer)
    return next((one for one in policy.signers if (one.root_sha256, one.identity, one.issuer) == wanted), None)


def _is_listed(policy: Policy, verified: Verified) -> None:
    if entry_of(policy, verified) is None:
        words = f"{verified.identity!r:.120} by {verified.issuer!r:.120} under root {verified.root_sha256[:12]} is not"
        raise Refused("policy", f"{words} among them", where="signers", word="policy")


def _has_level(policy: Policy, verified: Verified) -> None:
    entry = entry_of(policy, verified)
    asked = {"least_assurance": policy.least_assurance}
    if entry is not None:
        asked[f"signers[{policy.signers.index(entry)}].assurance"] = entry.assurance
    where, least = max(asked.items(), key=lambda one: LEVELS.index(one[1]))
    if verified.assurance not in LEVELS or LEVELS.index(verified.assurance) < LEVELS.index(least):
        words = f"wanted {least} at least, and this root is known here as {verified.assurance}"
        raise Refused("policy", words, where=where, word="policy")


def refuse_revoked(policy: Policy, held: Held, existed_by: datetime) -> None:
    """Raises Refused (policy, word revoked) for what was signed at or after a cut-off, or when nobody can tell.

    When it was signed is what the root's authority says, if the root is somebody else's: under assurance local the
    signer holds that clock, and would set it back. `existed_by`: when a clock of somebody else had seen it, which is
    now at the latest; then it was signed before that, whatever the level.
    """
    for at, revoked in enumerate(policy.revoked):
        if not _names_it(revoked, held):
            continue
        after = datetime.fromisoformat(revoked.after)
        if held.assurance != "local" and held.signed_at < after:
            continue
        if existed_by < after:
            continue
        when = f"signed {held.signed_at:%Y-%m-%dT%H:%M:%SZ}"
        if held.assurance == "local" and held.signed_at < after:
            when += " by its own clock, which proves nothing"
        words = f"revoked from {revoked.after} on ({revoked.reason[:200]}), {when}"
        raise Refused("policy", words, where=f"revoked[{at}]", word="revoked")


def _names_it(revoked: Revoked, held: Held) -> bool:
    if revoked.identity is not None:
        return revoked.identity == held.identity
    if revoked.serial is not None:
        return revoked.serial_number == int(held.certificate_serial, 16)
    return revoked.root_sha256 == held.root_sha256
