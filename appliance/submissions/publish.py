"""Publishing: files first, each whole, what others refer to before them; then the signed index, in one step.

Killed anywhere, a folder holds whole files that no line speaks of, and the same command once more finishes it. Done
twice, nothing changes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from appliance.audit.documents import read_bytes, record_of
from appliance.audit.twin import twin_path
from appliance.digests import sha256_hex
from appliance.errors import InputRefused, UsageRefused
from appliance.files import disk_of, make_folder
from appliance.records.record import Record
from appliance.submissions import published
from appliance.submissions.listing import line_of
from appliance.submissions.own_folder import refuse_foreign
from appliance.submissions.publish_files import copy_blob, keep, tidy
from appliance.submissions.publish_pieces import HeldTo, Piece, Verdict
from appliance.submissions.publishable import counterpart
from appliance.submissions.published import Line, RecordLine, Signer, TwinLine, VerdictLine
from attest.index import CHECKPOINT, LINES, Checkpoint, SignedIndex, recall, remember
from attest.index import LOCK as INDEX_LOCK
from attest.local.files import locked

if TYPE_CHECKING:
    from attest.trust import TrustMode

LOCK: Final = ".publish.lock"
_FOLDERS: Final = ("records", "verdicts", "roots", "blobs/sha256")
_FILES: Final = (LINES, CHECKPOINT, published.ROOT, LOCK, INDEX_LOCK)
_OTHERS: Final = frozenset({*_FOLDERS, "blobs", LINES, CHECKPOINT, published.ROOT})
_MEND: Final = "make room, then the same once more"


@dataclass(frozen=True)
class Done:
    """What was made of one piece or verdict."""

    path: Path
    line: Line
    state: Literal["added", "there"]


@dataclass(frozen=True)
class Published:
    done: tuple[Done, ...]
    lines: tuple[Line, ...]
    """All that the index says now."""
    checkpoint: Checkpoint | None
    """None where nothing was written."""


def publish(pieces: Sequence[Piece], verdicts: Sequence[Verdict], folder: Path, signer: TrustMode) -> Published:
    """Raises Refused (replay and others of the index), InputRefused, UsageRefused, HostRefused (a full disk)."""
    refuse_other(folder)
    with disk_of(folder, _MEND):
        make_folder(folder)
        with locked(folder / LOCK):
            tidy(folder, _FOLDERS, (LINES, CHECKPOINT, published.ROOT))
            index = open_index(folder, signer)
            lines = published.lines_of(index)
            done = decide(pieces, verdicts, folder, lines)
            _write(pieces, verdicts, folder, signer, lines)
            added = tuple(one.line for one in done if one.state == "added")
            checkpoint = index.append([line.json_value() for line in added], signer)
            for place in (published.memory_of(folder), published.memory(checkpoint.origin)):
                remember(place, checkpoint)
    return Published(done, (*lines, *added), checkpoint)


def looked_at(pieces: Sequence[Piece], verdicts: Sequence[Verdict], folder: Path, signer: TrustMode) -> Published:
    """What `publish` would do. Raises what it raises, but for a full disk."""
    refuse_other(folder)
    lines = published.lines_of(open_index(folder, signer))
    return Published(decide(pieces, verdicts, folder, lines), lines, None)


def refuse_other(folder: Path) -> None:
    """Raises UsageRefused where something else lies than a published folder: links below it, files of others."""
    if not folder.is_dir():
        if os.path.lexists(folder):
            raise UsageRefused("not a folder", where=str(folder), mend="--to DIR")
        return
    refuse_foreign(folder, _FOLDERS, _FILES)
    if (folder / CHECKPOINT).exists():
        return
    # One that was killed before it signed has left its lock; without, even `records` is somebody else's.
    ours = _OTHERS if (folder / LOCK).exists() else frozenset[str]()
    strange = sorted(path.name for path in folder.iterdir() if path.name not in ours and path.name[0] != ".")
    if strange:
        raise UsageRefused(f"holds something else: {strange[0]!r}", where=str(folder), mend="--to a folder of its own")


def open_index(folder: Path, signer: TrustMode) -> SignedIndex:
    """Held to the newest checkpoint that this machine saw, of this folder and of this index. Raises Refused."""
    held_to = (signer.root, signer.identity, signer.issuer)
    index = SignedIndex.open(folder, *held_to, remembered=recall(published.memory_of(folder)))
    if index.checkpoint is not None:
        seen = recall(published.memory(index.checkpoint.origin))
        if seen is not None:
            index = SignedIndex.open(folder, *held_to, remembered=seen)
    return index


def decide(
    pieces: Sequence[Piece], verdicts: Sequence[Verdict], folder: Path, lines: Sequence[Line]
) -> tuple[Done, ...]:
    """What the index is to say more than it does; nothing is written. Raises InputRefused."""
    known = published.known_records(lines)
    records = {one.sha256: one.record for one in pieces}
    if any(record.self_correct for record in records.values()):
        # One of those that were published before may be the other half of a delta.
        records |= {sha: _published_record(folder, sha) for sha in known if sha not in records}
    done = []
    for piece in pieces:
        line = _line(piece, known.get(piece.sha256), folder, records)
        done.append(Done(piece.path, line, "there" if known.get(piece.sha256) == line else "added"))
        if piece.twin is not None:
            twin = TwinLine(
                record=piece.sha256, bundle=sha256_hex(piece.twin.content), signer=_signer(piece.twin.held_to)
            )
            there = any(isinstance(one, TwinLine) and one.record == twin.record for one in lines)
            done.append(Done(twin_path(piece.path), twin, "there" if there else "added"))
    for verdict in verdicts:
        if verdict.record not in known and verdict.record not in records:
            raise InputRefused(
                f"is about record {verdict.record[:12]}, which is not published here",
                where=str(verdict.path),
                mend="give that record as well",
            )
        told = _verdict_line(verdict)
        done.append(Done(verdict.path, told, "there" if told in lines else "added"))
    return tuple(done)


def _line(piece: Piece, before: RecordLine | None, folder: Path, records: Mapping[str, Record]) -> RecordLine:
    """Of a record that is published already its first bundle stays, and what was revealed stays revealed."""
    record = piece.record
    blobs = folder / "blobs" / "sha256"
    return line_of(
        record,
        piece.sha256,
        bundle=before.bundle if before else sha256_hex(piece.bundle),
        signer=before.signer if before else _signer(piece.held_to),
        model=piece.model,
        baseline=counterpart(record, records, str(piece.path)),
        withheld=tuple(sha for sha in piece.withheld if not (blobs / sha).exists()),
    )


def _verdict_line(verdict: Verdict) -> VerdictLine:
    summary = verdict.summary
    return VerdictLine(
        record=verdict.record,
        bundle=sha256_hex(verdict.content),
        signer=_signer(verdict.held_to),
        verifier=summary.verifier.id,
        passed=summary.passed,
        levels=summary.verified_levels,
        verdict=sha256_hex(verdict.details) if verdict.details is not None else None,
    )


def _signer(held_to: HeldTo) -> Signer:
    root, identity, issuer = held_to
    return Signer(root=root.sha256, identity=identity, issuer=issuer)


def _published_record(folder: Path, sha256: str) -> Record:
    path = published.record_path(folder, sha256)
    return record_of(read_bytes(path), str(path))


def _write(
    pieces: Sequence[Piece], verdicts: Sequence[Verdict], folder: Path, signer: TrustMode, lines: Sequence[Line]
) -> None:
    """Whatever a file refers to comes before it; the record last of all, the index after this."""
    held = [*(one.held_to for one in pieces), *(one.held_to for one in verdicts)]
    roots = {root.sha256: root.content for root in (signer.root, *(root for root, _, _ in held))}
    for sha256, content in sorted(roots.items()):
        keep(published.root_path(folder, sha256), content)
    keep(folder / published.ROOT, signer.root.content)
    bundles = {line.record: line.bundle for line in lines if isinstance(line, RecordLine)}
    twins = {line.record: line.bundle for line in lines if isinstance(line, TwinLine)}
    for piece in pieces:
        for ref in piece.going:
            copy_blob(piece.blobs / "sha256" / ref.sha256, folder / "blobs" / "sha256" / ref.sha256, ref)
        if piece.twin is not None:
            _keep_named(published.twin_path(folder, piece.sha256), piece.twin.content, twins.get(piece.sha256))
        _keep_named(published.bundle_path(folder, piece.sha256), piece.bundle, bundles.get(piece.sha256))
        keep(published.record_path(folder, piece.sha256), piece.content)
    for verdict in verdicts:
        if verdict.details is not None:
            keep(folder / "blobs" / "sha256" / sha256_hex(verdict.details), verdict.details)
        keep(published.verdict_path(folder, sha256_hex(verdict.content)), verdict.content)


def _keep_named(path: Path, content: bytes, listed: str | None) -> None:
    """A bundle's name is its record's: one that the index names already is not replaced by another."""
    if listed in (None, sha256_hex(content)):
        keep(path, content)
