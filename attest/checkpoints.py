"""The local log's checkpoints as a verifier keeps them: signed notes, and proofs that one grew out of another."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field, StringConstraints

from attest import canonical
from attest.bundle import Checkpoint, parse_checkpoint
from attest.closed import Closed, read_closed
from attest.errors import Refused
from attest.local import proofs
from attest.roots import PinnedRoot

if TYPE_CHECKING:
    from attest.local.log import LocalLog

MAX_NOTE_BYTES: Final = 16 * 1024
MAX_PROOF_BYTES: Final = 64 * 1024
Hash = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9+/]{43}=$")]
"""Of 32 bytes, in base64."""


class ConsistencyProof(Closed):
    """A document that shows to whoever kept `earlier` that the log of `later` begins with it."""

    schema_: Literal["log-consistency-v1"] = Field(alias="schema")
    earlier: str
    later: str
    hashes: Annotated[tuple[Hash, ...], Field(max_length=128)]
    """PROOF(m, D[n]) of RFC 6962 2.1.2."""

    def content(self) -> bytes:
        return canonical.dumps(self.model_dump(mode="json", by_alias=True))


def read_note(content: bytes, where: str) -> tuple[str, Checkpoint]:
    """A signed note's text and what it says; nothing of it is believed yet. Raises Refused (log_proof)."""
    try:
        if len(content) > MAX_NOTE_BYTES:
            raise ValueError(f"over {MAX_NOTE_BYTES} bytes")  # noqa: TRY301  one refusal for all
        text = content.decode()
        return text, parse_checkpoint(text, where)
    except (Refused, ValueError) as error:
        raise Refused(
            "log_proof", f"not a checkpoint: {error}", where=where, mend="what `appliance trust checkpoint` printed"
        ) from error


def check_note(text: str, checkpoint: Checkpoint, root: PinnedRoot, where: str) -> None:
    """That the embedded instance of this root signed the note. Raises Refused (log_proof)."""
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_der_public_key

    from attest.library import load_root

    signed = text[: text.index("\n\n") + 1].encode()
    for log in load_root(root)._inner.tlogs:
        try:
            key = load_der_public_key(log.public_key.raw_bytes or b"")
        except (ValueError, UnsupportedAlgorithm):
            continue  # the root of a deployment may hold what the embedded instance has not
        for name, hint, signature in checkpoint.signatures:
            if name != checkpoint.origin or log.log_id is None or hint != log.log_id.key_id[:4]:
                continue
            if isinstance(key, ec.EllipticCurvePublicKey):
                try:
                    key.verify(signature, signed, ec.ECDSA(hashes.SHA256()))
                except InvalidSignature:
                    continue
                return
    raise Refused("log_proof", f"not signed by the log of the pinned root {root.name}", where=where)


def prove(log: LocalLog, earlier: bytes, root: PinnedRoot, where: str) -> ConsistencyProof:
    """That this log still begins with what a verifier kept. Raises Refused: log_proof for what is no checkpoint of this
    log, replay where the log was shortened, rewritten or forked since."""
    text, before = read_note(earlier, where)
    check_note(text, before, root, where)
    head = log.head()
    if before.size > head.size:
        raise Refused("replay", f"the log has {head.size} entries, and had {before.size}", where=where)
    leaves = log.leaves()[: head.size]
    if proofs.root_of(leaves[: before.size]) != before.root:
        raise Refused("replay", f"the first {before.size} entries of the log are not those any more", where=where)
    path = proofs.consistency(before.size, leaves)
    hashes = tuple(base64.b64encode(one).decode() for one in path)
    return ConsistencyProof(schema_="log-consistency-v1", earlier=text, later=head.checkpoint, hashes=hashes)


def check_consistency(proof: bytes, earlier: bytes, root: PinnedRoot, where: str) -> Checkpoint:
    """The later checkpoint, once the proof shows that its log begins with `earlier`: what one keeps from then on.

    Needs nothing but the pinned root. Raises Refused: log_proof for a proof or note that is none or not of this root,
    replay where it does not hold.
    """
    try:
        value = canonical.loads(proof, max_bytes=MAX_PROOF_BYTES)
    except canonical.NotCanonical as error:
        raise Refused("log_proof", error.message, where=f"{where} {error.path}") from error
    found = read_closed(ConsistencyProof, value, f"{where} $", "log_proof")
    kept_text, kept = read_note(earlier, "the checkpoint kept")
    if found.earlier != kept_text:
        raise Refused("log_proof", "is about another checkpoint than the one kept", where=where)
    later_text, later = read_note(found.later.encode(), f"{where} $.later")
    for text, checkpoint in ((kept_text, kept), (later_text, later)):
        check_note(text, checkpoint, root, where)
    hashes = [base64.b64decode(one) for one in found.hashes]
    if kept.origin != later.origin or not proofs.consistent((kept.size, kept.root), (later.size, later.root), hashes):
        raise Refused(
            "replay", f"the log of {later.size} entries does not begin with the {kept.size} that it had", where=where
        )
    return later
