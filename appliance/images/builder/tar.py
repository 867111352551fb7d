"""A tar whose bytes depend on its entries alone: POSIX ustar, pax records only where a name does not fit.

`tarfile` writes differently from one Python to the next; these headers are encoded here. Nothing is compressed, so a
layer's digest is its diffID whatever zlib a machine has.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

BLOCK = 512
CHUNK = 1 << 20
Kind = Literal["file", "directory", "symlink", "hardlink"]
_TYPE_FLAG: dict[Kind, bytes] = {"file": b"0", "directory": b"5", "symlink": b"2", "hardlink": b"1"}


@dataclass(frozen=True)
class Slice:
    """`size` bytes of a file from `offset`: contents that need not lie in memory."""

    path: Path
    offset: int
    size: int

    def chunks(self) -> Iterator[bytes]:
        """Raises EOFError where the file ends before the slice does."""
        with self.path.open("rb") as stream:
            stream.seek(self.offset)
            left = self.size
            while left:
                chunk = stream.read(min(CHUNK, left))
                if not chunk:
                    raise EOFError(f"{self.path}: {left} bytes are missing")
                left -= len(chunk)
                yield chunk


@dataclass(frozen=True, slots=True)
class Entry:
    """One member. `name` has neither `./` before nor `/` behind; undecodable bytes are surrogates."""

    name: str
    kind: Kind = "file"
    mode: int = 0o644
    uid: int = 0
    gid: int = 0
    mtime: int = 0
    link: str = ""
    content: bytes | Slice = b""

    @property
    def size(self) -> int:
        if self.kind != "file":
            return 0
        return self.content.size if isinstance(self.content, Slice) else len(self.content)


def sort_key(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def tar_chunks(entries: Iterable[Entry]) -> Iterator[bytes]:
    """The archive, sorted by name. A hard link's target must sort before it (`rootfs` sees to that)."""
    for entry in sorted(entries, key=lambda entry: sort_key(entry.name)):
        yield _headers(entry)
        if entry.size:
            if isinstance(entry.content, Slice):
                yield from entry.content.chunks()
            else:
                yield entry.content
            yield _padding(entry.size)
    yield b"\0" * (2 * BLOCK)


def write_tar(entries: Iterable[Entry], out: BinaryIO) -> tuple[str, int]:
    """Its `sha256:` digest and its length in bytes."""
    digest, length = hashlib.sha256(), 0
    for chunk in tar_chunks(entries):
        out.write(chunk)
        digest.update(chunk)
        length += len(chunk)
    return f"sha256:{digest.hexdigest()}", length


def _headers(entry: Entry) -> bytes:
    raw = sort_key(entry.name) + (b"/" if entry.kind == "directory" else b"")
    link = sort_key(entry.link) if entry.kind in ("symlink", "hardlink") else b""
    records: dict[str, bytes] = {}
    placed = _split(raw)
    if placed is None:
        records["path"] = raw
        placed = b"", hashlib.sha256(raw).hexdigest()[:40].encode()
    if len(link) > 100 or not link.isascii():
        records["linkpath"] = link
        link = b""
    prefix, name = placed
    own = _header(name, entry, _TYPE_FLAG[entry.kind], size=entry.size, link=link, prefix=prefix)
    if not records:
        return own
    body = b"".join(_record(key, records[key]) for key in sorted(records))
    extended = Entry("PaxHeader", mtime=entry.mtime)
    return _header(b"PaxHeader", extended, b"x", size=len(body)) + body + _padding(len(body)) + own


def _split(raw: bytes) -> tuple[bytes, bytes] | None:
    """`(prefix, name)` as ustar holds them, or None where they do not fit."""
    if not raw.isascii():
        return None
    if len(raw) <= 100:
        return b"", raw
    cut = raw.rfind(b"/", 0, min(156, len(raw) - 1))
    if len(raw) <= 255 and cut > 0 and len(raw) - cut - 1 <= 100:
        return raw[:cut], raw[cut + 1 :]
    return None


def _header(name: bytes, entry: Entry, flag: bytes, *, size: int, link: bytes = b"", prefix: bytes = b"") -> bytes:
    block = bytearray(BLOCK)
    block[0 : len(name)] = name
    block[100:108] = _octal(entry.mode & 0o7777, 8)
    block[108:116] = _octal(entry.uid, 8)
    block[116:124] = _octal(entry.gid, 8)
    block[124:136] = _octal(size, 12)
    block[136:148] = _octal(entry.mtime, 12)
    block[148:156] = b" " * 8
    block[156:157] = flag
    block[157 : 157 + len(link)] = link
    block[257:265] = b"ustar\x0000"
    block[329:337] = _octal(0, 8)
    block[337:345] = _octal(0, 8)
    block[345 : 345 + len(prefix)] = prefix
    block[148:156] = f"{sum(block):06o}".encode() + b"\0 "
    return bytes(block)


def _octal(value: int, width: int) -> bytes:
    digits = f"{value:0{width - 1}o}"
    if value < 0 or len(digits) >= width:
        raise ValueError(f"{value} does not fit {width} bytes of octal")
    return digits.encode() + b"\0"


def _record(key: str, value: bytes) -> bytes:
    """`length key=value\\n`, where the length counts its own digits."""
    body = b" " + key.encode() + b"=" + value + b"\n"
    length = len(body) + 1
    while len(str(length)) + len(body) != length:
        length = len(str(length)) + len(body)
    return str(length).encode() + body


def _padding(size: int) -> bytes:
    return b"\0" * (-size % BLOCK)
