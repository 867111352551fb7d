"""A stranger's submission, received: listed, copied, judged, kept, and signed for; all of it counts or none does.

1. the store is what it was, policy and roots are no older than seen    else `rollback`, nothing written
2. the folder is listed within its bounds                               else refused, nothing written
3. what is listed is copied to where nobody else writes
4. every record is examined and decided, in the order of their files
5. blobs, records and verdicts are put in place
6. their lines are appended to the index, under one signature           from here on it counts
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Final

from appliance.audit.policy import Policy
from appliance.audit.policy_checks import ChallengeStatus
from appliance.audit.trust import refusals_translated
from appliance.digests import sha256_hex
from appliance.errors import InputRefused
from appliance.files import write_atomically
from appliance.reading import read_regular
from appliance.submissions.challenge import moment, moment_text
from appliance.submissions.decisions import Decision
from appliance.submissions.examining import Item, Sketch, Terms, examine
from appliance.submissions.judging import Asked, Evidence, Past, as_far_as_seen, challenge_status, decide, reached_in
from appliance.submissions.roots import refuse_unknown
from appliance.submissions.state import DecisionLine, PolicyStamp, RootStamp, StoreState, rolled_back
from appliance.submissions.store import Store, rollback, shown_challenge
from appliance.submissions.summaries import Summary, read_summaries
from appliance.submissions.tree import Listing, TreeBounds, copy_submission, list_submission
from appliance.submissions.verdicts import sign_verdict
from attest import canonical
from attest.bundle import MAX_BUNDLE_BYTES

if TYPE_CHECKING:
    from attest.trust import TrustMode

Report = Callable[[str], None]


@dataclass(frozen=True)
class Taken:
    """What an intake came to."""

    submission: str
    lines: tuple[DecisionLine, ...]
    """One a record, in the order of their files."""
    passed_over: tuple[str, ...]
    unheard: tuple[str, ...]
    """Files of verdicts that counted for no record."""
    finished: bool
    """True: an earlier intake of this submission was cut off after it counted; nothing was decided now."""


@dataclass(frozen=True)
class Checked:
    """One record of a submission as its sender sees it: without the store's past."""

    evidence: Evidence
    decision: Decision


@dataclass(frozen=True)
class Dry:
    """A submission as its sender sees it."""

    records: tuple[Checked, ...]
    unheard: tuple[str, ...]
    """Files of verdicts that count for no record."""


def check_submission(
    folder: Path,
    terms: Terms,
    bounds: TreeBounds = TreeBounds(),  # noqa: B008  frozen
) -> Dry:
    """The submitter's own dry run: every check of an intake but those against a store. Nothing is written.

    Raises InputRefused for what is no submission, or is over the bounds, or holds no record; AttestationRefused
    (trust_root) where a signature can only be checked by a root that is not known here.
    """
    listing = list_submission(folder, bounds)
    _refuse_empty(listing)
    submission = submission_of(listing, folder)

    def challenge_of(sketch: Sketch) -> ChallengeStatus | None:
        shown = shown_challenge(folder, sketch.challenge or "")
        return None if shown is None else as_far_as_seen(_asked(sketch, terms, submission, terms.now), shown)

    summaries = _summaries(listing, folder, terms)
    found: list[Checked] = []
    for item in _items(listing, folder):
        beside = [checked.evidence for checked in found]
        evidence = examine(item, folder / "blobs", summaries, terms, challenge_of)
        found.append(Checked(evidence, decide(evidence, terms.policy.least_tier, StoreState(), beside)))
    return Dry(tuple(found), _unheard(listing, summaries, [checked.evidence for checked in found]))


def take_in(
    folder: Path,
    store: Store,
    terms: Terms,
    roots: Sequence[RootStamp],
    signer: TrustMode,
    *,
    bounds: TreeBounds = TreeBounds(),  # noqa: B008  frozen
    report: Report = lambda _: None,
) -> Taken:
    """Raises AttestationRefused (rollback; trust_root where a root of the policy is not known here, so that what it
    would show is held against nobody), InputRefused as `check_submission`, HostRefused for a full disk.

    Interrupted at any point, the same call finishes the work. Two at once take turns.
    """
    policy = stamp_of(terms.policy)
    refuse_unknown(terms.policy, terms.roots)
    _refuse_older(store, policy, roots)
    listing = list_submission(folder, bounds)
    _refuse_empty(listing)
    with store.alone(signer):
        _refuse_older(store, policy, roots)
        with _copied(listing, store) as incoming:
            submission = submission_of(listing, incoming)
            lines = _cut_off(store, submission)
            finished = bool(lines)
            unheard: tuple[str, ...] = ()
            if not finished:
                known = len(store.state.submissions.get(submission, ()))
                write_atomically(store.pending(submission), canonical.dumps({"lines": known}))
                work = _Intake(listing, incoming, store, terms, tuple(roots), signer, submission, report)
                summaries = _summaries(listing, incoming, terms)
                decided = work.decided(summaries)
                unheard = _unheard(listing, summaries, [evidence for evidence, _ in decided])
                lines = tuple(work.placed(decided, summaries))
                store.append(lines, signer)
            for line in lines:
                store.drop_elsewhere(line.record)
        # Last of all: while it lies there, the same call is the same intake.
        store.pending(submission).unlink(missing_ok=True)
        return Taken(submission, lines, listing.passed_over, unheard, finished)


def _cut_off(store: Store, submission: str) -> tuple[DecisionLine, ...]:
    """The lines of an intake of this submission that was cut off after they counted; none where none was."""
    begun_with = _begun_with(store.pending(submission))
    return () if begun_with is None else tuple(store.state.submissions.get(submission, ())[begun_with:])


def _begun_with(marker: Path) -> int | None:
    """How many lines of this submission the index held when an intake that was cut off began; None where none was."""
    try:
        lines = canonical.loads_canonical(read_regular(marker, _MARKER_BYTES))["lines"]
    except (OSError, canonical.NotCanonical, KeyError, TypeError):
        return None
    return lines if isinstance(lines, int) else None


_MARKER_BYTES: Final = 1024


@dataclass(frozen=True)
class _Intake:
    """One submission under way, all of it copied to `incoming`."""

    listing: Listing
    incoming: Path
    store: Store
    terms: Terms
    roots: tuple[RootStamp, ...]
    signer: TrustMode
    submission: str
    report: Report

    def decided(self, summaries: Sequence[Summary]) -> list[tuple[Evidence, Decision]]:
        """Every record, looked at beside those before it; nothing is put in place yet."""
        found: list[tuple[Evidence, Decision]] = []
        for item in _items(self.listing, self.incoming):
            beside = [evidence for evidence, _ in found]
            evidence = self._examined(item, summaries, beside)
            decision = decide(evidence, self.terms.policy.least_tier, self.store.state, beside)
            self.report(f"{item.file}: {decision.status}")
            found.append((evidence, decision))
        return found

    def _examined(self, item: Item, summaries: Sequence[Summary], beside: Sequence[Evidence]) -> Evidence:
        state = self.store.state
        first = _moment(state.first_seen.get(item.sha256))
        signed = _moment(state.first_signed.get(item.bundle_sha256 or ""))

        def challenge_of(sketch: Sketch) -> ChallengeStatus | None:
            name = sketch.challenge or ""
            past = Past(self.store.origin, self.store.issued(name), state.challenges.get(name, ()))
            asked = _asked(sketch, self.terms, self.submission, first or self.terms.now)
            return challenge_status(asked, past, shown_challenge(self.incoming, name), beside)

        return examine(item, self.incoming / "blobs", summaries, self.terms, challenge_of, existed_by=signed)

    def placed(
        self, decided: Iterable[tuple[Evidence, Decision]], summaries: Sequence[Summary]
    ) -> Iterator[DecisionLine]:
        """What is kept of each record, and its verdict, on the disk; the lines are what will say so."""
        files = {summary.sha256: summary.file for summary in summaries}
        policy = stamp_of(self.terms.policy)
        for item, (evidence, decision) in zip(_items(self.listing, self.incoming), decided, strict=True):
            with refusals_translated():
                verdict = sign_verdict(
                    decision,
                    record=evidence.record,
                    bundle=evidence.bundle,
                    submission=self.submission,
                    policy=policy,
                    signer=self.signer,
                    now=self.terms.now,
                )
            kept = decision.status != "excluded"
            counted = evidence.reproductions if kept else ()
            if kept:
                self.store.keep_blobs(self.incoming, evidence.blobs)
                for sha256 in counted:
                    self.store.keep_verdict(_read(self.incoming / files[sha256], MAX_BUNDLE_BYTES))
                self.store.keep_record(item.content, item.bundle, quarantined=decision.status == "quarantined")
            yield DecisionLine(
                submission=self.submission,
                file=item.file,
                record=evidence.record,
                bundle=evidence.bundle,
                trials=evidence.trials,
                plan=evidence.plan,
                challenge=evidence.challenge,
                log=evidence.log,
                decision=decision,
                reached=reached_in(evidence, self.store.state) if kept else None,
                verdict=self.store.keep_verdict(verdict),
                reproductions=counted,
                policy=policy,
                roots=self.roots,
                received_at=moment_text(self.terms.now),
            )


# --------------------------------------------------------------------------------------------------- what lies there


def submission_of(listing: Listing, folder: Path) -> str:
    """Its name: of the digests of its records and their bundles, wherever they lie and however they are called."""
    pairs = sorted([item.sha256, item.bundle_sha256 or ""] for item in _items(listing, folder))
    return sha256_hex(canonical.dumps(pairs))


def stamp_of(policy: Policy) -> PolicyStamp:
    return PolicyStamp(name=policy.name, version=policy.version, sha256=policy.digest, uri=policy.published_at)


def _items(listing: Listing, folder: Path) -> Iterator[Item]:
    """One after the other: a record may be as large as memory allows for one."""
    bundles = frozenset(listing.bundles)
    for path in listing.records:
        beside = f"{path.removesuffix('.json')}.sigstore.json"
        bundle = _read(folder / beside, MAX_BUNDLE_BYTES, short_enough=True) if beside in bundles else None
        yield Item(path, _read(folder / path, canonical.MAX_BYTES), bundle)


def _summaries(listing: Listing, folder: Path, terms: Terms) -> tuple[Summary, ...]:
    """One that is over its bound is nobody's summary."""
    files = ((path, _read(folder / path, MAX_BUNDLE_BYTES, short_enough=True)) for path in listing.verdicts)
    return read_summaries(files, terms.policy, terms.roots, terms.now)


def _unheard(listing: Listing, summaries: Sequence[Summary], found: Iterable[Evidence]) -> tuple[str, ...]:
    heard = {sha256 for evidence in found for sha256 in evidence.heard}
    files = {summary.file for summary in summaries if summary.sha256 in heard}
    return tuple(path for path in listing.verdicts if path not in files)


def _moment(text: str | None) -> datetime | None:
    return None if text is None else moment(text)


def _read(path: Path, most: int, *, short_enough: bool = False) -> bytes:
    """`short_enough`: what is over the bound is cut behind it, so that whoever parses it refuses it by its length."""
    try:
        if short_enough and path.stat().st_size > most:
            with path.open("rb") as stream:
                return stream.read(most + 1)
        return read_regular(path, most, follow=False)
    except OSError as error:
        raise InputRefused(error.strerror or str(error), where=str(path)) from error


def _asked(sketch: Sketch, terms: Terms, submission: str, at: datetime) -> Asked:
    return Asked(
        challenge=sketch.challenge or "",
        record=sketch.record,
        suite=sketch.suite,
        contender=sketch.contender,
        run=sketch.run,
        policy=terms.policy.name,
        submission=submission,
        at=at,
    )


def _refuse_empty(listing: Listing) -> None:
    if not listing.records:
        raise InputRefused(
            "holds no record", where=f"{listing.root}/records", mend="appliance submission pack RECORD --to DIR"
        )


def _refuse_older(store: Store, policy: PolicyStamp, roots: Sequence[RootStamp]) -> None:
    words = rolled_back(store.state, policy, roots)
    if words:
        raise rollback(words, str(store.root))


@contextmanager
def _copied(listing: Listing, store: Store) -> Iterator[Path]:
    incoming = store.incoming()
    try:
        copy_submission(listing, incoming)
        yield incoming
    finally:
        rmtree(incoming, ignore_errors=True)
