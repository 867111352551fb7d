"""The instance's six keys, behind an interface that a TPM or HSM can keep too: public halves, and signatures."""

from __future__ import annotations

import hashlib
import os
import shlex
from pathlib import Path
from typing import Final, Literal, Protocol, get_args

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from attest.errors import Refused

KeyRole = Literal["ca", "ct", "log", "tsaroot", "tsa", "oidc"]
KEY_ROLES: Final[tuple[KeyRole, ...]] = get_args(KeyRole)


class Keys(Protocol):
    """P-256 keys by role. Nothing outside ever sees a private half."""

    def public(self, role: KeyRole) -> ec.EllipticCurvePublicKey: ...

    def sign(self, role: KeyRole, message: bytes) -> bytes:
        """ECDSA over SHA-256 of `message`, DER."""
        ...


def open_keys(folder: Path) -> Keys:
    """Those of an instance: files, or some of them in a TPM."""
    if not (folder / "tpm.json").exists():
        return KeyFolder(folder)
    from attest.tpm_device import TpmKeys

    return TpmKeys.open(folder)


class KeyFolder:
    """Keys as PKCS#8 files of mode 0600, each read when it is first needed."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._loaded: dict[KeyRole, ec.EllipticCurvePrivateKey] = {}

    @classmethod
    def create(cls, folder: Path) -> KeyFolder:
        folder.mkdir(mode=0o700)
        for role in KEY_ROLES:
            pem = ec.generate_private_key(ec.SECP256R1()).private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            descriptor = os.open(folder / f"{role}.pem", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(pem)
                stream.flush()
                os.fsync(stream.fileno())
        return cls(folder)

    def public(self, role: KeyRole) -> ec.EllipticCurvePublicKey:
        return self._private(role).public_key()

    def sign(self, role: KeyRole, message: bytes) -> bytes:
        return self._private(role).sign(message, ec.ECDSA(hashes.SHA256()))

    def _private(self, role: KeyRole) -> ec.EllipticCurvePrivateKey:
        if role not in self._loaded:
            self._loaded[role] = _read_private(self._folder / f"{role}.pem")
        return self._loaded[role]


def spki(key: ec.EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def key_id(key: ec.EllipticCurvePublicKey) -> bytes:
    """sha256 of the SubjectPublicKeyInfo: the log id of RFC 6962, and the fingerprint in the signer's name."""
    return hashlib.sha256(spki(key)).digest()


def _read_private(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        mode = path.stat().st_mode
        if mode & 0o077:
            raise Refused(
                "trust_root",
                f"a private key that others may read (mode {mode & 0o777:04o})",
                where=str(path),
                mend=f"chmod 600 {shlex.quote(str(path))}, and think whether it was read",
            )
        key = serialization.load_pem_private_key(path.read_bytes(), None)
    except OSError as error:
        raise Refused("trust_root", error.strerror or str(error), where=str(path)) from error
    except (ValueError, TypeError) as error:
        raise Refused("trust_root", "not a private key in PEM", where=str(path)) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise Refused("trust_root", "not a P-256 key", where=str(path))
    return key
