"""The tests of a task as the grader sees them: pristine, whole, readable by the judge alone."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from appliance.digests import tree_digest, tree_entries
from appliance.ports import TreeEntry
from appliance.tasks.model import Task

JUDGE = 1001
"""The user of the judge in the grader's container, and its group."""


@dataclass(frozen=True)
class TestsTree:
    """A copy under `root`; `paths` are its files, `/`-separated."""

    root: Path
    digest: str
    paths: frozenset[str]

    def entries(self) -> tuple[TreeEntry, ...]:
        return tuple(_entry(self.root, path) for path in sorted(self.paths))

    def tar(self) -> bytes:
        """For a container that cannot be given the folder itself."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for path in sorted(self.paths):
                archive.add(self.root / path, arcname=path, recursive=False, filter=_nameless)
        return packed.getvalue()

    def remove(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)


def copy_tests(task: Task, test_files: tuple[str, ...], root: Path, *, for_judge: bool) -> TestsTree:
    """All of tests/, and the listed files that lie in before/. `for_judge`: owned so that user 1001 reads it, only."""
    hidden = task.folder / "tests"
    root.mkdir(mode=0o700, parents=True)
    if hidden.is_dir():
        shutil.copytree(hidden, root, symlinks=True, dirs_exist_ok=True)
    for relative in test_files:
        place = root / relative
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(task.test_file(relative), place)
    paths = frozenset(path for path, _, _ in tree_entries(root))
    tree = TestsTree(root, tree_digest(root), paths)
    for path in _all_of(root):
        if not path.is_symlink():
            executable = path.is_dir() or bool(path.stat().st_mode & 0o100)
            path.chmod(0o550 if executable else 0o440)
        if for_judge:
            os.chown(path, JUDGE, JUDGE, follow_symlinks=False)
    return tree


def _all_of(root: Path) -> Iterator[Path]:
    yield from root.rglob("*")
    yield root


def _entry(root: Path, path: str) -> TreeEntry:
    place = root / path
    if place.is_symlink():
        return TreeEntry(path.encode(), "link", content=os.fsencode(place.readlink()))
    return TreeEntry(path.encode(), "file", bool(place.stat().st_mode & 0o100), place)


def _nameless(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = JUDGE
    member.uname = member.gname = ""
    return member
