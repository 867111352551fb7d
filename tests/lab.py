"""A local instance's root where a test needs a deployment's and asks none: the same bytes, taken at another level."""

from __future__ import annotations

from unittest.mock import patch

from attest import roots
from attest.roots import Assurance, PinnedRoot


def lab_root(root: PinnedRoot, assurance: Assurance = "private", *, name: str = "lab") -> PinnedRoot:
    """What a `PinnedRoot` refuses to be: tests of what comes after that need one."""
    with patch.object(roots, "SELF_ASSERTED", "nobody's organisation"):
        return PinnedRoot(name, root.content, root.sha256, assurance)
