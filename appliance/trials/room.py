"""Workspaces of graders have room for a solution that filled its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from appliance.ports import Workspace, Workspaces

LAID_MIB: Final = 512 + 50_000 * 4 // 1024 + 64
"""What a harvest brings at most, in blocks of 4 KiB, and ext4's own."""


class Roomier:
    """`ports.Workspaces`: a solver that left no free block must not keep the oracle from its verdict."""

    def __init__(self, workspaces: Workspaces):
        self._workspaces = workspaces

    def open(self, pristine: Path, disk_mib: int, labels: Mapping[str, str]) -> Workspace:
        return self._workspaces.open(pristine, grader_disk_mib(disk_mib), labels)


def grader_disk_mib(disk_mib: int) -> int:
    """The solution once more at its largest, and what the tests write beside it.

    Its largest is not `disk_mib`: sparse files and hard links take none of that, and are laid in full. What bounds them
    is the harvest: so many bytes, and a block for each of so many paths.
    """
    return max(2 * disk_mib + 64, disk_mib + LAID_MIB)
