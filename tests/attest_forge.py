"""Hostile inputs to a verifier, made with a genuine instance: its owner signs what `sign_record` never would."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

from asn1crypto import algos, core
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from rfc3161_client import TimeStampResponse, decode_timestamp_response
from sigstore import dsse
from sigstore._internal.rekor import EntryRequestBody, RekorLogSubmitter
from sigstore._internal.rekor.client import RekorClient
from sigstore.models import Bundle, TransparencyLogEntry
from sigstore.oidc import IdentityToken
from sigstore.sign import SigningContext
from sigstore_models.intoto import Envelope, Signature
from sigstore_models.rekor.v1 import TransparencyLogEntry as EntryModel

from attest import canonical, library
from attest.local import certificates, instance, timestamps
from attest.local.keys import KeyRole, Keys, key_id
from attest.local.log import LocalLog
from attest.local.merkle import node_hash
from attest.predicate import (
    Claims,
    Dependency,
    LogReference,
    Predicate,
    Run,
    RunnerClaim,
    SchemaReference,
    Sha256Digest,
    SuiteReference,
)
from attest.roots import PinnedRoot
from attest.statement import PAYLOAD_TYPE, PREDICATE_TYPE, STATEMENT_TYPE
from attest.trust.local import LocalTrust, _first_certificate, open_or_init

HEX = hashlib.sha256(b"").hexdigest()
RECORD = canonical.dumps({"energy": 12, "schema": "record-v1", "trials": [{"outcome": "resolved"}]})


def tree_hash(leaves: list[bytes]) -> bytes:
    """MTH of RFC 6962 2.1, word for word."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    k = 1
    while k * 2 < len(leaves):
        k *= 2
    return node_hash(tree_hash(leaves[:k]), tree_hash(leaves[k:]))


def claims() -> Claims:
    digest = Sha256Digest(sha256=HEX)
    return Claims(
        schema_=SchemaReference(uri="https://bench-appliance.invalid/schemas/record-v1.schema.json", digest=digest),
        suite=SuiteReference(uri="https://bench-appliance.invalid/suites/smoke", digest=digest, version="1"),
        runner=RunnerClaim(version="0.1.0", digest=digest),
        resolved_dependencies=(Dependency(name="image/task:base", digest={"sha256": HEX}),),
        run=Run(invocation_id="r1", started_on="2026-11-30T09:00:00Z", finished_on="2026-11-30T09:01:00Z"),
        challenge=None,
        supersedes=None,
    )


def predicate(signer: str) -> dict[str, Any]:
    return Predicate.of(claims(), signer, LogReference(size=0, root=HEX), "local").json_value()


def edited(bundle: bytes, change: Callable[[dict[str, Any]], Any]) -> bytes:
    """The bundle after `change` was made to its parsed JSON."""
    value = json.loads(bundle)
    change(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def entry(bundle: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = bundle["verificationMaterial"]["tlogEntries"][0]
    return found


def stamps(bundle: dict[str, Any]) -> list[dict[str, str]]:
    found: list[dict[str, str]] = bundle["verificationMaterial"]["timestampVerificationData"]["rfc3161Timestamps"]
    return found


def pinned(content: bytes, name: str = "test") -> PinnedRoot:
    return PinnedRoot(name, content, hashlib.sha256(content).hexdigest(), "local")


class MixedKeys:
    """One instance's keys, but for the roles of another."""

    def __init__(self, own: Keys, others: dict[KeyRole, Keys]):
        self._own = own
        self._others = others

    def public(self, role: KeyRole) -> ec.EllipticCurvePublicKey:
        return self._others.get(role, self._own).public(role)

    def sign(self, role: KeyRole, message: bytes) -> bytes:
        return self._others.get(role, self._own).sign(role, message)


class SkewedClock:
    """A timestamp authority with a genuine key and a wrong clock."""

    url = "https://tsa.local.invalid"

    def __init__(self, keys: Keys, certificate: bytes, skew: timedelta):
        self._keys = keys
        self._certificate = certificate
        self._skew = skew

    def request_timestamp(self, signature: bytes) -> TimeStampResponse:
        now = datetime.now(UTC) + self._skew
        return decode_timestamp_response(timestamps.respond(self._keys, self._certificate, signature, now))


class LogOfV1(LocalLog):
    """A log in Rekor v1's form under the same key: its checkpoints name a tree of it, its indexes count all trees."""

    TREE = 1193050959916656506
    ENTRIES_OF_OTHER_TREES = 4_163_431

    def _checkpoint(self, size: int, root: bytes) -> str:
        note = f"{self.origin} - {self.TREE}\n{size}\n{base64.b64encode(root).decode()}\n"
        signature = key_id(self._keys.public("log"))[:4] + self._keys.sign("log", note.encode())
        return f"{note}\n\u2014 {self.origin} {base64.b64encode(signature).decode()}\n"


class RekorOfV1(RekorLogSubmitter):
    """Logs whole DSSE envelopes, and promises at once to include them: `dsse` entries of version 0.0.1."""

    url = "https://log.local.invalid"
    _build_dsse_request = RekorClient._build_dsse_request

    def __init__(self, log: LogOfV1, keys: Keys, skew: timedelta = timedelta()):
        self._log = log
        self._keys = keys
        self._skew = skew

    def _build_hashed_rekord_request(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise NotImplementedError

    def create_entry(self, request: EntryRequestBody) -> TransparencyLogEntry:
        proposed = request["spec"]["proposedContent"]
        return self.logged(proposed["envelope"].encode(), proposed["verifiers"][0])

    def logged(self, envelope: bytes, verifier: str) -> TransparencyLogEntry:
        value = json.loads(envelope)
        body = canonical.dumps(
            {
                "apiVersion": "0.0.1",
                "kind": "dsse",
                "spec": {
                    "envelopeHash": {"algorithm": "sha256", "value": hashlib.sha256(envelope).hexdigest()},
                    "payloadHash": {
                        "algorithm": "sha256",
                        "value": hashlib.sha256(base64.b64decode(value["payload"])).hexdigest(),
                    },
                    "signatures": [{"signature": one["sig"], "verifier": verifier} for one in value["signatures"]],
                },
            }
        )
        placed = self._log.append(body)
        log_id = key_id(self._keys.public("log"))
        index = placed.index + LogOfV1.ENTRIES_OF_OTHER_TREES
        at = round((datetime.now(UTC) + self._skew).timestamp())
        promise = canonical.dumps(
            {"body": _base64(body), "integratedTime": at, "logID": log_id.hex(), "logIndex": index}
        )
        entry = {
            "logIndex": str(index),
            "logId": {"keyId": _base64(log_id)},
            "kindVersion": {"kind": "dsse", "version": "0.0.1"},
            "integratedTime": str(at),
            "inclusionPromise": {"signedEntryTimestamp": _base64(self._keys.sign("log", promise))},
            "canonicalizedBody": _base64(body),
            "inclusionProof": {
                "logIndex": str(placed.index),
                "treeSize": str(placed.size),
                "rootHash": _base64(placed.root),
                "hashes": [_base64(found) for found in placed.path],
                "checkpoint": {"envelope": placed.checkpoint},
            },
        }
        return TransparencyLogEntry(EntryModel.from_dict(entry))


Extension = tuple[str, Any, bool]
"""Its name or number, its value, and whether it is critical."""


class AlteredFulcio(instance.LocalFulcio):
    """The genuine authority, whose owner lets it issue what it never would: other extensions, other letters."""

    def __init__(
        self, keys: Keys, ca: bytes, alter: Callable[[Extension], Extension] | None, letters: tuple[bytes, bytes] | None
    ):
        super().__init__(keys, ca)
        self._alter = alter or (lambda field: field)
        self._letters = letters or (b"", b"")
        assert len(self._letters[0]) == len(self._letters[1])

    def post(self, req: x509.CertificateSigningRequest, identity: IdentityToken) -> Any:
        extension, stamp = certificates._extension, certificates._sct

        def lettered(der: bytes) -> bytes:
            return der.replace(*self._letters) if self._letters[0] else der

        def signed(tbs: Any, keys: Keys, issuer: KeyRole) -> bytes:
            der = lettered(tbs.dump())
            algorithm = algos.SignedDigestAlgorithm({"algorithm": "sha256_ecdsa"}).dump()
            content = der + algorithm + core.OctetBitString(keys.sign(issuer, der)).dump()
            return b"\x30\x82" + len(content).to_bytes(2, "big") + content

        with (
            mock.patch.object(certificates, "_extension", lambda *field: extension(*self._alter(field))),
            mock.patch.object(certificates, "_sct", lambda keys, der, at: stamp(keys, lettered(der), at)),
            mock.patch.object(certificates, "_signed", signed),
        ):
            return super().post(req, identity)


Holder = tuple[ec.EllipticCurvePrivateKey, x509.Certificate]


class Forge:
    """An instance in a folder, with the means of its owner."""

    def __init__(self, folder: Path):
        self.trust: LocalTrust = open_or_init(folder)
        self.keys: Keys = self.trust._keys
        authorities = json.loads(self.trust.root.content)
        self.ca = _first_certificate(authorities["certificateAuthorities"])
        self.tsa = _first_certificate(authorities["timestampAuthorities"])

    @property
    def identity(self) -> str:
        return self.trust.identity

    def root(self, change: Callable[[dict[str, Any]], Any] | None = None) -> PinnedRoot:
        """The instance's root, pinned; or another one made of it, pinned too."""
        value = copy.deepcopy(json.loads(self.trust.root.content))
        if change:
            change(value)
        return pinned(json.dumps(value).encode())

    def statement(self, record: bytes = RECORD, **changes: Any) -> bytes:
        """Canonical bytes of a good statement about `record`, but for `changes` of its fields (None removes one)."""
        value = {
            "_type": STATEMENT_TYPE,
            "subject": [{"name": "record.json", "digest": {"sha256": hashlib.sha256(record).hexdigest()}}],
            "predicateType": PREDICATE_TYPE,
            "predicate": predicate(self.identity),
            **changes,
        }
        return canonical.dumps({key: field for key, field in value.items() if field is not None})

    def context(
        self,
        others: dict[KeyRole, Keys] | None = None,
        ca: bytes | None = None,
        tsa: Any = None,
        log: LocalLog | None = None,
        *,
        alter: Callable[[Extension], Extension] | None = None,
        letters: tuple[bytes, bytes] | None = None,
    ) -> SigningContext:
        """The services of the instance, with some keys, authorities, certificates or clocks of somebody else.

        `letters`: bytes of the certificate, and as many others that stand there instead when it is signed.
        """
        keys = MixedKeys(self.keys, others or {})
        ca = ca or self.ca
        return SigningContext(
            fulcio=AlteredFulcio(keys, ca, alter, letters),  # type: ignore[arg-type]
            rekor=instance.LocalRekor(log or LocalLog(self.trust.folder / "log", keys), keys),
            trusted_root=library.load_root(self.trust.root),
            tsa_clients=[tsa or instance.LocalTimestamps(keys, self.tsa)],  # type: ignore[list-item]
        )

    def context_of_v1(self, *, stamped: bool = True, skew: timedelta = timedelta(), **mixed: Any) -> SigningContext:
        """The same instance with a log of Rekor v1's form beside its own; `stamped`: with a timestamp as well."""
        context = self.context(**mixed)
        keys = context._rekor._keys  # type: ignore[attr-defined]
        context._rekor = RekorOfV1(self.log_of_v1(keys), keys, skew)
        if not stamped:
            context._tsa_clients = []
        return context

    def log_of_v1(self, keys: Keys) -> LogOfV1:
        folder = self.trust.folder / "log-v1"
        return LogOfV1(folder, keys) if folder.exists() else LogOfV1.create(folder, keys)

    def holder(self, context: SigningContext | None = None, subject: str | None = None) -> Holder:
        """A new key, and the certificate for ten minutes that it gets by a token of this subject."""
        services = context or self.context()
        key = ec.generate_private_key(ec.SECP256R1())
        asked = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
        token = instance.mint_token(self.keys, subject or self.identity)
        return key, services._fulcio.signing_cert.post(asked, token).cert

    def bundle(
        self,
        payload: bytes | None = None,
        payload_type: str = PAYLOAD_TYPE,
        *,
        subject: str | None = None,
        context: SigningContext | None = None,
        pae: Callable[[str, bytes], bytes] = dsse._pae,
        holder: Holder | None = None,
    ) -> bytes:
        """A bundle with a genuine signature over any payload of any type, in the name of any subject.

        Nothing is checked on the way, neither by sigstore-python's signer nor by ours. `holder`: a key that has its
        certificate already.
        """
        content = self.statement() if payload is None else payload
        services = context or self.context()
        key, certificate = holder or self.holder(services, subject)
        signature = key.sign(pae(payload_type, content), ec.ECDSA(hashes.SHA256()))
        envelope = dsse.Envelope(
            Envelope(
                payload=base64.b64encode(content),
                payload_type=payload_type,
                signatures=[Signature(sig=base64.b64encode(signature))],
            )
        )
        timestamps_of_it = [authority.request_timestamp(signature) for authority in services._tsa_clients]
        logged = services._rekor.create_entry(services._rekor._build_dsse_request(envelope, certificate))
        return Bundle._from_parts(certificate, envelope, logged, timestamps_of_it).to_json().encode()


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
