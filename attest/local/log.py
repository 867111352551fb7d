"""The append-only log of the instance: one file of entries, and a head that says what of it has been signed.

`entries.jsonl` holds one canonical entry a line and is the truth. `head.json` holds the tree's frontier at the last
signed checkpoint, so appending never reads the log again. An entry is synced before the head that counts it, and the
head before its checkpoint leaves the process:

- killed while an entry is written: the half line is cut off by the next append;
- killed before the head: the entry stays, and the next append counts it (its bundle never existed);
- fewer entries than the head counts, or other ones: somebody rewrote the log, and nothing more is signed with it.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from attest import canonical
from attest.errors import Refused
from attest.local.files import locked, write_atomically
from attest.local.keys import Keys, key_id
from attest.local.merkle import Frontier, leaf_hash
from attest.local.proofs import root_of

_MAX_HEAD_BYTES: Final = 64 * 1024
_MEND: Final = "the log was changed by hand; restore it from a copy, or begin a new trust folder"


@dataclass(frozen=True, slots=True)
class Head:
    """What the last checkpoint covers."""

    frontier: Frontier
    covered_bytes: int
    """Length of the entries file up to the last covered line."""
    checkpoint: str
    """The signed note (C2SP tlog-checkpoint); empty for an empty log."""

    @property
    def size(self) -> int:
        return self.frontier.size


@dataclass(frozen=True, slots=True)
class Inclusion:
    """Where an entry went, and the proof that it is there."""

    index: int
    size: int
    root: bytes
    path: tuple[bytes, ...]
    checkpoint: str


EMPTY: Final = Head(Frontier(), 0, "")


class LocalLog:
    """Safe for any number of processes at once: every append holds a lock on the folder's lock file."""

    def __init__(self, folder: Path, keys: Keys):
        self._entries = folder / "entries.jsonl"
        self._head = folder / "head.json"
        self._lock = folder / "lock"
        self._keys = keys

    @classmethod
    def create(cls, folder: Path, keys: Keys) -> LocalLog:
        folder.mkdir(mode=0o700)
        log = cls(folder, keys)
        write_atomically(log._entries, b"")
        log._write_head(EMPTY)
        return log

    @property
    def origin(self) -> str:
        """The log's name in its checkpoints, made of its key, so no two logs share it."""
        return f"{key_id(self._keys.public('log')).hex()[:16]}.log.local.invalid"

    def head(self) -> Head:
        """The last signed head. Raises Refused (replay) where it cannot be read."""
        return self._read_head()

    def refuse_unready(self) -> None:
        """Raises Refused where `append` could not; nothing is changed."""
        self._read_head()
        for path, modes in ((self._entries.parent, os.W_OK | os.X_OK), (self._entries, os.R_OK | os.W_OK)):
            if not os.access(path, modes):
                words = "no permission to write" if path.exists() else "not there"
                raise Refused("trust_root", words, where=str(path), mend=_MEND if not path.exists() else None)

    def append(self, body: bytes) -> Inclusion:
        """Adds one entry (a line of canonical JSON) and returns its proof once everything is on disk."""
        if b"\n" in body:
            raise ValueError("an entry is one line")
        with locked(self._lock), self._entries.open("r+b") as entries:
            before = self._caught_up(self._read_head(), entries)
            entries.seek(before.covered_bytes)
            entries.write(body + b"\n")
            entries.flush()
            os.fsync(entries.fileno())
            frontier = before.frontier.append(leaf_hash(body))
            root = frontier.root
            after = Head(frontier, before.covered_bytes + len(body) + 1, self._checkpoint(frontier.size, root))
            self._write_head(after)
        return Inclusion(before.size, after.size, root, before.frontier.path_of_next, after.checkpoint)

    def audit(self) -> Head:
        """Reads every entry again; raises Refused (replay) where they are not what the head was signed over."""
        with locked(self._lock), self._entries.open("rb") as entries:
            head = self._read_head()
            if self._counted(head, entries) != head.frontier:
                raise Refused("replay", "entries differ from the signed head", where=str(self._entries), mend=_MEND)
        return head

    def leaves(self, size: int | None = None) -> list[bytes]:
        """The leaf hashes of the first `size` entries, else of all that the head counts; every one is read again.

        Raises Refused (replay) where they are not what the head was signed over, or are fewer.
        """
        with locked(self._lock), self._entries.open("rb") as entries:
            head = self._read_head()
            content = entries.read(head.covered_bytes)
        found = [leaf_hash(line) for line in content.split(b"\n")[:-1]]
        if len(found) != head.size or root_of(found) != head.frontier.root:
            raise Refused("replay", "entries differ from the signed head", where=str(self._entries), mend=_MEND)
        if size is not None and size > len(found):
            raise Refused("replay", f"has {len(found)} entries, not {size}", where=str(self._entries), mend=_MEND)
        return found[:size]

    def _counted(self, head: Head, entries: BinaryIO) -> Frontier:
        frontier = Frontier()
        entries.seek(0)
        for line in entries:
            if entries.tell() > head.covered_bytes or not line.endswith(b"\n"):
                break
            frontier = frontier.append(leaf_hash(line[:-1]))
        return frontier

    def _caught_up(self, head: Head, entries: BinaryIO) -> Head:
        """Takes in whole lines that a killed signer left after the head, and cuts off half a line."""
        length = entries.seek(0, os.SEEK_END)
        if length < head.covered_bytes:
            raise Refused("replay", "shorter than its signed head", where=str(self._entries), mend=_MEND)
        if head.covered_bytes:
            entries.seek(head.covered_bytes - 1)
            if entries.read(1) != b"\n":
                raise Refused("replay", "differs from its signed head", where=str(self._entries), mend=_MEND)
        frontier, end = head.frontier, head.covered_bytes
        for line in _whole_lines(entries):
            frontier, end = frontier.append(leaf_hash(line)), end + len(line) + 1
        if end < length:
            entries.truncate(end)
        return Head(frontier, end, head.checkpoint)

    def _checkpoint(self, size: int, root: bytes) -> str:
        """A C2SP signed note of origin, size and root."""
        note = f"{self.origin}\n{size}\n{base64.b64encode(root).decode()}\n"
        signature = key_id(self._keys.public("log"))[:4] + self._keys.sign("log", note.encode())
        return f"{note}\n\u2014 {self.origin} {base64.b64encode(signature).decode()}\n"

    def _write_head(self, head: Head) -> None:
        value = {
            "bytes": head.covered_bytes,
            "checkpoint": head.checkpoint,
            "frontier": [h.hex() for h in head.frontier.hashes],
            "size": head.size,
        }
        write_atomically(self._head, canonical.dumps(value))

    def _read_head(self) -> Head:
        try:
            value = canonical.loads_canonical(self._head.read_bytes(), max_bytes=_MAX_HEAD_BYTES)
            frontier = Frontier(value["size"], tuple(bytes.fromhex(h) for h in value["frontier"]))
            return Head(frontier, int(value["bytes"]), str(value["checkpoint"]))
        except OSError as error:
            raise Refused("replay", error.strerror or str(error), where=str(self._head), mend=_MEND) from error
        except (ValueError, KeyError, TypeError) as error:
            raise Refused("replay", "not the head of a log", where=str(self._head), mend=_MEND) from error


def _whole_lines(entries: BinaryIO) -> Iterator[bytes]:
    for line in entries:
        if not line.endswith(b"\n"):
            return
        yield line[:-1]
