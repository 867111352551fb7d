"""Genuine signatures over what is no statement of ours about this record; sigstore-python takes them all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any

from sigstore import dsse

from attest.statement import NAMESPACE, PAYLOAD_TYPE, PREDICATE_TYPE, STATEMENT_TYPE
from tests.attest_corpus import RECORD, Attested, Case
from tests.attest_corpus.workshop import Workshop
from tests.attest_forge import HEX, Forge, predicate

DIGEST = hashlib.sha256(RECORD).hexdigest()
RIGHT = {"name": "record.json", "digest": {"sha256": DIGEST}}


def signed(name: str, defect: str, reason: str, rows: str, payload: Callable[[Forge], bytes], **more: Any) -> Case:
    return Case(name, defect, reason, rows, lambda shop: shop.held(shop.bundle(payload(shop.own), **more)))


def payload_types() -> Iterator[Case]:
    for name, kind in {
        "json": "application/json",
        "plain-text": "text/plain",
        "with-a-parameter": f"{PAYLOAD_TYPE};v=2",
        "in-capitals": PAYLOAD_TYPE.upper(),
        "with-a-space": f"{PAYLOAD_TYPE} ",
        "empty": "",
        "of-dsse-v2": "application/vnd.in-toto.v2+json",
        "not-ascii": f"{PAYLOAD_TYPE}\u00e9",
    }.items():
        rows = "V16, sigstore-js #1657" if name == "not-ascii" else "V16"
        yield signed(
            f"payload-type-{name}-genuinely-signed",
            f"the genuine key signed the type {kind!r}",
            "payload_type",
            rows,
            lambda own: own.statement(),
            payload_type=kind,
        )

    def by_bytes(kind: str, content: bytes) -> bytes:
        """The pre-authentication encoding as its specification says it: lengths in bytes."""
        return b"DSSEv1 %d %s %d %s" % (len(kind.encode()), kind.encode(), len(content), content)

    def encoded(
        name: str, defect: str, rows: str, pae: Callable[[str, bytes], bytes], kind: str = PAYLOAD_TYPE
    ) -> Case:
        """In a log of Rekor v1's form, which is told an envelope and checks no signature here."""
        return Case(
            name,
            defect,
            "signature",
            rows,
            lambda shop: shop.held(shop.own.bundle(payload_type=kind, pae=pae, context=shop.own.context_of_v1())),
        )

    yield encoded(
        "payload-type-not-ascii-signed-by-the-letter",
        "lengths counted in bytes, as DSSE says",
        "V4, sigstore-js #1657",
        by_bytes,
        f"{PAYLOAD_TYPE}\u00e9",
    )
    yield encoded(
        "signature-over-the-bare-payload",
        "the payload itself is signed, without its encoding",
        "V4",
        lambda _, content: content,
    )
    yield encoded(
        "signature-over-another-length",
        "an encoding that states another length",
        "V4",
        lambda kind, content: dsse._pae(kind, content + b" ")[:-1],
    )


def predicate_types() -> Iterator[Case]:
    for name, kind in {
        "of-version-2": f"{NAMESPACE}benchmark-result/v2",
        "slsa-provenance": "https://slsa.dev/provenance/v1",
        "slsa-verification-summary": "https://slsa.dev/verification_summary/v1",
        "a-submission-act": f"{NAMESPACE}submission-act/v1",
        "a-log-checkpoint": f"{NAMESPACE}log-checkpoint/v1",
        "a-challenge": f"{NAMESPACE}challenge/v1",
        "with-a-slash": f"{PREDICATE_TYPE}/",
        "over-http": PREDICATE_TYPE.replace("https", "http"),
        "empty": "",
        "a-number": 1,
        "null-in-a-list": [None],
    }.items():
        yield signed(
            f"predicate-type-{name}",
            f"predicate type {kind!r}",
            "predicate_type",
            "V17, CVE-2026-39395",
            lambda own, kind=kind: own.statement(predicateType=kind),
        )


def not_statements() -> Iterator[Case]:
    forms: dict[str, tuple[str, Callable[[Forge], bytes]]] = {
        "statement-of-version-0.1": (
            "a Statement v0.1",
            lambda own: own.statement(_type="https://in-toto.io/Statement/v0.1"),
        ),
        "statement-of-version-2": (
            "a version that there is not",
            lambda own: own.statement(_type="https://in-toto.io/Statement/v2"),
        ),
        "statement-type-in-a-list": ("_type as a list", lambda own: own.statement(_type=[STATEMENT_TYPE])),
        "statement-without-a-type": ("no _type", lambda own: own.statement(_type=None)),
        "statement-without-a-predicate": ("no predicate", lambda own: own.statement(predicate=None)),
        "statement-without-a-predicate-type": ("no predicateType", lambda own: own.statement(predicateType=None)),
        "statement-with-a-field-more": ("a field more", lambda own: own.statement(extra=1)),
        "statement-not-json": ("no JSON", lambda _: b"not json"),
        "statement-empty-list": ("a list", lambda _: b"[]"),
        "statement-null": ("null", lambda _: b"null"),
        "statement-not-utf-8": ("no UTF-8", lambda _: b"\xff\xfe"),
        "statement-with-a-byte-order-mark": ("a byte order mark", lambda own: b"\xef\xbb\xbf" + own.statement()),
        "statement-with-subject-twice": (
            "the key subject twice",
            lambda own: own.statement().replace(b'"subject":', b'"subject":[],"subject":', 1),
        ),
        "statement-with-its-digest-twice": (
            "the key sha256 twice, ours last",
            lambda own: own.statement().replace(b'{"sha256":', b'{"sha256":"%s","sha256":' % HEX.encode(), 1),
        ),
        "statement-not-canonical": ("white space", lambda own: json.dumps(json.loads(own.statement())).encode()),
        "statement-with-keys-unsorted": (
            "keys in another order",
            lambda own: json.dumps(dict(reversed(json.loads(own.statement()).items())), separators=(",", ":")).encode(),
        ),
        "statement-with-a-line-feed": ("a line feed behind it", lambda own: own.statement() + b"\n"),
        "statement-with-an-escape": (
            "a letter as an escape",
            lambda own: own.statement().replace(b"record.json", b"\\u0072ecord.json"),
        ),
        "statement-nested-without-end": ("a thousand brackets", lambda _: b"[" * 1000 + b"]" * 1000),
        "statement-over-its-bound": (
            "over four mebibytes",
            lambda own: own.statement(predicate={"a": "a" * (4 << 20)}),
        ),
        "statement-is-the-record": ("the record itself, signed as a statement", lambda _: RECORD),
    }
    for name, (words, payload) in forms.items():
        rows = "V18, cosign v0.1 statements" if "version" in name else "V18"
        bound = name == "statement-over-its-bound"
        yield signed(
            name,
            f"a genuine signature over {words}",
            "statement",
            "V18, GHSA-cq38-jh5f-37mq" if bound else rows,
            payload,
        )


def subjects() -> Iterator[Case]:
    forms: dict[str, tuple[str, Any]] = {
        "subject-none": ("no subject", []),
        "subject-two": ("this record and another one", [RIGHT, {"name": "b", "digest": {"sha256": HEX}}]),
        "subject-twice": ("this record twice", [RIGHT, RIGHT]),
        "subject-ten-thousand": ("ten thousand subjects", [RIGHT] * 10_000),
        "subject-in-capitals": ("a digest in capitals", [{**RIGHT, "digest": {"sha256": DIGEST.upper()}}]),
        "subject-by-sha1": ("sha1 alone", [{**RIGHT, "digest": {"sha1": "0" * 40}}]),
        "subject-by-sha512": ("sha512 alone", [{**RIGHT, "digest": {"sha512": hashlib.sha512(RECORD).hexdigest()}}]),
        "subject-by-sha1-too": ("sha1 beside sha256", [{**RIGHT, "digest": {"sha256": DIGEST, "sha1": "0" * 40}}]),
        "subject-without-a-digest": ("no digest", [{"name": "record.json", "digest": {}}]),
        "subject-without-a-name": ("no name", [{"digest": {"sha256": DIGEST}}]),
        "subject-with-an-annotation": ("a field that nobody reads", [{**RIGHT, "annotations": {}}]),
        "subject-digest-as-text": ("a digest without its kind", [{"name": "record.json", "digest": DIGEST}]),
        "subject-digest-short": ("a digest less by a digit", [{**RIGHT, "digest": {"sha256": DIGEST[:-1]}}]),
        "subject-digest-with-a-line-feed": (
            "a line feed behind the digest",
            [{**RIGHT, "digest": {"sha256": DIGEST + "\n"}}],
        ),
        "subject-digest-base64": ("a digest in base64", [{**RIGHT, "digest": {"sha256": "z" * 44}}]),
        "subject-as-an-object": ("an object for a list", {"0": RIGHT}),
        "subject-as-text": ("text for a list", "record.json"),
        "subject-of-nothing": ("the digest of no bytes", [{**RIGHT, "digest": {"sha256": HEX}}]),
        "subject-of-the-bundle-itself": ("a digest of all zeros", [{**RIGHT, "digest": {"sha256": "0" * 64}}]),
    }
    for name, (words, subject) in forms.items():
        rows = "V19, GHSA-cq38-jh5f-37mq" if name == "subject-ten-thousand" else "V19"
        yield signed(
            name,
            f"a statement about {words}",
            "subject",
            rows,
            lambda own, subject=subject: own.statement(subject=subject),
        )
    for name, words, record in (
        ("record-of-another-bundle", "another record", b"{}"),
        ("record-with-a-line-feed", "a line feed behind the record", RECORD + b"\n"),
        ("record-with-a-byte-changed", "a digit of the record changed", RECORD.replace(b"12", b"13")),
        ("record-with-a-space", "a space that JSON does not see", RECORD.replace(b":", b": ", 1)),
        ("record-without-its-last-byte", "the last byte missing", RECORD[:-1]),
        ("record-in-utf-16", "the record in UTF-16", RECORD.decode().encode("utf-16")),
    ):
        yield Case(name, words, "subject", "V3", lambda shop, record=record: shop.good.but(record=record))


def predicates() -> Iterator[Case]:
    def changed(change: Callable[[dict[str, Any]], Any]) -> Callable[[Forge], bytes]:
        def payload(own: Forge) -> bytes:
            value = predicate(own.identity)
            after = change(value)
            return own.statement(predicate=value if after is None else after)

        return payload

    def fields(**changes: Any) -> Callable[[dict[str, Any]], Any]:
        return lambda value: {**value, **changes}

    forms: dict[str, tuple[str, Callable[[dict[str, Any]], Any]]] = {
        "predicate-open": ("a field that its schema has not", fields(extra=1)),
        "predicate-without-a-suite": ("no suite", lambda value: {k: v for k, v in value.items() if k != "suite"}),
        "predicate-runner-somebody-else": (
            "another runner than the signer",
            lambda value: {**value, "runner": {**value["runner"], "id": "https://appliance.local.invalid/other"}},
        ),
        "predicate-certified": ("an assurance that there is not", fields(assurance="certified")),
        "predicate-digest-in-capitals": (
            "a digest in capitals",
            lambda value: {**value, "suite": {**value["suite"], "digest": {"sha256": HEX.upper()}}},
        ),
        "predicate-empty-list": ("a list", lambda _: []),
        "predicate-text": ("text", lambda _: "x"),
        "predicate-log-negative": ("a log of negative size", fields(log={"size": -1, "root": HEX})),
        "predicate-log-size-as-text": ("a size as text", fields(log={"size": "0", "root": HEX})),
        "predicate-challenge-short": ("a challenge of three digits", fields(challenge="abc")),
        "predicate-supersedes-itself-as-text": ("a digest that is none", fields(supersedes="this")),
        "predicate-moment-without-a-zone": (
            "a moment without its zone",
            lambda value: {**value, "run": {**value["run"], "startedOn": "2026-11-30T09:00:00"}},
        ),
        "predicate-moment-in-other-digits": (
            "a moment in another alphabet's digits",
            lambda value: {**value, "run": {**value["run"], "startedOn": "\u0662026-11-30T09:00:00Z"}},
        ),
        "predicate-dependency-by-md5": (
            "a dependency by md5",
            fields(resolvedDependencies=[{"name": "image", "digest": {"md5": "0" * 32}}]),
        ),
        "predicate-dependency-by-nothing": (
            "a dependency without a digest",
            fields(resolvedDependencies=[{"name": "image", "digest": {}}]),
        ),
        "predicate-tpm-null": ("a null where the schema wants an object or nothing", fields(tpm={})),
    }
    for name, (words, change) in forms.items():
        yield signed(name, f"a predicate with {words}", "statement", "V18, 4 (closed predicate)", changed(change))


RECORDS: dict[str, tuple[str, bytes]] = {
    "record-with-a-key-twice": ("a key twice", b'{"a":1,"a":2}'),
    "record-with-a-key-twice-deep-inside": ("a key twice, deep inside", b'{"a":[{"b":{"c":1,"c":1}}]}'),
    "record-with-a-key-twice-by-an-escape": ("a key twice, once as an escape", b'{"a":1,"\\u0061":2}'),
    "record-with-nan": ("NaN", b'{"a":NaN}'),
    "record-with-infinity": ("Infinity", b'{"a":-Infinity}'),
    "record-with-1e400": ("a number beyond every double", b'{"a":1e400}'),
    "record-with-an-integer-beyond-2-53": ("an integer beyond 2^53", b'{"a":9007199254740993}'),
    "record-with-a-negative-integer-beyond-2-53": ("an integer below -2^53", b'{"a":-9007199254740993}'),
    "record-with-an-integral-float-beyond-2-53": ("1.2e18, which parsers disagree on", b'{"a":1200000000000000000}'),
    "record-with-a-million-digits": ("a million digits", b'{"a":' + b"1" * 1_000_000 + b"}"),
    "record-with-1.0": ("1.0 for 1", b'{"a":1.0}'),
    "record-with-minus-zero": ("-0", b'{"a":-0}'),
    "record-with-an-exponent": ("1e2 for 100", b'{"a":1e2}'),
    "record-with-a-byte-order-mark": ("a byte order mark", b'\xef\xbb\xbf{"a":1}'),
    "record-with-keys-unsorted": ("keys out of order", b'{"b":1,"a":2}'),
    "record-with-keys-sorted-by-utf-8": ("a key that is not ASCII", '{"\u20ac":1,"\ufb33":2}'.encode()),
    "record-with-white-space": ("white space", b'{"a": 1}'),
    "record-with-a-needless-escape": ("an escape that is not needed", b'{"a":"\\u0061"}'),
    "record-with-an-escaped-slash": ("an escaped slash", b'{"a":"\\/"}'),
    "record-not-utf-8": ("a byte that is no UTF-8", b'{"a":"\xff"}'),
    "record-with-overlong-utf-8": ("a slash in two bytes", b'{"a":"\xc0\xaf"}'),
    "record-with-a-lone-surrogate": ("half a character pair", b'{"a":"\\ud800"}'),
    "record-with-a-line-feed-at-the-end": ("a line feed at the end", b'{"a":1}\n'),
    "record-with-a-zero-byte-behind-it": ("a zero byte at the end", b'{"a":1}\0'),
    "record-with-a-trailing-comma": ("a comma too many", b'{"a":1,}'),
    "record-with-a-comment": ("a comment", b'{"a":1/**/}'),
    "record-in-single-quotes": ("single quotes", b"{'a':1}"),
    "record-nested-too-deeply": ("five thousand brackets", b"[" * 5000 + b"]" * 5000),
    "record-nested-within-strings": ("65 levels", b'{"a":' * 65 + b"1" + b"}" * 65),
    "record-two-documents": ("two documents", b"{}{}"),
    "record-not-json": ("no JSON", b"record"),
}


def records() -> Iterator[Case]:
    for name, (words, content) in RECORDS.items():
        yield Case(name, f"the genuine key signed a record with {words}", "record", "V21", _over(content))


def _over(content: bytes) -> Callable[[Workshop], Attested]:
    return lambda shop: shop.held(shop.bundle(shop.own.statement(content)), content)


def rewrapped() -> Iterator[Case]:
    """What a verifier cannot see of V23, it can at least not be led to by another kind of entry."""

    def as_message(bundle: dict[str, Any]) -> None:
        envelope = bundle.pop("dsseEnvelope")
        bundle["messageSignature"] = {"signature": envelope["signatures"][0]["sig"]}

    yield Case(
        "envelope-rewrapped-as-a-blobs-signature",
        "an attestation's signature as one over its encoding",
        "bundle",
        "V23, V7",
        lambda shop: shop.edited(as_message),
    )


def cases() -> list[Case]:
    return [
        *payload_types(),
        *predicate_types(),
        *not_statements(),
        *subjects(),
        *predicates(),
        *records(),
        *rewrapped(),
    ]
