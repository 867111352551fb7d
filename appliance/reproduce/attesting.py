"""A reproduction's verdict as a verification summary (SLSA VSA), which a stranger's policy can count on."""

from __future__ import annotations

from datetime import datetime

from appliance import schemas
from appliance.digests import sha256_hex
from appliance.records.verdict import Verdict
from appliance.trials.stamps import DISTRIBUTION, harness_version
from attest import vsa


def summary_of(
    verdict: Verdict, verdict_bytes: bytes, verifier_id: str, bundle_sha256: str | None, *, now: datetime | None = None
) -> vsa.Vsa:
    """`bundle_sha256`: of the record's bundle, where it was checked before anything was run.

    The policy that a record is held to here is its own published schema, which says of each field how it is compared.
    """
    bundles = ((vsa.bundle_uri(bundle_sha256), bundle_sha256),) if bundle_sha256 else ()
    return vsa.summary(
        verifier_id,
        {DISTRIBUTION: harness_version()},
        vsa.record_uri(verdict.recorded),
        (schemas.schema_id("record-v1"), schemas.schema_digest("record-v1")),
        bundles,
        vsa.Reproduced(
            again=verdict.again,
            verdict=sha256_hex(verdict_bytes),
            checked=verdict.checked,
            compared_trials=verdict.compared_trials,
            recorded_trials=verdict.recorded_trials,
            outcome=verdict.outcome.verdict,
            energy=verdict.energy.verdict,
            cost=verdict.cost.verdict,
        ),
        now=now,
    )
