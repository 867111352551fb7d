"""Keys, certificates and the two configs of a private Sigstore deployment in a folder."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LOG_NAME: Final = "rekor-local"
PASSWORD: Final = "loopback"
_START: Final = "2020-01-01T00:00:00Z"
_Key = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


def make_keys(folder: Path) -> None:
    """Each program takes its key in one form only: Fulcio encrypted PKCS#8, TesseraCT SEC1, the others PKCS#8."""
    ca = _p256()
    _write(folder / "ca.key", ca, password=PASSWORD)
    _certificate(folder / "ca.pem", _name("fulcio"), ca, _name("fulcio"), ca, authority=True)
    _write(folder / "ct.pem", _p256(), serialization.PrivateFormat.TraditionalOpenSSL)
    _write(folder / "rekor.pem", ed25519.Ed25519PrivateKey.generate())
    tsa_root, tsa = _p256(), _p256()
    _write(folder / "tsa.pem", tsa)
    root = _certificate(
        folder / "tsa_root.pem", _name("tsa root"), tsa_root, _name("tsa root"), tsa_root, authority=True
    )
    leaf = _certificate(folder / "tsa_leaf.pem", _name("tsa"), tsa, _name("tsa root"), tsa_root, authority=False)
    (folder / "tsa_chain.pem").write_bytes(leaf + root)


def trusted_root(folder: Path, url: Callable[[str], str]) -> dict[str, Any]:
    """`url` gives the address of a service by its name."""
    ct, rekor = _public(folder / "ct.pem"), _public(folder / "rekor.pem")
    # The key id of a checkpoint's signature (C2SP signed-note): name, newline, algorithm 1, the raw Ed25519 key.
    rekor_id = hashlib.sha256(f"{LOG_NAME}\n\x01".encode() + rekor[-32:]).digest()
    return {
        "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
        "tlogs": [_log(f"http://{LOG_NAME}", rekor, "PKIX_ED25519", rekor_id)],
        "certificateAuthorities": [_authority("fulcio", url("fulcio"), folder / "ca.pem")],
        "ctlogs": [_log(url("ct"), ct, "PKIX_ECDSA_P256_SHA_256", hashlib.sha256(ct).digest())],
        "timestampAuthorities": [_authority("tsa", url("tsa"), folder / "tsa_chain.pem")],
    }


def signing_config(url: Callable[[str], str]) -> dict[str, Any]:
    def service(address: str, version: int) -> dict[str, Any]:
        return {"url": address, "majorApiVersion": version, "validFor": {"start": _START}, "operator": "loopback"}

    return {
        "mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json",
        "caUrls": [service(url("fulcio"), 1)],
        "oidcUrls": [service(f"{url('issuer')}/email", 1)],
        "rekorTlogUrls": [service(url("rekor"), 2)],
        "rekorTlogConfig": {"selector": "ANY"},
        "tsaUrls": [service(f"{url('tsa')}/api/v1/timestamp", 1)],
        "tsaConfig": {"selector": "ANY"},
    }


def write_configs(folder: Path, url: Callable[[str], str]) -> None:
    """`trusted_root.json`, `signing_config.json`, and both in `trust_config.json`."""
    root, signing = trusted_root(folder, url), signing_config(url)
    media = "application/vnd.dev.sigstore.clienttrustconfig.v0.1+json"
    whole = {"mediaType": media, "trustedRoot": root, "signingConfig": signing}
    for name, content in (("trusted_root", root), ("signing_config", signing), ("trust_config", whole)):
        (folder / f"{name}.json").write_text(json.dumps(content))


def write_fulcio_config(path: Path, issuers: dict[str, str]) -> None:
    """Fulcio's types of issuer by their addresses."""
    entries = {
        url: {"IssuerURL": url, "ClientID": "sigstore", "Type": kind, "ContactEmail": "", "Description": ""}
        for url, kind in issuers.items()
    }
    path.write_text(json.dumps({"OIDCIssuers": entries}))


def _p256() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _write(
    path: Path,
    key: _Key,
    form: serialization.PrivateFormat = serialization.PrivateFormat.PKCS8,
    *,
    password: str | None = None,
) -> None:
    shut: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password:
        shut = serialization.BestAvailableEncryption(password.encode())
    path.touch(mode=0o600)
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, shut))


def _public(path: Path) -> bytes:
    """SubjectPublicKeyInfo, DER."""
    public = serialization.load_pem_private_key(path.read_bytes(), None).public_key()
    return public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def _name(common: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "loopback test"),
            x509.NameAttribute(NameOID.COMMON_NAME, f"loopback {common}"),
        ]
    )


def _certificate(
    path: Path,
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Name,
    issuer_key: ec.EllipticCurvePrivateKey,
    *,
    authority: bool,
) -> bytes:
    """Good for ten years from an hour ago: an authority, or else a timestamp authority's own."""
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=3650))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=0 if authority else None), critical=True)
        .add_extension(
            x509.KeyUsage(
                digital_signature=not authority,
                key_cert_sign=authority,
                crl_sign=authority,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    if not authority:
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.TIME_STAMPING])
        builder = builder.add_extension(usage, critical=True)
    pem = builder.sign(issuer_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    path.write_bytes(pem)
    return pem


def _authority(name: str, url: str, chain: Path) -> dict[str, Any]:
    certificates = x509.load_pem_x509_certificates(chain.read_bytes())
    raw = [{"rawBytes": _text(one.public_bytes(serialization.Encoding.DER))} for one in certificates]
    return {
        "subject": {"organization": "loopback test", "commonName": f"loopback {name}"},
        "uri": url,
        "certChain": {"certificates": raw},
        "validFor": {"start": _START},
    }


def _log(url: str, key: bytes, kind: str, key_id: bytes) -> dict[str, Any]:
    return {
        "baseUrl": url,
        "hashAlgorithm": "SHA2_256",
        "publicKey": {"rawBytes": _text(key), "keyDetails": kind, "validFor": {"start": _START}},
        "logId": {"keyId": _text(key_id)},
    }


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()
