"""The frontier against RFC 6962's definition, and against the roots that its reference implementation publishes."""

from __future__ import annotations

import pytest
from sigstore._internal.merkle import _chain_border_right, _chain_inner, _decomp_inclusion_proof

from attest.local.merkle import Frontier, leaf_hash
from tests.attest_forge import tree_hash

# From the certificate-transparency project's Merkle tree tests.
ENTRIES = [
    b"",
    b"\x00",
    b"\x10",
    b"\x20\x21",
    b"\x30\x31",
    b"\x40\x41\x42\x43",
    b"\x50\x51\x52\x53\x54\x55\x56\x57",
    b"\x60\x61\x62\x63\x64\x65\x66\x67\x68\x69\x6a\x6b\x6c\x6d\x6e\x6f",
]
ROOTS = {
    0: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    1: "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    2: "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    8: "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
}


def test_roots_are_those_of_the_reference_implementation() -> None:
    """Known roots of known entries (attest 3)."""
    frontier = Frontier()
    found = {0: frontier.root.hex()}
    for size, content in enumerate(ENTRIES, 1):
        frontier = frontier.append(leaf_hash(content))
        found[size] = frontier.root.hex()
    assert {size: found[size] for size in ROOTS} == ROOTS


def test_every_appended_leaf_has_the_root_and_the_proof_of_the_whole_tree() -> None:
    """For each size up to 300: the root is the definition's, and sigstore-python's own verifier takes the path."""
    frontier, leaves = Frontier(), []
    for index in range(300):
        leaf = leaf_hash(index.to_bytes(4, "big"))
        path = list(frontier.path_of_next)
        frontier = frontier.append(leaf)
        leaves.append(leaf)
        assert frontier.root == tree_hash(leaves)
        inner, border = _decomp_inclusion_proof(index, index + 1)
        assert len(path) == inner + border
        assert _chain_border_right(_chain_inner(leaf, path[:inner], index), path[inner:]) == frontier.root


@pytest.mark.parametrize(("size", "hashes"), [(1, ()), (0, (b"\x00" * 32,)), (1, (b"\x00" * 31,)), (-1, ())])
def test_a_frontier_that_no_tree_has_cannot_exist(size: int, hashes: tuple[bytes, ...]) -> None:
    """As many subtrees as the size has bits set, each a sha256."""
    with pytest.raises(ValueError, match="no frontier"):
        Frontier(size, hashes)
