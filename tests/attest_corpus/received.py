"""What a receiver meets: records under a policy, verdicts of others, indexes and checkpoints that went back."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from appliance.audit.plausibility import plausibility_checks
from appliance.audit.policy_checks import policy_checks
from attest import checkpoints, statement, vsa
from attest.index import CHECKPOINT, LINES, SignedIndex
from attest.local.log import LocalLog
from attest.predicate import Sha256Digest
from attest.verification import verify_statement
from tests.attest_corpus import ISSUER, UNSPOILT, Attested, Case, Paper, slug
from tests.attest_corpus.anchors import anchors
from tests.attest_corpus.workshop import Workshop, stated
from tests.attest_forge import HEX
from tests.integration.test_audit_policy_signed import PLAUSIBLE_CASES, POLICY_CASES
from tests.integration.test_audit_policy_signed import Case as PolicyCase
from tests.policy_builder import policy

RECORD = "1" * 64


def _under_a_policy(of: PolicyCase) -> Callable[[Workshop], Attested]:
    def make(shop: Workshop) -> Attested:
        made = of.make()
        folder = made.store(shop.shelf("policy"))
        by = policy(shop.own.trust, **of.policy)
        now = datetime.now(UTC)
        status = of.status()
        further = (
            *policy_checks(by, now=now, blobs=folder, challenge=status),
            *plausibility_checks(by, now=now, issued_at=status.issued_at if status else None),
        )
        content = made.record.canonical()
        return shop.signed(content, stated(content), folder, more_checks=further, allow_missing=True)

    return make


def policies() -> Iterator[Case]:
    """Genuine in every other respect: the cases that each rule's own tests have."""
    for prefix, rows, cases in (("policy", "P2, P7, P12, H5", POLICY_CASES), ("implausible", "P8", PLAUSIBLE_CASES)):
        for words, of in cases.items():
            row = "P5, V22" if of.reason == "replay" else "P6" if of.reason == "blob" else rows
            # The first check that fails names it: a record's own come before a policy's.
            reason = "aggregate" if of.also else of.reason
            yield Case(f"{prefix}-{slug(words)}", words, reason, row, _under_a_policy(of), signed_again=True)


def verdicts() -> Iterator[Case]:
    """Summaries that a verifier signed: read by `vsa.read` once their signature holds."""

    def good(signer: str) -> dict[str, Any]:
        return vsa.Vsa(
            verifier=vsa.Verifier(id=signer, version={"bench-appliance": "0.1.0"}),
            time_verified="2026-01-02T03:04:05Z",
            resource_uri=vsa.record_uri(RECORD),
            policy=vsa.Policy(uri="https://bench-appliance.invalid/policies/x/1", digest=Sha256Digest(sha256=HEX)),
            input_attestations=(vsa.Attestation(uri=vsa.bundle_uri(HEX), digest=Sha256Digest(sha256=HEX)),),
            verification_result="PASSED",
            verified_levels=("BENCH_TIER_AUDITABLE",),
            details=vsa.Judged(status="accepted", tier="auditable"),
        ).json_value()

    def case(name: str, words: str, reason: str, change: Callable[[dict[str, Any]], Any], **fields: Any) -> Case:
        def make(shop: Workshop) -> Paper:
            value = good(shop.own.identity)
            change(value)
            subject = [{"name": "record.json", "digest": {"sha256": RECORD}}]
            stated_as = {"subject": subject, "predicateType": statement.VSA_TYPE, "predicate": value, **fields}
            bundle = shop.bundle(shop.own.statement(**stated_as))
            trust = shop.own.trust
            return Paper(
                lambda: vsa.read(verify_statement(bundle, trust.root, trust.identity, ISSUER, statement.VSA_TYPE)),
                bundle,
                trust.root.content,
                trust.identity,
            )

        return Case(f"verdict-{name}", words, reason, "P1, P3, R5", make)

    def inside(key: str, **changes: Any) -> Callable[[dict[str, Any]], Any]:
        return lambda value: value[key].update(changes)

    details = "benchAppliance_details"
    forms: dict[str, tuple[str, Callable[[dict[str, Any]], Any]]] = {
        "passed-without-its-level": (
            "PASSED with a level that its details do not bear",
            lambda v: v.update(verifiedLevels=["BENCH_TIER_VERIFIED"]),
        ),
        "failed-with-a-level": ("FAILED with a level", lambda v: v.update(verificationResult="FAILED")),
        "of-slsas-level": ("a level of SLSA's own", lambda v: v.update(verifiedLevels=["SLSA_BUILD_LEVEL_3"])),
        "without-levels": ("no level at all", lambda v: v.update(verifiedLevels=[])),
        "accepted-with-reasons": (
            "accepted, for reasons",
            inside(details, reasons=[{"word": "implausible", "message": "x"}]),
        ),
        "excluded-without-reasons": ("excluded for no reason", inside(details, status="excluded", tier=None)),
        "of-no-tier": ("a tier that there is not", inside(details, tier="platinum")),
        "with-a-field-more": ("a field that nobody reads", lambda v: v.update(extra=1)),
        "without-a-policy": ("no policy", lambda v: v.pop("policy")),
        "with-a-policy-by-name-alone": ("a policy without its digest", lambda v: v["policy"].pop("digest")),
        "without-details": ("none of our details", lambda v: v.pop(details)),
        "of-nobody": ("no verifier", lambda v: v.pop("verifier")),
        "with-an-empty-list-of-bundles": ("an empty list of bundles", lambda v: v.update(inputAttestations=[])),
        "with-seventeen-bundles": (
            "more bundles than any verdict looks at",
            lambda v: v.update(inputAttestations=v["inputAttestations"] * 17),
        ),
        "of-a-result-of-no-list": ("a result of no list", lambda v: v.update(verificationResult="passed")),
        "at-no-moment": ("verified at no moment", lambda v: v.update(timeVerified="yesterday")),
        "of-more-trials-than-there-were": (
            "more trials compared than recorded",
            lambda v: v.update(
                {
                    "verifiedLevels": [vsa.REPRODUCED],
                    details: {
                        "about": "reproduction",
                        "again": HEX,
                        "verdict": HEX,
                        "checked": "verified",
                        "comparedTrials": 5,
                        "recordedTrials": 4,
                        "outcome": "reproduced",
                        "energy": "reproduced",
                        "cost": "reproduced",
                    },
                }
            ),
        ),
        "of-a-reproduction-that-diverged": (
            "reproduced, though the outcomes differ",
            lambda v: v.update(
                {
                    "verifiedLevels": [vsa.REPRODUCED],
                    details: {
                        "about": "reproduction",
                        "again": HEX,
                        "verdict": HEX,
                        "checked": "verified",
                        "comparedTrials": 4,
                        "recordedTrials": 4,
                        "outcome": "diverged",
                        "energy": "reproduced",
                        "cost": "reproduced",
                    },
                }
            ),
        ),
    }
    for name, (words, change) in forms.items():
        yield case(name, f"a verdict: {words}", "statement", change)

    def unchanged(_: dict[str, Any]) -> None:
        pass

    yield case("unspoilt", "nothing", UNSPOILT, unchanged)
    yield case(
        "of-two-records",
        "a verdict about two records",
        "subject",
        unchanged,
        subject=[{"name": "a", "digest": {"sha256": RECORD}}, {"name": "b", "digest": {"sha256": HEX}}],
    )
    yield case("about-nothing", "a verdict about no record", "subject", unchanged, subject=[])
    yield case(
        "in-capitals",
        "a verdict about a digest in capitals",
        "subject",
        unchanged,
        subject=[{"name": "a", "digest": {"sha256": "A" * 64}}],
    )
    yield case(
        "of-another-kind",
        "a record's own statement for a verdict",
        "predicate_type",
        unchanged,
        predicateType=statement.PREDICATE_TYPE,
    )
    yield case(
        "of-another-version",
        "a verdict of a version that there is not",
        "predicate_type",
        unchanged,
        predicateType="https://slsa.dev/verification_summary/v2",
    )


def indexes() -> Iterator[Case]:
    """A signed index that a receiver saw before; the folder, the checkpoint, or both were changed."""

    def case(name: str, words: str, change: Callable[[Path, Path, Workshop], Any], reason: str = "replay") -> Case:
        """`change` takes the folder, one as it was two entries earlier, and the shop."""

        def make(shop: Workshop) -> Paper:
            trust = shop.own.trust
            folder, old = shop.shelf("index") / "index", shop.shelf("index") / "old"
            opened = SignedIndex.open(folder, trust.root, trust.identity, ISSUER)
            opened.append([{"n": 1}], trust)
            shutil.copytree(folder, old)
            seen = opened.append([{"n": 2}, {"n": 3}], trust)
            change(folder, old, shop)
            return Paper(lambda: SignedIndex.open(folder, trust.root, trust.identity, ISSUER, remembered=seen).entries)

        return Case(f"index-{name}", words, reason, "P9, V22", make)

    def rolled_back(folder: Path, old: Path, _: Workshop) -> None:
        shutil.rmtree(folder)
        shutil.copytree(old, folder)

    def forked(folder: Path, old: Path, shop: Workshop) -> None:
        """Another third entry, genuinely signed over the common first one."""
        rolled_back(folder, old, shop)
        trust = shop.own.trust
        SignedIndex.open(folder, trust.root, trust.identity, ISSUER).append([{"n": 2}, {"n": 9}, {"n": 4}], trust)

    def begun_again(folder: Path, _: Path, shop: Workshop) -> None:
        """A new index of the same entries, and one more: genuinely signed, of another origin."""
        shutil.rmtree(folder)
        trust = shop.own.trust
        SignedIndex.open(folder, trust.root, trust.identity, ISSUER).append([{"n": n} for n in range(1, 5)], trust)

    def by_a_stranger(folder: Path, _: Path, shop: Workshop) -> None:
        shutil.rmtree(folder)
        trust = shop.stranger.trust
        SignedIndex.open(folder, trust.root, trust.identity, ISSUER).append([{"n": n} for n in range(1, 5)], trust)

    def lines(content: str) -> Callable[[Path, Path, Workshop], Any]:
        return lambda folder, _, __: (folder / LINES).write_text(content)

    yield case("unspoilt", "nothing", lambda *_: None, UNSPOILT)
    yield case("rolled-back", "an earlier state, genuinely signed then", rolled_back)
    yield case("forked", "another history behind a common beginning, genuinely signed", forked)
    yield case("begun-again", "a new index of the same entries and one more, genuinely signed", begun_again)
    yield case("emptied", "nothing there any more", lambda folder, _, __: shutil.rmtree(folder))
    yield case("of-a-strangers", "a stranger's index in its place", by_a_stranger, "time")
    yield case("with-a-line-less", "the last line missing", lines('{"n":1}\n{"n":2}\n'))
    yield case("with-a-line-changed", "a line in the middle changed", lines('{"n":1}\n{"n":7}\n{"n":3}\n'))
    yield case("with-lines-exchanged", "two lines exchanged", lines('{"n":2}\n{"n":1}\n{"n":3}\n'))
    yield case("with-half-a-line", "half of the last line", lines('{"n":1}\n{"n":2}\n{"n":'))
    yield case("with-a-space", "a space that JSON does not see", lines('{"n":1}\n{"n": 2}\n{"n":3}\n'))
    yield case("without-lines", "a checkpoint and no lines", lambda folder, _, __: (folder / LINES).unlink())
    yield case("without-a-checkpoint", "lines and no checkpoint", lambda folder, _, __: (folder / CHECKPOINT).unlink())
    yield case(
        "with-an-old-checkpoint",
        "the lines of today under a checkpoint of before",
        lambda folder, old, _: shutil.copy(old / CHECKPOINT, folder / CHECKPOINT),
    )
    yield case(
        "with-a-records-bundle-for-a-checkpoint",
        "a record's bundle in the checkpoint's place",
        lambda folder, _, shop: (folder / CHECKPOINT).write_bytes(shop.good.bundle),
        "predicate_type",
    )
    yield case(
        "with-a-checkpoint-cut-off",
        "half a checkpoint",
        lambda folder, _, __: (folder / CHECKPOINT).write_bytes((folder / CHECKPOINT).read_bytes()[:500]),
        "bundle",
    )


def logs() -> Iterator[Case]:
    """The local log against a checkpoint that a verifier kept, and against its own head."""

    def consistency(
        name: str, words: str, make: Callable[[Workshop], tuple[bytes, bytes]], reason: str = "log_proof"
    ) -> Case:
        """`make` gives a proof and the note that was kept."""

        def paper(shop: Workshop) -> Paper:
            proof, kept = make(shop)
            return Paper(lambda: checkpoints.check_consistency(proof, kept, shop.own.trust.root, "proof"))

        return Case(f"log-{name}", words, reason, "V22 (rewritten, shrunk, forked), 3", paper)

    def noted(shop: Workshop) -> bytes:
        return shop.own.trust.log.head().checkpoint.encode()

    def proven(shop: Workshop) -> tuple[bytes, bytes]:
        kept = noted(shop)
        for _ in range(3):
            shop.bundle(shop.own.statement())
        return checkpoints.prove(shop.own.trust.log, kept, shop.own.trust.root, "kept").content(), kept

    def edited(change: Callable[[bytes], bytes]) -> Callable[[Workshop], tuple[bytes, bytes]]:
        def make(shop: Workshop) -> tuple[bytes, bytes]:
            proof, kept = proven(shop)
            return change(proof), kept

        return make

    def of_another_log(shop: Workshop) -> tuple[bytes, bytes]:
        proof, _ = proven(shop)
        shop.stranger.bundle()
        return proof, shop.stranger.trust.log.head().checkpoint.encode()

    def forked(shop: Workshop) -> tuple[bytes, bytes]:
        """A second log of the same key, as long as the kept one was: what only its owner can make."""
        proof, _ = proven(shop)
        log = LocalLog.create(shop.shelf("fork") / "log", shop.own.keys)
        for number in range(3):
            log.append(b'{"n":%d}' % number)
        return proof, log.head().checkpoint.encode()

    yield consistency("unspoilt", "nothing", proven, UNSPOILT)
    yield consistency("forked", "a second log of the same key", forked)
    yield consistency("of-another-key", "another log's checkpoint", of_another_log)
    yield consistency("proof-empty", "no proof", edited(lambda _: b""))
    yield consistency("proof-not-json", "no JSON for a proof", edited(lambda _: b"proof"))
    yield consistency("proof-cut-off", "half a proof", edited(lambda proof: proof[: len(proof) // 2]))
    yield consistency(
        "proof-with-a-field-more", "a field more in a proof", edited(lambda proof: b'{"a":1,' + proof[1:])
    )

    def rewritten(change: Callable[[Path], Any], words: str, name: str) -> Case:
        def paper(shop: Workshop) -> Paper:
            log = LocalLog.create(shop.shelf("log") / "log", shop.own.keys)
            for number in range(3):
                log.append(b'{"n":%d}' % number)
            change(log._entries)
            return Paper(log.audit)

        return Case(f"log-{name}", words, "replay", "V22 (rewritten, shrunk, forked), 3", paper)

    yield rewritten(
        lambda path: path.write_bytes(path.read_bytes().replace(b"1", b"7")),
        "an entry changed under its head",
        "with-an-entry-changed",
    )
    yield rewritten(lambda path: path.write_bytes(path.read_bytes()[:8]), "entries cut off under their head", "shrunk")
    yield rewritten(lambda path: path.write_bytes(b""), "every entry gone", "emptied")


def premises() -> list[Case]:
    """A verdict, an index, a consistency proof and an anchor as they were before they were changed."""
    return [case for case in _all() if case.reason == UNSPOILT]


def cases() -> list[Case]:
    return [*policies(), *(case for case in _all() if case.reason != UNSPOILT)]


def _all() -> Iterator[Case]:
    for family in (verdicts, indexes, logs, anchors):
        yield from family()
