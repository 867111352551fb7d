"""Bundles made with the genuine instance's keys, or a stranger's: names, certificates, times, logs and roots."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from asn1crypto import core
from asn1crypto import x509 as asn1
from sigstore.sign import SigningContext

from attest.local import certificates
from attest.local.keys import key_id
from attest.local.log import LocalLog
from tests.attest_corpus import ISSUER, Attested, Case
from tests.attest_corpus.shapes import b64
from tests.attest_corpus.workshop import Workshop
from tests.attest_forge import Extension, Forge, SkewedClock

OTHER = "https://example.invalid/other"
SPARE = "1.3.6.1.4.1.57264.1.99"
"""An extension that nobody reads; what is renamed to it is gone."""


def made(name: str, defect: str, reason: str, rows: str, make: Callable[[Workshop], Attested]) -> Case:
    return Case(name, defect, reason, rows, make)


def identities() -> Iterator[Case]:
    mine = "https://appliance.local.invalid/unit-1"

    def signed_by(subject: Callable[[Forge], str], wanted: Callable[[Forge], str]) -> Callable[[Workshop], Attested]:
        return lambda shop: shop.held(shop.own.bundle(subject=subject(shop.own)), identity=wanted(shop.own))

    def near(subject: str) -> Callable[[Workshop], Attested]:
        # A name of the same length is written, and exchanged for this one: asn1crypto knows URIs in normal form only.
        written = "https://" + "a" * (len(subject) - 16) + ".invalid"
        letters = (written.encode(), subject.encode())
        return lambda shop: shop.held(
            shop.own.bundle(subject=written, context=shop.own.context(letters=letters)), identity=mine
        )

    for name, defect, subject in (
        ("name-longer", "unit-10 for unit-1", f"{mine}0"),
        ("name-shorter", "unit- for unit-1", mine[:-1]),
        ("name-in-capitals", "the host in capitals", mine.replace("appliance", "APPLIANCE")),
        ("name-with-a-slash", "a slash behind the name", f"{mine}/"),
        ("name-with-another-scheme", "http for https", mine.replace("https", "http")),
        ("name-percent-encoded", "the same letter, percent-encoded", mine.replace("unit", "%75nit")),
        ("name-of-a-subdomain", "a host that ends like ours", mine.replace("//", "//evil.")),
        ("name-with-a-zero-byte", "our name, a zero byte, another host", f"{mine}\0.example.invalid"),
        (
            "name-with-user-information",
            "our name as the user of another host",
            mine.replace("invalid", "invalid@example.invalid"),
        ),
    ):
        yield made(name, defect, "identity", "V2", near(subject))
    yield made(
        "another-signer",
        "another signer's valid bundle",
        "identity",
        "V2",
        signed_by(lambda _: OTHER, lambda own: own.identity),
    )
    for name, defect, issuer in (
        ("issuer-with-a-slash", "the issuer with a slash behind it", f"{ISSUER}/"),
        ("issuer-in-capitals", "the issuer in capitals", ISSUER.upper()),
        ("another-issuer", "the right name under another issuer", "https://accounts.example.invalid"),
    ):
        yield made(name, defect, "identity", "V2", lambda shop, issuer=issuer: shop.good.but(issuer=issuer))
    yield made("no-identity", "nobody to hold the signature to", "usage", "V1", lambda shop: shop.good.but(identity=""))
    yield made("no-issuer", "no issuer to hold the name to", "usage", "V1", lambda shop: shop.good.but(issuer=""))
    yield made(
        "neither-identity-nor-issuer",
        "neither name nor issuer",
        "usage",
        "V1",
        lambda shop: shop.good.but(identity="", issuer=""),
    )
    yield made(
        "no-record",
        "a verification over an empty record",
        "usage",
        "CVE-2025-25204",
        lambda shop: shop.good.but(record=b""),
    )
    yield made(
        "no-bundle",
        "a verification over an empty bundle",
        "usage",
        "CVE-2025-25204",
        lambda shop: shop.good.but(bundle=b""),
    )


def altered(alter: Callable[[Extension], Extension]) -> Callable[[Workshop], Attested]:
    return lambda shop: shop.held(shop.own.bundle(context=shop.own.context(alter=alter)))


def extension(
    name: str, change: Callable[[Any], Any], *, renamed: str | None = None
) -> Callable[[Extension], Extension]:
    def alter(field: Extension) -> Extension:
        if field[0] != name:
            return field
        return renamed or name, change(field[1]), field[2]

    return alter


def gone(name: str) -> Callable[[Extension], Extension]:
    def alter(field: Extension) -> Extension:
        return (SPARE, b"gone", False) if field[0] == name else field

    return alter


def general(kind: str, text: str) -> Any:
    return asn1.GeneralName(kind, text)


def certificates_of_ours() -> Iterator[Case]:
    """Issued by the genuine authority, and not what a signer's certificate is."""
    names = "subject_alt_name"
    forms: list[tuple[str, str, str, str, Callable[[Extension], Extension]]] = [
        (
            "certificate-with-a-second-name",
            "the right name among others",
            "identity",
            "V2",
            extension(names, lambda found: [*found, general("uniform_resource_identifier", OTHER)]),
        ),
        (
            "certificate-with-a-mail-address-too",
            "the right name, and a mail address",
            "identity",
            "V2",
            extension(names, lambda found: [*found, general("rfc822_name", "a@example.invalid")]),
        ),
        (
            "certificate-with-a-host-for-a-name",
            "a host name instead of the name",
            "identity",
            "V2",
            extension(names, lambda _: [general("dns_name", "appliance.local.invalid")]),
        ),
        ("certificate-without-a-name", "no name at all", "certificate", "V2", gone(names)),
        (
            "certificate-without-an-issuer-claim",
            "no issuer of the token",
            "identity",
            "V2",
            gone(certificates._ISSUER_V1),
        ),
        (
            "certificate-of-two-issuers",
            "one issuer in the old field, another in the new one",
            "identity",
            "V2",
            extension(certificates._ISSUER_V2, lambda _: core.UTF8String("https://example.invalid").dump()),
        ),
        (
            "certificate-for-servers",
            "made for servers, not for signing",
            "certificate",
            "V12",
            extension("extended_key_usage", lambda _: ["server_auth"]),
        ),
        (
            "certificate-for-timestamps",
            "made for timestamps",
            "certificate",
            "V12",
            extension("extended_key_usage", lambda _: ["time_stamping"]),
        ),
        ("certificate-for-no-purpose", "no purpose stated", "certificate", "V12", gone("extended_key_usage")),
        (
            "certificate-of-a-key-that-may-not-sign",
            "key usage without signatures",
            "certificate",
            "V12",
            extension("key_usage", lambda _: {"key_agreement"}),
        ),
        (
            "certificate-without-a-timestamp-of-its-log",
            "in no certificate log",
            "certificate",
            "V12",
            gone(certificates._SCT_LIST),
        ),
        (
            "certificate-with-an-empty-log-list",
            "an empty list of certificate log stamps",
            "certificate",
            "V12",
            extension(certificates._SCT_LIST, lambda _: b"\0\0"),
        ),
        (
            "certificate-with-an-edited-log-stamp",
            "a bit of its certificate log's signature",
            "certificate",
            "V12",
            extension(certificates._SCT_LIST, lambda found: found[:-5] + bytes([found[-5] ^ 1]) + found[-4:]),
        ),
        (
            "certificate-with-an-unknown-critical-field",
            "a critical extension that nobody knows",
            "certificate",
            "V12",
            lambda field: (SPARE, b"\4\0", True) if field[0] == "key_identifier" else field,
        ),
    ]
    for name, defect, reason, rows, alter in forms:
        yield made(name, defect, reason, rows, altered(alter))


def authorities() -> Iterator[Case]:
    """Others' authorities under our names, and our own past their time."""

    def with_context(make: Callable[[Workshop], SigningContext], root: Any = None) -> Callable[[Workshop], Attested]:
        def attested(shop: Workshop) -> Attested:
            exhibit = shop.held(shop.own.bundle(context=make(shop)))
            return exhibit.but(root=root(shop)) if root else exhibit

        return attested

    for minutes, word in ((30, "after"), (-30, "before"), (11, "a minute after"), (-2, "two minutes before")):
        yield made(
            f"timestamp-{word.replace(' ', '-')}-the-certificate",
            f"a trusted timestamp {word} the certificate's time",
            "certificate",
            "V12",
            with_context(
                lambda shop, minutes=minutes: shop.own.context(
                    tsa=SkewedClock(shop.own.keys, shop.own.tsa, timedelta(minutes=minutes))
                )
            ),
        )
    yield made(
        "another-authority-of-the-same-name",
        "another CA called the same",
        "certificate",
        "V12",
        with_context(lambda shop: shop.own.context(others={"ca": shop.stranger.keys}, ca=shop.stranger.ca)),
    )
    yield made(
        "our-authority-another-key",
        "our CA's name and certificate, a stranger's key",
        "certificate",
        "V12",
        with_context(lambda shop: shop.own.context(others={"ca": shop.stranger.keys})),
    )
    yield made(
        "certificate-log-of-a-stranger",
        "a certificate in a log that nobody pinned",
        "certificate",
        "V12",
        with_context(lambda shop: shop.own.context(others={"ct": shop.stranger.keys})),
    )
    yield made(
        "timestamps-of-a-stranger",
        "a timestamp of an authority that nobody pinned",
        "time",
        "V11",
        with_context(
            lambda shop: shop.own.context(tsa=SkewedClock(shop.stranger.keys, shop.stranger.tsa, timedelta()))
        ),
    )
    yield made(
        "timestamps-of-a-stranger-under-our-name",
        "our authority's certificate, a stranger's key",
        "time",
        "V11, CVE-2026-39984",
        with_context(lambda shop: shop.own.context(tsa=SkewedClock(shop.stranger.keys, shop.own.tsa, timedelta()))),
    )
    yield made(
        "log-of-a-stranger",
        "everything of this root but the log's key",
        "log_proof",
        "V8",
        with_context(
            lambda shop: shop.own.context(
                others={"log": shop.stranger.keys}, log=LocalLog.create(shop.shelf("log") / "log", shop.stranger.keys)
            )
        ),
    )
    yield made(
        "checkpoint-of-another-log-of-the-same-key",
        "the pinned key signs for a log of another name",
        "log_proof",
        "V8, V24",
        with_context(lambda shop: shop.own.context(log=RenamedLog.create(shop.shelf("log") / "log", shop.own.keys))),
    )
    yield made(
        "everything-of-another-root",
        "a stranger's whole instance, in our name",
        "time",
        "V13",
        lambda shop: shop.held(shop.stranger.bundle(shop.own.statement(), subject=shop.own.identity)),
    )

    def expired_authority(shop: Workshop) -> Attested:
        """CA over before the signature, by its own certificate; the leaf is good, the window in the root is open."""
        start = datetime.now(UTC).replace(microsecond=0) - timedelta(days=365 * certificates.AUTHORITY_YEARS + 1)
        from attest.local.instance import CA_NAME

        ca = certificates.authority(shop.own.keys, "ca", "ca", (CA_NAME, CA_NAME), start)

        def change(root: dict[str, Any]) -> None:
            authority = root["certificateAuthorities"][0]
            authority["certChain"]["certificates"][0]["rawBytes"] = b64(ca)
            authority["validFor"]["start"] = start.isoformat().replace("+00:00", "Z")

        bundle = shop.own.bundle(context=shop.own.context(ca=ca))
        return shop.held(bundle, root=shop.own.root(change).content)

    yield made(
        "authority-expired-leaf-good",
        "a CA whose own certificate had run out",
        "certificate",
        "V12, CVE-2026-24122",
        expired_authority,
    )


class RenamedLog(LocalLog):
    """Signs checkpoints of another log's name with its own key, under its own name."""

    def _checkpoint(self, size: int, root: bytes) -> str:
        note = f"another.log.local.invalid\n{size}\n{b64(root)}\n"
        signature = key_id(self._keys.public("log"))[:4] + self._keys.sign("log", note.encode())
        return f"{note}\n\u2014 {self.origin} {b64(signature)}\n"


def cases() -> list[Case]:
    return [*identities(), *certificates_of_ours(), *authorities()]
