"""A verifier's word about a record: SLSA's verification summary (VSA, version 1), narrower than its format.

Exactly one subject, the record. `inputAttestations` names the bundles that were looked at by the digest of their bytes,
and is left out where there was none. Levels are our own words, never `SLSA_*`. What the format has no room for stands
in one extension field, named as SLSA asks: `benchAppliance_details`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from attest import canonical, statement
from attest.closed import Closed, read_closed
from attest.errors import Refused
from attest.predicate import Moment, Sha256, Sha256Digest, Text
from attest.verification import SignedStatement

REPRODUCED: Final = "BENCH_REPRODUCED_WITHIN_TOLERANCE"
TIERS: Final = {
    "reported": "BENCH_TIER_REPORTED",
    "auditable": "BENCH_TIER_AUDITABLE",
    "verified": "BENCH_TIER_VERIFIED",
}
FAILED: Final = "FAILED"
"""SLSA's own word for the only level of a verification that failed."""
MAX_REASONS: Final = 256
_PREDICATE: Final = "payload $.predicate"

Level = Annotated[str, StringConstraints(pattern=r"^(BENCH_[A-Z0-9_]{1,58}|FAILED)$")]
Judgement = Literal["reproduced", "diverged", "incomparable"]


class Attestation(Closed):
    """A bundle that was looked at."""

    uri: Text
    digest: Sha256Digest
    """Of the bundle's bytes, so that no other bundle over the same statement passes for it."""


class Policy(Closed):
    uri: Text
    digest: Sha256Digest
    """Of the policy's bytes."""


class Verifier(Closed):
    id: Text
    version: Annotated[dict[Text, Text], Field(min_length=1, max_length=16)]
    """Of each part that verified, by its name."""


class Reason(Closed):
    """One thing that was found wrong."""

    word: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z_]{0,39}$")]
    """Of the records' published words, as `replayed`; or a refusal's class."""
    message: Text
    where: Text | None = None
    """A JSON path, or a file's name."""


class Judged(Closed):
    """What a receiver made of a submitted record."""

    about: Literal["submission"] = "submission"
    status: Literal["accepted", "excluded", "quarantined"]
    tier: Literal["reported", "auditable", "verified"] | None = None
    """There where it is accepted."""
    reasons: Annotated[tuple[Reason, ...], Field(max_length=MAX_REASONS)] = ()
    more_reasons: int = Field(default=0, ge=0)
    """How many were found beyond the ones that are listed."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        accepted = self.status == "accepted"
        if accepted != (self.tier is not None):
            raise ValueError("an accepted record has a tier, and no other one has")
        if accepted == bool(self.reasons):
            raise ValueError("what is not accepted has its reasons, and what is accepted has none")
        return self


class Reproduced(Closed):
    """What came of running a record's plan again."""

    about: Literal["reproduction"] = "reproduction"
    again: Sha256
    """Digest of the new record's bytes."""
    verdict: Sha256
    """Digest of verdict.json, which lists every field that was compared."""
    checked: Literal["verified", "unverified"]
    """Whether the record's signature was checked before anything of it was run."""
    compared_trials: int = Field(ge=0)
    recorded_trials: int = Field(ge=0)
    """What the record holds; fewer compared ones are a sample, drawn by the record's digest."""
    outcome: Judgement
    energy: Judgement
    cost: Judgement

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.compared_trials > self.recorded_trials:
            raise ValueError("more trials compared than recorded")
        if self.outcome == "reproduced" and not self.compared_trials:
            raise ValueError("reproduced, and no trial was compared")
        return self


class Vsa(Closed):
    """The predicate."""

    verifier: Verifier
    time_verified: Moment
    """By the verifier's own clock."""
    resource_uri: Text
    """What the verifier was asked about: a submission, or the record's name by digest (`record_uri`)."""
    policy: Policy
    input_attestations: Annotated[tuple[Attestation, ...], Field(min_length=1, max_length=16)] | None = None
    """All that were looked at, or left out where there was none."""
    verification_result: Literal["PASSED", "FAILED"]
    verified_levels: Annotated[tuple[Level, ...], Field(min_length=1, max_length=8)]
    details: Judged | Reproduced = Field(alias="benchAppliance_details", discriminator="about")

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        wanted = levels_of(self.details)
        if self.verified_levels != wanted:
            raise ValueError(f"verifiedLevels are {', '.join(wanted)} by the details")
        if (self.verification_result == "PASSED") != (wanted != (FAILED,)):
            raise ValueError(f"verificationResult is {self.verification_result}, its levels {', '.join(wanted)}")
        return self

    @property
    def passed(self) -> bool:
        return self.verification_result == "PASSED"

    @property
    def bundles(self) -> tuple[str, ...]:
        """sha256 of each bundle that was looked at."""
        return tuple(attestation.digest.sha256 for attestation in self.input_attestations or ())

    def json_value(self) -> dict[str, Any]:
        value: dict[str, Any] = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        return value


def levels_of(details: Judged | Reproduced) -> tuple[str, ...]:
    """What a verdict is worth to a program that reads only levels."""
    if isinstance(details, Judged):
        return (TIERS[details.tier],) if details.tier else (FAILED,)
    return (REPRODUCED,) if details.outcome == "reproduced" else (FAILED,)


def summary(  # noqa: PLR0917  what SLSA's predicate asks for, once
    verifier_id: str,
    verifier_version: dict[str, str],
    resource_uri: str,
    policy: tuple[str, str],
    bundles: tuple[tuple[str, str], ...],
    details: Judged | Reproduced,
    *,
    now: datetime | None = None,
) -> Vsa:
    """`policy` and each of `bundles`: its URI and the sha256 of its bytes. Raises ValueError (pydantic's)."""
    levels = levels_of(details)
    return Vsa(
        verifier=Verifier(id=verifier_id, version=verifier_version),
        time_verified=f"{now or datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        resource_uri=resource_uri,
        policy=Policy(uri=policy[0], digest=Sha256Digest(sha256=policy[1])),
        input_attestations=tuple(Attestation(uri=uri, digest=Sha256Digest(sha256=d)) for uri, d in bundles) or None,
        verification_result="FAILED" if levels == (FAILED,) else "PASSED",
        verified_levels=levels,
        details=details,
    )


def record_uri(record_sha256: str) -> str:
    """A record's name by its digest, wherever a copy of it lies."""
    return f"{statement.NAMESPACE}records/{record_sha256}"


def bundle_uri(bundle_sha256: str) -> str:
    return f"{statement.NAMESPACE}bundles/{bundle_sha256}"


def build(vsa: Vsa, record_name: str, record_sha256: str) -> bytes:
    """The statement's canonical bytes, for `signing.sign_statement(..., statement.VSA_TYPE)`."""
    return statement.build_about(record_name, record_sha256, vsa.json_value(), statement.VSA_TYPE)


def read(signed: SignedStatement) -> tuple[Vsa, str]:
    """The summary, and the digest of the record that it is about. Raises Refused (predicate_type, subject, statement).

    Whether this signer's word counts, and for what, is the caller's to say.
    """
    return read_stated(signed.statement)


def read_stated(stated: statement.Statement) -> tuple[Vsa, str]:
    """As `read`, of a statement whose signature nobody looked at: what it says, and not whose word it is."""
    statement.check_predicate_type(stated, statement.VSA_TYPE)
    record_sha256 = statement.subject_sha256(stated)
    vsa = read_closed(Vsa, stated.predicate, _PREDICATE)
    if canonical.dumps(vsa.json_value()) != canonical.dumps(stated.predicate):
        raise Refused("statement", "spells a part that is left out as null or as its default", where=_PREDICATE)
    return vsa, record_sha256
