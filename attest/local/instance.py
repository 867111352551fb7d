"""The instance's services, as sigstore-python's own `Signer` calls them: nothing here decides what is signed."""

from __future__ import annotations

import base64
import json
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NoReturn

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed, decode_dss_signature
from rfc3161_client import TimeStampResponse, decode_timestamp_response
from sigstore._internal.fulcio.client import FulcioCertificateSigningResponse
from sigstore._internal.rekor import EntryRequestBody, RekorLogSubmitter
from sigstore._internal.rekor.client_v2 import RekorV2Client
from sigstore.models import TransparencyLogEntry
from sigstore.oidc import IdentityToken
from sigstore.sign import SigningContext
from sigstore_models.rekor.v1 import TransparencyLogEntry as EntryModel

from attest import canonical
from attest.errors import Refused
from attest.local import certificates, timestamps
from attest.local.keys import Keys, key_id
from attest.local.log import LocalLog

if TYPE_CHECKING:
    from sigstore.models import TrustedRoot

OIDC_ISSUER: Final = "https://oidc.local.invalid"
"""RFC 2606: nothing can ever answer there, so it passes for no public identity provider."""
TOKEN_SECONDS: Final = 300
CA_NAME: Final = "bench local CA"


def mint_token(keys: Keys, subject: str) -> IdentityToken:
    now = int(time.time())
    claims = {
        "iss": OIDC_ISSUER,
        "aud": "sigstore",
        "sub": subject,
        "iat": now,
        "nbf": now - 1,
        "exp": now + TOKEN_SECONDS,
    }
    signed = b".".join(_base64url(json.dumps(part).encode()) for part in ({"alg": "ES256", "typ": "JWT"}, claims))
    r, s = decode_dss_signature(keys.sign("oidc", signed))
    # RFC 7518 3.4: the two integers side by side, not DER.
    return IdentityToken((signed + b"." + _base64url(r.to_bytes(32, "big") + s.to_bytes(32, "big"))).decode())


class LocalFulcio:
    """Issues a certificate for a key whose holder brings a token of our own issuer."""

    def __init__(self, keys: Keys, ca_certificate: bytes):
        self._keys = keys
        self._ca = x509.load_der_x509_certificate(ca_certificate)

    @property
    def signing_cert(self) -> LocalFulcio:
        return self

    def post(self, req: x509.CertificateSigningRequest, identity: IdentityToken) -> FulcioCertificateSigningResponse:
        claims = jwt.decode(
            str(identity), self._keys.public("oidc"), ["ES256"], audience="sigstore", issuer=OIDC_ISSUER
        )
        if not req.is_signature_valid:
            raise Refused("certificate", "the request is not signed by the key that it is for")
        public = req.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        leaf = certificates.leaf(
            self._keys, CA_NAME, public, identity=claims["sub"], issuer=OIDC_ISSUER, now=datetime.now(UTC)
        )
        return FulcioCertificateSigningResponse(x509.load_der_x509_certificate(leaf), [self._ca])


class LocalTimestamps:
    url = "https://tsa.local.invalid"

    def __init__(self, keys: Keys, certificate: bytes):
        self._keys = keys
        self._certificate = certificate

    def request_timestamp(self, signature: bytes) -> TimeStampResponse:
        response = timestamps.respond(self._keys, self._certificate, signature, datetime.now(UTC))
        return decode_timestamp_response(response)


class LocalRekor(RekorLogSubmitter):
    """A log of DSSE envelopes in Rekor v2's form."""

    url = "https://log.local.invalid"
    _build_dsse_request = RekorV2Client._build_dsse_request

    def __init__(self, log: LocalLog, keys: Keys):
        self._log = log
        self._keys = keys

    @classmethod
    def _build_hashed_rekord_request(cls, *_args: Any, **_kwargs: Any) -> NoReturn:
        # A blob that begins with "DSSEv1 " would be a statement to a Rekor v2 log (row V23), so no blob is ever signed.
        raise Refused("usage", "this identity signs in-toto statements only, never a blob")

    def create_entry(self, request: EntryRequestBody) -> TransparencyLogEntry:
        asked = request["hashedRekordRequestV002"]
        certificate = x509.load_der_x509_certificate(
            base64.b64decode(asked["signature"]["verifier"]["x509Certificate"]["rawBytes"])
        )
        key = certificate.public_key()
        if not isinstance(key, ec.EllipticCurvePublicKey):
            raise Refused("log_entry", "not an entry signed by an elliptic curve key")
        key.verify(
            base64.b64decode(asked["signature"]["content"]),
            base64.b64decode(asked["digest"]),
            ec.ECDSA(Prehashed(hashes.SHA256())),
        )
        body = canonical.dumps(
            {
                "apiVersion": "0.0.2",
                "kind": "hashedrekord",
                "spec": {
                    "hashedRekordV002": {
                        "data": {"algorithm": "SHA2_256", "digest": asked["digest"]},
                        "signature": asked["signature"],
                    }
                },
            }
        )
        placed = self._log.append(body)
        entry = {
            "logIndex": str(placed.index),
            "logId": {"keyId": _base64(key_id(self._keys.public("log")))},
            "kindVersion": {"kind": "hashedrekord", "version": "0.0.2"},
            "canonicalizedBody": _base64(body),
            "inclusionProof": {
                "logIndex": str(placed.index),
                "treeSize": str(placed.size),
                "rootHash": _base64(placed.root),
                "hashes": [_base64(h) for h in placed.path],
                "checkpoint": {"envelope": placed.checkpoint},
            },
        }
        return TransparencyLogEntry(EntryModel.from_dict(entry))


def signing_context(
    keys: Keys, log: LocalLog, ca_certificate: bytes, tsa_certificate: bytes, root: TrustedRoot
) -> SigningContext:
    return SigningContext(
        fulcio=LocalFulcio(keys, ca_certificate),  # type: ignore[arg-type]  # the same method, no session behind it
        rekor=LocalRekor(log, keys),
        trusted_root=root,
        tsa_clients=[LocalTimestamps(keys, tsa_certificate)],  # type: ignore[list-item]  # as above
    )


def trusted_root(keys: Keys, log_origin: str, start: datetime, ca: bytes, tsa_chain: tuple[bytes, bytes]) -> bytes:
    """What a verifier pins: the public halves, in Sigstore's trusted root format, as canonical JSON."""
    valid = {"start": start.isoformat().replace("+00:00", "Z")}

    def log(role: Any, host: str) -> dict[str, Any]:
        key = keys.public(role)
        der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        return {
            "baseUrl": f"https://{host}",
            "hashAlgorithm": "SHA2_256",
            "publicKey": {"rawBytes": _base64(der), "keyDetails": "PKIX_ECDSA_P256_SHA_256", "validFor": valid},
            "logId": {"keyId": _base64(key_id(key))},
        }

    def authority(chain: tuple[bytes, ...], common_name: str, host: str) -> dict[str, Any]:
        return {
            "subject": {"organization": certificates.ORGANIZATION, "commonName": common_name},
            "uri": f"https://{host}",
            "certChain": {"certificates": [{"rawBytes": _base64(der)} for der in chain]},
            "validFor": valid,
        }

    return canonical.dumps(
        {
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [log("log", log_origin)],
            "certificateAuthorities": [authority((ca,), CA_NAME, "ca.local.invalid")],
            "ctlogs": [log("ct", "ct.local.invalid")],
            "timestampAuthorities": [authority(tsa_chain, "bench local TSA root", "tsa.local.invalid")],
        }
    )


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _base64url(content: bytes) -> bytes:
    return base64.urlsafe_b64encode(content).rstrip(b"=")
