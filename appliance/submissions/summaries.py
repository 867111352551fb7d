"""Verifiers' summaries that came along with a submission: each one checked once, whatever record it is about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from appliance.audit.policy import Policy
from appliance.audit.policy_shapes import Verifier
from appliance.audit.policy_signers import refuse_revoked
from appliance.digests import sha256_hex
from appliance.submissions.decisions import Reason
from attest import bundle as bundles
from attest import statement, vsa
from attest.errors import Refused
from attest.verification import verify_statement

if TYPE_CHECKING:
    from collections.abc import Mapping

    from attest.roots import PinnedRoot


@dataclass(frozen=True)
class Summary:
    """Signed by a verifier of the policy; its bytes stay on the disk."""

    file: str
    sha256: str
    """Of its bundle."""
    record: str
    """sha256 of what it is about."""
    said: vsa.Vsa
    verifier: Verifier


@dataclass(frozen=True)
class Told:
    """What listed verifiers say of one record under one bundle. Of several summaries of one verifier that say the same
    the first one counts: white space, and a signature's other form, make a new file of what was said once."""

    heard: tuple[str, ...] = ()
    """Digests of all of them."""
    counted: tuple[str, ...] = ()
    """Of those, one a verifier: that its plan was run again and held."""
    contested: tuple[Reason, ...] = ()
    """One a verifier: that it did not hold."""


def read_summaries(
    files: Iterable[tuple[str, bytes]], policy: Policy, roots: Mapping[str, PinnedRoot], now: datetime
) -> tuple[Summary, ...]:
    """Without what no listed verifier signed: anybody may put anything into a folder. No two of `files` need be in
    memory at once."""
    found = (_read(file, content, policy, roots, now) for file, content in files)
    return tuple(summary for summary in found if summary is not None)


def _read(file: str, content: bytes, policy: Policy, roots: Mapping[str, PinnedRoot], now: datetime) -> Summary | None:
    for verifier in _candidates(policy, content):
        root = roots.get(verifier.root_sha256)
        if root is None:
            continue
        try:
            signed = verify_statement(content, root, verifier.identity, verifier.issuer, statement.VSA_TYPE)
            refuse_revoked(policy, signed, now)
            said, about = vsa.read(signed)
        except Refused:
            continue
        if said.verifier.id == verifier.id:
            return Summary(file, sha256_hex(content), about, said, verifier)
    return None


def _candidates(policy: Policy, content: bytes) -> Iterator[Verifier]:
    """By the name that its certificate claims, which spares the others a verification and decides nothing."""
    from attest.library import claimed_names

    if not policy.verifiers:
        return
    try:
        claimed = claimed_names(bundles.parse(content))
    except Refused:
        return
    yield from (verifier for verifier in policy.verifiers if verifier.identity in claimed)


def told(summaries: Sequence[Summary], record: str, bundle: str | None, trials: int | None) -> Told:
    """A summary counts for this record under this very bundle, and for nothing else (row P3). `trials`: how many the
    record has, whatever a summary says that it has; None where it cannot be read."""
    about = [one for one in summaries if one.record == record and bundle in one.said.bundles]
    counted: dict[str, str] = {}
    contested: dict[str, Reason] = {}
    for one in about:
        said, name = one.said, one.verifier.id
        if not isinstance(said.details, vsa.Reproduced):
            continue
        if said.passed and vsa.REPRODUCED in said.verified_levels:
            if _saw_enough(said.details, one.verifier, trials):
                counted.setdefault(name, one.sha256)
        elif said.details.outcome == "diverged":
            words = f"{name} ran it again, and it did not hold"
            contested.setdefault(name, Reason.of("implausible", words, f"verdicts: {one.sha256}"))
    return Told(tuple(one.sha256 for one in about), tuple(counted.values()), tuple(contested.values()))


def _saw_enough(seen: vsa.Reproduced, verifier: Verifier, trials: int | None) -> bool:
    return (
        trials is not None
        and seen.recorded_trials == trials
        and seen.compared_trials >= verifier.least_compared_share * trials
    )
