"""External patches, as people send them."""

from __future__ import annotations

import pytest

from appliance.trials.grading.applying import apply_patch
from appliance.trials.grading.tree import Node, after
from appliance.trials.grading.unified import PatchRejected

OLD = b"one\ntwo\nthree\n"
NEW = b"one\n2\nthree\n"
PATCH = b"--- a/f.txt\n+++ b/f.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"


def applied(old: bytes, patch: bytes) -> bytes:
    tree = {b"f.txt": Node("644", old)}
    return after(tree, apply_patch(tree, patch))[b"f.txt"].content


@pytest.mark.parametrize(
    ("old", "patch", "new"),
    [
        (OLD, PATCH, NEW),
        (OLD, PATCH[:-1], NEW),
        (OLD, PATCH.replace(b"\n", b"\r\n"), NEW),
        (OLD, PATCH.replace(b"\n", b"\r\n")[:-2], NEW),
        (OLD.replace(b"\n", b"\r\n"), PATCH, NEW.replace(b"\n", b"\r\n")),
        (OLD.replace(b"\n", b"\r\n"), PATCH.replace(b"\n", b"\r\n"), NEW.replace(b"\n", b"\r\n")),
        (b"zero\n" * 5 + OLD, PATCH, b"zero\n" * 5 + NEW),
        (OLD, b"From: somebody\nSubject: x\n\n" + PATCH + b"-- \n2.39\n", NEW),
    ],
    ids=["plain", "no newline", "CRLF", "CRLF, no newline", "CRLF file", "CRLF both", "offset", "mail"],
)
def test_line_ends_and_a_missing_newline_change_nothing(old: bytes, patch: bytes, new: bytes) -> None:
    """A patch without its last newline, or with carriage returns, applies the same as with and without (H20)."""
    assert applied(old, patch) == new


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        (PATCH.replace(b"-two", b"-deux"), "f.txt: hunk 1 does not apply near line 1"),
        (PATCH + b"@@ -9,1 +9,1 @@\n-nine\n+9\n", "f.txt: hunk 2 does not apply near line 9"),
        (PATCH.replace(b"f.txt", b"g.txt"), "g.txt: is not there"),
        (PATCH.replace(b"f.txt", b"../f.txt"), "not a path inside"),
        (PATCH.replace(b"f.txt", b".git/config"), "not a path inside"),
        (PATCH.replace(b" three\n", b""), "hunk 1 ends too early"),
        (b"@@ -1 +1 @@\n-a\n+b\n", "a hunk of no file"),
        (b"rubbish\n", "no file is named"),
        (b"diff --git a/f.txt b/f.txt\nBinary files a/f.txt and b/f.txt differ\n", "--binary"),
        (
            b"diff --git a/f.txt b/f.txt\nnew file mode 100644\n--- /dev/null\n+++ b/f.txt\n@@ -0,0 +1 @@\n+x\n",
            "there already",
        ),
    ],
)
def test_what_does_not_fit_names_its_first_hunk(patch: bytes, words: str) -> None:
    """A rejected patch says which file, which hunk, near which line (H20)."""
    with pytest.raises(PatchRejected) as caught:
        applied(OLD, patch)
    assert words in str(caught.value)
