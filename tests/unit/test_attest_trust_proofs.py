"""Inclusion and consistency proofs against RFC 6962's own recursive definition, over every pair of small sizes."""

from __future__ import annotations

import pytest

from attest.local.merkle import leaf_hash
from attest.local.proofs import consistency, consistent, includes, inclusion, root_of
from tests.attest_forge import tree_hash

LEAVES = [leaf_hash(bytes([i])) for i in range(33)]


def _subproof(m: int, leaves: list[bytes], whole: bool) -> list[bytes]:
    """SUBPROOF of RFC 6962 2.1.2, word for word."""
    n = len(leaves)
    if m == n:
        return [] if whole else [tree_hash(leaves)]
    k = 1
    while k * 2 < n:
        k *= 2
    if m <= k:
        return [*_subproof(m, leaves[:k], whole), tree_hash(leaves[k:])]
    return [*_subproof(m - k, leaves[k:], False), tree_hash(leaves[:k])]


@pytest.mark.parametrize("size", range(1, 34))
def test_every_leaf_of_every_small_tree_is_proven_where_it_stands_and_nowhere_else(size: int) -> None:
    """A proof holds for its own leaf, index, size and root (attest 3; rows V8, V9)."""
    leaves = LEAVES[:size]
    root = tree_hash(leaves)
    for index in range(size):
        path = inclusion(index, leaves)
        assert includes(leaves[index], index, size, root, path)
        assert not includes(leaves[index], index + 1, size, root, path)
        assert not includes(leaves[index], index, size, leaf_hash(b"other"), path)
        assert not includes(leaf_hash(b"other"), index, size, root, path)
        assert not includes(leaves[index], index, size, root, (*path, root))
        assert not path or not includes(leaves[index], index, size, root, path[:-1])
        if size & (size - 1) == 0:  # a larger tree's proofs are longer: this one shows nothing of it
            assert not includes(leaves[index], index, size + 1, root, path)


@pytest.mark.parametrize("size", range(34))
def test_every_earlier_tree_is_proven_to_be_the_beginning_of_a_later_one(size: int) -> None:
    """The proof is the RFC's, and no other tree, size or hash passes by it (attest 3: a rewritten or forked log)."""
    leaves = LEAVES[:size]
    later = (size, tree_hash(leaves))
    for first in range(size + 1):
        proof = consistency(first, leaves)
        earlier = (first, tree_hash(leaves[:first]))
        if 0 < first < size:
            assert list(proof) == _subproof(first, leaves, True)
        assert consistent(earlier, later, proof)
        assert root_of(leaves[:first]) == earlier[1]
        if first:
            forked = tree_hash([*leaves[: first - 1], leaf_hash(b"other")])
            assert not consistent((first, forked), later, proof)
            assert not consistent(earlier, (size, leaf_hash(b"other")), proof)
        assert not consistent(earlier, later, (*proof, later[1]))
        assert not proof or not consistent(earlier, later, proof[:-1])
        assert not consistent((size + 1, later[1]), later, proof)


def test_what_is_not_in_the_log_has_no_proof() -> None:
    """Sizes and indices beyond it are refused, not answered."""
    with pytest.raises(ValueError, match="no leaf 3 among 3"):
        inclusion(3, LEAVES[:3])
    with pytest.raises(ValueError, match="no 4 leaves among 3"):
        consistency(4, LEAVES[:3])
