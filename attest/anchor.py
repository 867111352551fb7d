"""Anchoring: a deployment signs the local log's checkpoint, and its clock then bounds the time of every entry in it.

The document is all that a stranger needs beside the record's bundle and the deployment's pinned root: the checkpoint,
the bundle over it, and the path from the record's entry to the checkpoint's root.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field

from attest import bundle as bundles
from attest import canonical, statement
from attest.checkpoints import Hash, read_note
from attest.checks import Check, Verified
from attest.closed import Closed, read_closed
from attest.errors import Refused
from attest.local import proofs
from attest.local.files import read_bounded, write_atomically
from attest.local.merkle import leaf_hash
from attest.predicate import Sha256
from attest.roots import PinnedRoot
from attest.signing import sign_statement
from attest.statement import LOG_CHECKPOINT_TYPE
from attest.trust import TrustMode
from attest.verification import SignedStatement, verify_statement

if TYPE_CHECKING:
    from attest.trust.local import LocalTrust

MAX_ANCHOR_BYTES: Final = bundles.MAX_BUNDLE_BYTES + 256 * 1024
_MEND: Final = "appliance trust anchor --with NAME RECORD"
_MOMENT: Final = "%Y-%m-%dT%H:%M:%SZ"


class CheckpointPredicate(Closed):
    """What the note says, in the statement about it."""

    origin: str
    size: Annotated[int, Field(gt=0)]
    root: Sha256


class AnchorDocument(Closed):
    schema_: Literal["anchor-v1"] = Field(alias="schema")
    checkpoint: str
    """The signed note."""
    bundle: str
    """The bundle over it, as it was written."""
    index: Annotated[int, Field(ge=0)]
    hashes: Annotated[tuple[Hash, ...], Field(max_length=64)]
    """The inclusion proof of the entry at `index`, in the tree of the checkpoint."""


@dataclass(frozen=True, slots=True)
class Anchored:
    """A checkpoint that was anchored, as it is kept beside the log."""

    size: int
    checkpoint: Path
    bundle: Path


@dataclass(frozen=True, slots=True)
class Anchor:
    """An anchor whose signature holds."""

    signed_at: datetime
    """By the clock of the anchor's root: what the checkpoint covers was there before."""
    root: PinnedRoot
    identity: str
    issuer: str
    origin: str
    size: int
    tree_root: bytes
    index: int
    path: tuple[bytes, ...]


def anchor(local: LocalTrust, signer: TrustMode) -> Anchored:
    """Signs the local log's last checkpoint with `signer`, and keeps both. Raises Refused: usage for an empty log."""
    head = local.log.head()
    if head.size == 0:
        raise Refused("usage", "the local log is empty: there is nothing to anchor", mend="appliance sign RECORD")
    note = head.checkpoint.encode()
    said = CheckpointPredicate(origin=local.log.origin, size=head.size, root=head.frontier.root.hex())
    stated = statement.build("checkpoint", note, said.model_dump(mode="json", by_alias=True), LOG_CHECKPOINT_TYPE)
    content = sign_statement(signer, stated, LOG_CHECKPOINT_TYPE)
    folder = local.folder / "anchors"
    folder.mkdir(mode=0o700, exist_ok=True)
    kept = _anchored(folder, head.size)
    write_atomically(kept.checkpoint, note, 0o644)
    write_atomically(kept.bundle, content, 0o644)
    return kept


def kept_anchors(local: LocalTrust) -> tuple[Anchored, ...]:
    """Smallest first."""
    folder = local.folder / "anchors"
    sizes = sorted(int(path.stem) for path in folder.glob("*.checkpoint") if path.stem.isdecimal())
    return tuple(kept for size in sizes if (kept := _anchored(folder, size)).bundle.is_file())


def document(local: LocalTrust, kept: Anchored, record_bundle: bytes) -> bytes:
    """The anchor's document for the record that this bundle is of. Raises Refused: log_proof where its entry is not in
    the local log, or came after the anchor."""
    entry = bundles.parse(record_bundle).entry
    leaves = local.log.leaves(kept.size)
    if entry.checkpoint.origin != local.log.origin:
        raise Refused("log_proof", "the record was not signed by this machine's own trust", mend="--trust local")
    if entry.proof_index >= kept.size:
        raise Refused(
            "log_proof",
            f"the record's entry {entry.proof_index} came after the anchor, of {kept.size} entries",
            where=str(kept.checkpoint),
            mend=_MEND,
        )
    if leaves[entry.proof_index] != leaf_hash(entry.body):
        raise Refused("log_proof", "the record's entry is not the one in the local log", where=str(kept.checkpoint))
    path = proofs.inclusion(entry.proof_index, leaves)
    made = AnchorDocument(
        schema_="anchor-v1",
        checkpoint=read_bounded(kept.checkpoint, MAX_ANCHOR_BYTES).decode(),
        bundle=read_bounded(kept.bundle, MAX_ANCHOR_BYTES).decode(),
        index=entry.proof_index,
        hashes=tuple(base64.b64encode(one).decode() for one in path),
    )
    return canonical.dumps(made.model_dump(mode="json", by_alias=True))


def read_anchor(content: bytes, root: PinnedRoot, identity: str, issuer: str, where: str = "anchor") -> Anchor:
    """The anchor in a document, its signature checked under the deployment's root, name and issuer.

    Raises Refused: bundle for what is no such document, the class of verify's checks 1 to 15 for a signature that does
    not hold, subject and statement where it is about another checkpoint, time for a root whose clock is the signer's.
    """
    if root.assurance == "local":
        raise Refused(
            "time",
            f"the clock of {root.name} is its signer's own, and bounds nothing (assurance: local)",
            where=where,
            mend="an anchor by a private or public trust, and that trust's name",
        )
    try:
        value = canonical.loads(content, max_bytes=MAX_ANCHOR_BYTES)
    except canonical.NotCanonical as error:
        raise Refused("bundle", error.message, where=f"{where} {error.path}") from error
    found = read_closed(AnchorDocument, value, f"{where} $", "bundle")
    signed = verify_statement(found.bundle.encode(), root, identity, issuer, LOG_CHECKPOINT_TYPE)
    _, note = read_note(found.checkpoint.encode(), f"{where} $.checkpoint")
    _check_about(signed, found.checkpoint, note)
    return Anchor(
        signed_at=signed.signed_at,
        root=root,
        identity=identity,
        issuer=issuer,
        origin=note.origin,
        size=note.size,
        tree_root=note.root,
        index=found.index,
        path=tuple(base64.b64decode(one) for one in found.hashes),
    )


def anchor_check(anchor: Anchor, record_bundle: bytes) -> Check:
    """That the record's entry is in the anchored log: then it was signed before the anchor. `record_bundle` are the
    bytes that `verify` is given. A refusal of it is of class log_proof."""

    def included(_: Verified) -> None:
        entry = bundles.parse(record_bundle).entry
        if entry.checkpoint.origin != anchor.origin:
            raise Refused("log_proof", f"the anchor is of the log {anchor.origin}, the record's is another")
        if entry.proof_index != anchor.index:
            raise Refused("log_proof", f"the anchor is for entry {anchor.index}, the record is {entry.proof_index}")
        leaf = leaf_hash(entry.body)
        if not proofs.includes(leaf, anchor.index, anchor.size, anchor.tree_root, anchor.path):
            raise Refused("log_proof", "the record's entry is not in the anchored log")

    words = f"its log was anchored: signed before {anchor.signed_at:{_MOMENT}}, by the clock of {anchor.root.name}"
    return Check(f"{words} ({anchor.root.assurance})", included, "log_proof")


def _check_about(signed: SignedStatement, text: str, note: bundles.Checkpoint) -> None:
    statement.check_subject(signed.statement, text.encode(), "checkpoint")
    said = read_closed(CheckpointPredicate, signed.statement.predicate, "payload $.predicate")
    if (said.origin, said.size, said.root) != (note.origin, note.size, note.root.hex()):
        raise Refused("statement", "says another checkpoint than its subject", where="payload $.predicate")


def _anchored(folder: Path, size: int) -> Anchored:
    return Anchored(size, folder / f"{size}.checkpoint", folder / f"{size}.sigstore.json")
