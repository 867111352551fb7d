"""A plain tar, header by header: what `archive_suite` writes, and nothing else that a tar may be.

`tarfile` itself takes much more than a suite needs, and trusts it: a global header of two megabytes is copied for
each of 100,000 members, and nested headers are read by recursion.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from appliance.errors import InputRefused
from appliance.tasks.toml import short

_BLOCK: Final = tarfile.BLOCKSIZE
_EXTENDED: Final = tarfile.XHDTYPE
_KEYWORDS: Final = frozenset({"path", "linkpath"})
_LONGEST_LENGTH: Final = 20
_LONGEST_EXTENDED: Final = 64 * 1024


@dataclass(frozen=True)
class Member:
    """A file, or where `target` is one, a symbolic link. Its path is as it was read: not yet one to be trusted."""

    path: str
    target: str | None
    executable: bool
    content: memoryview


def members_of(archive: bytes, where: str) -> Iterator[Member]:
    """In their order. Raises InputRefused for all that is neither a plain file nor a link, and at what is not whole."""
    at = 0
    known: dict[str, str] | None = None
    while True:
        block = archive[at : at + _BLOCK]
        if block == bytes(_BLOCK):
            break
        header = _header(block, where)
        at += _BLOCK
        if not 0 <= header.size <= len(archive) - at:
            raise _not_tar("a member that is not whole", where)
        content = memoryview(archive)[at : at + header.size]
        at += -(-header.size // _BLOCK) * _BLOCK
        if header.type == _EXTENDED and known is None:
            known = _extended(content, where)
            continue
        yield _member(header, known or {}, content, where)
        known = None
    if known is not None or archive.count(0, at) != len(archive) - at:
        raise _not_tar("more after its end, or less before it", where)


def _header(block: bytes, where: str) -> tarfile.TarInfo:
    try:
        return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except (tarfile.TarError, ValueError) as error:
        raise _not_tar(str(error), where) from error


def _member(header: tarfile.TarInfo, known: dict[str, str], content: memoryview, where: str) -> Member:
    path = known.get("path", header.name)
    if header.type in {tarfile.REGTYPE, tarfile.AREGTYPE}:
        return Member(path, None, bool(header.mode & 0o100), content)
    if header.type == tarfile.SYMTYPE and not content:
        return Member(path, known.get("linkpath", header.linkname), False, content)
    raise InputRefused("neither a plain file nor a symbolic link", where=f"{where}: {short(path)}")


def _extended(content: memoryview, where: str) -> dict[str, str]:
    """Records of `LENGTH KEYWORD=VALUE` and a line feed (pax, POSIX 2001): path or link target of the next member."""
    if len(content) > _LONGEST_EXTENDED:
        raise _not_tar("an extended header without end", where)
    rest, found = bytes(content), {}
    while rest:
        digits, space, _ = rest[:_LONGEST_LENGTH].partition(b" ")
        length = int(digits) if space and digits.isdigit() else 0
        record, rest = rest[:length], rest[length:]
        keyword, equals, value = record[len(digits) + 1 : -1].partition(b"=")
        if len(record) != length or not record.endswith(b"\n") or not equals:
            raise _not_tar("an extended header that is not whole", where)
        name = keyword.decode(errors="replace")
        if name not in _KEYWORDS or name in found:
            raise _not_tar(f"an extended header with {short(name)}", where)
        found[name] = value.decode(errors="surrogateescape")
    return found


def _not_tar(why: str, where: str) -> InputRefused:
    return InputRefused(f"not a tar archive of a suite: {why}", where=where)
