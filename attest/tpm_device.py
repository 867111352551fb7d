"""A TPM that signs for us: the AK's quotes, and keys of the local instance that it keeps.

Every key is a primary key: the TPM makes the same one again from its own seed, so nothing is stored in it, and no more
than one of its few places for keys is ever taken, and that only while something is asked.
"""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from attest import canonical
from attest.closed import Closed, read_closed
from attest.errors import Refused
from attest.local.files import read_bounded, write_atomically
from attest.local.keys import KeyFolder, KeyRole
from attest.predicate import Sha256, Text, Tpm
from attest.tpm import AK_FORM, signature_numbers
from attest.tpm_wire import ENDORSEMENT, OWNER, connected, sized

_SIGNING_FORM: Final = bytes.fromhex("0023000b0004007200000010001000030010")
"""As AK_FORM, but not restricted, so it signs what it is given; its scheme is chosen when it signs."""
_PCRS: Final = bytes.fromhex("00000001000b03ff0000")
"""sha256:0-7, what the machine was started with: their digest stands in the quote, and nobody here judges it."""
PLACE: Final = "tpm.json"
_MOST_PLACE_BYTES: Final = 64 * 1024


class TpmDevice:
    """One TPM, by its TCTI: `device:/dev/tpmrm0`, `swtpm:path=SOCKET`. Every call may raise Refused (trust_root)."""

    def __init__(self, tcti: str):
        self._tcti = tcti

    def quote(self, qualifying: bytes) -> Tpm:
        with connected(self._tcti) as tpm, tpm.primary(ENDORSEMENT, AK_FORM + bytes(4)) as (key, public):
            quote, signature = tpm.quote(key, qualifying, _PCRS)
        return Tpm(quote=_base64(quote), sig=_base64(signature), ak_pub=_base64(public))

    def public(self, label: bytes) -> ec.EllipticCurvePublicKey:
        """Of the P-256 key that this TPM has under these 32 bytes."""
        with connected(self._tcti) as tpm, tpm.primary(OWNER, _template(label)) as (_, public):
            point = public[len(_SIGNING_FORM) :]
        middle = 2 + int.from_bytes(point[:2], "big")
        x, y = int.from_bytes(point[2:middle], "big"), int.from_bytes(point[middle + 2 :], "big")
        return ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()

    def sign(self, label: bytes, message: bytes) -> bytes:
        """ECDSA over SHA-256 of `message`, DER."""
        with connected(self._tcti) as tpm, tpm.primary(OWNER, _template(label)) as (key, _):
            signature = tpm.sign(key, hashlib.sha256(message).digest())
        return encode_dss_signature(*signature_numbers(signature))


class TpmPlace(Closed):
    """`keys/tpm.json` of a local instance."""

    tcti: Text
    label: Sha256
    """Random: two instances in one TPM have other keys."""
    roles: tuple[KeyRole, ...]


class TpmKeys:
    """Keys of a local instance of which the TPM keeps some; the others are files, as ever."""

    def __init__(self, folder: Path, place: TpmPlace):
        self._files = KeyFolder(folder)
        self._place = place
        self._device = TpmDevice(place.tcti)
        self._known: dict[KeyRole, ec.EllipticCurvePublicKey] = {}

    @classmethod
    def create(cls, folder: Path, tcti: str, roles: tuple[KeyRole, ...] = ("ca",)) -> TpmKeys:
        """In a folder of keys that was just made; those of `roles` go. Raises Refused where no TPM answers."""
        keys = cls(folder, TpmPlace(tcti=tcti, label=os.urandom(32).hex(), roles=roles))
        for role in roles:
            keys.public(role)
            (folder / f"{role}.pem").unlink()
        write_atomically(folder / PLACE, canonical.dumps(keys._place.model_dump(mode="json", by_alias=True)), 0o600)
        return keys

    @classmethod
    def open(cls, folder: Path) -> TpmKeys:
        """Raises Refused (trust_root)."""
        path = folder / PLACE
        try:
            value = canonical.loads_canonical(read_bounded(path, _MOST_PLACE_BYTES))
        except (OSError, canonical.NotCanonical) as error:
            raise Refused("trust_root", str(error), where=str(path)) from error
        return cls(folder, read_closed(TpmPlace, value, str(path), "trust_root"))

    def public(self, role: KeyRole) -> ec.EllipticCurvePublicKey:
        if role not in self._place.roles:
            return self._files.public(role)
        if role not in self._known:
            self._known[role] = self._device.public(self._label(role))
        return self._known[role]

    def sign(self, role: KeyRole, message: bytes) -> bytes:
        if role not in self._place.roles:
            return self._files.sign(role, message)
        return self._device.sign(self._label(role), message)

    def _label(self, role: KeyRole) -> bytes:
        return hashlib.sha256(f"{self._place.label} {role}".encode()).digest()


def _template(label: bytes) -> bytes:
    """A primary key is made from its template: with another point in it, it is another key."""
    return _SIGNING_FORM + sized(label) + sized(b"")


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
