"""Roots that are not the pinned one or past their time, and what lies around a timestamp's signature."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any

from asn1crypto import cms, core, tsp
from asn1crypto import x509 as asn1

from tests.attest_corpus import Attested, Case
from tests.attest_corpus.forged import made
from tests.attest_corpus.shapes import b64
from tests.attest_corpus.workshop import Workshop
from tests.attest_forge import Forge, edited, stamps


def roots() -> Iterator[Case]:
    def under(change: Callable[[dict[str, Any]], Any]) -> Callable[[Workshop], Attested]:
        return lambda shop: shop.good.but(root=shop.own.root(change).content)

    past, future = "2026-01-01T00:00:00Z", "2090-01-01T00:00:00Z"
    windows: list[tuple[str, str, str, Callable[[dict[str, Any]], dict[str, Any]]]] = [
        ("authority", "CA", "certificate", lambda r: r["certificateAuthorities"][0]),
        ("certificate-log-key", "certificate log's key", "certificate", lambda r: r["ctlogs"][0]["publicKey"]),
        ("log-key", "log's key", "log_proof", lambda r: r["tlogs"][0]["publicKey"]),
        ("timestamp-authority", "timestamp authority", "time", lambda r: r["timestampAuthorities"][0]),
    ]
    for part, words, reason, find in windows:
        row = "V11" if reason == "time" else "V15, CVE-2026-54787" if reason == "log_proof" else "V15"
        yield made(
            f"{part}-retired",
            f"the {words} was retired before the signature",
            reason,
            row,
            under(lambda r, find=find: find(r)["validFor"].update(end=past)),
        )
    for part, words, reason, find in ((*windows[0][:2], "trust_root", windows[0][3]), windows[3]):
        yield made(
            f"{part}-not-yet-valid",
            f"the {words} is to be valid in years",
            reason,
            "V15" if reason != "time" else "V11",
            under(lambda r, find=find: find(r)["validFor"].update(start=future)),
        )
    lists = {
        "tlogs": ("log", "trust_root"),
        "certificateAuthorities": ("certificate authority", "trust_root"),
        "ctlogs": ("certificate log", "trust_root"),
        "timestampAuthorities": ("timestamp authority", "time"),
    }
    for key, (words, reason) in lists.items():
        yield made(
            f"root-without-{slugged(words)}",
            f"a root without a {words}",
            reason,
            "V13, V14",
            under(lambda r, key=key: r.update({key: []})),
        )
        yield made(
            f"root-with-a-strangers-{slugged(words)}",
            f"a stranger's {words} in our root",
            {"tlogs": "log_proof", "timestampAuthorities": "time"}.get(key, "certificate"),
            "V13",
            lambda shop, key=key: shop.good.but(
                root=shop.own.root(lambda r: r.update({key: loaded(shop.stranger)[key]})).content
            ),
        )
    yield made(
        "root-not-the-pinned-one",
        "other bytes than the pinned ones",
        "trust_root",
        "V14",
        lambda shop: shop.good.but(root=shop.good.root + b" ", pin=digest(shop.good.root)),
    )
    yield made(
        "root-of-a-stranger-handed-over",
        "a stranger's bundle with the stranger's root beside it",
        "trust_root",
        "V14",
        lambda shop: shop.held(
            shop.stranger.bundle(shop.own.statement(), subject=shop.own.identity),
            root=shop.stranger.trust.root.content,
            pin=shop.own.trust.root.sha256,
        ),
    )
    yield made(
        "root-pin-in-capitals",
        "a pin in capitals",
        "trust_root",
        "V14",
        lambda shop: shop.good.but(pin=digest(shop.good.root).upper()),
    )
    yield made(
        "root-pin-short",
        "the first half of a pin",
        "trust_root",
        "V14",
        lambda shop: shop.good.but(pin=digest(shop.good.root)[:32]),
    )
    yield made(
        "root-with-a-key-twice",
        "a root with a list twice",
        "trust_root",
        "V14",
        lambda shop: shop.good.but(root=shop.good.root.replace(b'"tlogs":', b'"tlogs":[],"tlogs":')),
    )
    yield made(
        "root-empty-object", "an empty object for a root", "trust_root", "V14", lambda shop: shop.good.but(root=b"{}")
    )
    yield made("root-not-json", "no JSON for a root", "trust_root", "V14", lambda shop: shop.good.but(root=b"root"))
    yield made(
        "root-over-a-mebibyte",
        "a root over the bound",
        "trust_root",
        "V14",
        lambda shop: shop.good.but(root=shop.good.root + b" " * (1 << 20)),
    )
    yield made(
        "root-with-a-key-of-no-kind",
        "a log key that is none",
        "log_proof",
        "V14",
        under(lambda r: r["tlogs"][0]["publicKey"].update(rawBytes="AAAA")),
    )


def slugged(words: str) -> str:
    return words.replace(" ", "-")


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def loaded(forge: Forge) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(forge.trust.root.content)
    return found


def around_timestamps() -> Iterator[Case]:
    """What RFC 3161 leaves outside the signature, edited: sigstore-python takes each of these."""

    def token(change: Callable[[Workshop, bytes], bytes]) -> Callable[[Workshop], Attested]:
        def make(shop: Workshop) -> Attested:
            def edit(bundle: dict[str, Any]) -> None:
                stamp = stamps(bundle)[0]
                content = base64.b64decode(stamp["signedTimestamp"])
                stamp["signedTimestamp"] = b64(change(shop, content))

            return shop.good.but(bundle=edited(shop.good.bundle, edit))

        return make

    def last(old: str, new: str) -> Callable[[Workshop, bytes], bytes]:
        def change(_: Workshop, content: bytes) -> bytes:
            before, found, after = content.rpartition(bytes.fromhex(old))
            assert found
            return before + bytes.fromhex(new) + after

        return change

    def signed(change: Callable[[Workshop, Any, Any], None]) -> Callable[[Workshop, bytes], bytes]:
        """`change` gets the response and its SignedData."""

        def edit(shop: Workshop, content: bytes) -> bytes:
            response = tsp.TimeStampResp.load(content)
            change(shop, response, response["time_stamp_token"]["content"])
            return bytes(response.dump(force=True))

        return edit

    def one_more_certificate(first: bool) -> Callable[[Workshop, Any, Any], None]:
        def change(shop: Workshop, _: Any, data: Any) -> None:
            own = [each.chosen for each in data["certificates"]]
            other = asn1.Certificate.load(shop.stranger.ca)
            data["certificates"] = cms.CertificateSet([other, *own] if first else [*own, other])

        return change

    def unsigned_attribute(_: Workshop, __: Any, data: Any) -> None:
        attribute = cms.CMSAttribute({"type": "1.2.840.113549.1.9.16.2.99", "values": [core.OctetString(b"x")]})
        data["signer_infos"][0]["unsigned_attrs"] = cms.CMSAttributes([attribute])

    def remark(_: Workshop, response: Any, __: Any) -> None:
        response["status"] = tsp.PKIStatusInfo({"status": "granted", "status_string": ["trust me"]})

    def with_mods(_: Workshop, response: Any, __: Any) -> None:
        response["status"] = tsp.PKIStatusInfo({"status": "granted_with_mods"})

    def digests(_: Workshop, __: Any, data: Any) -> None:
        data["digest_algorithms"] = cms.DigestAlgorithms([{"algorithm": "sha256"}, {"algorithm": "sha1"}])

    forms = {
        "envelope-version": (
            "the envelope's version",
            last("020103310f300d0609608648016503040201", "020101310f300d0609608648016503040201"),
        ),
        "signer-version": ("the signer's version", last("0201013061304d", "0201033061304d")),
        "algorithm-renamed": ("the name of its signature's algorithm", last("2a8648ce3d040302", "2a8648ce3d040303")),
        "algorithm-of-no-name": ("an algorithm that none is", last("2a8648ce3d040302", "2a8648ce3d04037f")),
        "a-certificate-too-many": ("a certificate that nobody pinned", signed(one_more_certificate(False))),
        "a-strangers-certificate-first": (
            "a stranger's certificate before its own",
            signed(one_more_certificate(True)),
        ),
        "an-unsigned-attribute": ("an attribute outside the signature", signed(unsigned_attribute)),
        "a-remark": ("a remark beside its status", signed(remark)),
        "granted-with-changes": ("another status than granted", signed(with_mods)),
        "further-digest-algorithms": ("digest algorithms that its signer did not use", signed(digests)),
    }
    for name, (words, change) in forms.items():
        rows = "V24, CVE-2026-39984" if "certificate" in name else "V24"
        yield made(
            f"timestamp-with-{name}",
            f"a timestamp with {words} edited" if "version" in name else f"a timestamp with {words}",
            "time",
            rows,
            token(change),
        )


def cases() -> list[Case]:
    return [*roots(), *around_timestamps()]
