"""Patches written and applied by us, against git itself."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from appliance.trials.grading.applying import apply_patch
from appliance.trials.grading.patch import patch_of
from appliance.trials.grading.tree import Node, entries_of, file_changes, pristine_nodes
from appliance.trials.grading.tree import after as tree_after
from appliance.trials.grading.unified import PatchRejected

NAMES = st.one_of(
    st.sampled_from([b"a", b"b", b"a b", b"a\tb", b"new\nline", b"\xff\xfe", b'q"uote', b"back\\slash", "é".encode()]),
    st.binary(min_size=1, max_size=6).filter(lambda name: not set(name) & set(b"\0/") and name not in (b".", b"..")),
)
PATHS = (
    st.lists(NAMES, min_size=1, max_size=3).map(b"/".join).filter(lambda path: b".git" not in path.lower().split(b"/"))
)
LINES = st.lists(st.sampled_from([b"one", b"two", b"", b"three\r", b"  four", b"@@ x", b"-- a", b"++ b"]), max_size=30)
CONTENTS = st.one_of(
    LINES.map(b"\n".join),
    LINES.map(lambda lines: b"".join(line + b"\n" for line in lines)),
    st.binary(max_size=400),
    st.binary(max_size=100).map(lambda some: some + b"\0" + some),
)
NODES = st.one_of(
    st.builds(Node, st.sampled_from(["644", "755"]), CONTENTS),
    st.builds(Node, st.just("link"), st.sampled_from([b"a", b"../x", b"/grade/result.xml", b"no\nsuch"])),
)


def without_conflicts(nodes: dict[bytes, Node]) -> dict[bytes, Node]:
    return {path: node for path, node in nodes.items() if not any(other.startswith(path + b"/") for other in nodes)}


TREES = st.dictionaries(PATHS, NODES, max_size=6).map(without_conflicts)


def write_tree(root: bytes, nodes: dict[bytes, Node]) -> None:
    for path, node in nodes.items():
        place = Path(os.fsdecode(root)) / os.fsdecode(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        if node.mode == "link":
            place.symlink_to(os.fsdecode(node.content))
        else:
            place.write_bytes(node.content)
            place.chmod(0o755 if node.mode == "755" else 0o644)


def contents(nodes: dict[bytes, Node]) -> dict[bytes, tuple[str, bytes]]:
    return {path: (node.mode, node.content) for path, node in nodes.items()}


def git(*words: str, cwd: str) -> bytes:
    calm = ["-c", "core.autocrlf=false", "-c", "core.safecrlf=false"]
    return subprocess.run(["git", *calm, *words], cwd=cwd, capture_output=True, check=True).stdout


def git_applied(root: str, patch: bytes) -> dict[bytes, tuple[str, bytes]]:
    if patch:
        said = subprocess.run(
            ["git", "apply", "--whitespace=nowarn", "-"],
            cwd=root, input=patch, capture_output=True, check=False,
            env={**os.environ, "GIT_CEILING_DIRECTORIES": str(Path(root).parent)},
        )  # fmt: skip
        assert said.returncode == 0, said.stderr.decode(errors="replace") + patch.decode(errors="replace")
    return contents(pristine_nodes(Path(root)))


@settings(max_examples=150, deadline=None)
@given(TREES, TREES)
@example({b"a": Node("644", b"x\n")}, {b"a/b": Node("644", b"y\n")})
@example({b"a/b": Node("644", b"y\n")}, {b"a": Node("644", b"x\n")})
@example({b"a": Node("644", b"x\n")}, {b"a": Node("link", b"x")})
@example({b"a": Node("644", b"x")}, {b"a": Node("755", b"x\n")})
@example({b"a": Node("644", b"")}, {})
@example({}, {b"a": Node("755", b"")})
@example({b"a": Node("644", b"\0old")}, {b"a": Node("755", b"\0new")})
def test_git_apply_of_our_patch_gives_exactly_the_new_tree(old: dict[bytes, Node], new: dict[bytes, Node]) -> None:
    """Whatever the names, modes, links and bytes, `git apply` turns the old tree into the new one (H20, I28)."""
    with tempfile.TemporaryDirectory() as root:
        write_tree(os.fsencode(root), old)
        assert git_applied(root, patch_of(file_changes(old, new))) == contents(new)


@settings(max_examples=100, deadline=None)
@given(TREES, TREES)
def test_the_entries_of_a_change_lead_to_the_new_tree(old: dict[bytes, Node], new: dict[bytes, Node]) -> None:
    """Laying the entries of a difference over the old tree gives the new one (J10)."""
    assert contents(tree_after(old, entries_of(file_changes(old, new)))) == contents(new)


@settings(max_examples=60, deadline=None)
@given(TREES, TREES)
def test_gits_own_patches_apply_the_same(old: dict[bytes, Node], new: dict[bytes, Node]) -> None:
    """What `git diff --binary` says of two trees makes the one of the other, renames and deltas included (H20)."""
    with tempfile.TemporaryDirectory() as top:
        git("init", "-q", cwd=top)
        write_tree(os.fsencode(top), old)
        git("add", "-A", "-f", cwd=top)
        first = git("write-tree", cwd=top).decode().strip()
        git("rm", "-r", "-q", "-f", "--ignore-unmatch", ".", cwd=top)
        write_tree(os.fsencode(top), new)
        git("add", "-A", "-f", cwd=top)
        patch = git("diff", "--cached", "--binary", "-M", first, cwd=top)
    assert contents(tree_after(old, apply_patch(old, patch))) == contents(new)


@settings(max_examples=100, deadline=None)
@given(TREES, TREES)
def test_our_own_patches_apply_the_same(old: dict[bytes, Node], new: dict[bytes, Node]) -> None:
    """A record's diff can be laid over the pristine tree again (H20)."""
    assert contents(tree_after(old, apply_patch(old, patch_of(file_changes(old, new))))) == contents(new)


@settings(max_examples=200, deadline=None)
@given(TREES, st.binary(max_size=200))
def test_rubbish_is_rejected_in_words(old: dict[bytes, Node], rubbish: bytes) -> None:
    """Bytes that are no patch raise PatchRejected or change nothing, and nothing else happens (H20)."""
    for patch in (rubbish, b"diff --git a/x b/x\n" + rubbish, b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n" + rubbish):
        try:
            apply_patch(old, patch)
        except PatchRejected as error:
            assert str(error)
