"""A suite as one file: what a record's blobs carry, so that a stranger can run the same tasks.

A plain tar (POSIX 2001, uncompressed: no zlib version in its digest) of suite.toml and the tasks, sorted, without
clocks or owners. Equal suites have equal archives.
"""

from __future__ import annotations

import errno
import io
import os
import posixpath
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from appliance.digests import digest_of_entries, sha256_hex, tree_names
from appliance.errors import InputRefused
from appliance.tasks.model import Suite
from appliance.tasks.names import relative_problem
from appliance.tasks.tar_reader import Member, members_of
from appliance.tasks.toml import short
from appliance.tasks.tree import SUITE_TOML, Entry, entries_of_task, suite_entries

MAX_BYTES: Final = 512 * 1024 * 1024
MAX_FILES: Final = 100_000
_TAR_BLOCK: Final = 512
_TAR_RECORD: Final = 10_240


def archive_suite(suite: Suite) -> bytes:
    """Raises InputRefused where the files are no longer those that were read, and as `refuse_unarchivable`."""
    refuse_unarchivable(suite)
    tasks = [(task.folder, entries_of_task(task.folder)) for task in suite.tasks]
    entries = suite_entries(suite.folder, tasks)
    if digest_of_entries(entries) != suite.digest:
        raise InputRefused("changed since it was read", where=str(suite.folder), mend="start again")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for entry in entries:
            _add(tar, suite.folder, entry)
    return packed.getvalue()


def refuse_unarchivable(suite: Suite) -> None:
    """Raises InputRefused for a suite whose archive nobody would unpack; only lengths are looked at."""
    size, members = _TAR_RECORD, 0
    for folder in (*(task.folder for task in suite.tasks), suite.folder / SUITE_TOML):
        names = tree_names(folder) if folder.is_dir() else [("", "644", "")] if folder.exists() else []
        for path, kind, _ in names:
            length = 0 if kind == "link" else (folder / path).lstat().st_size
            # A header, and for a long name or one that is not ASCII three blocks more.
            size += _TAR_BLOCK * (4 + -(-length // _TAR_BLOCK))
            members += 1
    if size > MAX_BYTES or members > MAX_FILES:
        over = f"{MAX_FILES} files" if members > MAX_FILES else f"{MAX_BYTES // 1024**2} MiB"
        raise InputRefused(
            f"over the bound of {over} for a suite that its record carries",
            where=str(suite.folder),
            mend="make two suites of it, or run it with --no-suite-blob",
        )


def unpack_suite(content: bytes, dest: Path, where: str = "the suite's archive") -> None:
    """Unpack into `dest`, which must not be there yet; it appears whole or not at all.

    Files and links only, every path below `dest`, links within it and made last, so that nothing is written through
    one. Raises InputRefused for anything else, and beyond 512 MiB or 100,000 members.
    """
    if len(content) > MAX_BYTES:
        raise InputRefused(f"{len(content)} bytes, over the bound of {MAX_BYTES}", where=where)
    if dest.exists() or dest.is_symlink():
        raise InputRefused("is there already", where=str(dest), mend="remove it, or name another folder")
    members = _members(content, where)
    dest.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".suite-", dir=dest.parent))
    try:
        _write(members, draft, where)
        draft.chmod(0o755)
        draft.rename(dest)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def _add(tar: tarfile.TarFile, root: Path, entry: Entry) -> None:
    path, kind, content = entry
    member = tarfile.TarInfo(path)
    if kind == "link":
        member.type, member.linkname, member.mode = tarfile.SYMTYPE, content, 0o777
        tar.addfile(member)
        return
    held = (root / path).read_bytes()
    if sha256_hex(held) != content:
        raise InputRefused("changed while it was archived", where=str(root / path), mend="start again")
    member.size, member.mode = len(held), 0o755 if kind == "755" else 0o644
    tar.addfile(member, io.BytesIO(held))


def _members(content: bytes, where: str) -> list[Member]:
    found: list[Member] = []
    for member in members_of(content, where):
        if len(found) >= MAX_FILES:
            raise InputRefused(f"over {MAX_FILES} members", where=where)
        _refuse_member(member, where)
        found.append(member)
    _refuse_collisions(found, where)
    return found


def _refuse_member(member: Member, where: str) -> None:
    place = f"{where}: {short(member.path)}"
    problem = relative_problem(member.path) or ("is not UTF-8" if not _encodes(member.path) else None)
    if problem:
        raise InputRefused(f"a path that {problem}", where=place)
    target = member.target
    if target is None:
        return
    joined = posixpath.normpath(posixpath.join(posixpath.dirname(member.path), target))
    if not target or "\0" in target or target.startswith("/") or joined.split("/")[0] == ".." or not _encodes(target):
        raise InputRefused("a link that leaves the suite", where=place)


def _refuse_collisions(members: list[Member], where: str) -> None:
    """No path twice, and none below what is itself a file or a link."""
    names = {member.path for member in members}
    if len(names) != len(members):
        raise InputRefused("a path that stands twice", where=where)
    for name in names:
        folder = posixpath.dirname(name)
        while folder:
            if folder in names:
                raise InputRefused("a path below a file or link", where=f"{where}: {short(name)}")
            folder = posixpath.dirname(folder)


def _write(members: list[Member], root: Path, where: str) -> None:
    try:
        for member in sorted(members, key=lambda member: member.target is not None):
            path = root / member.path
            path.parent.mkdir(parents=True, exist_ok=True)
            if member.target is not None:
                path.symlink_to(member.target)
                continue
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            with os.fdopen(os.open(path, flags, 0o600), "wb") as stream:
                stream.write(member.content)
                os.fchmod(stream.fileno(), 0o755 if member.executable else 0o644)
    except OSError as error:
        # A full disk and the like are this machine's: whoever chose the place says so.
        if error.errno != errno.ENAMETOOLONG:
            raise
        raise InputRefused("a path that is too long", where=f"{where}: {short(str(error.filename))}") from error


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
