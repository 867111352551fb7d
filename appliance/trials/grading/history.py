"""Does a repository in the image or in the workspace hold the fix? (row H4)"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final

from appliance.ports import ExecSpec, TreeEntry
from appliance.trials.grading.container import JUDGE_USER
from appliance.trials.grading.tree import Node, shown

_SCRIPT: Final = r"""
find / /workspace -xdev \( -path /proc -o -path /sys \) -prune -o \( -name .git -o -name '*.git' \) -print 2>/dev/null |
while IFS= read -r found; do
    git() { command git -c safe.directory='*' --git-dir="$found" "$@" 2>/dev/null; }
    git rev-parse --git-dir >/dev/null || continue
    printf 'repository %s\n' "$found"
    git rev-list --all --reflog | sed 's/^/commit /'
    git cat-file --batch-all-objects --batch-check='%(objecttype) %(objectname)' | sed 's/^/object /'
done
printf 'end\n'
"""

HISTORY: Final = ExecSpec(("sh", "-c", _SCRIPT), JUDGE_USER, "/", timeout_seconds=120, capture_bytes=16 * 1024 * 1024)
"""Every repository of the container's file systems that git can open, its commits and all its objects, packed or not.

Runs on the pristine workspace, before anything of a solution lies in it.
"""


def history_findings(said: bytes, gold: Iterable[TreeEntry]) -> tuple[str, ...]:
    """`said` is the output of HISTORY, `gold` the reference's entries."""
    lines = said.decode("utf-8", "backslashreplace").splitlines()
    if not lines or lines[-1] != "end":
        return ("the repositories in the image could not be looked through",)
    blobs = {_blob_id(entry): entry.path for entry in gold if entry.kind == "file"}
    findings: list[str] = []
    place = ""
    commits: set[str] = set()
    for line in [*lines[:-1], "repository "]:
        kind, _, rest = line.partition(" ")
        if kind == "repository":
            if len(commits) > 1:
                findings.append(f"{place} holds {len(commits)} commits, and should hold its base alone")
            place, commits = rest, set()
        elif kind == "commit":
            commits.add(rest)
        elif kind == "object":
            sort, _, name = rest.partition(" ")
            if sort == "commit":
                commits.add(name)
            elif name in blobs:
                findings.append(f"{place} holds {shown(blobs[name])} as the reference leaves it")
    return tuple(findings)


def plain_findings(pristine: Mapping[bytes, Node], gold: Iterable[TreeEntry]) -> tuple[str, ...]:
    """A file of before/ that is the reference's, to the byte, under whatever name."""
    fixed = {_content(entry): entry.path for entry in gold if entry.kind == "file" and _content(entry).strip()}
    return tuple(
        f"before/{shown(path)} is {shown(fixed[node.content])} as the reference leaves it"
        for path, node in pristine.items()
        if node.mode != "link" and node.content in fixed
    )


def _content(entry: TreeEntry) -> bytes:
    return entry.content if isinstance(entry.content, bytes) else entry.content.read_bytes()


def _blob_id(entry: TreeEntry) -> str:
    content = _content(entry)
    # git names blobs by SHA-1; nothing of ours trusts the name.
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
