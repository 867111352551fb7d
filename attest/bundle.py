"""A Sigstore bundle read strictly: one meaning for its bytes, or none.

Narrower than the format on purpose: version 0.3, one certificate, one log entry with proof and checkpoint, one DSSE
signature, canonical base64 and decimal numbers, no unknown field, no key twice. Nothing here is believed yet.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from attest import canonical
from attest.canonical import Json
from attest.errors import Refused
from attest.statement import MAX_STATEMENT_BYTES

MEDIA_TYPE: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"
MAX_BUNDLE_BYTES: Final = 2 * MAX_STATEMENT_BYTES
MAX_PROOF_HASHES: Final = 64
MAX_TIMESTAMPS: Final = 32
MAX_CHECKPOINT_LINES: Final = 64
LAST_SECOND: Final = 253_402_300_799
"""The last that a calendar of four digits a year has, counted from 1970."""
_DECIMAL: Final = re.compile(r"0|[1-9][0-9]{0,18}")
_SIGNATURE_LINE: Final = re.compile(r"\u2014 ([^\s+]+) ([A-Za-z0-9+/]+={0,2})")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A C2SP signed note: origin, size, root, further lines; and `(name, 4 bytes of key hint, signature)` each."""

    origin: str
    size: int
    root: bytes
    signatures: tuple[tuple[str, bytes, bytes], ...]


@dataclass(frozen=True, slots=True)
class LogEntry:
    index: int
    key_id: bytes
    kind: str
    version: str
    body: bytes
    integrated_time: int | None
    has_promise: bool
    proof_index: int
    tree_size: int
    root: bytes
    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True)
class ParsedBundle:
    content: bytes
    certificate: bytes
    """DER."""
    entry: LogEntry
    timestamps: tuple[bytes, ...]
    """RFC 3161 responses, DER."""
    payload: bytes
    payload_type: str
    signature: bytes


def parse(content: bytes) -> ParsedBundle:
    """Raises Refused (bundle) with a JSON path, and Refused (time) for timestamps that cannot belong there."""
    try:
        value = canonical.loads(content, max_bytes=MAX_BUNDLE_BYTES)
    except canonical.NotCanonical as error:
        raise _refused(error.message, error.path) from error
    top = _object(value, "$", {"mediaType", "verificationMaterial", "dsseEnvelope"})
    if top["mediaType"] != MEDIA_TYPE:
        raise _refused(f"is {top['mediaType']!r:.80}, not {MEDIA_TYPE}", "$.mediaType")
    path = "$.verificationMaterial"
    material = _object(top["verificationMaterial"], path, {"certificate", "tlogEntries"}, {"timestampVerificationData"})
    certificate = _object(material["certificate"], f"{path}.certificate", {"rawBytes"})
    entries = _list(material["tlogEntries"], f"{path}.tlogEntries", _entry, 1, 1)
    timestamps = _timestamps(material.get("timestampVerificationData"), f"{path}.timestampVerificationData")
    _check_sources_of_time(entries[0], timestamps, path)
    envelope = _object(top["dsseEnvelope"], "$.dsseEnvelope", {"payload", "payloadType", "signatures"})
    return ParsedBundle(
        content=content,
        certificate=_base64(certificate["rawBytes"], f"{path}.certificate.rawBytes"),
        entry=entries[0],
        timestamps=timestamps,
        payload=_base64(envelope["payload"], "$.dsseEnvelope.payload"),
        payload_type=_text(envelope["payloadType"], "$.dsseEnvelope.payloadType"),
        signature=_list(envelope["signatures"], "$.dsseEnvelope.signatures", _signature, 1, 1)[0],
    )


def parse_checkpoint(note: str, where: str) -> Checkpoint:
    """A C2SP signed note that stands by itself; its signatures are read, not checked. Raises Refused (bundle)."""
    return _checkpoint(note, where)


def _check_sources_of_time(entry: LogEntry, timestamps: tuple[bytes, ...], path: str) -> None:
    if (entry.integrated_time or 0) > LAST_SECOND:
        raise Refused("time", "a time beyond the year 9999", where=f"{path}.tlogEntries[0].integratedTime")
    if entry.version == "0.0.2" and (entry.has_promise or entry.integrated_time is not None):
        if not timestamps:
            raise _refused("no signed timestamp", path)
        raise Refused("time", "an entry of a log without promises carries one", where=f"{path}.tlogEntries[0]")
    if not timestamps and not (entry.has_promise and entry.integrated_time):
        raise _refused("no signed timestamp", path)
    if entry.version == "0.0.1" and not (entry.has_promise and entry.integrated_time):
        # The promise is what signs the entry's index and time: the library takes an entry without one unread.
        raise _refused("an entry of Rekor v1 without its promise and the promise's time", f"{path}.tlogEntries[0]")


def _timestamps(value: Json, path: str) -> tuple[bytes, ...]:
    if value is None:
        return ()
    found = _object(value, path, set(), {"rfc3161Timestamps"}).get("rfc3161Timestamps", [])
    if isinstance(found, list) and len(found) > MAX_TIMESTAMPS:
        raise Refused("time", f"{len(found)} timestamps, over the bound of {MAX_TIMESTAMPS}", where=path)
    return _list(found, f"{path}.rfc3161Timestamps", _timestamp, 0, MAX_TIMESTAMPS)


def _timestamp(value: Json, path: str) -> bytes:
    return _base64(_object(value, path, {"signedTimestamp"})["signedTimestamp"], f"{path}.signedTimestamp")


def _signature(value: Json, path: str) -> bytes:
    return _base64(_object(value, path, {"sig"})["sig"], f"{path}.sig")


def _entry(value: Json, path: str) -> LogEntry:
    required = {"logIndex", "logId", "kindVersion", "inclusionProof", "canonicalizedBody"}
    entry = _object(value, path, required, {"integratedTime", "inclusionPromise"})
    kind = _object(entry["kindVersion"], f"{path}.kindVersion", {"kind", "version"})
    promise = entry.get("inclusionPromise")
    if promise is not None:
        fields = _object(promise, f"{path}.inclusionPromise", {"signedEntryTimestamp"})
        _base64(fields["signedEntryTimestamp"], f"{path}.inclusionPromise.signedEntryTimestamp")
    time = entry.get("integratedTime")
    proof_path = f"{path}.inclusionProof"
    proof = _object(entry["inclusionProof"], proof_path, {"logIndex", "rootHash", "treeSize", "checkpoint"}, {"hashes"})
    _list(proof.get("hashes", []), f"{proof_path}.hashes", _hash, 0, MAX_PROOF_HASHES)
    note = _object(proof["checkpoint"], f"{proof_path}.checkpoint", {"envelope"})["envelope"]
    index, size = (_decimal(proof[key], f"{proof_path}.{key}") for key in ("logIndex", "treeSize"))
    if index >= size:
        raise Refused("log_proof", f"entry {index} in a tree of {size}", where=f"bundle {proof_path}")
    return LogEntry(
        index=_decimal(entry["logIndex"], f"{path}.logIndex"),
        key_id=_base64(_object(entry["logId"], f"{path}.logId", {"keyId"})["keyId"], f"{path}.logId.keyId"),
        kind=_text(kind["kind"], f"{path}.kindVersion.kind"),
        version=_text(kind["version"], f"{path}.kindVersion.version"),
        body=_base64(entry["canonicalizedBody"], f"{path}.canonicalizedBody"),
        # Rekor v2 writes its absent time as protobuf's JSON may: 0.
        integrated_time=None if time in (None, "0") else _decimal(time, f"{path}.integratedTime"),
        has_promise=promise is not None,
        proof_index=index,
        tree_size=size,
        root=_hash(proof["rootHash"], f"{proof_path}.rootHash"),
        checkpoint=_checkpoint(note, f"{proof_path}.checkpoint.envelope"),
    )


def _checkpoint(value: Json, path: str) -> Checkpoint:
    note, separator, signed = _text(value, path).partition("\n\n")
    lines, signature_lines = note.split("\n"), signed.split("\n")
    if not separator or len(lines) < 3 or len(lines) + len(signature_lines) > MAX_CHECKPOINT_LINES:
        raise _refused("not a signed note", path)
    if not all(line and line.isprintable() for line in lines) or signature_lines.pop() != "" or not signature_lines:
        raise _refused("not a signed note", path)
    signatures = []
    for line in signature_lines:
        match = _SIGNATURE_LINE.fullmatch(line)
        if match is None:
            raise _refused("a signature line that is none", path)
        content = _base64(match[2], path)
        if len(content) < 5:
            raise _refused("a signature that is too short", path)
        signatures.append((match[1], content[:4], content[4:]))
    return Checkpoint(lines[0], _decimal(lines[1], path), _hash(lines[2], path), tuple(signatures))


def _object(value: Json, path: str, required: set[str], optional: frozenset[str] | set[str] = frozenset()) -> Any:
    if not isinstance(value, dict):
        raise _refused("not an object", path)
    for key in sorted(required - set(value)):
        raise _refused(f"{key!r} is missing", path)
    for key in sorted(set(value) - required - optional):
        raise _refused(f"{key[:40]!r} has no place here", path)
    return value


def _list(value: Json, path: str, item: Callable[[Json, str], T], least: int, most: int) -> tuple[T, ...]:
    if not isinstance(value, list):
        raise _refused("not a list", path)
    if not least <= len(value) <= most:
        bounds = str(least) if least == most else f"{least} to {most}"
        raise _refused(f"has {len(value)} items, not {bounds}", path)
    return tuple(item(child, f"{path}[{i}]") for i, child in enumerate(value))


def _text(value: Json, path: str) -> str:
    if not isinstance(value, str):
        raise _refused("not text", path)
    return value


def _decimal(value: Json, path: str) -> int:
    """Protobuf's JSON writes 64-bit integers as decimal strings; exactly one string a number is taken."""
    if not isinstance(value, str) or not _DECIMAL.fullmatch(value):
        raise _refused("not a decimal number as text", path)
    return int(value)


def _base64(value: Json, path: str) -> bytes:
    """Standard base64 with padding, exactly one string a value: spare bits are zero."""
    text = _text(value, path)
    try:
        content = base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise _refused("not base64", path) from error
    if not content or base64.b64encode(content).decode() != text:
        raise _refused("not canonical base64", path)
    return content


def _hash(value: Json, path: str) -> bytes:
    content = _base64(value, path)
    if len(content) != 32:
        raise _refused("not a sha256", path)
    return content


def _refused(message: str, path: str) -> Refused:
    return Refused("bundle", message, where=f"bundle {path}")
