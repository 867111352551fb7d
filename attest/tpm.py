"""A TPM's quote over a statement: what it says, and how far it may be believed. Needs no TPM.

A restricted attestation key (AK), whose private half no TPM gives out, signs a structure that only the TPM can make.
Its qualifying data is sha256(D || C): D the sha256 of the statement's canonical bytes without `predicate.tpm`, C the
32 bytes of the record's challenge, zeros where it has none. (TPM 2.0 Library, part 2: 10.12.8, 12.2.4, 11.3.4.)
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from attest import canonical
from attest.checks import Check, Noted, Verified
from attest.errors import Refused
from attest.predicate import Tpm

Label = Literal["emulated", "hardware-unverified", "hardware"]

AK_FORM: Final = bytes.fromhex("0023000b00050072000000100018000b00030010")
"""Every byte of an AK's TPMT_PUBLIC before its point: ECC, named by SHA-256; fixedTPM, fixedParent,
sensitiveDataOrigin, userWithAuth, restricted, sign; no policy, no cipher; ECDSA with SHA-256 on P-256."""
NO_CHALLENGE: Final = bytes(32)
_MAGIC: Final = bytes.fromhex("ff5443478018")
"""TPM_GENERATED_VALUE, then TPM_ST_ATTEST_QUOTE: a restricted key signs nothing of a stranger's that begins so."""
_ECDSA_SHA256: Final = bytes.fromhex("0018000b")
_ENDORSEMENT: Final = bytes.fromhex("4000000b")
_NAME: Final = bytes.fromhex("000b")
_REFERENCE_FIRMWARE: Final = re.compile(r"20[0-9]{2}(0[1-9]|1[0-2])([0-2][0-9]|3[01])")
"""The TPM reference implementation, which swtpm and the virtual TPMs of hypervisors are built of, has the day of its
source as the upper half of its firmware's version; a vendor's TPM has the vendor's own small numbers."""
_MOST_KEYS_BYTES: Final = 1024 * 1024
_KEY_LINE: Final = re.compile(r"(000b[0-9a-f]{64})(\s+#.*|\s*)")
_WHERE: Final = "payload $.predicate.tpm"


class Quoter(Protocol):
    """A TPM that quotes."""

    def quote(self, qualifying: bytes) -> Tpm: ...


@dataclass(frozen=True, slots=True)
class Quoted:
    """A quote that holds."""

    label: Label
    ak_name: str
    """Hex; what a verifier enrols."""
    firmware: str
    resets: int
    """Of the TPM since it was made."""

    @property
    def words(self) -> str:
        meant = {
            "emulated": "a TPM made of software, which vouches for nothing",
            "hardware-unverified": "nobody here has checked that this key is in a TPM that a manufacturer made",
            "hardware": "this key is among those that the verifier has enrolled",
        }
        return f"{self.label}: {meant[self.label]} (AK {self.ak_name}, firmware {self.firmware})"


def with_quote(bare: bytes, quoter: Quoter) -> bytes:
    """The canonical bytes of a statement of ours that has no quote yet, with one. Raises Refused."""
    value = canonical.loads_canonical(bare)
    value["predicate"]["tpm"] = quoter.quote(_qualifying(bare, value)).model_dump(by_alias=True)
    quoted = canonical.dumps(value)
    check_quote(quoted)
    return quoted


def check_quote(payload: bytes, enrolled: frozenset[str] = frozenset()) -> Quoted | None:
    """Of a statement whose signature and schema hold; None where no TPM quoted it. `enrolled`: names of AKs.

    Raises Refused (statement).
    """
    value = canonical.loads_canonical(payload)
    said = value["predicate"].get("tpm")
    if said is None:
        return None
    del value["predicate"]["tpm"]
    public, quote, signature = (_bytes(said[part], part) for part in ("akPub", "quote", "sig"))
    name = _check_signature(public, quote, signature)
    signer, qualifying, resets, firmware = _read_quote(quote)
    # Its parent is the endorsement hierarchy itself: the TPM says of such a key which firmware it has.
    if signer != _NAME + hashlib.sha256(_ENDORSEMENT + name).digest():
        raise _refused("quote", "was made by another key than akPub, or by one that is no primary key of endorsement")
    if qualifying != _qualifying(canonical.dumps(value), value):
        raise _refused("quote", "is about another statement, or another challenge")
    emulated = _REFERENCE_FIRMWARE.fullmatch(firmware[:8]) is not None
    label: Label = "emulated" if emulated else "hardware" if name.hex() in enrolled else "hardware-unverified"
    return Quoted(label, name.hex(), firmware, resets)


def tpm_check(enrolled: frozenset[str] = frozenset()) -> Check:
    """For a bundle that `is_quoted`: refuses a quote that does not hold, and tells of one that does how far it goes."""

    def run(verified: Verified) -> None:
        quoted = check_quote(verified.payload, enrolled) if verified.payload else None
        if quoted is not None:
            raise Noted(quoted.words)

    return Check("the TPM's quote is of this statement", run, "statement")


def is_quoted(bundle: bytes) -> bool:
    """Whether a bundle that nobody has verified yet says that a TPM quoted its statement."""
    try:
        payload = base64.b64decode(json.loads(bundle)["dsseEnvelope"]["payload"])
        return json.loads(payload)["predicate"].get("tpm") is not None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False


def read_enrolled(path: Path) -> frozenset[str]:
    """Names of AKs, one a line, `#` begins a remark. Raises Refused (policy).

    A line ends where every editor ends it: in other characters that count as line ends somewhere, a remark could hold
    a key that its reader does not see.
    """
    from attest.local.files import read_bounded

    try:
        content = read_bounded(path, _MOST_KEYS_BYTES)
    except OSError as error:
        raise Refused("policy", error.strerror or str(error), where=str(path)) from error
    if len(content) > _MOST_KEYS_BYTES:
        raise Refused("policy", f"over the bound of {_MOST_KEYS_BYTES} bytes", where=str(path))
    found = set()
    for number, raw in enumerate(content.split(b"\n"), start=1):
        if not raw.isascii():
            raise Refused("policy", "holds what is no ASCII", where=f"{path}:{number}", mend="also in a remark")
        line = raw.decode()
        if not line.strip() or line.startswith("#"):
            continue
        match = _KEY_LINE.fullmatch(line)
        if match is None:
            raise Refused(
                "policy", "not the name of an AK", where=f"{path}:{number}", mend="000b and 64 hex digits, lower case"
            )
        found.add(match[1])
    return frozenset(found)


def _qualifying(bare: bytes, value: canonical.Json) -> bytes:
    challenge = value["predicate"]["challenge"]
    challenged = NO_CHALLENGE if challenge is None else bytes.fromhex(challenge)
    return hashlib.sha256(hashlib.sha256(bare).digest() + challenged).digest()


def signature_numbers(signature: bytes) -> tuple[int, int]:
    """r and s of a TPMT_SIGNATURE. Raises Refused (statement)."""
    reader = _Reader(signature, "sig")
    reader.expect(_ECDSA_SHA256, "is no ECDSA signature with SHA-256")
    r, s = reader.sized(), reader.sized()
    reader.end()
    return _integer(r), _integer(s)


def _check_signature(public: bytes, quote: bytes, signature: bytes) -> bytes:
    """The AK's name."""
    if not public.startswith(AK_FORM):
        raise _refused("akPub", "is no restricted P-256 key that stays in its TPM")
    point = _Reader(public, "akPub", len(AK_FORM))
    x, y = point.sized(), point.sized()
    point.end()
    try:
        key = ec.EllipticCurvePublicNumbers(_integer(x), _integer(y), ec.SECP256R1()).public_key()
    except ValueError as error:
        raise _refused("akPub", "lies on no P-256") from error
    try:
        key.verify(encode_dss_signature(*signature_numbers(signature)), quote, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature as error:
        raise _refused("sig", "was not made over this quote by this key") from error
    return _NAME + hashlib.sha256(public).digest()


def _read_quote(quote: bytes) -> tuple[bytes, bytes, int, str]:
    """Qualified signer, qualifying data, resets, firmware; of the PCRs only that they are well formed."""
    reader = _Reader(quote, "quote")
    reader.expect(_MAGIC, "is no quote of a TPM")
    signer, qualifying = reader.sized(), reader.sized()
    reader.take(8)  # the TPM's clock
    resets = _integer(reader.take(4))
    reader.take(5)  # restarts, and whether the clock is safe
    firmware = reader.take(8).hex()
    for _ in range(_integer(reader.take(4))):
        reader.take(2)
        reader.take(_integer(reader.take(1)))
    reader.sized()
    reader.end()
    return signer, qualifying, resets, firmware


class _Reader:
    """The TPM's own encoding: big-endian numbers, and byte strings after their length."""

    def __init__(self, content: bytes, part: str, at: int = 0):
        self._content = content
        self._part = part
        self._at = at

    def take(self, size: int) -> bytes:
        taken = self._content[self._at : self._at + size]
        if len(taken) < size:
            raise _refused(self._part, "ends early")
        self._at += size
        return taken

    def sized(self) -> bytes:
        return self.take(_integer(self.take(2)))

    def expect(self, wanted: bytes, otherwise: str) -> None:
        if self.take(len(wanted)) != wanted:
            raise _refused(self._part, otherwise)

    def end(self) -> None:
        if self._at != len(self._content):
            raise _refused(self._part, "has bytes after its end")


def _bytes(text: str, part: str) -> bytes:
    try:
        content = base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error) as error:
        raise _refused(part, "is no base64") from error
    if base64.b64encode(content).decode() != text:
        raise _refused(part, "has more than one spelling in base64")
    return content


def _integer(content: bytes) -> int:
    return int.from_bytes(content, "big")


def _refused(part: str, message: str) -> Refused:
    """`message` goes on after the part's name."""
    return Refused("statement", f"the TPM's {part} {message}", where=f"{_WHERE}.{part}")
