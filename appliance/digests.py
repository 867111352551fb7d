"""Digests of bytes, files and trees, as lower-case hex without a prefix. Standard library only."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable
from io import BufferedIOBase
from pathlib import Path

from appliance.errors import InputRefused
from appliance.reading import open_regular


def sha256_hex(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def sha256_of_stream(stream: BufferedIOBase) -> str:
    return hashlib.file_digest(stream, "sha256").hexdigest()


def sha256_of_file(path: Path) -> str:
    """Raises OSError, also for what is no regular file."""
    with open_regular(path) as stream:
        return sha256_of_stream(stream)


def tree_entries(root: Path) -> list[tuple[str, str, str]]:
    """`(path, "644" | "755" | "link", sha256 or link target)` of every file under `root`, sorted by path bytes.

    Folders count only through what they hold. Raises InputRefused on anything that is not a file, folder or
    symbolic link, and on names that are not UTF-8; OSError where anything cannot be read: a folder that was passed
    over would change nothing in the digest.
    """
    try:
        return _entries(root)
    except RecursionError as error:
        raise InputRefused("folders nested too deeply", where=str(root), mend="remove them") from error


def _entries(root: Path) -> list[tuple[str, str, str]]:
    entries: list[tuple[str, str, str]] = []
    for folder, names, files in os.walk(root, onerror=_unlisted):
        links = [name for name in names if (Path(folder) / name).is_symlink()]
        names[:] = [name for name in names if name not in links]
        for name in [*files, *links]:
            path = Path(folder) / name
            relative = path.relative_to(root).as_posix()
            _refuse_undecodable(relative, root)
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                target = str(path.readlink())
                _refuse_undecodable(target, root)
                entries.append((relative, "link", target))
            elif stat.S_ISREG(mode):
                entries.append((relative, "755" if mode & 0o100 else "644", sha256_of_file(path)))
            else:
                raise InputRefused("neither a file, a folder nor a symbolic link", where=str(path), mend="remove it")
    return sorted(entries, key=lambda entry: entry[0].encode())


def _unlisted(error: OSError) -> None:
    # No folder is an empty tree, as it is to git.
    if not isinstance(error, FileNotFoundError):
        raise error


def tree_digest(root: Path) -> str:
    """The digest of a tree (formats 1): what git would keep of it, independent of clocks, owners and umask."""
    return digest_of_entries(tree_entries(root))


def digest_of_entries(entries: Iterable[tuple[str, str, str]]) -> str:
    # For a list of lists of strings, this is exactly the RFC 8785 form.
    form = json.dumps([list(entry) for entry in entries], ensure_ascii=False, separators=(",", ":"))
    return sha256_hex(form.encode())


def _refuse_undecodable(name: str, root: Path) -> None:
    try:
        name.encode()
    except UnicodeEncodeError as error:
        shown = name.encode("utf-8", "backslashreplace").decode()
        raise InputRefused("a name that is not UTF-8", where=f"{root}/{shown}", mend="rename it") from error
