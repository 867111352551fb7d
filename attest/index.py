"""An append-only index of canonical JSON lines under a signed checkpoint, in a folder that any web server can carry.

`index.jsonl` holds one entry a line. `checkpoint.sigstore.json` is the signed statement about it: its subject is the
file up to the last counted line, its predicate {origin, size, root, previous}; root is the RFC 6962 tree hash over the
lines. The origin is a random id that the index gets when it is made, so no two indexes share one.

The lines are synced before the checkpoint that counts them replaces the old one:

- killed before that: lines beyond the checkpoint are nobody's; they are no entries, `uncounted_bytes` tells a reader of
  them, the next append cuts them off;
- fewer lines than the checkpoint counts, or other ones, or lines without any checkpoint: somebody changed the folder
  (Refused, class `replay`);
- an older checkpoint with its lines is as genuine as the newest one. Only who remembers a later one can tell, and
  gives it as `remembered`: shrunk, rewritten and forked are then refused as well.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Final

from pydantic import Field

from attest import canonical, statement
from attest.bundle import MAX_BUNDLE_BYTES
from attest.canonical import Json
from attest.closed import Closed, read_closed
from attest.errors import Refused
from attest.local.files import locked, read_bounded, write_atomically
from attest.local.merkle import EMPTY_ROOT, Frontier, leaf_hash
from attest.predicate import Sha256
from attest.roots import PinnedRoot
from attest.signing import sign_statement
from attest.trust import TrustMode
from attest.verification import SignedStatement, verify_statement

LINES: Final = "index.jsonl"
CHECKPOINT: Final = "checkpoint.sigstore.json"
LOCK: Final = ".index.lock"
MAX_INDEX_BYTES: Final = 256 * 1024 * 1024
MAX_LINE_BYTES: Final = 64 * 1024 * 1024
"""A line may list every blob that a record names: of the largest record (256 MiB) that is about a quarter."""
_MAX_REMEMBERED_BYTES: Final = 4096
_MEND: Final = "restore the folder from a copy; what it held was signed"


class Previous(Closed):
    """The checkpoint before, by its bundle too."""

    size: int = Field(ge=0)
    root: Sha256
    bundle_sha256: Sha256


class Checkpoint(Closed):
    """What is signed: `size` lines with this tree hash."""

    origin: Sha256
    size: int = Field(ge=0)
    root: Sha256
    previous: Previous | None
    """None of the first one, which counts no line."""

    def json_value(self) -> dict[str, Any]:
        value: dict[str, Any] = self.model_dump(mode="json", by_alias=True)
        return value


class SignedIndex:
    """An index as it was when it was opened, or last appended to through this object. Open it by `open`."""

    def __init__(
        self,
        folder: Path,
        held_to: tuple[PinnedRoot, str, str],
        remembered: Checkpoint | None,
    ):
        self.folder = folder
        self._held_to = held_to
        self._remembered = remembered
        self._load()

    @classmethod
    def open(
        cls,
        folder: Path,
        trust: PinnedRoot,
        identity: str,
        issuer: str,
        *,
        remembered: Checkpoint | None = None,
    ) -> SignedIndex:
        """Empty where there is none yet. `remembered`: the last checkpoint that the caller saw of this index.

        Raises Refused: verify_statement's, and `replay` where lines and checkpoint are not what they were.
        """
        return cls(folder, (trust, identity, issuer), remembered)

    @cached_property
    def entries(self) -> tuple[Json, ...]:
        """What the counted lines hold, in order. Raises Refused (replay) for a line that is no canonical JSON."""
        return tuple(_entry(line, f"{self.folder / LINES}:{number}") for number, line in enumerate(self._lines, 1))

    @property
    def size(self) -> int:
        return len(self._lines)

    def hold_to(self, remembered: Checkpoint) -> None:
        """To one more checkpoint that was seen of it before. Raises Refused (replay)."""
        self._remembered = remembered
        self._load()

    def append(self, lines: Sequence[Json], signer: TrustMode) -> Checkpoint:
        """Adds entries and signs for them; both are on disk when it returns, or nothing of it counts. Without any it
        makes an index that is not there yet, so that its origin is known.

        Safe among processes: whoever comes second appends behind the first. Raises Refused as `open` does, and
        OSError of the disk; the index is then as it was.
        """
        encoded = [_encoded(line) for line in lines]
        self.folder.mkdir(parents=True, exist_ok=True)
        with locked(self.folder / LOCK):
            if self.checkpoint is not None:
                self._remembered = self.checkpoint
            self._load()
            before = self.checkpoint or self._sign_first(signer)
            if not encoded:
                self._cut()
                return before
            return self._extend(before, encoded, signer)

    def _extend(self, before: Checkpoint, encoded: list[bytes], signer: TrustMode) -> Checkpoint:
        path = self.folder / LINES
        covered = b"".join(line + b"\n" for line in self._lines)
        added = b"".join(line + b"\n" for line in encoded)
        if len(covered) + len(added) > MAX_INDEX_BYTES:
            raise Refused("replay", f"would pass the bound of {MAX_INDEX_BYTES} bytes", where=str(path))
        frontier = self._frontier
        for line in encoded:
            frontier = frontier.append(leaf_hash(line))
        checkpoint = Checkpoint(
            origin=before.origin,
            size=frontier.size,
            root=frontier.root.hex(),
            previous=Previous(size=before.size, root=before.root, bundle_sha256=self.bundle_sha256 or ""),
        )
        with _appending(path) as stream:
            stream.truncate(len(covered))
            try:
                stream.write(added)
                stream.flush()
                os.fsync(stream.fileno())
                self._sign(checkpoint, covered + added, signer)
            except BaseException:
                with suppress(OSError):
                    stream.truncate(len(covered))
                raise
        self._load()
        return checkpoint

    def _cut(self) -> None:
        """What no checkpoint counts."""
        if not self.uncounted_bytes:
            return
        with _appending(self.folder / LINES) as stream:
            stream.truncate(sum(len(line) + 1 for line in self._lines))
            os.fsync(stream.fileno())
        self._load()

    def _sign_first(self, signer: TrustMode) -> Checkpoint:
        """An index begins with a signature over no lines: from then on lines without a checkpoint are a fault."""
        first = Checkpoint(origin=secrets.token_hex(32), size=0, root=EMPTY_ROOT.hex(), previous=None)
        self._sign(first, b"", signer)
        self._load()
        return first

    def _sign(self, checkpoint: Checkpoint, content: bytes, signer: TrustMode) -> None:
        kind = statement.INDEX_CHECKPOINT_TYPE
        bundle = sign_statement(signer, statement.build(LINES, content, checkpoint.json_value(), kind), kind)
        verify_statement(bundle, *self._held_to, kind)  # what nobody could open afterwards is not written
        write_atomically(self.folder / CHECKPOINT, bundle, 0o644)

    def _load(self) -> None:
        # The checkpoint first: lines are only ever added behind the ones that it counts.
        bundle = self._read(CHECKPOINT, MAX_BUNDLE_BYTES)
        content = self._read(LINES, MAX_INDEX_BYTES)
        self.__dict__.pop("entries", None)
        self.checkpoint: Checkpoint | None = None
        """None where there is no index yet."""
        self.bundle_sha256: str | None = None
        self.signed: SignedStatement | None = None
        self.uncounted_bytes = 0
        """Of the file, behind what its checkpoint counts: nobody signed for them."""
        if bundle is None:
            if content is not None:
                raise self._replayed(f"{LINES} has no {CHECKPOINT} beside it")
            if self._remembered is not None:
                raise self._replayed(f"is empty, and once had {self._remembered.size} entries")
            self._lines: list[bytes] = []
            self._frontier = Frontier()
            return
        signed = verify_statement(bundle, *self._held_to, statement.INDEX_CHECKPOINT_TYPE)
        checkpoint = read_closed(Checkpoint, signed.statement.predicate, "payload $.predicate")
        self._lines = _first_lines(content or b"", checkpoint.size)
        self._check(checkpoint, signed)
        self.uncounted_bytes = len(content or b"") - sum(len(line) + 1 for line in self._lines)
        self.checkpoint, self.signed, self.bundle_sha256 = checkpoint, signed, signed.bundle_sha256

    def _check(self, checkpoint: Checkpoint, signed: SignedStatement) -> None:
        """Lines, checkpoint, the one before it and the remembered one tell one story. Raises Refused (replay)."""
        seen, before = self._remembered, checkpoint.previous
        if len(self._lines) < checkpoint.size:
            raise self._replayed(f"shrunk: {len(self._lines)} whole lines, its checkpoint counts {checkpoint.size}")
        if seen is not None and seen.origin != checkpoint.origin:
            raise self._replayed("forked: another index than the one that was here")
        if seen is not None and seen.size > checkpoint.size:
            raise self._replayed(f"shrunk: {checkpoint.size} entries, and once had {seen.size}")
        if before is not None and before.size >= checkpoint.size:
            raise self._replayed("its checkpoint counts no more than the one before it")
        named = [(checkpoint.size, checkpoint.root)]
        if before is not None:
            named.append((before.size, before.root))
        if seen is not None:
            named.append((seen.size, seen.root))
        frontier, roots = Frontier(), {0: EMPTY_ROOT.hex()}
        sizes = {size for size, _ in named}
        for line in self._lines:
            frontier = frontier.append(leaf_hash(line))
            if frontier.size in sizes:
                roots[frontier.size] = frontier.root.hex()
        for size, root in named:
            if roots[size] != root:
                raise self._replayed(f"rewritten or forked: its first {size} entries are not the ones that were signed")
        content = b"".join(line + b"\n" for line in self._lines)
        if statement.subject_sha256(signed.statement) != hashlib.sha256(content).hexdigest():
            raise Refused("subject", f"the checkpoint is about other bytes than {LINES}", where=str(self.folder))
        self._frontier = frontier

    def _read(self, name: str, most: int) -> bytes | None:
        path = self.folder / name
        try:
            content = read_bounded(path, most, follow=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Refused("replay", error.strerror or str(error), where=str(path)) from error
        if len(content) > most:
            raise Refused("replay", f"over the bound of {most} bytes", where=str(path))
        return content

    def _replayed(self, message: str) -> Refused:
        return Refused("replay", message, where=str(self.folder), mend=_MEND)


def recall(path: Path) -> Checkpoint | None:
    """The checkpoint that `remember` kept; None where there is none. Raises Refused (replay) for what is no such."""
    try:
        content = read_bounded(path, _MAX_REMEMBERED_BYTES)
        value = canonical.loads_canonical(content, max_bytes=_MAX_REMEMBERED_BYTES)
    except FileNotFoundError:
        return None
    except (OSError, canonical.NotCanonical) as error:
        raise Refused("replay", f"not a remembered checkpoint: {error}", where=str(path)) from error
    return read_closed(Checkpoint, value, f"{path}: $", "replay")


def remember(path: Path, checkpoint: Checkpoint) -> None:
    """Keeps it for `open(..., remembered=recall(path))`: outside the index's own folder, or it shares its fate.

    Of one index only ever a newer one: whoever read it before somebody else did, and comes later, changes nothing.
    Raises OSError, and Refused as `recall` does.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path.with_suffix(".lock")):
        seen = recall(path)
        if seen is None or seen.origin != checkpoint.origin or seen.size < checkpoint.size:
            write_atomically(path, canonical.dumps(checkpoint.json_value()))


def _appending(path: Path) -> BinaryIO:
    """Its own file: where a symbolic link leads, nothing is written. Raises OSError."""
    return open(path, "ab", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o666))


def _encoded(line: Json) -> bytes:
    content = canonical.dumps(line)
    if not isinstance(line, dict) or len(content) > MAX_LINE_BYTES:
        raise ValueError(f"an entry is a JSON object of at most {MAX_LINE_BYTES} bytes")
    return content


def _entry(line: bytes, where: str) -> Json:
    try:
        value = canonical.loads_canonical(line, max_bytes=MAX_LINE_BYTES)
    except canonical.NotCanonical as error:
        raise Refused("replay", error.message, where=f"{where}: {error.path}") from error
    if not isinstance(value, dict):
        raise Refused("replay", "an entry is a JSON object", where=where)
    return value


def _first_lines(content: bytes, most: int) -> list[bytes]:
    """At most so many whole lines, without their line feeds."""
    found: list[bytes] = []
    start = 0
    while len(found) < most and (end := content.find(b"\n", start)) >= 0:
        found.append(content[start:end])
        start = end + 1
    return found
