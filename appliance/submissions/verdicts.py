"""A store's verdict over a record: a SLSA verification summary, signed by whoever keeps the store."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from appliance.submissions.decisions import Decision, Reason
from appliance.submissions.state import PolicyStamp
from appliance.trials.stamps import DISTRIBUTION, harness_stamp
from appliance.wire import NAMESPACE
from attest import statement, vsa

if TYPE_CHECKING:
    from attest.trust import TrustMode


def sign_verdict(
    decision: Decision,
    *,
    record: str,
    bundle: str | None,
    submission: str,
    policy: PolicyStamp,
    signer: TrustMode,
    now: datetime,
) -> bytes:
    """The bundle of a summary that names record, bundle, policy and verifier. Raises attest's Refused."""
    from attest.signing import sign_statement

    summary = vsa.summary(
        signer.identity,
        _own_versions(),
        f"{NAMESPACE}submissions/{submission}",
        (policy.uri, policy.sha256),
        ((f"{NAMESPACE}bundles/{bundle}", bundle),) if bundle else (),
        judged(decision),
        now=now,
    )
    return sign_statement(signer, vsa.build(summary, f"{record}.json", record), statement.VSA_TYPE)


def _own_versions() -> dict[str, str]:
    """By which program: its version, and the digest of its source files."""
    harness = harness_stamp()
    return {DISTRIBUTION: harness.version, f"{DISTRIBUTION}/sha256": harness.digest}


def judged(decision: Decision) -> vsa.Judged:
    return vsa.Judged(
        status=decision.status,
        tier=decision.tier,
        reasons=tuple(_stated(reason) for reason in decision.reasons),
        more_reasons=decision.more_reasons,
    )


def _stated(reason: Reason) -> vsa.Reason:
    return vsa.Reason(word=reason.word, message=reason.message, where=reason.where)
