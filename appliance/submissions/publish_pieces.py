"""What is to be published, gathered and checked whole before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from appliance.audit.checks import record_checks
from appliance.audit.documents import read_bytes, record_of
from appliance.audit.trust import agreement_check, bundle_path
from appliance.audit.twin import twin_path
from appliance.digests import sha256_hex
from appliance.errors import InputRefused, UsageRefused
from appliance.reading import read_regular
from appliance.records.blob import BlobRef
from appliance.records.record import Record
from appliance.records.trial import Stream
from appliance.submissions.named import blobs_named
from appliance.submissions.publishable import model_of, refuse_unpublishable
from appliance.submissions.revealing import Revealed, answer_blobs, refuse_unasked, revealed, suite_archive
from attest import provenance, statement, vsa
from attest.bundle import MAX_BUNDLE_BYTES
from attest.errors import Refused
from attest.verification import verify, verify_statement

if TYPE_CHECKING:
    from attest.roots import PinnedRoot

HeldTo = tuple["PinnedRoot", str, str]
"""Root, exact name, exact issuer."""


@dataclass(frozen=True)
class Twin:
    content: bytes
    held_to: HeldTo


@dataclass(frozen=True)
class Piece:
    """A record that may be published, with what goes along."""

    path: Path
    content: bytes
    sha256: str
    bundle: bytes
    held_to: HeldTo
    record: Record
    model: str
    blobs: Path
    going: tuple[BlobRef, ...]
    withheld: tuple[str, ...]
    reveals: Revealed
    twin: Twin | None


@dataclass(frozen=True)
class Verdict:
    """A verification summary whose signature holds."""

    path: Path
    content: bytes
    held_to: HeldTo
    summary: vsa.Vsa
    record: str
    details: bytes | None
    """verdict.json."""


def gather(
    paths: Sequence[Path],
    held_to: HeldTo,
    *,
    with_suite: bool | None,
    with_transcripts: bool = True,
    blobs: Path | None = None,
    say: Callable[[str], None],
) -> tuple[Piece, ...]:
    """Each record once, checked as `verify` does it and as something to publish; what it reveals is said first.
    `blobs`: those of all of them, by default `../blobs` seen from each.

    Raises InputRefused, AttestationRefused' cause (attest's Refused), and UsageRefused where answers would go out
    and `with_suite` is None.
    """
    pieces: dict[str, Piece] = {}
    for path in paths:
        content = read_bytes(path)
        record = record_of(content, str(path))
        refuse_unpublishable(record, str(path))
        model_of(record, str(path))  # asked before the long checks
        beside = blobs or path.resolve().parent.parent / "blobs"
        piece = _piece((path, content, record), held_to, beside, (with_suite, with_transcripts))
        pieces.setdefault(piece.sha256, piece)
    if not pieces:
        raise UsageRefused("no record to publish", where="RECORD")
    for piece in pieces.values():
        for line in piece.reveals.lines():
            say(line)
    if with_suite is None:
        refuse_unasked((piece.reveals for piece in pieces.values()), to_everybody=True)
    return tuple(pieces.values())


def read_verdict(path: Path, held_to: HeldTo) -> Verdict:
    """Raises InputRefused, Refused. verdict.json is looked for beside the bundle of a reproduction's verdict."""
    content = _read(path, MAX_BUNDLE_BYTES)
    summary, record = vsa.read(verify_statement(content, *held_to, statement.VSA_TYPE))
    if not isinstance(summary.details, vsa.Reproduced):
        return Verdict(path, content, held_to, summary, record, None)
    beside = path.with_name(f"{path.name.removesuffix('.sigstore.json')}.json")
    details = _read(beside, MAX_BUNDLE_BYTES)
    if sha256_hex(details) != summary.details.verdict:
        raise InputRefused("not the verdict that was signed", where=str(beside), mend="the verdict.json beside it")
    return Verdict(path, content, held_to, summary, record, details)


def _piece(read: tuple[Path, bytes, Record], held_to: HeldTo, blobs: Path, flags: tuple[bool | None, bool]) -> Piece:
    path, content, record = read
    where, sha256 = str(path), sha256_hex(content)
    if not blobs.is_dir():
        raise InputRefused(f"no blobs in {blobs}, and nobody can check it without", where=where, mend="--blobs DIR")
    bundle = _read(bundle_path(path), MAX_BUNDLE_BYTES)
    checks = [*record_checks(blobs, allow_missing=False, publishing=True), agreement_check()]
    try:
        verify(content, bundle, *held_to, checks)
    except Refused as refused:
        refused.where = f"{where}: {refused.where}" if refused.where else where
        raise
    with_suite, with_transcripts = flags
    archive = suite_archive(record, blobs) if with_suite is not False else None
    withheld = _withheld(record, with_suite=with_suite is not False, with_transcripts=with_transcripts)
    reveals = revealed(record, sha256, archive, answers=with_suite is not False)
    return Piece(
        path=path,
        content=content,
        sha256=sha256,
        bundle=bundle,
        held_to=held_to,
        record=record,
        model=model_of(record, where),
        blobs=blobs,
        going=tuple(ref for ref in blobs_named(record) if ref.sha256 not in withheld),
        withheld=tuple(sorted(withheld)),
        reveals=reveals,
        twin=_twin(path, content, held_to),
    )


def _withheld(record: Record, *, with_suite: bool, with_transcripts: bool) -> frozenset[str]:
    found = set() if with_suite else set(answer_blobs(record))
    if not with_transcripts:
        for trial in record.trials:
            streams: tuple[Stream, ...] = (trial.streams.stdout, trial.streams.stderr) if trial.streams else ()
            found |= {stream.blob.sha256 for stream in streams if stream.blob is not None}
            if trial.cassette is not None:
                found.add(trial.cassette.sha256)
    return frozenset(found)


def _twin(path: Path, content: bytes, held_to: HeldTo) -> Twin | None:
    """The SLSA provenance beside the record, where there is one. Raises Refused where it is not of this record."""
    beside = twin_path(path)
    if not beside.exists():
        return None
    bundle = _read(beside, MAX_BUNDLE_BYTES)
    try:
        provenance.read(verify_statement(bundle, *held_to, statement.PROVENANCE_TYPE), content)
    except Refused as refused:
        refused.where = str(beside)
        raise
    return Twin(bundle, held_to)


def _read(path: Path, most: int) -> bytes:
    try:
        return read_regular(path, most)
    except FileNotFoundError as error:
        mend = "appliance sign RECORD" if path.name.endswith(".sigstore.json") else None
        raise InputRefused("not there", where=str(path), mend=mend) from error
    except OSError as error:
        raise InputRefused(error.strerror or str(error), where=str(path)) from error
