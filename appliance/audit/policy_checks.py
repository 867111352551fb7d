"""What a policy asks of a record beyond that it holds: each rule one check, in the order they run.

  1. its signer is one of the policy's                   word policy     left out for an unsigned record
  2. its root has the least level                        word policy     left out for an unsigned record
  3. nothing of its signature is revoked                 word revoked    left out for an unsigned record
  4. its challenge is good                               word stale_challenge
  5. its suite is one of the policy's                    word policy
  6. its limits, network and images are the pinned ones  word policy
  7. its plan is what its suite's files say              word policy
  8. the blobs that are required are there               word blob_missing, blob_mismatch
  9. its run came to its end                             word policy
 10. not too much of it is excluded                      word policy
 11. it is young enough                                  word policy
 12. its hosts were fit                                  word policy
 13. what ran is publishable                             word policy
 14. its joules come from where they must                word policy

All of them exclude. What is only beyond belief is `plausibility`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from appliance.audit.opened import Opened
from appliance.audit.policy import Policy
from appliance.audit.policy_blobs import required_are_there
from appliance.audit.policy_rules import (
    came_to_its_end,
    hosts_were_fit,
    is_publishable,
    is_young,
    joules_come_from,
    little_is_excluded,
)
from appliance.audit.policy_signers import signer_checks
from appliance.audit.policy_suites import as_its_files_say, as_pinned, is_listed
from appliance.records.record import Record
from attest.checks import Check, NotRun
from attest.errors import Refused


@dataclass(frozen=True)
class ChallengeStatus:
    """What a receiver knows of the challenge that a record names."""

    state: Literal["good", "expired", "unknown", "used", "foreign"]
    detail: str = ""
    """Which it is, for a person: `issued 2026-11-30T12:00:00Z, expired 2026-12-01T12:00:00Z`."""
    issued_at: datetime | None = None
    """By the receiver's clock; None where he does not know. Plausibility holds the trials to it."""
    unproven: bool = False
    """Who issued it is the word of whoever showed the document: no store knows it, and no signature was checked."""
    issuer: str | None = None
    """Who signed the document, where its signature was checked and no store was asked."""

    @property
    def name(self) -> str:
        """Of the check, which must not say more than it knows."""
        if self.issuer is not None:
            return f"its challenge is good, signed by {self.issuer}"
        return f"its challenge is good{', if it is one that you issued: nobody checked that' if self.unproven else ''}"


def policy_checks(
    policy: Policy,
    *,
    now: datetime,
    blobs: Path | None,
    challenge: ChallengeStatus | None,
    existed_by: datetime | None = None,
    signed: bool = True,
    opened: Opened | None = None,
) -> Sequence[Check]:
    """`blobs` holds `sha256/<hex>`. `challenge` None: nobody looked it up. `existed_by`: when a clock of somebody else
    had seen its signature before `now`, if one had (an anchored log, a store's receipt). `signed` False: a reported
    record, whose `Verified` its receiver made. `opened`: shared with other lists of checks: the record is read once."""
    opened = opened or Opened()

    def check(name: str, look: Callable[[Record], None], reason: str = "policy") -> Check:
        return Check(name, lambda verified: look(opened.record(verified)), reason)

    return (
        *(signer_checks(policy, min(existed_by or now, now)) if signed else ()),
        check(
            challenge.name if challenge else "its challenge is good",
            lambda record: _challenge_is_good(policy, record, challenge),
            "replay",
        ),
        check("its suite is one of the policy's", lambda record: is_listed(policy, record)),
        check(
            "its limits, network and images are the pinned ones",
            lambda record: as_pinned(policy, record),
        ),
        check("its plan is what its suite's files say", lambda record: as_its_files_say(policy, record, blobs)),
        check("the blobs that are required are there", lambda r: required_are_there(policy, r, blobs), "blob"),
        check("its run came to its end", lambda record: came_to_its_end(policy, record)),
        check("not too much of it is excluded", lambda record: little_is_excluded(policy, record)),
        check("it is young enough", lambda record: is_young(policy, record, now)),
        check("its hosts were fit", lambda record: hosts_were_fit(policy, record)),
        check("what ran is publishable", lambda record: is_publishable(policy, record)),
        check("its joules come from where they must", lambda record: joules_come_from(policy, record)),
    )


def _challenge_is_good(policy: Policy, record: Record, status: ChallengeStatus | None) -> None:
    required = policy.freshness.challenge == "required"
    where = "$.challenge"
    if record.challenge is None:
        if required:
            mend = "appliance run --challenge FILE"
            raise Refused("replay", "names none, and one is required", where=where, mend=mend, word="stale_challenge")
        return
    if status is None:
        mend = "--challenge FILE, the one that you issued"
        raise NotRun("its challenge was not looked up", acceptable=not required, mend=mend, word="stale_challenge")
    if status.state != "good":
        detail = f": {status.detail}" if status.detail else ""
        raise Refused("replay", f"{_STATES[status.state]}{detail}", where=where, word="stale_challenge")


_STATES = {
    "expired": "expired",
    "unknown": "unknown here",
    "used": "used already",
    "foreign": "issued for something else",
}
