"""The files of a suite: what may lie there, and their digests."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from appliance.digests import Bounds, sha256_of_file, tree_entries
from appliance.errors import InputRefused
from appliance.tasks.names import relative_problem

Entry = tuple[str, str, str]
"""`(path, "644" | "755" | "link", sha256 or link target)`, as of `digests.tree_entries`."""

SUITE_TOML: Final = "suite.toml"
CHECKS_JSON: Final = "checks.json"
TASK_BOUNDS: Final = Bounds(file_mib=128, tree_mib=512, files=100_000)
"""One task at most: of as much an archive of a suite may be, which is held in memory to be signed for."""


def task_folders(suite: Path) -> list[Path]:
    """Every folder of a suite is a task, but those whose name starts with a dot; sorted by name."""
    try:
        found = sorted(path for path in suite.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise InputRefused(error.strerror or str(error), where=str(suite)) from error
    linked = next((path for path in found if path.is_symlink() and path.is_dir()), None)
    if linked is not None:
        raise InputRefused("a task that is a symbolic link", where=str(linked), mend="copy the folder")
    tasks = [path for path in found if path.is_dir()]
    misplaced = next((path for path in tasks if path.name == CHECKS_JSON), None)
    if misplaced is not None:
        raise InputRefused("a folder, not a regular file", where=str(misplaced), mend="move it away")
    return tasks


def entries_of_task(folder: Path) -> list[Entry]:
    """Raises InputRefused for what cannot travel: devices, sockets, links that leave their own part of the task,
    and more than TASK_BOUNDS."""
    try:
        entries = tree_entries(folder, TASK_BOUNDS)
    except OSError as error:
        raise InputRefused(error.strerror or str(error), where=str(error.filename or folder)) from error
    for path, kind, target in entries:
        problem = relative_problem(path)
        if problem:
            raise InputRefused(f"a name that {problem}", where=f"{folder}/{ascii(path)[1:-1]}", mend="rename it")
        if kind == "link":
            _refuse_leaving_link(folder, path, target)
    return entries


def suite_entries(suite: Path, tasks: list[tuple[Path, list[Entry]]]) -> list[Entry]:
    """The entries that `suite.digest` is of: suite.toml and the tasks, never checks.json or what else lies there."""
    entries = _suite_toml(suite)
    for folder, found in tasks:
        entries += [(f"{folder.name}/{path}", kind, content) for path, kind, content in found]
    return sorted(entries, key=lambda entry: entry[0].encode())


def _suite_toml(suite: Path) -> list[Entry]:
    toml = suite / SUITE_TOML
    if not toml.exists():
        return []
    if toml.is_symlink() or not toml.is_file():
        raise InputRefused("not a regular file", where=str(toml), mend="put the file itself there")
    return [(SUITE_TOML, "755" if toml.stat().st_mode & 0o100 else "644", sha256_of_file(toml))]


def _refuse_leaving_link(folder: Path, path: str, target: str) -> None:
    """A link may point within before/, reference/ or tests/, wherever it lies: each part is used without the others."""
    where = str(folder / path)
    part = path.split("/", 1)[0]
    if "/" not in path:
        raise InputRefused("a symbolic link beside task.toml", where=where, mend="copy what it points to")
    if target.startswith("/"):
        raise InputRefused("a symbolic link with an absolute target", where=where, mend="make it relative")
    root = (folder / part).resolve()
    try:
        end = (folder / path).resolve()
    except (OSError, RuntimeError) as error:  # RuntimeError is how 3.11 reports a loop
        raise InputRefused("a symbolic link that leads nowhere", where=where, mend="remove it") from error
    if not end.is_relative_to(root):
        raise InputRefused(f"a symbolic link that leaves {part}/", where=where, mend="copy what it points to")
