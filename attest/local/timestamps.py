"""The instance's timestamp authority (RFC 3161). Its clock is the host's, so it proves nothing to a stranger."""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime
from typing import Final

from asn1crypto import cms, core, tsp, x509  # type: ignore[import-untyped]

from attest.local.keys import Keys

POLICY: Final = "1.3.6.1.4.1.57264.2"


def respond(keys: Keys, certificate: bytes, signature: bytes, now: datetime) -> bytes:
    """A TimeStampResp, DER, over `signature`; `certificate` is the authority's, DER."""
    return respond_to(keys, certificate, hashlib.sha256(signature).digest(), now)


def respond_to(keys: Keys, certificate: bytes, imprint: bytes, now: datetime, nonce: int | None = None) -> bytes:
    """The same of a signature's sha256, as a request over a network has it; with its nonce, where it has one."""
    leaf = x509.Certificate.load(certificate)
    at = now.replace(microsecond=0)
    stated = {
        "version": "v1",
        "policy": POLICY,
        "message_imprint": {"hash_algorithm": {"algorithm": "sha256"}, "hashed_message": imprint},
        "serial_number": secrets.randbits(120) | 1 << 119,
        "gen_time": at,
        "accuracy": {"seconds": 1},
    }
    token = tsp.TSTInfo(stated if nonce is None else {**stated, "nonce": nonce}).dump()
    certificate_id = {
        "hash_algorithm": {"algorithm": "sha256"},
        "cert_hash": hashlib.sha256(certificate).digest(),
    }
    attributes = cms.CMSAttributes(
        [
            {"type": "content_type", "values": ["tst_info"]},
            {"type": "signing_time", "values": [cms.Time({"utc_time": at})]},
            {"type": "message_digest", "values": [hashlib.sha256(token).digest()]},
            {"type": "signing_certificate_v2", "values": [tsp.SigningCertificateV2({"certs": [certificate_id]})]},
        ]
    )
    signed = cms.SignedData(
        {
            "version": "v3",
            "digest_algorithms": [{"algorithm": "sha256"}],
            "encap_content_info": {"content_type": "tst_info", "content": core.ParsableOctetString(token)},
            "certificates": [leaf],
            "signer_infos": [
                {
                    "version": "v1",
                    "sid": {"issuer_and_serial_number": {"issuer": leaf.issuer, "serial_number": leaf.serial_number}},
                    "digest_algorithm": {"algorithm": "sha256"},
                    "signed_attrs": attributes,
                    "signature_algorithm": {"algorithm": "sha256_ecdsa"},
                    "signature": keys.sign("tsa", attributes.dump()),
                }
            ],
        }
    )
    response = tsp.TimeStampResp(
        {
            "status": {"status": "granted"},
            "time_stamp_token": {"content_type": "signed_data", "content": signed},
        }
    )
    return bytes(response.dump())
