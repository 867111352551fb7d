"""A Sigstore deployment on loopback, in this process, as a client sees it.

Fulcio, Rekor v1 and v2, a timestamp authority, an identity provider (authorisation code with PKCE, and the endpoints of
two CI systems) and a TUF repository; each misbehaves on demand. Outsides only: `services_bench` has the real ones.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import struct
import threading
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, Literal

import jwt
from asn1crypto import core, tsp  # type: ignore[import-untyped]
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import ExtendedKeyUsageOID
from securesystemslib.signer import CryptoSigner
from tuf.api.metadata import Metadata, Root, Snapshot, TargetFile, Targets, Timestamp

from attest import canonical
from attest.local import certificates, instance, timestamps
from attest.local.keys import KeyFolder, KeyRole, key_id
from attest.local.merkle import leaf_hash
from attest.local.proofs import inclusion, root_of
from attest.roots import SELF_ASSERTED

Fault = Literal[
    "silent",
    "error",
    "garbage",
    "drips",
    "floods",
    "closes",
    "late",
    "early",
    "foreign",
    "phrase",
    "echo",
    "shout",
    "away",
]
"""silent: takes the question and never answers; drips: a byte now and then; floods: as much as is taken, without end;
late and early: a clock that is a day off; foreign: what another deployment would answer; phrase, echo, shout: the token
of the question again, as its reason phrase, its body, its whole answer; away: sends to another address."""
Service = Literal["fulcio", "rekor", "tsa", "oidc", "tuf"]

_LEAF_SCT: Final = x509.ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")
_ISSUER_V1: Final = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.1")
_ISSUER_V2: Final = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.8")
_ORGANIZATION: Final = "twin.example"
_TREE_V1: Final = "1193050959916656506"
_SHARD_OFFSET: Final = 1000
"""Rekor v1 counts its entries over all trees that it ever had."""
WORKFLOW: Final = "https://github.com/lab/bench/.github/workflows/bench.yml@refs/heads/main"
PIPELINE: Final = "https://gitlab.com/lab/bench//.gitlab-ci.yml@refs/heads/main"
PERSON: Final = "operator@lab.example"
RUNNER_TOKEN: Final = "runner-token"


class Twin:
    """One deployment; `faults` may be set and cleared while it runs, `asked` lists what was asked of it."""

    def __init__(self, folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.keys = KeyFolder.create(folder / "keys")
        self.faults: dict[Service, Fault] = {}
        self.elsewhere = ""
        self.asked: list[str] = []
        self.codes: dict[str, dict[str, str]] = {}
        self.certificate_minutes = 10
        self.start = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
        self.ca = self._authority("ca", "ca", "twin CA", "twin CA")
        self.tsa_root = self._authority("tsaroot", "tsaroot", "twin TSA root", "twin TSA root")
        self.tsa = self._authority("tsa", "tsaroot", "twin TSA", "twin TSA root")
        self.logs: dict[int, list[bytes]] = {1: [], 2: []}
        self.lock = threading.Lock()
        self._stop = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._stop.set()
        self._server.shutdown()
        self._server.server_close()

    # ------------------------------------------------------------------------------------ what a client is given

    def trusted_root(self) -> dict[str, Any]:
        content = instance.trusted_root(self.keys, "rekor.twin.example", self.start, self.ca, (self.tsa, self.tsa_root))
        text = content.decode().replace("local.invalid", "twin.example").replace(SELF_ASSERTED, _ORGANIZATION)
        made: dict[str, Any] = json.loads(text)
        return made

    def _authority(self, role: KeyRole, issuer: KeyRole, *names: str) -> bytes:
        subject, issued_by = names
        return certificates.authority(
            self.keys, role, issuer, (subject, issued_by), self.start, organization=_ORGANIZATION
        )

    def signing_config(self, rekor_versions: tuple[int, ...] = (1, 2)) -> dict[str, Any]:
        def service(path: str, version: int, operator: str = "twin") -> dict[str, Any]:
            start = self.start.isoformat().replace("+00:00", "Z")
            return {
                "url": self.url + path,
                "majorApiVersion": version,
                "validFor": {"start": start},
                "operator": operator,
            }

        return {
            "mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json",
            "caUrls": [service("", 1)],
            "oidcUrls": [service("/oidc", 1)],
            "rekorTlogUrls": [service("/rekor", version) for version in rekor_versions],
            "rekorTlogConfig": {"selector": "ANY"},
            "tsaUrls": [service("/tsa/api/v1/timestamp", 1)],
            "tsaConfig": {"selector": "ANY"},
        }

    def trust_config(self, rekor_versions: tuple[int, ...] = (1, 2)) -> bytes:
        return canonical.dumps(
            {
                "mediaType": "application/vnd.dev.sigstore.clienttrustconfig.v0.1+json",
                "trustedRoot": self.trusted_root(),
                "signingConfig": self.signing_config(rekor_versions),
            }
        )

    @property
    def issuer(self) -> str:
        return f"{self.url}/oidc"

    def token(self, subject: str = WORKFLOW, *, seconds: int = 300, audience: str = "sigstore") -> str:
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": audience, "sub": subject, "iat": now, "nbf": now - 1, "exp": now + seconds}
        return jwt.encode(claims, self.keys._private("oidc"), "ES256")

    def surroundings(self, system: Literal["github", "gitlab"]) -> dict[str, str]:
        """The variables that a CI system sets for a run that may have a token."""
        if system == "gitlab":
            return {"GITLAB_CI": "true", "SIGSTORE_ID_TOKEN": self.token(PIPELINE)}
        return {
            "GITHUB_ACTIONS": "true",
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN": RUNNER_TOKEN,
            "ACTIONS_ID_TOKEN_REQUEST_URL": f"{self.url}/oidc/ci?api-version=2.0",
        }

    # ------------------------------------------------------------------------------------ the services

    def certificate(self, request: x509.CertificateSigningRequest, token: str) -> list[str]:
        claims = jwt.decode(token, self.keys.public("oidc"), ["ES256"], audience="sigstore", issuer=self.issuer)
        assert request.is_signature_valid
        name = claims["sub"]
        san: x509.GeneralName = (
            x509.RFC822Name(name) if "@" in name and "://" not in name else x509.UniformResourceIdentifier(name)
        )
        ca = x509.load_der_x509_certificate(self.ca)
        now = self._clock("fulcio").replace(microsecond=0)
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([]))
            .issuer_name(ca.subject)
            .public_key(request.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now)
            .not_valid_after(now + timedelta(minutes=self.certificate_minutes))
            .add_extension(x509.KeyUsage(True, *(False,) * 8), True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(request.public_key()), False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca.public_key()), False)  # type: ignore[arg-type]
            .add_extension(x509.SubjectAlternativeName([san]), True)
            .add_extension(x509.UnrecognizedExtension(_ISSUER_V1, self.issuer.encode()), False)
            .add_extension(x509.UnrecognizedExtension(_ISSUER_V2, core.UTF8String(self.issuer).dump()), False)
        )
        precertificate = builder.sign(self.keys._private("ca"), hashes.SHA256()).tbs_certificate_bytes
        stamped = core.OctetString(self._sct(precertificate, now)).dump()
        leaf = builder.add_extension(x509.UnrecognizedExtension(_LEAF_SCT, stamped), False).sign(
            self.keys._private("ca"), hashes.SHA256()
        )
        return [one.public_bytes(serialization.Encoding.PEM).decode() for one in (leaf, ca)]

    def _sct(self, precertificate: bytes, at: datetime) -> bytes:
        role: KeyRole = "oidc" if self.faults.get("fulcio") == "foreign" else "ct"
        milliseconds = int(at.timestamp() * 1000)
        entry = key_id(self.keys.public("ca")) + len(precertificate).to_bytes(3, "big") + precertificate
        to_sign = struct.pack("!BBQH", 0, 0, milliseconds, 1) + entry + struct.pack("!H", 0)
        signature = self.keys.sign(role, to_sign)
        head = struct.pack("!B32sQH", 0, key_id(self.keys.public(role)), milliseconds, 0)
        sct = head + struct.pack("!BBH", 4, 3, len(signature)) + signature
        return struct.pack("!HH", len(sct) + 2, len(sct)) + sct

    def timestamp(self, request: bytes) -> bytes:
        asked = tsp.TimeStampReq.load(request)
        imprint, nonce = asked["message_imprint"]["hashed_message"].native, asked["nonce"].native
        return timestamps.respond_to(self.keys, self.tsa, imprint, self._clock("tsa"), nonce)

    def entry_v2(self, asked: dict[str, Any]) -> dict[str, Any]:
        wanted = asked["hashedRekordRequestV002"]
        data = {"algorithm": "SHA2_256", "digest": wanted["digest"]}
        spec = {"hashedRekordV002": {"data": data, "signature": wanted["signature"]}}
        index, size, root, path, body = self._logged(2, {"apiVersion": "0.0.2", "kind": "hashedrekord", "spec": spec})
        return {
            "logIndex": str(index),
            "logId": {"keyId": _b64(key_id(self.keys.public("log")))},
            "kindVersion": {"kind": "hashedrekord", "version": "0.0.2"},
            "canonicalizedBody": _b64(body),
            "inclusionProof": {
                "logIndex": str(index),
                "treeSize": str(size),
                "rootHash": _b64(root),
                "hashes": [_b64(one) for one in path],
                "checkpoint": {"envelope": self._note("rekor.twin.example", size, root)},
            },
        }

    def entry_v1(self, asked: dict[str, Any]) -> dict[str, Any]:
        assert asked["kind"] == "dsse"
        envelope = json.loads(asked["spec"]["proposedContent"]["envelope"])
        payload = base64.b64decode(envelope["payload"])
        spec = {
            "envelopeHash": _digest(asked["spec"]["proposedContent"]["envelope"].encode()),
            "payloadHash": _digest(payload),
            "signatures": [
                {"signature": one["sig"], "verifier": asked["spec"]["proposedContent"]["verifiers"][0]}
                for one in envelope["signatures"]
            ],
        }
        index, size, root, path, body = self._logged(1, {"apiVersion": "0.0.1", "kind": "dsse", "spec": spec})
        promised = {
            "body": _b64(body),
            "integratedTime": int(self._clock("rekor").timestamp()),
            "logID": key_id(self.keys.public("log")).hex(),
            "logIndex": index + _SHARD_OFFSET,
        }
        proof = {
            "checkpoint": self._note(f"rekor.twin.example - {_TREE_V1}", size, root),
            "hashes": [one.hex() for one in path],
            "logIndex": index,
            "rootHash": root.hex(),
            "treeSize": size,
        }
        promise = _b64(self.keys.sign("log", canonical.dumps(promised)))
        entry = {**promised, "verification": {"inclusionProof": proof, "signedEntryTimestamp": promise}}
        return {secrets.token_hex(40): entry}

    def _logged(self, version: int, value: dict[str, Any]) -> tuple[int, int, bytes, tuple[bytes, ...], bytes]:
        body = canonical.dumps(value)
        leaves = self.logs[version]
        leaves.append(leaf_hash(body))
        index = len(leaves) - 1
        return index, len(leaves), root_of(leaves), inclusion(index, leaves), body

    def _note(self, origin: str, size: int, root: bytes) -> str:
        role: KeyRole = "oidc" if self.faults.get("rekor") == "foreign" else "log"
        note = f"{origin}\n{size}\n{_b64(root)}\n"
        signature = _b64(key_id(self.keys.public(role))[:4] + self.keys.sign(role, note.encode()))
        return f"{note}\n\u2014 rekor.twin.example {signature}\n"

    def _clock(self, service: Service) -> datetime:
        off = {"late": timedelta(days=1), "early": timedelta(days=-1)}.get(self.faults.get(service, ""), timedelta())
        return datetime.now(UTC) + off

    # ------------------------------------------------------------------------------------ HTTP

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        twin = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                self._answer(b"")

            def do_POST(self) -> None:
                self._answer(self.rfile.read(int(self.headers["Content-Length"])))

            def _answer(self, content: bytes) -> None:
                address = urllib.parse.urlsplit(self.path)
                # Fulcio's client knows no path before its own.
                service = "fulcio" if address.path.startswith("/api/") else address.path.split("/")[1]
                twin.asked.append(address.path)
                if twin._misbehaved(service, self):  # type: ignore[arg-type]
                    return
                with twin.lock:
                    try:
                        status, kind, body = twin._routed(address, dict(self.headers), content)
                    except jwt.PyJWTError as error:
                        status, kind, body = (
                            401,
                            "application/json",
                            json.dumps({"code": 16, "message": str(error)}).encode(),
                        )
                self.send_response(status)
                self.send_header("Location" if status == 302 else "Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        return Handler

    def _misbehaved(self, service: Service, handler: BaseHTTPRequestHandler) -> bool:
        fault = self.faults.get(service)
        if fault == "silent":
            self._stop.wait(60)
        elif fault == "closes":
            handler.close_connection = True
        elif fault == "error":
            body = b'{"code":13,"message":"the disk \x1b[31mis full"}'
            handler.send_response(500)
            handler.send_header("Content-Length", str(len(body)))
            handler.end_headers()
            handler.wfile.write(body)
        elif fault == "garbage":
            handler.send_response(200)
            handler.send_header("Content-Length", "8")
            handler.end_headers()
            handler.wfile.write(b"<html>\n\n")
        elif fault in ("phrase", "echo", "shout", "away"):
            handler.wfile.write(self._told(fault, handler.headers.get("Authorization", "")))
            handler.close_connection = True
        elif fault == "drips":
            handler.send_response(200)
            handler.send_header("Content-Length", "1000")
            handler.end_headers()
            self._pour(handler, b" ", 0.3)
        elif fault == "floods":
            handler.send_response(200)
            handler.send_header("Connection", "close")
            handler.end_headers()
            self._pour(handler, b" " * (16 * 1024 * 1024), 0)
            handler.close_connection = True
        else:
            return False
        return True

    def _told(self, fault: Fault, token: str) -> bytes:
        status = {"phrase": f"400 {token}", "echo": "400 Bad Request", "away": "307 Temporary Redirect"}
        if fault == "shout":
            return f"ECHO {token}\r\n\r\n".encode()
        body = f"no: {token}" if fault == "echo" else ""
        place = f"Location: {self.elsewhere}\r\n" if fault == "away" else ""
        return f"HTTP/1.1 {status[fault]}\r\n{place}Content-Length: {len(body)}\r\n\r\n{body}".encode()

    def _pour(self, handler: BaseHTTPRequestHandler, content: bytes, every_seconds: float) -> None:
        while not self._stop.wait(every_seconds):
            try:
                handler.wfile.write(content)
            except OSError:
                return

    def _routed(  # noqa: PLR0911  a table of addresses
        self, address: urllib.parse.SplitResult, headers: dict[str, str], content: bytes
    ) -> tuple[int, str, bytes]:
        asked = dict(urllib.parse.parse_qsl(address.query))
        match address.path:
            case "/api/v2/signingCert":
                request = x509.load_pem_x509_csr(base64.b64decode(json.loads(content)["certificateSigningRequest"]))
                chain = self.certificate(request, headers["Authorization"].removeprefix("Bearer "))
                return _json(201, {"signedCertificateEmbeddedSct": {"chain": {"certificates": chain}}})
            case "/rekor/api/v1/log/entries":
                return _json(201, self.entry_v1(json.loads(content)))
            case "/rekor/api/v2/log/entries":
                return _json(201, self.entry_v2(json.loads(content)))
            case "/tsa/api/v1/timestamp":
                return 201, "application/timestamp-reply", self.timestamp(content)
            case "/oidc/.well-known/openid-configuration":
                ends = {"authorization_endpoint": f"{self.issuer}/auth", "token_endpoint": f"{self.issuer}/token"}
                return _json(200, {"issuer": self.issuer, **ends})
            case "/oidc/auth":
                code = secrets.token_urlsafe(16)
                self.codes[code] = asked
                said = urllib.parse.urlencode({"code": code, "state": asked["state"]})
                return 302, f"{asked['redirect_uri']}?{said}", b""
            case "/oidc/token":
                given = dict(urllib.parse.parse_qsl(content.decode()))
                begun = self.codes.pop(given["code"])
                verifier = hashlib.sha256(given["code_verifier"].encode()).digest()
                if base64.urlsafe_b64encode(verifier).rstrip(b"=").decode() != begun["code_challenge"]:
                    return _json(400, {"error": "invalid_grant"})
                return _json(200, {"access_token": self.token(PERSON), "token_type": "Bearer"})
            case "/oidc/ci":
                if headers.get("Authorization") != f"bearer {RUNNER_TOKEN}":
                    return _json(401, {"message": "no"})
                return _json(200, {"value": self.token(WORKFLOW, audience=asked["audience"])})
            case path if path.startswith("/tuf/"):
                place = (self.folder / path.lstrip("/")).resolve()
                if place.is_file() and self.folder.resolve() in place.parents:
                    return 200, "application/octet-stream", place.read_bytes()
        return _json(404, {"message": f"nothing at {address.path}"})


class TwinRepository:
    """The TUF repository of a twin, at `URL/tuf`: each `publish` is one version more."""

    def __init__(self, twin: Twin):
        self.twin = twin
        self.url = f"{twin.url}/tuf"
        self.version = 0
        self._folder = twin.folder / "tuf"
        (self._folder / "targets").mkdir(parents=True)
        self._offline, self._online = CryptoSigner.generate_ed25519(), CryptoSigner.generate_ed25519()
        root = Metadata(Root(expires=self._expiry(365), consistent_snapshot=True))
        for role in ("root", "targets"):
            root.signed.add_key(self._offline.public_key, role)
        for role in ("snapshot", "timestamp"):
            root.signed.add_key(self._online.public_key, role)
        root.sign(self._offline)
        root.to_file(str(self._folder / "1.root.json"))
        self.root = (self._folder / "1.root.json").read_bytes()

    def publish(self, root: dict[str, Any], services: dict[str, Any] | None, *, days: int = 365) -> None:
        self.version += 1
        expires = self._expiry(days)
        targets = Metadata(Targets(version=self.version, expires=expires))
        files = {"trusted_root.json": root, **({"signing_config.v0.2.json": services} if services else {})}
        for name, value in files.items():
            content = json.dumps(value, indent=1).encode()
            target = TargetFile.from_data(name, content, ["sha256"])
            targets.signed.targets[name] = target
            (self._folder / "targets" / f"{target.hashes['sha256']}.{name}").write_bytes(content)
        snapshot = Metadata(Snapshot(version=self.version, expires=expires))
        snapshot.signed.meta["targets.json"].version = self.version
        timestamp = Metadata(Timestamp(version=self.version, expires=expires))
        timestamp.signed.snapshot_meta.version = self.version
        targets.sign(self._offline)
        snapshot.sign(self._online)
        timestamp.sign(self._online)
        targets.to_file(str(self._folder / f"{self.version}.targets.json"))
        snapshot.to_file(str(self._folder / f"{self.version}.snapshot.json"))
        timestamp.to_file(str(self._folder / "timestamp.json"))

    def timestamp(self) -> bytes:
        """What says which version is the newest; put back, it is an old repository."""
        return (self._folder / "timestamp.json").read_bytes()

    def put_back(self, timestamp: bytes) -> None:
        (self._folder / "timestamp.json").write_bytes(timestamp)

    @staticmethod
    def _expiry(days: int) -> datetime:
        return datetime.now(UTC).replace(microsecond=0) + timedelta(days=days)


@contextmanager
def running(folder: Path) -> Iterator[Twin]:
    twin = Twin(folder)
    try:
        yield twin
    finally:
        twin.close()


def _json(status: int, value: Any) -> tuple[int, str, bytes]:
    return status, "application/json", json.dumps(value).encode()


def _digest(content: bytes) -> dict[str, str]:
    return {"algorithm": "sha256", "value": hashlib.sha256(content).hexdigest()}


def _b64(content: bytes) -> str:
    return base64.b64encode(content).decode()
