"""cassette-v1: every exchange of a trial in one file, `tar xzf` away from being read (docs/replay.md).

A gzip of a plain tar: cassette.json, then of each exchange, in the order they ended, NNNNN/exchange.json,
NNNNN/request and NNNNN/response; NNNNN counts arrivals. Nothing in it but what was exchanged: equal exchanges make
equal bytes. What its writer had no time to end is no cassette, though `tar` reads what is there.
"""

from __future__ import annotations

import hashlib
import os
import tarfile
import threading
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from io import BufferedReader
from pathlib import Path
from typing import Final

from appliance.errors import InputRefused
from appliance.gateway.cassette_shapes import MAX_EXCHANGES, Body, CassetteHead, RecordedExchange
from appliance.gateway.exchange import Asked, Exchange, Headers
from appliance.gateway.forms.bodies import clean
from appliance.gateway.redacting import Redactor
from appliance.gateway.unpacking import MAX_REQUEST_BYTES, MAX_RESPONSE_BYTES, header_of, unpacked
from appliance.reading import open_regular

__all__ = [
    "MAX_EXCHANGES",
    "MAX_REQUEST_BYTES",
    "MAX_RESPONSE_BYTES",
    "Cassette",
    "CassetteWriter",
    "Recorded",
    "opened",
    "read_cassette",
    "told_of",
]

_LEVEL: Final = 1
"""Of zlib: histories grow by repeating themselves farther back than its window, so a higher one gains little."""
_CHUNK: Final = 1024 * 1024


class CassetteWriter:
    """Appends as exchanges end; every one that was added is on its way to the disk before `add` returns.

    Raises OSError where the file is there already or the disk takes no more. Many threads may call.
    """

    def __init__(self, path: Path, prices_at: datetime, secrets: frozenset[bytes] = frozenset()):
        self._secrets = secrets
        self._lock = threading.Lock()
        self._added: set[int] = set()
        self._packed = zlib.compressobj(_LEVEL, zlib.DEFLATED, 31)
        self._stream = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")
        head = CassetteHead(prices_at=f"{prices_at:%Y-%m-%dT%H:%M:%S.%fZ}").canonical()
        self._member("cassette.json", len(head), (head,))
        self._sync()

    def add(self, exchange: Exchange, response: Path | bytes) -> None:
        """`response`: the answer's body. Its size and digest are taken from itself, for keys are taken out of it.

        Raises ValueError for an order that is there already.
        """
        redactor = Redactor(self._secrets)
        clean = _without(redactor, exchange)
        request = _body((clean.asked.body,))
        answer = _body(redactor.chunks(_chunks(response)))
        told = RecordedExchange.of(clean, request, answer, redactor.count).canonical()
        with self._lock:
            if exchange.order in self._added:
                raise ValueError(f"exchange {exchange.order} was added already")
            self._added.add(exchange.order)
            place = f"{exchange.order:05d}"
            self._member(f"{place}/exchange.json", len(told), (told,))
            self._member(f"{place}/request", request.bytes, (clean.asked.body,))
            self._member(f"{place}/response", answer.bytes, Redactor(self._secrets).chunks(_chunks(response)))
            self._sync()

    def close(self) -> None:
        """Ends the file, fsynced. Raises ValueError where an order lacks: such a file would be refused."""
        with self._lock:
            if self._stream.closed:
                return
            try:
                if self._added != set(range(len(self._added))):
                    raise ValueError("a cassette without one of its exchanges")
                self._stream.write(self._packed.compress(bytes(2 * tarfile.BLOCKSIZE)) + self._packed.flush())
                self._stream.flush()
                os.fsync(self._stream.fileno())
            finally:
                self._stream.close()

    def _member(self, name: str, size: int, chunks: Iterable[bytes]) -> None:
        self._stream.write(self._packed.compress(header_of(name, size)))
        written = 0
        for chunk in chunks:
            written += len(chunk)
            self._stream.write(self._packed.compress(chunk))
        if written != size:
            raise ValueError(f"{name} changed while it was added")
        self._stream.write(self._packed.compress(bytes(-size % tarfile.BLOCKSIZE)))

    def _sync(self) -> None:
        # On a byte's boundary: what is there can be read up to here, whatever becomes of us.
        self._stream.write(self._packed.flush(zlib.Z_SYNC_FLUSH))
        self._stream.flush()


@dataclass(frozen=True)
class Recorded:
    """One exchange of a cassette that was unpacked; its bodies lie in two files, read when they are asked for."""

    told: RecordedExchange
    request: Path
    response: Path

    @property
    def asked(self) -> Asked:
        return self.told.asked(self.request.read_bytes())

    @property
    def exchange(self) -> Exchange:
        return self.told.exchange(self.request.read_bytes())


@dataclass(frozen=True)
class Cassette:
    head: CassetteHead
    exchanges: tuple[Recorded, ...]
    """By order: the first is 0."""

    @property
    def prices_at(self) -> datetime:
        return datetime.fromisoformat(self.head.prices_at)


def read_cassette(path: Path, into: Path) -> Cassette:
    """Unpack into `into`, a folder that is there, under names of ours. Raises InputRefused for whatever
    `CassetteWriter` would not have written, and over its bounds; OSError where `into` takes no more.
    """
    found: dict[int, Recorded] = {}
    with opened(path) as stream:
        head, exchanges = unpacked(stream, str(path))
        for one in exchanges:
            place = f"{one.told.order:05d}"
            recorded = Recorded(one.told, into / f"{place}.request", into / f"{place}.response")
            recorded.request.write_bytes(one.request)
            with recorded.response.open("wb") as kept:
                for chunk in one.response:
                    kept.write(chunk)
            found[one.told.order] = recorded
    return Cassette(head, tuple(found[order] for order in sorted(found)))


def told_of(path: Path) -> tuple[CassetteHead, tuple[RecordedExchange, ...]]:
    """All that is said beside the bodies, by order; those are checked, and nothing is kept. Raises InputRefused."""
    with opened(path) as stream:
        head, exchanges = unpacked(stream, str(path))
        return head, tuple(sorted((one.told for one in exchanges), key=lambda told: told.order))


def opened(path: Path) -> BufferedReader:
    """Raises InputRefused where no regular file is there."""
    try:
        return open_regular(path, follow=False)
    except OSError as error:
        raise InputRefused(error.strerror or str(error), where=str(path)) from error


def _without(redactor: Redactor, exchange: Exchange) -> Exchange:
    """The exchange with no secret in anything that is written of it, and no text that UTF-8 cannot write."""

    def text(one: str) -> str:
        return clean(redactor.text(one))

    def perhaps(one: str | None) -> str | None:
        return None if one is None else text(one)

    def headers(pairs: Headers) -> Headers:
        return tuple((text(name), text(value)) for name, value in pairs)

    asked = exchange.asked
    return replace(
        exchange,
        asked=Asked(text(asked.method), text(asked.target), headers(asked.headers), redactor.content(asked.body)),
        model=perhaps(exchange.model),
        headers=headers(exchange.headers),
        tries=tuple(replace(one, error=perhaps(one.error)) for one in exchange.tries),
        detail=perhaps(exchange.detail),
    )


def _body(chunks: Iterable[bytes]) -> Body:
    size, digest = 0, hashlib.sha256()
    for chunk in chunks:
        size += len(chunk)
        digest.update(chunk)
    return Body(bytes=size, sha256=digest.hexdigest())


def _chunks(response: Path | bytes) -> Iterator[bytes]:
    if isinstance(response, bytes):
        yield response
        return
    with response.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            yield chunk
