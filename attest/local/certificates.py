"""X.509 of the instance: its own authorities, and the short-lived certificate of each signing key, with its SCT.

Built with asn1crypto because a signature then needs only `Keys.sign`: the key may lie anywhere.
"""

from __future__ import annotations

import hashlib
import secrets
import struct
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from asn1crypto import core, x509  # type: ignore[import-untyped]
from asn1crypto.keys import PublicKeyInfo  # type: ignore[import-untyped]

from attest.local.keys import KeyRole, Keys, key_id, spki
from attest.roots import SELF_ASSERTED

ORGANIZATION: Final = SELF_ASSERTED
AUTHORITY_YEARS: Final = 10
LEAF_MINUTES: Final = 10
_ISSUER_V1: Final = "1.3.6.1.4.1.57264.1.1"
_ISSUER_V2: Final = "1.3.6.1.4.1.57264.1.8"
_SCT_LIST: Final = "1.3.6.1.4.1.11129.2.4.2"


def authority(
    keys: Keys,
    role: KeyRole,
    issuer: KeyRole,
    common_names: tuple[str, str],
    start: datetime,
    *,
    organization: str = ORGANIZATION,
) -> bytes:
    """A certificate, DER, for `role`, issued by `issuer`; `common_names` are theirs. Self-issued ones are CAs."""
    is_ca = role == issuer
    usage = {"key_cert_sign", "crl_sign"} if is_ca else {"digital_signature"}
    extensions = [
        _extension("basic_constraints", {"ca": True, "path_len_constraint": 0} if is_ca else {"ca": False}, True),
        _extension("key_usage", usage, True),
        *_key_identifiers(spki(keys.public(role)), keys, issuer),
    ]
    if not is_ca:
        extensions.append(_extension("extended_key_usage", ["time_stamping"], True))
    tbs = _tbs(
        subject=_name(common_names[0], organization),
        issuer=_name(common_names[1], organization),
        public_key=spki(keys.public(role)),
        validity=(start, start + timedelta(days=365 * AUTHORITY_YEARS)),
        extensions=extensions,
    )
    return _signed(tbs, keys, issuer)


def leaf(keys: Keys, ca_name: str, public_key: bytes, *, identity: str, issuer: str, now: datetime) -> bytes:
    """The certificate, DER, of a signing key given as SubjectPublicKeyInfo, in Fulcio's profile.

    The SCT is over the pre-certificate of RFC 6962 section 3.2: this certificate without the SCT extension.
    """
    start = now.replace(microsecond=0)
    extensions = [
        _extension("key_usage", {"digital_signature"}, True),
        _extension("extended_key_usage", ["code_signing"], False),
        *_key_identifiers(public_key, keys, "ca"),
        _extension("subject_alt_name", [x509.GeneralName("uniform_resource_identifier", identity)], True),
        _extension(_ISSUER_V1, issuer.encode(), False),
        _extension(_ISSUER_V2, core.UTF8String(issuer).dump(), False),
    ]
    tbs = _tbs(
        subject=x509.Name.build({}),
        issuer=_name(ca_name, ORGANIZATION),
        public_key=public_key,
        validity=(start, start + timedelta(minutes=LEAF_MINUTES)),
        extensions=extensions,
    )
    timestamp = _sct(keys, tbs.dump(), start)
    extensions.append(_extension(_SCT_LIST, timestamp, False))
    tbs["extensions"] = extensions
    return _signed(tbs, keys, "ca")


def _sct(keys: Keys, precertificate: bytes, at: datetime) -> bytes:
    """A SignedCertificateTimestampList of one."""
    milliseconds = int(at.timestamp() * 1000)
    entry = key_id(keys.public("ca")) + len(precertificate).to_bytes(3, "big") + precertificate
    to_sign = struct.pack("!BBQH", 0, 0, milliseconds, 1) + entry + struct.pack("!H", 0)
    signature = keys.sign("ct", to_sign)
    head = struct.pack("!B32sQH", 0, key_id(keys.public("ct")), milliseconds, 0)
    sct = head + struct.pack("!BBH", 4, 3, len(signature)) + signature
    return struct.pack("!HH", len(sct) + 2, len(sct)) + sct


def _tbs(
    *,
    subject: Any,
    issuer: Any,
    public_key: bytes,
    validity: tuple[datetime, datetime],
    extensions: list[Any],
) -> Any:
    return x509.TbsCertificate(
        {
            "version": "v3",
            "serial_number": secrets.randbits(127) | 1 << 126,  # positive, of constant length
            "signature": {"algorithm": "sha256_ecdsa"},
            "issuer": issuer,
            "validity": {"not_before": _time(validity[0]), "not_after": _time(validity[1])},
            "subject": subject,
            "subject_public_key_info": PublicKeyInfo.load(public_key),
            "extensions": extensions,
        }
    )


def _signed(tbs: Any, keys: Keys, issuer: KeyRole) -> bytes:
    certificate = x509.Certificate(
        {
            "tbs_certificate": tbs,
            "signature_algorithm": {"algorithm": "sha256_ecdsa"},
            "signature_value": keys.sign(issuer, tbs.dump()),
        }
    )
    return bytes(certificate.dump())


def _key_identifiers(public_key: bytes, keys: Keys, issuer: KeyRole) -> list[Any]:
    return [
        _extension("key_identifier", _key_identifier(public_key), False),
        _extension("authority_key_identifier", {"key_identifier": _key_identifier(spki(keys.public(issuer)))}, False),
    ]


def _key_identifier(public_key: bytes) -> bytes:
    """RFC 5280 4.2.1.2 leaves the method open; RFC 7093's first one: 160 bits of SHA-256 of the key."""
    return hashlib.sha256(bytes(PublicKeyInfo.load(public_key)["public_key"].contents[1:])).digest()[:20]


def _extension(identifier: str, value: Any, critical: bool) -> Any:
    return x509.Extension({"extn_id": identifier, "critical": critical, "extn_value": value})


def _name(common_name: str, organization: str) -> Any:
    return x509.Name.build({"organization_name": organization, "common_name": common_name})


def _time(moment: datetime) -> Any:
    # RFC 5280 4.1.2.5: UTCTime through 2049, GeneralizedTime from 2050.
    form = "utc_time" if moment.year < 2050 else "general_time"
    return x509.Time({form: moment.astimezone(UTC)})
