"""A verifier's summary: what it can say, and that its words, its levels and its result are one story."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from attest import statement, vsa
from attest.closed import read_closed
from attest.errors import Refused

_A, _B, _C = "a" * 64, "b" * 64, "c" * 64
_NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def _reproduced(**changes: Any) -> vsa.Reproduced:
    fields: dict[str, Any] = {
        "again": _B,
        "verdict": _C,
        "checked": "verified",
        "compared_trials": 1,
        "recorded_trials": 4,
        "outcome": "reproduced",
        "energy": "incomparable",
        "cost": "reproduced",
    }
    return vsa.Reproduced(**{**fields, **changes})


def _summary(details: vsa.Judged | vsa.Reproduced, *bundles: tuple[str, str]) -> vsa.Vsa:
    return vsa.summary(
        "https://lab.example/verifier",
        {"bench-appliance": "0.2.0"},
        vsa.record_uri(_A),
        ("https://lab.example/policy", _B),
        bundles,
        details,
        now=_NOW,
    )


def test_the_statement_is_what_slsa_says_a_summary_is() -> None:
    """Its type, its fields, one subject, inputs all or none, an extension under a vendor's name (attest.md 4)."""
    value = json.loads(vsa.build(_summary(_reproduced(), ("https://x", _C)), "r.json", _A))
    assert value["predicateType"] == "https://slsa.dev/verification_summary/v1"
    assert value["subject"] == [{"name": "r.json", "digest": {"sha256": _A}}]
    assert value["predicate"] == {
        "verifier": {"id": "https://lab.example/verifier", "version": {"bench-appliance": "0.2.0"}},
        "timeVerified": "2026-01-02T03:04:05Z",
        "resourceUri": f"{statement.NAMESPACE}records/{_A}",
        "policy": {"uri": "https://lab.example/policy", "digest": {"sha256": _B}},
        "inputAttestations": [{"uri": "https://x", "digest": {"sha256": _C}}],
        "verificationResult": "PASSED",
        "verifiedLevels": ["BENCH_REPRODUCED_WITHIN_TOLERANCE"],
        "benchAppliance_details": {
            "about": "reproduction",
            "again": _B,
            "verdict": _C,
            "checked": "verified",
            "comparedTrials": 1,
            "recordedTrials": 4,
            "outcome": "reproduced",
            "energy": "incomparable",
            "cost": "reproduced",
        },
    }
    assert "inputAttestations" not in json.loads(vsa.build(_summary(_reproduced()), "r.json", _A))["predicate"]


@pytest.mark.parametrize("recorded", [0, 4])
def test_nothing_is_reproduced_by_looking_at_no_trial(recorded: int) -> None:
    """A verification over nothing is a refusal; that nothing could be compared may be said (row P3)."""
    with pytest.raises(ValidationError, match="no trial was compared"):
        _reproduced(compared_trials=0, recorded_trials=recorded)
    assert not _summary(_reproduced(compared_trials=0, recorded_trials=recorded, outcome="incomparable")).passed


@pytest.mark.parametrize("outcome", ["diverged", "incomparable"])
def test_what_was_not_reproduced_is_a_failed_summary(outcome: str) -> None:
    """Only `reproduced` is worth the level that makes a record `verified` (rows P3, R5)."""
    found = _summary(_reproduced(outcome=outcome))
    assert (found.verification_result, found.verified_levels, found.passed) == ("FAILED", ("FAILED",), False)


@pytest.mark.parametrize("tier", list(vsa.TIERS))
def test_an_accepted_record_has_the_level_of_its_tier(tier: Any) -> None:
    """Row P1."""
    found = _summary(vsa.Judged(status="accepted", tier=tier))
    assert (found.passed, found.verified_levels) == (True, (vsa.TIERS[tier],))


@pytest.mark.parametrize("status", ["excluded", "quarantined"])
def test_a_record_that_is_not_accepted_names_its_reasons_and_has_failed(status: Any) -> None:
    """Rows P4 to P8: never silently dropped."""
    reasons = (vsa.Reason(word="replayed", message="seen before"),)
    found = _summary(vsa.Judged(status=status, reasons=reasons))
    assert (found.verification_result, found.verified_levels) == ("FAILED", ("FAILED",))


@pytest.mark.parametrize(
    ("made", "fields"),
    [
        (vsa.Judged, {"status": "accepted"}),
        (vsa.Judged, {"status": "excluded", "tier": "reported"}),
        (vsa.Judged, {"status": "excluded"}),
        (vsa.Judged, {"status": "accepted", "tier": "reported", "reasons": (vsa.Reason(word="x", message="y"),)}),
        (vsa.Reason, {"word": "No Word", "message": "y"}),
        (vsa.Verifier, {"id": "", "version": {"a": "1"}}),
        (vsa.Verifier, {"id": "x", "version": {}}),
    ],
)
def test_a_summary_that_says_two_things_cannot_be_made(made: Any, fields: dict[str, Any]) -> None:
    """An invalid one cannot exist (design 10)."""
    with pytest.raises(ValidationError):
        made(**fields)


_SPOILT: dict[str, Any] = {
    "passed where the outcome diverged": lambda v: v["benchAppliance_details"].update(outcome="diverged"),
    "a level of slsa": lambda v: v.update(verifiedLevels=["SLSA_BUILD_LEVEL_3"]),
    "a level more": lambda v: v["verifiedLevels"].append("BENCH_TIER_VERIFIED"),
    "no level": lambda v: v.update(verifiedLevels=[]),
    "failed with a level": lambda v: v.update(verificationResult="FAILED"),
    "a result of no word": lambda v: v.update(verificationResult="passed"),
    "a field more": lambda v: v.update(slsaVersion="1.0"),
    "a field of the details more": lambda v: v["benchAppliance_details"].update(note="x"),
    "details of no kind": lambda v: v["benchAppliance_details"].update(about="else"),
    "no details": lambda v: v.pop("benchAppliance_details"),
    "snake case": lambda v: v.update(time_verified=v.pop("timeVerified")),
    "no policy digest": lambda v: v["policy"].pop("digest"),
    "an upper-case digest": lambda v: v["policy"]["digest"].update(sha256="B" * 64),
    "inputs that are none": lambda v: v.update(inputAttestations=[]),
    "too many inputs": lambda v: v.update(inputAttestations=v["inputAttestations"] * 17),
    "a moment without its zone": lambda v: v.update(timeVerified="2026-01-02T03:04:05"),
    "more compared than recorded": lambda v: v["benchAppliance_details"].update(comparedTrials=5),
    "a text for a number": lambda v: v["benchAppliance_details"].update(comparedTrials="1"),
    "a version that is no map": lambda v: v["verifier"].update(version="0.2.0"),
    "a text without a bound": lambda v: v.update(resourceUri="x" * 5000),
}


@pytest.mark.parametrize("name", list(_SPOILT))
def test_whatever_the_summary_does_not_know_is_refused(name: str) -> None:
    """Closed reading, bounded: class `statement`, with the JSON path (rows P3, R5)."""
    value = _summary(_reproduced(), ("https://x", _C)).json_value()
    assert read_closed(vsa.Vsa, value, "$").json_value() == value
    _SPOILT[name](value)
    with pytest.raises(Refused) as refused:
        read_closed(vsa.Vsa, value, "$")
    assert refused.value.reason == "statement"
    assert refused.value.where is not None
    assert refused.value.where.startswith("$")
