"""Bundles that were edited after they were made: form, encodings, and parts of another one. No key is used."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Any

from tests.attest_corpus import Case
from tests.attest_forge import edited, entry, stamps

Change = Callable[[dict[str, Any]], Any]


def edit(name: str, defect: str, reason: str, rows: str, change: Change) -> Case:
    return Case(name, defect, reason, rows, lambda shop: shop.edited(change))


def raw(name: str, defect: str, rows: str, change: Callable[[bytes], bytes]) -> Case:
    return Case(name, defect, "bundle", rows, lambda shop: shop.good.but(bundle=change(shop.good.bundle)))


def material(bundle: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = bundle["verificationMaterial"]
    return found


def envelope(bundle: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = bundle["dsseEnvelope"]
    return found


def proof(bundle: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = entry(bundle)["inclusionProof"]
    return found


def b64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def flipped(text: str, at: int = 5) -> str:
    content = bytearray(base64.b64decode(text))
    content[at] ^= 1
    return b64(bytes(content))


def spare_bits(text: str) -> str:
    """Other base64 of the same bytes: the bits that padding leaves over, set."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    body = text.rstrip("=")
    assert body != text, "nothing is left over"
    return body[:-1] + alphabet[alphabet.index(body[-1]) + 1] + "=" * (len(text) - len(body))


def doubled(key: str, value: str) -> Callable[[bytes], bytes]:
    """The key twice, the genuine value last: what a lax parser keeps."""
    return lambda bundle: bundle.replace(f'"{key}":'.encode(), f'"{key}":{value},"{key}":'.encode(), 1)


def _as_chain(bundle: dict[str, Any]) -> None:
    certificate = material(bundle).pop("certificate")
    material(bundle)["x509CertificateChain"] = {"certificates": [certificate]}


def _as_key(bundle: dict[str, Any]) -> None:
    del material(bundle)["certificate"]
    material(bundle)["publicKey"] = {"hint": "a key"}


def _as_message(bundle: dict[str, Any]) -> None:
    del bundle["dsseEnvelope"]
    bundle["messageSignature"] = {
        "messageDigest": {"algorithm": "SHA2_256", "digest": b64(bytes(32))},
        "signature": b64(b"signature"),
    }


def _pem(bundle: dict[str, Any]) -> None:
    der = material(bundle)["certificate"]["rawBytes"]
    pem = f"-----BEGIN CERTIFICATE-----\n{der}\n-----END CERTIFICATE-----\n"
    material(bundle)["certificate"]["rawBytes"] = b64(pem.encode())


def _drop(find: Callable[[dict[str, Any]], dict[str, Any]], key: str) -> Change:
    return lambda bundle: find(bundle).pop(key)


def shapes() -> Iterator[Case]:
    def top(bundle: dict[str, Any]) -> dict[str, Any]:
        return bundle

    parts: list[tuple[str, Callable[[dict[str, Any]], dict[str, Any]], list[str]]] = [
        ("bundle", top, ["mediaType", "verificationMaterial", "dsseEnvelope"]),
        ("material", material, ["certificate", "tlogEntries", "timestampVerificationData"]),
        ("entry", entry, ["logIndex", "logId", "kindVersion", "inclusionProof", "canonicalizedBody"]),
        ("proof", proof, ["logIndex", "rootHash", "treeSize", "checkpoint"]),
        ("envelope", envelope, ["payload", "payloadType", "signatures"]),
    ]
    for what, find, keys in parts:
        for key in keys:
            yield edit(f"{what}-without-{key}", f"{key} of the {what} is missing", "bundle", "V7", _drop(find, key))
    for what, find in (("bundle", top), ("material", material), ("entry", entry), ("envelope", envelope)):
        yield edit(
            f"{what}-with-an-unknown-field",
            f"a field of no version of the format in the {what}",
            "bundle",
            "V7",
            lambda bundle, find=find: find(bundle).update(extra=1),
        )
    for kind in (
        "application/vnd.dev.sigstore.bundle+json;version=0.1",
        "application/vnd.dev.sigstore.bundle+json;version=0.2",
        "application/vnd.dev.sigstore.bundle+json;version=0.3",
        "application/vnd.dev.sigstore.bundle.v0.4+json",
    ):
        yield edit(
            f"media-type-{kind[-12:].lstrip('.')}",
            f"media type {kind}",
            "bundle",
            "V7",
            lambda bundle, kind=kind: bundle.update(mediaType=kind),
        )
    yield edit("no-log-entry", "no log entry", "bundle", "V7", lambda b: material(b).update(tlogEntries=[]))
    yield edit(
        "two-log-entries",
        "the same log entry twice: one log counted as two",
        "bundle",
        "V7, CVE-2026-49834, sigstore-js #1702",
        lambda b: material(b)["tlogEntries"].append(entry(b)),
    )
    yield edit(
        "ten-thousand-log-entries",
        "ten thousand log entries",
        "bundle",
        "V7, GHSA-cq38-jh5f-37mq",
        lambda b: material(b).update(tlogEntries=[entry(b)] * 1_000),
    )
    yield edit(
        "log-entry-not-in-a-list",
        "the log entry as an object instead of a list",
        "bundle",
        "V7",
        lambda b: material(b).update(tlogEntries=entry(b)),
    )
    yield edit(
        "snake-case-field",
        "media_type for mediaType",
        "bundle",
        "V7",
        lambda b: b.update(media_type=b.pop("mediaType")),
    )
    yield edit(
        "both-contents",
        "an envelope and a message signature",
        "bundle",
        "V7",
        lambda b: b.update(messageSignature={"signature": "AA=="}),
    )
    yield edit(
        "message-signature",
        "a blob's signature, with a digest that is not the blob's",
        "bundle",
        "V7, sigstore-python #1652",
        _as_message,
    )
    yield edit("public-key-instead-of-certificate", "a key that nobody vouches for", "bundle", "V7", _as_key)
    yield edit("certificate-chain", "the certificate in a chain, as before 0.3", "bundle", "V7", _as_chain)
    yield edit("certificate-as-pem", "PEM where DER belongs", "bundle", "V7", _pem)
    yield edit(
        "certificate-that-is-none",
        "three bytes for a certificate",
        "bundle",
        "V7",
        lambda b: material(b)["certificate"].update(rawBytes="AAAA"),
    )
    yield edit(
        "certificate-with-bytes-behind-it",
        "a byte after the certificate's DER",
        "bundle",
        "V7, V24",
        lambda b: material(b)["certificate"].update(
            rawBytes=b64(base64.b64decode(material(b)["certificate"]["rawBytes"]) + b"\0")
        ),
    )
    yield edit(
        "no-signature", "an envelope without a signature", "bundle", "V7", lambda b: envelope(b).update(signatures=[])
    )
    yield edit(
        "two-signatures",
        "the signature twice",
        "bundle",
        "V7",
        lambda b: envelope(b)["signatures"].append(envelope(b)["signatures"][0]),
    )
    yield edit(
        "a-strangers-signature-first",
        "a second signature before the genuine one",
        "bundle",
        "V7",
        lambda b: envelope(b)["signatures"].insert(0, {"sig": b64(b"0" * 70)}),
    )
    yield edit(
        "signature-with-a-key-hint",
        "keyid beside the signature",
        "bundle",
        "V7",
        lambda b: envelope(b)["signatures"][0].update(keyid="x"),
    )
    yield edit(
        "signature-empty", "an empty signature", "bundle", "V7", lambda b: envelope(b)["signatures"][0].update(sig="")
    )
    yield edit("payload-empty", "an empty payload", "bundle", "V7", lambda b: envelope(b).update(payload=""))
    yield edit(
        "payload-type-null",
        "null for the payload's type",
        "bundle",
        "V7",
        lambda b: envelope(b).update(payloadType=None),
    )
    yield edit(
        "proof-of-65-hashes",
        "more hashes than any tree is high",
        "bundle",
        "V7, GHSA-cq38-jh5f-37mq",
        lambda b: proof(b).update(hashes=[b64(bytes(32))] * 65),
    )
    yield edit(
        "proof-with-a-short-hash", "a hash of three bytes", "bundle", "V7", lambda b: proof(b).update(hashes=["AAAA"])
    )
    yield edit(
        "root-that-is-no-hash", "a root of three bytes", "bundle", "V7", lambda b: proof(b).update(rootHash="AAAA")
    )
    yield edit(
        "entry-of-version-0.0.3",
        "an entry of a version that nobody knows",
        "bundle",
        "V7",
        lambda b: entry(b)["kindVersion"].update(version="0.0.3"),
    )


def numbers() -> Iterator[Case]:
    """One number, one way to write it."""
    for name, written in {
        "a-json-number": 4,
        "a-leading-zero": "04",
        "a-sign": "+4",
        "negative": "-1",
        "hexadecimal": "0x4",
        "an-exponent": "4e0",
        "full-width-digits": "\uff14",
        "a-space": " 4",
        "twenty-digits": "4" * 20,
        "a-million-digits": "4" * 1_000_000,
        "a-fraction": "4.0",
        "an-underscore": "1_0",
        "true": True,
    }.items():
        yield edit(
            f"log-index-as-{name}",
            f"logIndex written with {name.replace('-', ' ')}",
            "bundle",
            "V7, V24",
            lambda b, written=written: entry(b).update(logIndex=written),
        )


def encodings() -> Iterator[Case]:
    """Bytes that mean the same to a lax decoder."""
    places: dict[str, tuple[Callable[[dict[str, Any]], dict[str, Any]], str]] = {
        "payload": (envelope, "payload"),
        "log-id": (lambda b: entry(b)["logId"], "keyId"),
        "root": (proof, "rootHash"),
        "certificate": (lambda b: material(b)["certificate"], "rawBytes"),
        "timestamp": (lambda b: stamps(b)[0], "signedTimestamp"),
    }
    changes: dict[str, tuple[str, Callable[[str], str]]] = {
        "a-line-feed": ("with a line feed behind it", lambda text: text + "\n"),
        "white-space": ("with a space in it", lambda text: f"{text[:4]} {text[4:]}"),
        "padding-too-many": ("with padding that it does not need", lambda text: f"{text}===="),
        "a-stray-letter": ("with a letter that base64 has not", lambda text: f"{text[:4]}*{text[4:]}"),
    }
    for what, (find, key) in places.items():
        for how, (words, change) in changes.items():
            yield edit(
                f"{what}-base64-{how}",
                f"base64 of {key} {words}",
                "bundle",
                "V7, V24",
                lambda b, find=find, key=key, change=change: find(b).update({key: change(find(b)[key])}),
            )
    for what in ("log-id", "root"):
        find, key = places[what]
        yield edit(
            f"{what}-base64-spare-bits",
            f"bits that the padding of {key} leaves over, set",
            "bundle",
            "V24",
            lambda b, find=find, key=key: find(b).update({key: spare_bits(find(b)[key])}),
        )
    yield edit(
        "log-id-base64-for-urls",
        "base64 in the alphabet of URLs",
        "bundle",
        "V7, V24",
        lambda b: entry(b)["logId"].update(keyId="-_-_"),
    )


def texts() -> Iterator[Case]:
    """The file's own bytes."""
    yield raw("truncated-in-the-middle", "half a bundle", "V7", lambda b: b[: len(b) // 2])
    yield raw("truncated-by-one-byte", "the last byte missing", "V7", lambda b: b[:-1])
    yield raw("bytes-behind-it", "a letter after the end", "V7", lambda b: b + b"x")
    yield raw("two-bundles", "two bundles one after the other", "V7", lambda b: b + b)
    yield raw("byte-order-mark", "a byte order mark before it", "V7", lambda b: b"\xef\xbb\xbf" + b)
    yield raw("utf-16", "UTF-16", "V7", lambda b: b.decode().encode("utf-16"))
    yield raw(
        "nul-byte-in-a-string", "a zero byte in the media type", "V7", lambda b: b.replace(b"bundle.v", b"bundle\0v", 1)
    )
    yield raw(
        "lone-surrogate",
        "half a character pair in the media type",
        "V7",
        lambda b: b.replace(b"bundle.v", b"\\ud800.v", 1),
    )
    yield raw("a-list", "a list", "V7", lambda _: b"[]")
    yield raw("null", "null", "V7", lambda _: b"null")
    yield raw("not-json", "no JSON", "V7", lambda _: b"bundle")
    yield raw("nested-without-end", "a hundred thousand braces", "V7, GHSA-cq38-jh5f-37mq", lambda _: b"{" * 100_000)
    yield raw("nine-mebibytes", "nine mebibytes of spaces", "V7, GHSA-88jx-383q-w4qc", lambda _: b" " * (9 << 20))
    yield raw(
        "nine-mebibytes-of-payload",
        "a payload over the bound",
        "V7, GHSA-95pr-fxf5-86gv",
        lambda b: edited(b, lambda v: envelope(v).update(payload="AAAA" * (9 << 18))),
    )
    for key, value in {
        "mediaType": '"x"',
        "verificationMaterial": "{}",
        "rawBytes": '"AAAA"',
        "tlogEntries": "[]",
        "logIndex": '"0"',
        "keyId": '"AAAA"',
        "inclusionProof": "{}",
        "envelope": '"x"',
        "signedTimestamp": '"AAAA"',
        "payload": '"e30="',
        "payloadType": '"text/plain"',
        "sig": '"AAAA"',
    }.items():
        yield raw(
            f"{key}-twice", f"the key {key} twice in one object, the genuine value last", "V20", doubled(key, value)
        )
    yield raw(
        "payload-twice-forged-last",
        "the key payload twice, a forged value last",
        "V20",
        lambda b: b.replace(b'"payloadType":', b'"payload":"e30=","payloadType":', 1),
    )


def cases() -> list[Case]:
    return [*shapes(), *numbers(), *encodings(), *texts()]
