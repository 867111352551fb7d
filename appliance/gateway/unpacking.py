"""A cassette, byte by byte as it was written: nothing else that a gzip or a tar may hold is taken.

Every header is made again and compared, so that no link, no device, no owner, no extension and no name of a stranger's
choice comes any farther than that.
"""

from __future__ import annotations

import hashlib
import os
import re
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from io import BufferedReader
from typing import Final

from appliance.errors import InputRefused
from appliance.gateway.cassette_shapes import CassetteHead, RecordedExchange

MAX_REQUEST_BYTES: Final = 64 * 1024 * 1024
MAX_RESPONSE_BYTES: Final = 256 * 1024 * 1024
MAX_TOTAL_BYTES: Final = 2 * 1024 * 1024 * 1024
"""Unpacked; and as it lies there."""
_MAX_TOLD_BYTES: Final = 1024 * 1024
_BLOCK: Final = tarfile.BLOCKSIZE
_CHUNK: Final = 256 * 1024
_MAGIC: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00"
"""Deflate, and none of what else gzip can say: no name, no comment, no clock."""
_SIZE: Final = slice(124, 136)


@dataclass(frozen=True)
class Unpacked:
    """One exchange. `response` is read from the file as it is asked for, until the next exchange is."""

    told: RecordedExchange
    request: bytes
    response: Iterator[bytes]


@lru_cache(maxsize=64)
def header_of(name: str, size: int) -> bytes:
    """The block before a member."""
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o644
    return member.tobuf(tarfile.USTAR_FORMAT)


def unpacked(stream: BufferedReader, where: str) -> tuple[CassetteHead, Iterator[Unpacked]]:
    """The head, and the exchanges in the order in which they ended. Raises InputRefused, also while they are read."""
    inflated = _Inflated(stream, where)
    head = inflated.document("cassette.json")
    return CassetteHead.from_canonical(head, f"{where}: cassette.json"), _exchanges(inflated, where)


def _exchanges(inflated: _Inflated, where: str) -> Iterator[Unpacked]:
    seen: set[int] = set()
    while (block := inflated.take(_BLOCK)) != bytes(_BLOCK):
        place = block[:5].decode("latin-1")
        if not (place.isascii() and place.isdigit()):
            raise InputRefused("a member that no cassette has", where=f"{where}: {_shown(block)}")
        here = f"{where}: {place}"
        told = RecordedExchange.from_canonical(
            inflated.document(f"{place}/exchange.json", block), f"{here}/exchange.json"
        )
        if told.order != int(place):
            raise InputRefused(f"says that it is {told.order:05d}", where=f"{here}/exchange.json")
        if told.order in seen:
            raise InputRefused("stands there twice", where=here)
        seen.add(told.order)
        size = inflated.member(f"{place}/request", MAX_REQUEST_BYTES)
        request = b"".join(inflated.content(size))
        _refuse_other(told.request.bytes, told.request.sha256, size, hashlib.sha256(request), f"{here}/request")
        response = _response(inflated, told, here)
        yield Unpacked(told, request, response)
        for _ in response:
            pass
    if inflated.take(_BLOCK) != bytes(_BLOCK):
        raise InputRefused("goes on after its end", where=where)
    inflated.end()
    if len(seen) != max(seen, default=-1) + 1:
        lacking = next(order for order in range(len(seen) + 1) if order not in seen)
        raise InputRefused("lacks an exchange", where=f"{where}: {lacking:05d}")


def _response(inflated: _Inflated, told: RecordedExchange, here: str) -> Iterator[bytes]:
    size = inflated.member(f"{told.order:05d}/response", MAX_RESPONSE_BYTES)
    digest = hashlib.sha256()
    for chunk in inflated.content(size):
        digest.update(chunk)
        yield chunk
    _refuse_other(told.response.bytes, told.response.sha256, size, digest, f"{here}/response")


def _refuse_other(bytes_: int, sha256: str, size: int, digest: hashlib._Hash, where: str) -> None:
    if (bytes_, sha256) != (size, digest.hexdigest()):
        raise InputRefused("is not what exchange.json says", where=where)


class _Inflated:
    """What the gzip holds, in order and within the bounds."""

    def __init__(self, stream: BufferedReader, where: str):
        self._stream = stream
        self._where = where
        if os.fstat(stream.fileno()).st_size > MAX_TOTAL_BYTES:
            raise InputRefused(f"over the bound of {MAX_TOTAL_BYTES} bytes", where=where)
        start = stream.read(10)
        if start[:8] != _MAGIC:
            raise InputRefused("not a cassette", where=where)
        self._inflater = zlib.decompressobj(31)
        self._raw = start
        self._held = bytearray()
        self._total = 0

    def take(self, count: int) -> bytes:
        while len(self._held) < count:
            if not self._more():
                raise InputRefused("is cut off", where=self._where, mend="whoever wrote it was ended before it was")
        found = bytes(self._held[:count])
        del self._held[:count]
        return found

    def member(self, name: str, most: int, block: bytes | None = None) -> int:
        """The size of the member that must stand here."""
        block = block or self.take(_BLOCK)
        size = _octal(block[_SIZE])
        if size is None or block != header_of(name, size):
            raise InputRefused(f"not the member that must stand here, {name}", where=f"{self._where}: {_shown(block)}")
        if size > most:
            raise InputRefused(f"{size} bytes, over the bound of {most}", where=f"{self._where}: {name}")
        return size

    def document(self, name: str, block: bytes | None = None) -> bytes:
        return b"".join(self.content(self.member(name, _MAX_TOLD_BYTES, block)))

    def content(self, size: int) -> Iterator[bytes]:
        left = size
        while left:
            chunk = self.take(min(left, _CHUNK))
            left -= len(chunk)
            yield chunk
        if any(self.take(-size % _BLOCK)):
            raise InputRefused("holds something between its members", where=self._where)

    def end(self) -> None:
        if self._more() or self._held or not self._inflater.eof or self._inflater.unused_data or self._stream.read(1):
            raise InputRefused("goes on after its end", where=self._where)

    def _more(self) -> bool:
        """Whether there was any."""
        while not self._inflater.eof:
            raw = self._inflater.unconsumed_tail or self._raw or self._stream.read(_CHUNK)
            self._raw = b""
            if not raw:
                return False
            try:
                found = self._inflater.decompress(raw, _CHUNK)
            except zlib.error as error:
                raise InputRefused(f"cannot be unpacked: {error}", where=self._where) from error
            if found:
                self._total += len(found)
                if self._total > MAX_TOTAL_BYTES:
                    raise InputRefused(f"over the bound of {MAX_TOTAL_BYTES} bytes once unpacked", where=self._where)
                self._held += found
                return True
        return False


def _octal(field: bytes) -> int | None:
    digits = field.rstrip(b"\0")
    return int(digits, 8) if re.fullmatch(b"[0-7]{1,11}", digits) else None


def _shown(block: bytes) -> str:
    """The name in a tar's header, for a message."""
    return ascii(block[:100].rstrip(b"\0").decode("latin-1"))[1:-1][:60]
