"""Looking at one record of a submission: its signature, every check, every blob, every word of a listed verifier."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from appliance.audit.checks import record_checks
from appliance.audit.opened import Opened
from appliance.audit.plausibility import plausibility_checks
from appliance.audit.policy import Policy
from appliance.audit.policy_checks import ChallengeStatus, policy_checks
from appliance.audit.policy_shapes import Signer
from appliance.audit.policy_signers import candidates
from appliance.audit.trust import agreement_check
from appliance.digests import sha256_hex
from appliance.records.record import Record
from appliance.submissions.decisions import Reason
from appliance.submissions.judging import Contender, Evidence, reason_of
from appliance.submissions.named import blobs_named
from appliance.submissions.roots import unknown
from appliance.submissions.state import LogEntry, trials_digest
from appliance.submissions.summaries import Summary, told
from attest import canonical
from attest.checks import Check, Noted, NotRun, Verified
from attest.errors import Refused
from attest.roots import PinnedRoot
from attest.tpm import is_quoted, tpm_check
from attest.verification import OWN_CHECKS, verify

_HEX: Final = frozenset("0123456789abcdef")


@dataclass(frozen=True)
class Item:
    """A record of a submission as it was sent."""

    file: str
    content: bytes
    bundle: bytes | None
    """What lies beside it as NAME.sigstore.json."""

    @property
    def sha256(self) -> str:
        return sha256_hex(self.content)

    @property
    def bundle_sha256(self) -> str | None:
        return None if self.bundle is None else sha256_hex(self.bundle)


@dataclass(frozen=True)
class Terms:
    """What a submission is held to."""

    policy: Policy
    roots: Mapping[str, PinnedRoot]
    """By sha256: those that this machine has."""
    now: datetime
    """When it was received."""


ChallengeOf = Callable[["Sketch"], ChallengeStatus | None]
"""What the receiver knows of the challenge that a record names; None where nobody can say."""


@dataclass(frozen=True)
class Sketch:
    """What a record says of itself before anything of it is believed; None where it says nothing that could be read."""

    file: str
    record: str
    """Its sha256."""
    suite: str | None
    plan: str | None
    challenge: str | None
    trials: str | None
    contender: Contender | None
    run: str | None
    """The run that it is of, as it says."""

    @classmethod
    def of(cls, item: Item) -> Sketch:
        try:
            value = canonical.loads_canonical(item.content)
        except canonical.NotCanonical:
            value = None
        said = value if isinstance(value, dict) else {}
        suite = said.get("suite")
        return cls(
            file=item.file,
            record=item.sha256,
            suite=_digest(suite.get("digest")) if isinstance(suite, dict) else None,
            plan=_digest(said.get("planDigest")),
            challenge=_digest(said.get("challenge")),
            trials=trials_digest(said),
            contender=contender_of(said),
            run=_run(said),
        )


def examine(
    item: Item,
    blobs: Path,
    summaries: Sequence[Summary],
    terms: Terms,
    challenge_of: ChallengeOf,
    *,
    existed_by: datetime | None = None,
) -> Evidence:
    """`blobs` holds `sha256/<hex>`; `existed_by`: when this receiver had seen this very bundle before, if it had: of a
    record alone anybody may have sent the bytes before somebody signed them. Never raises for what a record or a bundle
    is; AttestationRefused (trust_root) where who it says that he is can only be told by a root that is not known here.
    """
    sketch = Sketch.of(item)
    challenge = challenge_of(sketch) if sketch.challenge else None
    checks = _Checks.of(terms, blobs, challenge, existed_by, item.bundle)
    found = _unsigned(item, terms, checks) if item.bundle is None else _signed(item, item.bundle, terms, checks)
    record = checks.opened.found
    there, missing = _blobs(record, blobs) if record is not None else ((), ())
    said = told(summaries, item.sha256, item.bundle_sha256, len(record.trials) if record is not None else None)
    return Evidence(
        file=item.file,
        record=item.sha256,
        bundle=item.bundle_sha256,
        trials=sketch.trials,
        plan=sketch.plan,
        challenge=sketch.challenge,
        contender=sketch.contender,
        run=sketch.run,
        log=found.log,
        against=found.against,
        doubts=(*found.doubts, *said.contested),
        missing=missing,
        blobs=there,
        reproductions=said.counted,
        contested=bool(said.contested),
        heard=said.heard,
    )


@dataclass(frozen=True)
class _Found:
    against: tuple[Reason, ...] = ()
    doubts: tuple[Reason, ...] = ()
    log: LogEntry | None = None


@dataclass(frozen=True)
class _Checks:
    """What is asked of a record beyond its signature, and which of it only makes it doubtful."""

    opened: Opened
    excluding: Sequence[Check]
    doubting: Sequence[Check]

    @classmethod
    def of(
        cls,
        terms: Terms,
        blobs: Path,
        challenge: ChallengeStatus | None,
        existed_by: datetime | None,
        bundle: bytes | None,
    ) -> _Checks:
        policy, opened, signed = terms.policy, Opened(), bundle is not None
        # What is not there decides the tier, and what the policy requires is a check of its own.
        held = record_checks(blobs, True, publishing=policy.provenance.floor != "simulated", opened=opened)
        asked = policy_checks(
            policy,
            now=terms.now,
            blobs=blobs,
            challenge=challenge,
            existed_by=existed_by,
            signed=signed,
            opened=opened,
        )
        agrees = (agreement_check(opened),) if signed else ()
        quoted = (tpm_check(),) if bundle is not None and is_quoted(bundle) else ()
        return cls(opened, (*held, *agrees, *quoted, *asked), _doubting(terms, challenge, opened))

    @property
    def all(self) -> tuple[Check, ...]:
        return (*self.excluding, *self.doubting)

    def sorted(self, refusals: Iterable[tuple[int, Refused, bool]]) -> _Found:
        """By the place of the check that each refusal came from; True: it could not be made. What a record cannot be
        read for is the refusal of every check, and is told once."""
        against: list[Reason] = []
        doubts: list[Reason] = []
        seen: list[Refused] = []
        for at, refused, missing in refusals:
            if any(refused is one for one in seen):
                continue
            seen.append(refused)
            (against if at < len(self.excluding) else doubts).append(reason_of(refused, missing=missing))
        return _Found(tuple(against), tuple(doubts))


def _doubting(terms: Terms, challenge: ChallengeStatus | None, opened: Opened) -> Sequence[Check]:
    issued_at = challenge.issued_at if challenge is not None else None
    return plausibility_checks(terms.policy, now=terms.now, issued_at=issued_at, opened=opened)


def _signed(item: Item, bundle: bytes, terms: Terms, checks: _Checks) -> _Found:
    """Against each signer that it may be, until one holds. Raises AttestationRefused (trust_root) where none does and
    the root of one is not known here: that is nothing that the record lacks."""
    try:
        signers = candidates(terms.policy, bundle)
    except Refused as refused:
        return _Found((reason_of(refused),))
    last = Refused("identity", "no signer of the policy holds")
    unheld: Signer | None = None
    for signer in signers:
        root = terms.roots.get(signer.root_sha256)
        if root is None:
            unheld = unheld or signer
            continue
        try:
            report = verify(item.content, bundle, root, signer.identity, signer.issuer, checks.all)
        except Refused as refused:
            if refused.report is None or refused.report.verified is None:
                last = refused
                continue
            report = refused.report
        outcomes = report.outcomes[len(OWN_CHECKS) :]
        found = checks.sorted(
            (at, outcome.refusal, outcome.status == "not_run")
            for at, outcome in enumerate(outcomes)
            if outcome.refusal is not None
        )
        own = root.assurance == "local" and report.log_index is not None
        return replace(found, log=LogEntry(root=root.sha256, index=report.log_index or 0) if own else None)
    if unheld is not None:
        raise unknown(terms.policy, unheld)
    return _Found((reason_of(last),))


def _unsigned(item: Item, terms: Terms, checks: _Checks) -> _Found:
    """The same checks but those of a signature: its journal says at least what its record says (row P2)."""
    try:
        value = canonical.loads_canonical(item.content)
    except canonical.NotCanonical as error:
        return _Found((Reason.of("schema_mismatch", error.message, f"{item.file}: {error.path}"),))
    verified = Verified(
        record_bytes=item.content,
        record=value,
        predicate={},
        identity="",
        issuer="",
        signed_at=terms.now,
        assurance="",
    )
    return checks.sorted(_refusals(checks.all, verified))


def _refusals(checks: Iterable[Check], verified: Verified) -> Iterator[tuple[int, Refused, bool]]:
    for at, check in enumerate(checks):
        try:
            check.run(verified)
        except Refused as refused:
            yield at, refused, False
        except Noted:
            continue
        except NotRun as unmade:
            if not unmade.acceptable:
                yield at, Refused(check.reason, f"not checked: {unmade.why}"), True


def _blobs(record: Record, blobs: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Digests of what the record names: what is there, and what is not, but for the suite's archive, whose digest says
    as much as it would."""
    archive = record.suite.archive.sha256 if record.suite.archive else None
    named = [ref.sha256 for ref in blobs_named(record)]
    there = {sha256 for sha256 in named if (blobs / "sha256" / sha256).is_file()}
    missing = tuple(sha256 for sha256 in named if sha256 not in there and sha256 != archive)
    return tuple(sha256 for sha256 in named if sha256 in there), missing


def _run(said: dict[str, Any]) -> str | None:
    """`recordId` is the run's id and the solver's name."""
    name, contender = said.get("recordId"), contender_of(said)
    return name.removesuffix(f".{contender[0]}") if isinstance(name, str) and contender else None


def _digest(value: object) -> str | None:
    return value if isinstance(value, str) and len(value) == _SHA256_DIGITS and set(value) <= _HEX else None


def contender_of(said: dict[str, Any]) -> Contender | None:
    """Of a record that nobody has checked yet; its checks hold the plan to all the rest of it."""
    plan = said.get("plan")
    solver = plan.get("solver") if isinstance(plan, dict) else None
    name = solver.get("name") if isinstance(solver, dict) else None
    model = plan.get("model") if isinstance(plan, dict) else None
    if not isinstance(name, str) or not isinstance(model, str | None):
        return None
    return name, model


_SHA256_DIGITS: Final = 64
