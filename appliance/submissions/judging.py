"""From what was found of a record, and what a store has seen before, to its decision. Pure: values in, a value out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, cast

from appliance.audit.policy_checks import ChallengeStatus
from appliance.submissions.challenge import Challenge, moment
from appliance.submissions.decisions import TIERS, WORDS, Decision, Reason, Tier, Word
from appliance.submissions.state import DecisionLine, LogEntry, Standing, StoreState
from attest.errors import Refused

_WORD_OF: Final[dict[str, Word]] = {
    "record": "schema_mismatch",
    "statement": "schema_mismatch",
    "aggregate": "schema_mismatch",
    "energy": "schema_mismatch",
    "blob": "blob_mismatch",
    "replay": "stale_challenge",
}
"""What contradicts itself is no record-v1; whatever else does not hold is not what the policy asks for."""


Contender = tuple[str, str | None]
"""A solver and its model, by name: who has one try at a challenge."""


@dataclass(frozen=True)
class Evidence:
    """Of one record of a submission: everything that its decision rests on but the store's own past."""

    file: str
    """Its path in the submission."""
    record: str
    """sha256 of its bytes."""
    bundle: str | None = None
    trials: str | None = None
    plan: str | None = None
    challenge: str | None = None
    contender: Contender | None = None
    run: str | None = None
    """The run that it is of, as it says."""
    log: LogEntry | None = None
    """Its place in the signer's own log."""
    against: tuple[Reason, ...] = ()
    """Any of them excludes it."""
    doubts: tuple[Reason, ...] = ()
    """Any of them puts it into quarantine."""
    missing: tuple[str, ...] = ()
    """Digests of blobs that it names and that are not there; the suite's archive may stay away."""
    blobs: tuple[str, ...] = ()
    """Digests of those that are there."""
    reproductions: tuple[str, ...] = ()
    """Summaries that count."""
    contested: bool = False
    """Whether a listed verifier saw it fail; that is among the doubts."""
    heard: tuple[str, ...] = ()
    """Those and others of listed verifiers about this record."""

    @property
    def reached(self) -> Tier:
        if self.bundle is None or self.missing:
            return "reported"
        return "verified" if self.reproductions else "auditable"


def decide(evidence: Evidence, least: Tier, state: StoreState, beside: Sequence[Evidence] = ()) -> Decision:
    """`beside`: the records of the same submission that were looked at before this one."""
    if _contests(evidence, state) and not any(one.record == evidence.record for one in beside):
        return Decision.against("quarantined", evidence.doubts)
    replayed = tuple(replays(evidence, state, beside))
    forked = tuple(_forks(evidence, state, beside))
    against = (*replayed, *forked, *evidence.against, *_below(evidence, least))
    if against:
        return Decision.against("excluded", against)
    if evidence.doubts:
        return Decision.against("quarantined", evidence.doubts)
    return Decision.accepted(evidence.reached)


def replays(evidence: Evidence, state: StoreState, beside: Sequence[Evidence]) -> Iterable[Reason]:
    """The same bytes, or the same trials under another name, were here before (rows P4, V22).

    What was accepted may come again with better evidence, and only then: nobody is kept from signing, or from being
    verified, by whoever sent the record first.
    """
    stands = state.records.get(evidence.record)
    taken = stands is not None and (stands.status != "excluded" or stands.act is not None)
    if stands is not None and taken and not _raises(evidence, stands):
        acted = f", then {stands.act.act}d by a person" if stands.act else ""
        words = f"this very record was received at {stands.line.received_at}: {stands.line.decision.status}{acted}"
        yield Reason.of("replayed", words, evidence.file)
        return
    twin = next((one for one in beside if one.record == evidence.record), None)
    if twin is not None:
        yield Reason.of("replayed", f"the same record as {twin.file}", evidence.file)
        return
    if evidence.trials is None:
        return
    other = state.trials.get(evidence.trials)
    own = other is not None and other.record == evidence.record
    if other is not None and not own and (other.bundle is not None or evidence.bundle is None):
        yield Reason.of("replayed", f"its trials are those of record {other.record}", "$.trials")
        return
    twin = next((one for one in beside if one.trials == evidence.trials), None)
    if twin is not None:
        yield Reason.of("replayed", f"its trials are those of {twin.file}", "$.trials")


def _contests(evidence: Evidence, state: StoreState) -> bool:
    """Whether a listed verifier, whom nobody had heard of this record, saw what was accepted fail. Once a person has
    decided it stays decided."""
    stands = state.records.get(evidence.record)
    if stands is None or stands.status != "accepted" or stands.act is not None:
        return False
    return evidence.contested and not evidence.against and not evidence.missing


def reached_in(evidence: Evidence, state: StoreState) -> Tier:
    """What was shown of an accepted record once need not come along with a doubt about it."""
    stands = state.records.get(evidence.record)
    before = stands.tier if stands is not None and stands.line.bundle == evidence.bundle else None
    return max(evidence.reached, before or evidence.reached, key=TIERS.index)


def _raises(evidence: Evidence, stands: Standing) -> bool:
    """Whether an accepted record reaches a higher tier now, beyond all doubt."""
    if stands.status != "accepted" or stands.tier is None or evidence.doubts:
        return False
    return TIERS.index(evidence.reached) > TIERS.index(stands.tier)


def _forks(evidence: Evidence, state: StoreState, beside: Sequence[Evidence]) -> Iterable[Reason]:
    """A signer's own log that was shrunk, rewritten or forked, as far as what was sent shows it."""
    if evidence.log is None:
        return
    seen = state.logged.get(evidence.log)
    others = [one.record for one in beside if one.log == evidence.log]
    for record in [*([seen.record] if seen else []), *others]:
        # Not by its bundle's bytes: anybody can write the same signature down with other white space.
        if record != evidence.record:
            words = (
                f"entry {evidence.log.index} of its signer's log is that of record {record}: the log was written anew"
            )
            yield Reason.of("rollback", words, evidence.file)
            return


def _below(evidence: Evidence, least: Tier) -> Iterable[Reason]:
    if TIERS.index(evidence.reached) >= TIERS.index(least):
        return
    asked = f"the policy takes tier {least}"
    if evidence.bundle is None:
        yield Reason.of("policy", f"nobody signed it: tier reported, and {asked}", evidence.file)
    elif evidence.missing:
        some = f"{evidence.missing[0]}{f' and {len(evidence.missing) - 1} more' if len(evidence.missing) > 1 else ''}"
        yield Reason.of("blob_missing", f"not there: {some}; {asked}", f"blobs/sha256/{evidence.missing[0]}")
    else:
        words = f"no listed verifier ran it again: tier {evidence.reached}, and {asked}"
        yield Reason.of("policy", words, evidence.file)


def reason_of(refused: Refused, *, missing: bool = False) -> Reason:
    """`missing`: the check could not be made. The class stands in the message where the word does not say it."""
    word = refused.word if refused.word in WORDS else None
    if word is None:
        word = "blob_missing" if missing and refused.reason == "blob" else _WORD_OF.get(refused.reason, "policy")
    said = refused.word is not None or refused.reason in ("policy", "blob")
    message = refused.message if said else f"{refused.message} (class {refused.reason})"
    return Reason.of(cast(Word, word), message, refused.where)


@dataclass(frozen=True)
class Asked:
    """What a record that names a challenge was made for."""

    challenge: str
    record: str
    suite: str | None
    """Digest of its suite."""
    contender: Contender | None
    run: str | None
    policy: str
    """Name of the policy that it is judged by."""
    submission: str
    at: datetime
    """When it was received here for the first time: a deadline is kept by the receiver's clock, not the sender's."""


@dataclass(frozen=True)
class Past:
    """What a receiver knows of one challenge."""

    store: str
    """Origin of his own index."""
    issued: Challenge | None
    """What he signed under this digest."""
    met: Sequence[DecisionLine]
    """By whom, in earlier intakes."""


def challenge_status(
    asked: Asked, past: Past, shown: Challenge | None, beside: Sequence[Evidence] = ()
) -> ChallengeStatus:
    """`shown`: the document that came along, whoever made it (row P5)."""
    known = past.issued
    if known is None:
        if shown is not None and shown.store != past.store:
            return ChallengeStatus("foreign", f"by another store ({shown.store[:12]})")
        return ChallengeStatus("unknown", f"this store issued no {asked.challenge[:12]}")
    return meant_for(known, asked) or _met_before(asked, past, beside) or _in_time(known, asked)


def meant_for(challenge: Challenge, asked: Asked) -> ChallengeStatus | None:
    """None where it is for this suite and policy."""
    if challenge.suite.digest != asked.suite:
        return ChallengeStatus("foreign", f"for suite {challenge.suite.name} ({challenge.suite.digest[:12]})")
    if challenge.policy.name != asked.policy:
        return ChallengeStatus("foreign", f"for policy {challenge.policy.name}")
    return None


def _met_before(asked: Asked, past: Past, beside: Sequence[Evidence]) -> ChallengeStatus | None:
    """One run of several solvers meets a challenge with a record each, all of one submission: who may try until a try
    pleases him has no need of a challenge."""
    others = [line for line in past.met if line.submission != asked.submission and line.record != asked.record]
    if others:
        return ChallengeStatus("used", f"by record {others[0].record[:12]}, received at {others[0].received_at}")
    for one in beside:
        if one.challenge != asked.challenge:
            continue
        if one.contender == asked.contender:
            return ChallengeStatus("used", f"by {one.file}, of the same solver and model")
        if one.run != asked.run:
            return ChallengeStatus("used", f"by {one.file}, of another run ({(one.run or 'none')[:80]})")
    return None


def as_far_as_seen(asked: Asked, shown: Challenge) -> ChallengeStatus:
    """For a submitter, who cannot look into the store: whose document it is stays unproven."""
    return replace(meant_for(shown, asked) or _in_time(shown, asked), unproven=True)


def _in_time(challenge: Challenge, asked: Asked) -> ChallengeStatus:
    if challenge.expires < asked.at:
        return ChallengeStatus("expired", f"issued {challenge.issued_at}, expired {challenge.expires_at}")
    return ChallengeStatus("good", issued_at=moment(challenge.issued_at))
