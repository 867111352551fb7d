"""Proofs of RFC 6962 section 2.1, made of all leaves and checked with none: inclusion and consistency.

An append needs only the frontier (`merkle`); these are for a verifier who kept an earlier checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence

from attest.local.merkle import EMPTY_ROOT, Frontier, node_hash


def root_of(leaves: Sequence[bytes]) -> bytes:
    """Of leaf hashes."""
    frontier = Frontier()
    for leaf in leaves:
        frontier = frontier.append(leaf)
    return frontier.root


def inclusion(index: int, leaves: Sequence[bytes]) -> tuple[bytes, ...]:
    """PATH(m, D[n]) of RFC 6962 2.1.1, of leaf hashes. Raises ValueError for a leaf that is not there."""
    if not 0 <= index < len(leaves):
        raise ValueError(f"no leaf {index} among {len(leaves)}")
    path: list[bytes] = []
    begin, end = 0, len(leaves)
    while end - begin > 1:
        middle = begin + _split(end - begin)
        if index < middle:
            path.append(root_of(leaves[middle:end]))
            end = middle
        else:
            path.append(root_of(leaves[begin:middle]))
            begin = middle
    return tuple(reversed(path))


def consistency(size: int, leaves: Sequence[bytes]) -> tuple[bytes, ...]:
    """PROOF(m, D[n]) of RFC 6962 2.1.2: that the tree of the first `size` leaves grew into this one.

    Raises ValueError for a size beyond the leaves.
    """
    if not 0 <= size <= len(leaves):
        raise ValueError(f"no {size} leaves among {len(leaves)}")
    if size in (0, len(leaves)):
        return ()
    proof: list[bytes] = []
    begin, end, whole = 0, len(leaves), True
    while size != end - begin:
        middle = _split(end - begin)
        if size <= middle:
            proof.append(root_of(leaves[begin + middle : end]))
            end = begin + middle
        else:
            proof.append(root_of(leaves[begin : begin + middle]))
            begin, size, whole = begin + middle, size - middle, False
    if not whole:
        proof.append(root_of(leaves[begin:end]))
    return tuple(reversed(proof))


def includes(leaf: bytes, index: int, size: int, root: bytes, path: Sequence[bytes]) -> bool:
    """Whether `path` proves that this leaf hash stands at `index` in the tree of this size and root (RFC
    9162 2.1.3.2)."""
    if not 0 <= index < size:
        return False
    node, last, found = index, size - 1, leaf
    for sibling in path:
        if last == 0:
            return False
        if node & 1 or node == last:
            found = node_hash(sibling, found)
            while not node & 1 and node:
                node, last = node >> 1, last >> 1
        else:
            found = node_hash(found, sibling)
        node, last = node >> 1, last >> 1
    return last == 0 and found == root


def consistent(earlier: tuple[int, bytes], later: tuple[int, bytes], proof: Sequence[bytes]) -> bool:
    """Whether `proof` shows that the later tree, of (size, root), begins with the earlier one (RFC 9162 2.1.4.2)."""
    (first, first_root), (second, second_root) = earlier, later
    if first == 0:
        return first_root == EMPTY_ROOT and not proof and second >= 0
    if first == second:
        return first_root == second_root and not proof
    if not 0 < first < second or not proof:
        return False
    hashes = [first_root, *proof] if first & (first - 1) == 0 else list(proof)
    node, last = first - 1, second - 1
    while node & 1:
        node, last = node >> 1, last >> 1
    old = new = hashes[0]
    for sibling in hashes[1:]:
        if last == 0:
            return False
        if node & 1 or node == last:
            old, new = node_hash(sibling, old), node_hash(sibling, new)
            while not node & 1 and node:
                node, last = node >> 1, last >> 1
        else:
            new = node_hash(new, sibling)
        node, last = node >> 1, last >> 1
    return last == 0 and old == first_root and new == second_root


def _split(size: int) -> int:
    """The largest power of two below `size`."""
    return 1 << ((size - 1).bit_length() - 1)
