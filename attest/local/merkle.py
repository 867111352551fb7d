"""The Merkle tree of RFC 6962 section 2.1, kept as its frontier: appending costs O(log n), whatever the log's size."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

EMPTY_ROOT: Final = hashlib.sha256(b"").digest()


def leaf_hash(entry: bytes) -> bytes:
    return hashlib.sha256(b"\x00" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


@dataclass(frozen=True, slots=True)
class Frontier:
    """The roots of the complete subtrees that a tree of `size` leaves is made of, largest (leftmost) first."""

    size: int = 0
    hashes: tuple[bytes, ...] = ()

    def __post_init__(self) -> None:
        if self.size < 0 or len(self.hashes) != self.size.bit_count() or any(len(h) != 32 for h in self.hashes):
            raise ValueError(f"no frontier of a tree of {self.size} leaves")

    def append(self, leaf: bytes) -> Frontier:
        """With one more leaf, given by its leaf hash."""
        hashes = [*self.hashes, leaf]
        # Each trailing 1 bit of the old size is a complete subtree that merges with the new one.
        ones = (~self.size & (self.size + 1)).bit_length() - 1
        for _ in range(ones):
            right = hashes.pop()
            hashes.append(node_hash(hashes.pop(), right))
        return Frontier(self.size + 1, tuple(hashes))

    @property
    def root(self) -> bytes:
        """The Merkle tree hash."""
        if not self.hashes:
            return EMPTY_ROOT
        root = self.hashes[-1]
        for left in reversed(self.hashes[:-1]):
            root = node_hash(left, root)
        return root

    @property
    def path_of_next(self) -> tuple[bytes, ...]:
        """The inclusion proof, in the tree of one more leaf, of the leaf that is appended next.

        The last leaf of a tree has only left siblings, and they are the subtrees of this frontier, smallest first.
        """
        return self.hashes[::-1]
