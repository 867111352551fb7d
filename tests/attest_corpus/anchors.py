"""Anchors: the local log's checkpoint, signed by a deployment, and the document that ties a record's entry to it."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from attest import anchor, statement
from attest.bundle import parse
from attest.checks import Verified
from attest.local.proofs import inclusion
from attest.roots import PinnedRoot
from attest.signing import sign_record, sign_statement
from attest.statement import LOG_CHECKPOINT_TYPE
from tests.attest_corpus import ISSUER, UNSPOILT, Case, Paper
from tests.attest_corpus.shapes import b64, flipped
from tests.attest_corpus.workshop import Workshop
from tests.attest_forge import RECORD, claims
from tests.lab import lab_root

Shown = Callable[[Workshop, dict[str, Any]], bytes]
"""Changes the document, and gives the bundle of the record that it is shown beside."""


def anchors() -> Iterator[Case]:
    yield _case("unspoilt", "nothing", UNSPOILT, _edited(lambda _: None))
    yield from _clocks()
    yield from _documents()
    yield from _records()
    yield from _statements()


def _case(
    name: str, words: str, reason: str, shown: Shown, *, root_of: Callable[[PinnedRoot], PinnedRoot] = lab_root
) -> Case:
    def make(shop: Workshop) -> Paper:
        lab = shop.stranger.trust
        kept = anchor.anchor(shop.own.trust, lab)
        value = json.loads(anchor.document(shop.own.trust, kept, shop.good.bundle))
        record = shown(shop, value)
        content = json.dumps(value).encode()
        verified = Verified(RECORD, {}, {}, shop.own.identity, ISSUER, datetime.now(UTC), "local")

        def read() -> None:
            found = anchor.read_anchor(content, root_of(lab.root), lab.identity, ISSUER)
            anchor.anchor_check(found, record).run(verified)

        return Paper(read, value.get("bundle", "").encode() or None, lab.root.content, lab.identity)

    return Case(f"anchor-{name}", words, reason, "V22, 3 (anchor)", make)


def _edited(change: Callable[[dict[str, Any]], Any]) -> Shown:
    """The document alone, beside the record that it is for."""

    def shown(shop: Workshop, value: dict[str, Any]) -> bytes:
        change(value)
        return shop.good.bundle

    return shown


def _clocks() -> Iterator[Case]:
    def promoted(root: PinnedRoot) -> PinnedRoot:
        return PinnedRoot("lab", root.content, root.sha256, "private")

    clock, unchanged = "an anchor by a clock that its signer sets", _edited(lambda _: None)
    yield _case("by-a-local-clock", clock, "time", unchanged, root_of=lambda root: root)
    words = f"{clock}, its root called private"
    yield _case("by-a-local-clock-called-private", words, "trust_root", unchanged, root_of=promoted)


def _documents() -> Iterator[Case]:
    def bundle(change: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], Any]:
        def edit(value: dict[str, Any]) -> None:
            inner = json.loads(value["bundle"])
            change(inner)
            value["bundle"] = json.dumps(inner, ensure_ascii=False)

        return edit

    changes: dict[str, tuple[str, str, Callable[[dict[str, Any]], Any]]] = {
        "of-another-entry": ("the proof of another entry", "log_proof", lambda v: v.update(index=v["index"] - 1)),
        "of-no-entry": ("an entry beyond the anchored tree", "log_proof", lambda v: v.update(index=10**6)),
        "without-its-proof": ("no proof", "log_proof", lambda v: v.update(hashes=[])),
        "with-a-hash-edited": (
            "a bit of its proof",
            "log_proof",
            lambda v: v["hashes"].__setitem__(0, flipped(v["hashes"][0])),
        ),
        "over-another-checkpoint": (
            "another checkpoint than the one that was signed",
            "subject",
            lambda v: v.update(checkpoint=v["checkpoint"].replace("\n\n", "\nx\n\n", 1)),
        ),
        "with-a-field-more": ("a field that nobody reads", "bundle", lambda v: v.update(extra=1)),
        "without-a-bundle": ("nobody's signature", "bundle", lambda v: v.pop("bundle")),
        "with-another-payload": (
            "another payload under its signature",
            "signature",
            bundle(lambda v: v["dsseEnvelope"].update(payload="e30=")),
        ),
    }
    for name, (words, reason, change) in changes.items():
        yield _case(name, words, reason, _edited(change))


def _records() -> Iterator[Case]:
    """A genuine anchor beside a record that it does not cover."""

    def size_of(value: dict[str, Any]) -> int:
        return int(value["checkpoint"].split("\n")[1])

    def path_in(shop: Workshop, value: dict[str, Any], index: int) -> list[str]:
        return [b64(one) for one in inclusion(index, shop.own.trust.log.leaves(size_of(value)))]

    def of_another_log(shop: Workshop, _: dict[str, Any]) -> bytes:
        return shop.stranger.bundle(shop.own.statement(), subject=shop.own.identity)

    def of_another_log_at_its_place(shop: Workshop, value: dict[str, Any]) -> bytes:
        shown = of_another_log(shop, value)
        value["index"] = parse(shown).entry.proof_index
        return shown

    def signed_after(shop: Workshop, value: dict[str, Any]) -> bytes:
        shown = shop.own.bundle()
        proof = json.loads(shown)["verificationMaterial"]["tlogEntries"][0]["inclusionProof"]
        value.update(index=parse(shown).entry.proof_index, hashes=proof["hashes"])
        return shown

    def signed_after_at_the_end(shop: Workshop, value: dict[str, Any]) -> bytes:
        last = size_of(value) - 1
        value.update(index=last, hashes=path_in(shop, value, last))
        return shop.own.bundle()

    def by_another_path(shop: Workshop, value: dict[str, Any]) -> bytes:
        value["hashes"] = path_in(shop, value, value["index"] + 1)
        return shop.good.bundle

    later = "the record was signed after the anchor"
    cases: dict[str, tuple[str, Shown]] = {
        "of-a-record-in-another-log": ("the record is in another log", of_another_log),
        "of-a-record-in-another-log-at-its-place": (
            "the record is in another log, at the place that is told",
            of_another_log_at_its_place,
        ),
        "older-than-the-record": (f"{later}: its path in today's tree", signed_after),
        "older-than-the-record-at-its-end": (f"{later}: the path of the last entry before it", signed_after_at_the_end),
        "with-another-entrys-path": ("a genuine path, of another entry", by_another_path),
    }
    for name, (words, shown) in cases.items():
        yield _case(name, words, "log_proof", shown)


def _statements() -> Iterator[Case]:
    """Genuine signatures of the deployment's that are no anchor of this checkpoint."""

    def about(*, note: str | None = None, **said: Any) -> Shown:
        def shown(shop: Workshop, value: dict[str, Any]) -> bytes:
            origin, size, root = value["checkpoint"].split("\n")[:3]
            predicate = {"origin": origin, "size": int(size), "root": base64.b64decode(root).hex(), **said}
            subject = (note or value["checkpoint"]).encode()
            stated = statement.build("checkpoint", subject, predicate, LOG_CHECKPOINT_TYPE)
            value["bundle"] = sign_statement(shop.stranger.trust, stated, LOG_CHECKPOINT_TYPE).decode()
            return shop.good.bundle

        return shown

    def of_a_record(shop: Workshop, value: dict[str, Any]) -> bytes:
        value["bundle"] = sign_record(shop.stranger.trust, RECORD, claims()).decode()
        return shop.good.bundle

    cases: dict[str, tuple[str, str, Shown]] = {
        "whose-statement-says-more-entries": ("its statement says a larger tree", "statement", about(size=10**6)),
        "whose-statement-says-another-root": ("its statement says another tree", "statement", about(root="0" * 64)),
        "whose-statement-says-another-log": ("its statement says another log", "statement", about(origin="other.log")),
        "whose-statement-is-about-another-note": ("a statement about another note", "subject", about(note="a\n1\n")),
        "by-a-records-signature": ("the deployment's signature of a record", "predicate_type", of_a_record),
    }
    for name, (words, reason, shown) in cases.items():
        yield _case(name, words, reason, shown)
