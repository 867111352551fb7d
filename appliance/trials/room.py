"""Workspaces of graders have room for a solution that filled its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from appliance.ports import Workspace, Workspaces


class Roomier:
    """`ports.Workspaces`: a solver that left no free block must not keep the oracle from its verdict."""

    def __init__(self, workspaces: Workspaces):
        self._workspaces = workspaces

    def open(self, pristine: Path, disk_mib: int, labels: Mapping[str, str]) -> Workspace:
        return self._workspaces.open(pristine, grader_disk_mib(disk_mib), labels)


def grader_disk_mib(disk_mib: int) -> int:
    """The solution once more at its largest, and what the tests write beside it."""
    return 2 * disk_mib + 64
