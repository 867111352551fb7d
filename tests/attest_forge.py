"""Hostile inputs to a verifier, made with a genuine instance: its owner signs what `sign_record` never would."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from rfc3161_client import TimeStampResponse, decode_timestamp_response
from sigstore import dsse
from sigstore.sign import SigningContext
from sigstore_models.intoto import Envelope, Signature

from attest import canonical, library
from attest.local import instance, timestamps
from attest.local.keys import KeyRole, Keys
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
    ) -> SigningContext:
        """The services of the instance, with some keys, authorities or clocks of somebody else."""
        keys = MixedKeys(self.keys, others or {})
        ca = ca or self.ca
        start = datetime.now(UTC).replace(microsecond=0) - timedelta(days=1)
        # sigstore-python checks the SCT while it signs, so it must believe in this mixture while it does.
        root = instance.trusted_root(keys, "log.local.invalid", start, ca, (self.tsa, self.tsa))
        return SigningContext(
            fulcio=instance.LocalFulcio(keys, ca),  # type: ignore[arg-type]
            rekor=instance.LocalRekor(log or LocalLog(self.trust.folder / "log", keys), keys),
            trusted_root=library.load_root(pinned(root)),
            tsa_clients=[tsa or instance.LocalTimestamps(keys, self.tsa)],  # type: ignore[list-item]
        )

    def bundle(
        self,
        payload: bytes | None = None,
        payload_type: str = PAYLOAD_TYPE,
        *,
        subject: str | None = None,
        context: SigningContext | None = None,
    ) -> bytes:
        """A bundle with a genuine signature over any payload of any type, in the name of any subject."""
        content = self.statement() if payload is None else payload
        with (context or self.context()).signer(instance.mint_token(self.keys, subject or self.identity)) as signer:
            certificate = signer._signing_cert()
            signature = signer._private_key.sign(dsse._pae(payload_type, content), ec.ECDSA(hashes.SHA256()))
            envelope = dsse.Envelope(
                Envelope(
                    payload=base64.b64encode(content),
                    payload_type=payload_type,
                    signatures=[Signature(sig=base64.b64encode(signature))],
                )
            )
            asked = signer._signing_ctx._rekor._build_dsse_request(envelope, certificate)
            return signer._finalize_sign(certificate, envelope, asked).to_json().encode()
