"""What a solver writes bounds neither the harness's memory nor its patience."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path

import pytest

from appliance.trials.grading.patch import PatchTooLarge, patch_of
from appliance.trials.grading.tree import FileChange, Node

_MIB = 1024 * 1024


def test_a_patch_beyond_its_bound_is_given_up_before_it_is_held(tmp_path: Path) -> None:
    """Twenty files of noise that pack to twenty megabytes, under a bound of four: what is held stays near the bound
    (H24)."""
    noise = tmp_path / "noise"
    noise.write_bytes(random.Random(1).randbytes(_MIB))
    changes = [FileChange(b"f%d" % n, None, Node("644", noise)) for n in range(20)]
    tracemalloc.start()
    try:
        with pytest.raises(PatchTooLarge, match="4 MiB"):
            patch_of(changes, 4 * _MIB)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 * _MIB


def test_a_large_text_is_not_taken_apart_into_lines() -> None:
    """A megabyte and more of newlines becomes a binary hunk of a few hundred bytes (H24)."""
    patch = patch_of([FileChange(b"lines", None, Node("644", b"\n" * (2 * _MIB)))])
    assert b"GIT binary patch\nliteral 2097152\n" in patch
    assert len(patch) < 8192
