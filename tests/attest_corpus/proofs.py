"""Bundles that were edited after they were made: proofs, checkpoints, clocks, and parts of another one."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Any

from tests.attest_corpus import Attested, Case
from tests.attest_corpus.shapes import Change, b64, edit, envelope, flipped, material, proof
from tests.attest_corpus.workshop import Workshop
from tests.attest_forge import entry, stamps


def note_line(number: int, into: Callable[[str], str]) -> Change:
    """The checkpoint's text with one line exchanged."""

    def change(bundle: dict[str, Any]) -> None:
        checkpoint = proof(bundle)["checkpoint"]
        lines = checkpoint["envelope"].split("\n")
        lines[number] = into(lines[number])
        checkpoint["envelope"] = "\n".join(lines)

    return change


def note(into: Callable[[str], str]) -> Change:
    def change(bundle: dict[str, Any]) -> None:
        checkpoint = proof(bundle)["checkpoint"]
        checkpoint["envelope"] = into(checkpoint["envelope"])

    return change


def notes() -> Iterator[Case]:
    """Checkpoints that are no signed note of one form."""
    forms: dict[str, tuple[str, Change]] = {
        "size-as-words": ("the size in words", note_line(1, lambda _: "five")),
        "size-negative": ("a negative size", note_line(1, lambda _: "-5")),
        "size-with-a-zero-before-it": ("a zero before the size", note_line(1, lambda line: f"0{line}")),
        "root-not-base64": ("a root that is no base64", note_line(2, lambda _: "***")),
        "root-short": ("a root of three bytes", note_line(2, lambda _: "AAAA")),
        "origin-empty": ("an empty origin", note_line(0, lambda _: "")),
        "no-blank-line": ("no blank line before the signatures", note(lambda text: text.replace("\n\n", "\n"))),
        "two-blank-lines": ("a second blank line", note(lambda text: text.replace("\n\n", "\n\n\n\n"))),
        "no-signature": ("no signature line", note(lambda text: text.partition("\n\n")[0] + "\n\n")),
        "signature-without-a-dash": (
            "a signature line without its dash",
            note(lambda text: text.replace("\u2014", "-")),
        ),
        "signature-not-base64": ("a signature that is no base64", note(lambda text: text[:-4] + "***\n")),
        "signature-short": ("a signature of two bytes", note(lambda text: text.rpartition(" ")[0] + " AAA=\n")),
        "no-line-feed-at-the-end": ("no line feed at the end", note(lambda text: text.rstrip("\n"))),
        "carriage-returns": ("lines of another system", note(lambda text: text.replace("\n", "\r\n"))),
        "empty": ("nothing", note(lambda _: "")),
        "a-control-character": ("a bell in the origin", note_line(0, lambda line: f"{line}\a")),
        "a-hundred-signature-lines": (
            "a hundred signature lines",
            note(lambda text: text + text.split("\n\n")[1] * 100),
        ),
        "a-line-without-end": ("a line of a million letters", note_line(0, lambda _: "a" * 1_000_000)),
        "number-for-text": ("a number instead of a note", lambda b: proof(b)["checkpoint"].update(envelope=1)),
    }
    proven = {"a-line-without-end"}
    for name, (words, change) in forms.items():
        yield edit(
            f"checkpoint-{name}",
            f"a checkpoint with {words}",
            "log_proof" if name in proven else "bundle",
            "V7, V8, sigstore-python #1826",
            change,
        )


def from_other(
    name: str, defect: str, reason: str, rows: str, change: Callable[..., Any], *, earlier: bool = False
) -> Case:
    """`change` takes the bundle and another good one of the same signer, made later (by default) or before it."""

    def make(shop: Workshop) -> Attested:
        other = shop.parsed(shop.earlier if earlier else shop.later)
        return shop.edited(lambda bundle: change(bundle, other))

    return Case(name, defect, reason, rows, make)


def parts_of_another() -> Iterator[Case]:
    """Every part is genuine, and two bundles of one signer are mixed."""

    def envelopes(bundle: dict[str, Any], other: dict[str, Any]) -> None:
        bundle["dsseEnvelope"] = other["dsseEnvelope"]

    def both(bundle: dict[str, Any], other: dict[str, Any]) -> None:
        envelopes(bundle, other)
        stamps(bundle)[:] = stamps(other)

    yield edit(
        "payload-exchanged",
        "another payload under the signature",
        "signature",
        "V4",
        lambda b: envelope(b).update(payload=b64(b'{"a":1}')),
    )
    yield edit(
        "payload-with-a-line-feed",
        "a line feed behind the payload",
        "signature",
        "V4",
        lambda b: envelope(b).update(payload=b64(base64.b64decode(envelope(b)["payload"]) + b"\n")),
    )
    yield edit(
        "payload-type-edited",
        "a letter of the payload's type",
        "signature",
        "V4",
        lambda b: envelope(b).update(payloadType="application/vnd.in-toto+jsom"),
    )
    yield edit(
        "payload-type-in-capitals",
        "the payload's type in capitals",
        "signature",
        "V4",
        lambda b: envelope(b).update(payloadType="APPLICATION/VND.IN-TOTO+JSON"),
    )
    yield from_other(
        "envelope-and-timestamp-of-another", "envelope and timestamp of another bundle", "signature", "V4", both
    )
    yield from_other(
        "certificate-of-another",
        "the same signer's certificate for another key",
        "signature",
        "V4",
        lambda b, o: material(b).update(certificate=material(o)["certificate"]),
        earlier=True,
    )
    yield edit(
        "signature-edited",
        "a bit of the signature",
        "time",
        "V5",
        lambda b: envelope(b)["signatures"][0].update(sig=flipped(envelope(b)["signatures"][0]["sig"], 40)),
    )
    yield from_other(
        "signature-of-another",
        "another bundle's signature, this one's timestamp",
        "time",
        "V5",
        lambda b, o: envelope(b).update(signatures=envelope(o)["signatures"]),
    )
    yield from_other("envelope-of-another", "another bundle's envelope, this one's timestamp", "time", "V5", envelopes)
    yield from_other(
        "timestamp-of-another",
        "another bundle's timestamp",
        "time",
        "V5, V11",
        lambda b, o: stamps(b).__setitem__(slice(None), stamps(o)),
    )
    yield from_other(
        "log-entry-of-another",
        "a proven entry of somebody else's signature",
        "log_entry",
        "V6, CVE-2026-22703, CVE-2022-36056",
        lambda b, o: material(b).update(tlogEntries=material(o)["tlogEntries"]),
    )
    yield from_other(
        "log-entry-body-of-another",
        "another entry's body under this one's proof",
        "log_proof",
        "V6, V8",
        lambda b, o: entry(b).update(canonicalizedBody=entry(o)["canonicalizedBody"]),
    )
    yield from_other(
        "checkpoint-of-another-size",
        "a genuine checkpoint of the tree some entries later",
        "log_proof",
        "V8",
        lambda b, o: proof(b).update(checkpoint=proof(o)["checkpoint"]),
    )
    yield from_other(
        "proof-of-another",
        "another entry's proof",
        "log_proof",
        "V8",
        lambda b, o: entry(b).update(inclusionProof=proof(o)),
    )


def proofs() -> Iterator[Case]:
    """The log's side of a bundle, edited."""

    def one(name: str, defect: str, rows: str, change: Change) -> Case:
        return edit(name, defect, "log_proof", rows, change)

    def hint(bundle: dict[str, Any]) -> None:
        checkpoint = proof(bundle)["checkpoint"]
        before, _, signature = checkpoint["envelope"].rstrip("\n").rpartition(" ")
        checkpoint["envelope"] = f"{before} {flipped(signature, 0)}\n"

    def signer(text: str) -> str:
        head, signed = text.split("\n\n")
        return f"{head}\n\n{signed.replace('.log.local.invalid', '.log.other.invalid')}"

    yield one(
        "proof-hash-edited",
        "a bit of a hash of the proof",
        "V8",
        lambda b: proof(b)["hashes"].__setitem__(0, flipped(proof(b)["hashes"][0])),
    )
    yield one("proof-hash-removed", "a hash of the proof missing", "V8", lambda b: proof(b)["hashes"].pop())
    yield one(
        "proof-hash-added", "a hash of the proof too many", "V8", lambda b: proof(b)["hashes"].append(b64(bytes(32)))
    )
    yield one(
        "proof-hashes-in-another-order",
        "two hashes of the proof exchanged",
        "V8",
        lambda b: proof(b)["hashes"].append(proof(b)["hashes"].pop(0)),
    )
    yield edit("proof-without-hashes", "a proof without hashes", "bundle", "V7", lambda b: proof(b).pop("hashes"))
    yield one(
        "proof-root-edited",
        "a bit of the root",
        "V8",
        lambda b: proof(b).update(rootHash=flipped(proof(b)["rootHash"])),
    )
    yield one(
        "proof-index-edited",
        "the proof's index, less by one",
        "V8",
        lambda b: proof(b).update(logIndex=str(int(proof(b)["logIndex"]) - 1)),
    )
    yield one(
        "proof-index-beyond-its-tree",
        "an index as large as the tree",
        "V8",
        lambda b: proof(b).update(logIndex=proof(b)["treeSize"]),
    )
    yield one(
        "tree-size-less-by-one",
        "the tree's size, less by one",
        "V8",
        lambda b: proof(b).update(treeSize=str(int(proof(b)["treeSize"]) - 1)),
    )
    yield one(
        "tree-size-more-by-one",
        "the tree's size, more by one",
        "V8",
        lambda b: proof(b).update(treeSize=str(int(proof(b)["treeSize"]) + 1)),
    )
    yield one("tree-size-zero", "an empty tree", "V8", lambda b: proof(b).update(treeSize="0", logIndex="0"))
    yield one("checkpoint-size-edited", "the checkpoint's size", "V8", note_line(1, lambda _: "99"))
    yield one("checkpoint-root-edited", "the checkpoint's root", "V8", note_line(2, flipped))
    yield one("checkpoint-origin-edited", "the checkpoint's origin", "V8", note_line(0, lambda _: "other.invalid"))
    yield one(
        "checkpoint-with-a-further-line",
        "a line behind the checkpoint's root",
        "V8",
        note_line(2, lambda line: f"{line}\nTimestamp: 1"),
    )
    yield one(
        "checkpoint-signature-edited",
        "a bit of the checkpoint's signature",
        "V8",
        note(lambda text: text.rpartition(" ")[0] + " " + flipped(text.rstrip("\n").rpartition(" ")[2], 30) + "\n"),
    )
    yield one("checkpoint-signer-renamed", "another name at the checkpoint's signature", "V8, V24", note(signer))
    yield one("checkpoint-signer-hint-edited", "another key hint at the checkpoint's signature", "V8, V24", hint)
    yield one(
        "checkpoint-signed-twice",
        "the log's signature line twice",
        "V8, V24",
        note(lambda text: text + text.split("\n\n")[1]),
    )
    yield one(
        "log-index-edited",
        "the entry's logIndex is not the proven one",
        "V9",
        lambda b: entry(b).update(logIndex="77777"),
    )
    yield one(
        "log-index-less-by-one",
        "the entry's logIndex, less by one",
        "V9",
        lambda b: entry(b).update(logIndex=str(int(entry(b)["logIndex"]) - 1)),
    )
    yield one(
        "log-id-edited",
        "a bit of the log's id",
        "V24",
        lambda b: entry(b)["logId"].update(keyId=flipped(entry(b)["logId"]["keyId"])),
    )
    yield one(
        "log-id-with-a-true-hint",
        "a log id whose first four bytes alone are right",
        "V24",
        lambda b: entry(b)["logId"].update(keyId=flipped(entry(b)["logId"]["keyId"], 20)),
    )
    yield one(
        "log-id-short",
        "the first four bytes of the log's id",
        "V24",
        lambda b: entry(b)["logId"].update(keyId=b64(base64.b64decode(entry(b)["logId"]["keyId"])[:4])),
    )
    yield edit(
        "entry-kind-renamed",
        "another kind of entry than the proven one",
        "log_entry",
        "V6",
        lambda b: entry(b)["kindVersion"].update(kind="dsse"),
    )
    yield edit(
        "entry-version-of-rekor-v1",
        "version 0.0.1 over an entry of 0.0.2",
        "bundle",
        "V6, V7",
        lambda b: entry(b)["kindVersion"].update(version="0.0.1"),
    )


def times() -> Iterator[Case]:
    """Who says when: timestamps taken away, added, repeated."""

    def promise(bundle: dict[str, Any]) -> None:
        entry(bundle).update(integratedTime="1790000000", inclusionPromise={"signedEntryTimestamp": "AAAA"})

    yield edit("no-timestamps", "no timestamps", "bundle", "V10", lambda b: stamps(b).clear())
    yield edit(
        "no-timestamps-but-a-time",
        "an unsigned time instead of timestamps",
        "bundle",
        "V10",
        lambda b: (stamps(b).clear(), entry(b).update(integratedTime="1790000000")),
    )
    yield edit(
        "no-timestamps-but-a-promise",
        "a forged promise instead of timestamps",
        "bundle",
        "V10, V11",
        lambda b: (stamps(b).clear(), promise(b)),
    )
    yield edit("promise-of-a-log-that-makes-none", "a promise beside an entry of Rekor v2", "time", "V11", promise)
    yield edit(
        "time-of-a-log-that-keeps-none",
        "an unsigned time beside an entry of Rekor v2",
        "time",
        "V11",
        lambda b: entry(b).update(integratedTime="1790000000"),
    )
    yield edit("timestamp-twice", "the same timestamp twice", "time", "V11", lambda b: stamps(b).append(stamps(b)[0]))
    yield edit(
        "thirty-three-timestamps",
        "33 timestamps",
        "time",
        "V11, CVE-2025-66564",
        lambda b: stamps(b).extend(stamps(b) * 32),
    )
    yield edit(
        "timestamp-empty", "an empty timestamp", "bundle", "V7", lambda b: stamps(b)[0].update(signedTimestamp="")
    )
    yield edit(
        "timestamp-that-is-none",
        "three bytes for a timestamp",
        "bundle",
        "V7, V11",
        lambda b: stamps(b)[0].update(signedTimestamp="AAAA"),
    )
    yield edit(
        "timestamp-cut-off",
        "a timestamp without its last byte",
        "bundle",
        "V7, V11",
        lambda b: stamps(b)[0].update(signedTimestamp=b64(base64.b64decode(stamps(b)[0]["signedTimestamp"])[:-1])),
    )
    yield edit(
        "timestamp-with-bytes-behind-it",
        "a byte behind a timestamp's DER",
        "bundle",
        "V24",
        lambda b: stamps(b)[0].update(signedTimestamp=b64(base64.b64decode(stamps(b)[0]["signedTimestamp"]) + b"\0")),
    )

    def one_more(bundle: dict[str, Any], other: dict[str, Any]) -> None:
        stamps(bundle).extend(stamps(other))

    yield from_other(
        "timestamp-of-another-beside-its-own",
        "another signature's timestamp beside its own",
        "time",
        "V5, V11",
        one_more,
    )


def cases() -> list[Case]:
    return [*notes(), *parts_of_another(), *proofs(), *times()]
