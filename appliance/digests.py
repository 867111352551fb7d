"""Digests of bytes, files and trees, as lower-case hex without a prefix. Standard library only."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path

from appliance.errors import InputRefused
from appliance.reading import open_regular

_MIB = 1024 * 1024


@dataclass(frozen=True)
class Bounds:
    """What a tree may hold at most."""

    file_mib: int
    tree_mib: int
    """All its files together, by their length: a sparse file counts whole, as it would be read."""
    files: int


def sha256_hex(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def sha256_of_stream(stream: BufferedIOBase) -> str:
    return hashlib.file_digest(stream, "sha256").hexdigest()


def sha256_of_file(path: Path) -> str:
    """Raises OSError, also for what is no regular file."""
    with open_regular(path) as stream:
        return sha256_of_stream(stream)


def tree_entries(root: Path, bounds: Bounds | None = None) -> list[tuple[str, str, str]]:
    """`(path, "644" | "755" | "link", sha256 or link target)` of every file under `root`, sorted by path bytes.

    Folders count only through what they hold. Raises InputRefused on anything that is not a file, folder or
    symbolic link, on names that are not UTF-8, and before a byte is read on what is over `bounds`; OSError where
    anything cannot be read: a folder that was passed over would change nothing in the digest.
    """
    try:
        found = tree_names(root, bounds)
    except RecursionError as error:
        raise InputRefused("folders nested too deeply", where=str(root), mend="remove them") from error
    entries = [(path, kind, target if kind == "link" else sha256_of_file(root / path)) for path, kind, target in found]
    return sorted(entries, key=lambda entry: entry[0].encode())


def tree_names(root: Path, bounds: Bounds | None = None) -> list[tuple[str, str, str]]:
    """As `tree_entries`, unsorted and with nothing read: a file's third part is empty."""
    found: list[tuple[str, str, str]] = []
    held = 0
    for folder, names, files in os.walk(root, onerror=_unlisted):
        links = [name for name in names if (Path(folder) / name).is_symlink()]
        names[:] = [name for name in names if name not in links]
        for name in [*files, *links]:
            path = Path(folder) / name
            relative = path.relative_to(root).as_posix()
            _refuse_undecodable(relative, root)
            state = path.lstat()
            if stat.S_ISLNK(state.st_mode):
                target = str(path.readlink())
                _refuse_undecodable(target, root)
                found.append((relative, "link", target))
            elif stat.S_ISREG(state.st_mode):
                found.append((relative, "755" if state.st_mode & 0o100 else "644", ""))
                held += state.st_size
            else:
                raise InputRefused("neither a file, a folder nor a symbolic link", where=str(path), mend="remove it")
            if bounds is not None:
                _refuse_file_beyond(bounds, path, state.st_size)
                _refuse_tree_beyond(bounds, root, held, len(found))
    return found


def _refuse_file_beyond(bounds: Bounds, path: Path, size: int) -> None:
    if size > bounds.file_mib * _MIB:
        raise InputRefused(
            f"{-(-size // _MIB)} MiB, over the bound of {bounds.file_mib} MiB for one file",
            where=str(path),
            mend="shorten it, or put what it holds into the image",
        )


def _refuse_tree_beyond(bounds: Bounds, root: Path, held: int, files: int) -> None:
    over = f"{bounds.tree_mib} MiB" if held > bounds.tree_mib * _MIB else f"{bounds.files} files"
    if held > bounds.tree_mib * _MIB or files > bounds.files:
        raise InputRefused(
            f"over the bound of {over} for all that lies in it",
            where=str(root),
            mend="remove some, or put what they hold into the image",
        )


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
