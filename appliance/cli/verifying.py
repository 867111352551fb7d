"""What a command line holds records to, read once, and each record held to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from appliance.audit.checks import record_checks
from appliance.audit.opened import Opened
from appliance.audit.trust import agreement_check, bundle_path, refusals_translated
from appliance.cli.trusting import TrustWords, blobs_of, read_bounded_bundle, read_bounded_record
from appliance.errors import HostRefused, InputRefused, Refusal, UsageRefused
from appliance.reading import read_regular
from attest.bundle import MAX_BUNDLE_BYTES
from attest.errors import Refused
from attest.verification import Report, verify

if TYPE_CHECKING:
    from appliance.audit.policy import Policy
    from appliance.audit.policy_checks import ChallengeStatus
    from appliance.submissions.challenge import Challenge
    from appliance.submissions.published import Listed
    from attest.anchor import Anchor
    from attest.checks import Check
    from attest.roots import PinnedRoot

Standing = Literal["accepted", "excluded", "quarantined"]


@dataclass(frozen=True)
class Asked:
    """What was typed."""

    trust: TrustWords
    bundle: Path | None = None
    blobs: Path | None = None
    allow_missing_blobs: bool = False
    policy: Path | None = None
    challenge: Path | None = None
    challenge_trust: TrustWords | None = None
    anchor: Path | None = None
    anchor_trust: TrustWords | None = None
    tpm_keys: Path | None = None


@dataclass(frozen=True)
class Terms:
    """What every record is held to."""

    signer: tuple[PinnedRoot, str, str] | None = None
    """Root, name and issuer; None: those of the policy's signers."""
    blobs: Path | None = None
    """For all records; None: those beside each."""
    allow_missing_blobs: bool = False
    policy: Policy | None = None
    policy_roots: Mapping[str, PinnedRoot] = field(default_factory=dict)
    """By sha256: those of the policy's that this machine has."""
    challenge: Challenge | None = None
    challenge_signer: str | None = None
    """None: nobody checked whose challenge it is."""
    anchor: Anchor | None = None
    tpm_keys: frozenset[str] = frozenset()
    """Names of the AKs that this receiver has enrolled."""
    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    @classmethod
    def of(cls, asked: Asked) -> Terms:
        """Raises UsageRefused, InputRefused, AttestationRefused for what was typed, before any record is read."""
        if asked.policy is None and asked.challenge is not None:
            raise UsageRefused("--challenge goes with --policy", mend="--policy FILE", reason="usage")
        if asked.blobs is not None:
            blobs_of(Path(), asked.blobs)
        policy: Policy | None = None
        roots: Mapping[str, PinnedRoot] = {}
        if asked.policy is not None:
            from appliance.audit.policy import read_policy
            from appliance.submissions.roots import roots_of

            policy = read_policy(asked.policy)
            files = [asked.trust.trusted_root] if asked.trust.trusted_root and not asked.trust.names_signer else []
            roots, _ = roots_of(policy, files)
        with refusals_translated():
            by_policy = policy is not None and not asked.trust.names_signer
            challenge, challenge_signer = _challenge(asked)
            return cls(
                signer=None if by_policy else asked.trust.held_to(),
                blobs=asked.blobs,
                allow_missing_blobs=asked.allow_missing_blobs,
                policy=policy,
                policy_roots=roots,
                challenge=challenge,
                challenge_signer=challenge_signer,
                anchor=_anchor(asked),
                tpm_keys=_tpm_keys(asked.tpm_keys),
            )

    def verify(self, content: bytes, bundle: bytes, blobs: Path | None, listed: Listed | None = None) -> Report:
        """Every check of one record. `listed`: by an index that was held. Raises attest's Refused, with the report
        where one was made."""
        checks = self._checks(content, bundle, blobs, listed)
        if self.signer is not None:
            return verify(content, bundle, *self.signer, checks)
        refusals: list[Refused] = []
        for root, name, issuer in self._signers(bundle, refusals):
            try:
                return verify(content, bundle, root, name, issuer, checks)
            except Refused as refused:
                refusals.append(refused)
        raise max(refusals, key=_reached)

    def _signers(self, bundle: bytes, refusals: list[Refused]) -> Iterator[tuple[PinnedRoot, str, str]]:
        """Those of the policy whom this bundle may be of; one whose root is not known here is put to `refusals`."""
        from appliance.audit.policy_signers import candidates

        if self.policy is None:
            raise Refused("usage", "no signer to hold the signature to", mend="--trust NAME, or --policy FILE")
        for signer in candidates(self.policy, bundle):
            root = self.policy_roots.get(signer.root_sha256)
            if root is not None:
                yield root, signer.identity, signer.issuer
                continue
            mend = "--trusted-root FILE, or a [[root]] entry in roots.toml"
            words = f"the policy's root {signer.root_sha256} is not known here"
            refusals.append(Refused("trust_root", words, where=self.policy.where, mend=mend))

    def _checks(self, content: bytes, bundle: bytes, blobs: Path | None, listed: Listed | None) -> Sequence[Check]:
        opened, policy = Opened(), self.policy
        publishing = policy is not None and policy.provenance.floor != "simulated"
        # What is not there keeps a record from the tier `auditable`; what the policy requires is a check of its own.
        lenient = self.allow_missing_blobs or (policy is not None and policy.least_tier == "reported")
        checks = [
            *record_checks(blobs, lenient, publishing=publishing, opened=opened),
            agreement_check(opened),
        ]
        if listed is not None:
            from appliance.submissions.listing import listed_check

            checks.append(listed_check(listed, blobs, opened))
        if self.anchor is not None:
            from attest.anchor import anchor_check

            checks.append(anchor_check(self.anchor, bundle))
        checks += _tpm_checks(bundle, self.tpm_keys)
        if policy is None:
            return checks
        from appliance.audit.plausibility import plausibility_checks
        from appliance.audit.policy_checks import policy_checks

        existed_by = self.anchor.signed_at if self.anchor is not None else None
        challenge = self._challenge_of(content)
        issued_at = challenge.issued_at if challenge is not None else None
        asked = policy_checks(
            policy, now=self.now, blobs=blobs, challenge=challenge, existed_by=existed_by, opened=opened
        )
        return [*checks, *asked, *plausibility_checks(policy, now=self.now, issued_at=issued_at, opened=opened)]

    def _challenge_of(self, content: bytes) -> ChallengeStatus | None:
        """As far as somebody sees who holds the document, and not the store that issued it."""
        if self.challenge is None or self.policy is None:
            return None
        from appliance.audit.policy_checks import ChallengeStatus
        from appliance.submissions.examining import Item, Sketch
        from appliance.submissions.judging import Asked as AskedOfChallenge
        from appliance.submissions.judging import as_far_as_seen

        said = Sketch.of(Item("", content, None))
        if said.challenge is None:
            return None  # the policy says whether it needs one
        if said.challenge != self.challenge.sha256:
            return ChallengeStatus("foreign", f"the record names {said.challenge}, this is {self.challenge.sha256}")
        asked = AskedOfChallenge(
            challenge=said.challenge,
            record=said.record,
            suite=said.suite,
            contender=said.contender,
            run=said.run,
            policy=self.policy.name,
            submission="",
            at=self.now,
        )
        seen = as_far_as_seen(asked, self.challenge)
        if self.challenge_signer is None:
            return seen
        return replace(seen, unproven=False, issuer=self.challenge_signer)


def _reached(refused: Refused) -> int:
    return sum(outcome.status != "not_run" for outcome in refused.report.outcomes) if refused.report else 0


def _challenge(asked: Asked) -> tuple[Challenge | None, str | None]:
    """Raises Refused, InputRefused, UsageRefused. Its own signature is checked where somebody said whose it must be."""
    words = asked.challenge_trust if asked.challenge_trust is not None and asked.challenge_trust.given else None
    if asked.challenge is None:
        if words is not None:
            raise UsageRefused("--challenge-trust goes with --challenge", mend="--challenge FILE", reason="usage")
        return None, None
    from appliance.submissions.challenge import read_challenge

    challenge, content = read_challenge(asked.challenge)
    if words is None:
        return challenge, None
    from attest import statement
    from attest.verification import verify_statement

    root, identity, issuer = words.held_to()
    try:
        bundle = read_regular(bundle_path(asked.challenge), MAX_BUNDLE_BYTES)
    except OSError as error:
        raise Refused(
            "bundle", error.strerror or str(error), where=str(bundle_path(asked.challenge)), mend=_CHALLENGE_MEND
        ) from error
    try:
        signed = verify_statement(bundle, root, identity, issuer, statement.CHALLENGE_TYPE)
        statement.check_subject(signed.statement, content, "challenge")
    except Refused as refused:
        refused.where = f"{asked.challenge}: {refused.where}" if refused.where else str(asked.challenge)
        raise
    return challenge, identity


_CHALLENGE_MEND: Final = "put the bundle that `challenge new` made beside the challenge"


def _tpm_keys(path: Path | None) -> frozenset[str]:
    if path is None:
        return frozenset()
    from attest.tpm import read_enrolled

    return read_enrolled(path)


def _tpm_checks(bundle: bytes, enrolled: frozenset[str]) -> Sequence[Check]:
    from attest.tpm import is_quoted, tpm_check

    return (tpm_check(enrolled),) if is_quoted(bundle) else ()


def _anchor(asked: Asked) -> Anchor | None:
    """Raises Refused, InputRefused, UsageRefused."""
    if asked.anchor is None:
        return None
    from attest.anchor import MAX_ANCHOR_BYTES, read_anchor

    if asked.anchor_trust is None or not asked.anchor_trust.trust:
        raise UsageRefused(
            "an anchor is a signature of its own",
            where="--anchor",
            mend="--anchor-trust NAME --anchor-identity NAME --anchor-issuer URL",
            reason="usage",
        )
    try:
        content = read_regular(asked.anchor, MAX_ANCHOR_BYTES)
    except OSError as error:
        raise InputRefused(error.strerror or str(error), where=str(asked.anchor)) from error
    return read_anchor(content, *asked.anchor_trust.held_to(), str(asked.anchor))


@dataclass(frozen=True)
class Verdict:
    """Of one record of a command line: its report, its refusal, or both."""

    record: Path
    report: Report | None
    refusal: Refusal | None

    @property
    def standing(self) -> Standing:
        """What a receiver with this policy makes of it (formats 6): doubt alone does not exclude."""
        if self.refusal is None:
            return "accepted"
        refusals = [found.refusal for found in self.report.outcomes if found.refusal] if self.report else []
        doubtful = refusals and all(found.word == "implausible" for found in refusals)
        return "quarantined" if doubtful else "excluded"


def judge(record: Path, asked: Asked, terms: Terms, *, follow: bool = True, listed: Listed | None = None) -> Verdict:
    """Never raises for what a record, its bundle or its blobs are. `follow`: whether they may be symbolic links."""
    try:
        content = read_bounded_record(record, follow=follow)
        with refusals_translated():
            bundle = read_bounded_bundle(asked.bundle or bundle_path(record), follow=follow)
            blobs = blobs_of(record, asked.blobs, follow=follow)
            report = terms.verify(content, bundle, blobs, listed)
    except Refusal as refusal:
        return _refused(record, refusal)
    except MemoryError as error:
        full = HostRefused("needs more memory than there is here", where=str(record), reason="internal")
        full.__cause__ = error
        return _refused(record, full)
    return Verdict(record, report, None)


def _refused(record: Path, refusal: Refusal) -> Verdict:
    cause = refusal.__cause__
    report = cause.report if isinstance(cause, Refused) else None
    if report is not None and any(o.refusal is cause and o.status == "not_run" for o in report.outcomes):
        refusal.mend = refusal.mend or "--blobs DIR, or --allow-missing-blobs"
    return Verdict(record, report, refusal)
