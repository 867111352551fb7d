"""Entries of Rekor v1's form (`dsse` 0.0.1), as the public instance makes them: promises, global indexes, trees."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from attest import canonical
from attest.local.keys import key_id
from tests.attest_corpus import Attested, Case
from tests.attest_corpus.proofs import note, note_line
from tests.attest_corpus.shapes import b64, envelope, flipped, material, proof
from tests.attest_corpus.workshop import Workshop
from tests.attest_forge import LogOfV1, SkewedClock, entry, stamps

Change = Callable[[dict[str, Any]], Any]


def edit(name: str, defect: str, reason: str, rows: str, change: Change, *, promised: bool = False) -> Case:
    """Of the bundle with promise and timestamp, or of the one whose promise is the only clock."""
    return Case(
        f"v1-{name}",
        f"{defect} (Rekor v1)",
        reason,
        rows,
        lambda shop: shop.edited(change, shop.promised if promised else shop.stamped),
    )


def promises() -> Iterator[Case]:
    def without(*keys: str) -> Change:
        return lambda b: [entry(b).pop(key) for key in keys]

    def forged(bundle: dict[str, Any], **fields: Any) -> None:
        entry(bundle).update(inclusionPromise={"signedEntryTimestamp": b64(bytes(70))}, **fields)

    yield edit("no-promise", "no promise, a timestamp beside it", "bundle", "V7, V11", without("inclusionPromise"))
    yield edit(
        "no-promise-and-no-clock",
        "no promise, and no timestamp",
        "bundle",
        "V10",
        without("inclusionPromise"),
        promised=True,
    )
    yield edit(
        "no-time", "a promise without its time, a timestamp beside it", "bundle", "V7, V11", without("integratedTime")
    )
    yield edit(
        "no-time-and-no-clock", "a promise without its time", "bundle", "V10", without("integratedTime"), promised=True
    )
    yield edit(
        "neither-promise-nor-time",
        "neither promise nor time",
        "bundle",
        "V7, V11",
        without("inclusionPromise", "integratedTime"),
    )
    yield edit(
        "time-without-promise-edited",
        "a time that no promise signs",
        "bundle",
        "V10, sigstore-js #1659",
        lambda b: (entry(b).pop("inclusionPromise"), entry(b).update(integratedTime="5")),
    )
    yield edit(
        "index-edited-without-promise",
        "another index, and the promise that signs it taken away",
        "bundle",
        "V9",
        lambda b: (entry(b).pop("inclusionPromise"), entry(b).update(logIndex="7")),
    )
    yield edit(
        "index-edited-with-an-unread-promise",
        "another index under a promise that nobody reads without a time",
        "bundle",
        "V9",
        lambda b: (entry(b).pop("integratedTime"), forged(b, logIndex="7")),
    )
    yield edit(
        "time-zero",
        "a time of zero, which a library takes for none",
        "bundle",
        "V9, V11",
        lambda b: forged(b, integratedTime="0", logIndex="7"),
    )
    yield edit("promise-forged", "a promise of zeros", "log_proof", "V11", forged)
    yield edit(
        "promise-forged-the-only-clock",
        "a promise of zeros as the only clock",
        "log_proof",
        "V11",
        forged,
        promised=True,
    )
    yield edit(
        "promise-edited",
        "a bit of the promise",
        "log_proof",
        "V8",
        lambda b: entry(b)["inclusionPromise"].update(
            signedEntryTimestamp=flipped(entry(b)["inclusionPromise"]["signedEntryTimestamp"], 40)
        ),
    )
    yield edit(
        "promise-empty",
        "an empty promise",
        "bundle",
        "V7",
        lambda b: entry(b)["inclusionPromise"].update(signedEntryTimestamp=""),
    )
    yield edit(
        "promise-with-a-field-more",
        "a field more in the promise",
        "bundle",
        "V7",
        lambda b: entry(b)["inclusionPromise"].update(extra=1),
    )
    yield edit(
        "time-edited",
        "a second more than promised",
        "log_proof",
        "V8, V11",
        lambda b: entry(b).update(integratedTime=str(int(entry(b)["integratedTime"]) + 1)),
    )
    yield edit(
        "time-beyond-every-calendar",
        "a time of eighteen digits",
        "time",
        "V11",
        lambda b: entry(b).update(integratedTime="9" * 18),
        promised=True,
    )
    yield edit(
        "log-index-edited",
        "the entry's index is not the promised one",
        "log_proof",
        "V9",
        lambda b: entry(b).update(logIndex="77777"),
    )
    for minutes, word in ((30, "after"), (-30, "before")):
        yield Case(
            f"v1-integrated-{word}-the-certificate",
            f"integrated {word} the certificate's time, by its promise (Rekor v1)",
            "certificate",
            "V12",
            _skewed(minutes),
        )


def _skewed(minutes: int) -> Callable[[Workshop], Attested]:
    return lambda shop: shop.held(
        shop.own.bundle(context=shop.own.context_of_v1(stamped=False, skew=timedelta(minutes=minutes)))
    )


def proofs() -> Iterator[Case]:
    tree = str(LogOfV1.TREE)
    yield edit(
        "proof-index-edited",
        "the proof's index, less by one",
        "log_proof",
        "V8",
        lambda b: proof(b).update(logIndex=str(int(proof(b)["logIndex"]) - 1)),
    )
    yield edit(
        "proof-index-is-the-logs",
        "the log's index for the tree's",
        "log_proof",
        "V8",
        lambda b: proof(b).update(logIndex=entry(b)["logIndex"]),
    )
    yield edit(
        "proof-root-edited",
        "a bit of the root",
        "log_proof",
        "V8",
        lambda b: proof(b).update(rootHash=flipped(proof(b)["rootHash"])),
    )
    yield edit(
        "proof-hash-edited",
        "a bit of a hash of the proof",
        "log_proof",
        "V8",
        lambda b: proof(b)["hashes"].__setitem__(0, flipped(proof(b)["hashes"][0])),
    )
    yield edit(
        "proof-missing",
        "a promise alone, as in bundles of version 0.1",
        "bundle",
        "V7",
        lambda b: entry(b).pop("inclusionProof"),
        promised=True,
    )
    yield edit(
        "checkpoint-of-another-tree",
        "another tree's number in the checkpoint",
        "log_proof",
        "V8",
        note(lambda text: text.replace(tree, tree[::-1])),
    )
    yield edit(
        "checkpoint-without-a-tree",
        "no tree in the checkpoint",
        "log_proof",
        "V8",
        note(lambda text: text.replace(f" - {tree}", "")),
    )
    yield edit("checkpoint-size-edited", "the checkpoint's size", "log_proof", "V8", note_line(1, lambda _: "99"))
    yield edit(
        "log-id-edited",
        "a bit of the log's id",
        "log_proof",
        "V24",
        lambda b: entry(b)["logId"].update(keyId=flipped(entry(b)["logId"]["keyId"])),
    )
    yield edit(
        "kind-renamed",
        "hashedrekord over a dsse entry",
        "log_entry",
        "V6",
        lambda b: entry(b)["kindVersion"].update(kind="hashedrekord"),
    )
    yield edit(
        "version-of-rekor-v2",
        "version 0.0.2 over an entry of 0.0.1",
        "time",
        "V6, V11",
        lambda b: entry(b)["kindVersion"].update(version="0.0.2"),
    )
    yield edit(
        "kind-intoto",
        "an intoto entry, as cosign once made",
        "time",
        "V6, V11",
        lambda b: entry(b)["kindVersion"].update(kind="intoto"),
    )

    def of_another(bundle: dict[str, Any], other: dict[str, Any]) -> None:
        material(bundle)["tlogEntries"] = material(other)["tlogEntries"]

    def entry_of_v2(shop: Workshop) -> Attested:
        return shop.edited(lambda b: of_another(b, shop.parsed(shop.good)), shop.stamped)

    def entry_of_v1(shop: Workshop) -> Attested:
        return shop.edited(lambda b: of_another(b, shop.parsed(shop.stamped)))

    def entry_of_another_v1(shop: Workshop) -> Attested:
        return shop.edited(lambda b: of_another(b, shop.parsed(shop.promised)), shop.stamped)

    rows = "V6, CVE-2026-22703, CVE-2022-36056"
    yield Case(
        "v1-log-entry-of-another",
        "a proven entry of another signature of the same signer (Rekor v1)",
        "log_entry",
        rows,
        entry_of_another_v1,
    )
    yield Case(
        "v1-entry-of-a-v2-log",
        "another bundle's entry of Rekor v2 under a bundle of v1",
        "log_entry",
        rows,
        entry_of_v2,
    )
    yield Case(
        "v2-entry-of-a-v1-log",
        "another bundle's entry of Rekor v1 under a bundle of v2",
        "log_entry",
        rows,
        entry_of_v1,
    )


def signatures() -> Iterator[Case]:
    yield edit(
        "payload-exchanged",
        "another payload under the signature",
        "signature",
        "V4",
        lambda b: envelope(b).update(payload=b64(b'{"a":1}')),
    )
    yield edit(
        "payload-exchanged-the-promise-the-only-clock",
        "another payload under the signature",
        "signature",
        "V4",
        lambda b: envelope(b).update(payload=b64(b'{"a":1}')),
        promised=True,
    )
    yield edit(
        "payload-type-edited",
        "a letter of the payload's type",
        "signature",
        "V4",
        lambda b: envelope(b).update(payloadType="application/vnd.in-toto+jsom"),
    )
    yield edit(
        "signature-edited",
        "a bit of the signature, no timestamp to notice",
        "signature",
        "V5",
        lambda b: envelope(b)["signatures"][0].update(sig=flipped(envelope(b)["signatures"][0]["sig"], 40)),
        promised=True,
    )
    yield edit("timestamp-twice", "the timestamp twice", "time", "V11", lambda b: stamps(b).append(stamps(b)[0]))

    def with_timestamp_of(other: Callable[[Workshop], Attested]) -> Callable[[Workshop], Attested]:
        def make(shop: Workshop) -> Attested:
            found = stamps(shop.parsed(other(shop)))
            return shop.edited(lambda b: stamps(b).__setitem__(slice(None), found), shop.stamped)

        return make

    def of_a_stranger(shop: Workshop) -> Attested:
        theirs = SkewedClock(shop.stranger.keys, shop.stranger.tsa, timedelta())
        return shop.held(shop.own.bundle(context=shop.own.context_of_v1(tsa=theirs)))

    yield Case(
        "v1-timestamp-of-another",
        "another signature's timestamp beside a good promise (Rekor v1)",
        "time",
        "V5, V11",
        with_timestamp_of(lambda shop: shop.later),
    )
    yield Case(
        "v1-timestamp-of-a-stranger",
        "a stranger's timestamp beside a good promise (Rekor v1)",
        "time",
        "V11",
        of_a_stranger,
    )
    yield edit(
        "timestamp-edited",
        "a bit of a timestamp beside a good promise",
        "time",
        "V11, V24",
        lambda b: stamps(b)[0].update(signedTimestamp=flipped(stamps(b)[0]["signedTimestamp"], -3)),
    )

    def other_body(change: Callable[[dict[str, Any]], Any], name: str, defect: str) -> Case:
        """The log took an entry that is not about this envelope, and promised it: everything of it is proven."""

        def make(shop: Workshop) -> Attested:
            bundle = shop.parsed(shop.stamped)
            body = json.loads(base64.b64decode(entry(bundle)["canonicalizedBody"]))
            change(body["spec"])
            own = shop.own
            log = own.log_of_v1(own.keys)
            content = canonical.dumps(body)
            placed = log.append(content)
            index, at = placed.index + log.ENTRIES_OF_OTHER_TREES, int(entry(bundle)["integratedTime"])
            log_id = key_id(own.keys.public("log"))
            promised = canonical.dumps(
                {"body": b64(content), "integratedTime": at, "logID": log_id.hex(), "logIndex": index}
            )
            entry(bundle).update(
                logIndex=str(index),
                canonicalizedBody=b64(content),
                inclusionPromise={"signedEntryTimestamp": b64(own.keys.sign("log", promised))},
                inclusionProof={
                    "logIndex": str(placed.index),
                    "treeSize": str(placed.size),
                    "rootHash": b64(placed.root),
                    "hashes": [b64(found) for found in placed.path],
                    "checkpoint": {"envelope": placed.checkpoint},
                },
            )
            return shop.stamped.but(bundle=json.dumps(bundle, ensure_ascii=False).encode())

        return Case(f"v1-entry-{name}", f"{defect} (Rekor v1)", "log_entry", "V6, CVE-2022-36056", make)

    yield other_body(
        lambda spec: spec["payloadHash"].update(value="0" * 64), "of-another-payload", "an entry about another payload"
    )
    yield other_body(
        lambda spec: spec["payloadHash"].update(algorithm="sha512"),
        "by-another-hash",
        "an entry that names another hash",
    )
    yield other_body(lambda spec: spec.update(signatures=[]), "without-signatures", "an entry without a signature")
    yield other_body(
        lambda spec: spec["signatures"].append(spec["signatures"][0]),
        "with-its-signature-twice",
        "an entry with the signature twice",
    )
    yield other_body(
        lambda spec: spec["signatures"][0].update(verifier=b64(b"somebody else")),
        "of-another-certificate",
        "an entry about another certificate",
    )
    yield other_body(
        lambda spec: spec["signatures"][0].update(signature=b64(b"another")),
        "of-another-signature",
        "an entry about another signature",
    )
    yield other_body(lambda spec: spec.pop("payloadHash"), "without-a-payload", "an entry that names no payload")


def cases() -> list[Case]:
    return [*promises(), *proofs(), *signatures()]
