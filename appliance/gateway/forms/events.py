"""Server-sent events, cut anywhere, none of them held (WHATWG HTML, 9.2.6)."""

from __future__ import annotations

import re
from typing import Final, Protocol

_BREAK: Final = re.compile(rb"[\r\n]")
_MAX_NAME: Final = 64
_DATA: Final = b"data"


class Sink(Protocol):
    def data(self, piece: bytes) -> None:
        """A piece of the event's data; its lines are joined by newlines."""
        ...

    def dispatch(self) -> None:
        """The event is whole."""
        ...


class EventStream:
    """The event's name is not told: what the four forms say, they also say in their data."""

    def __init__(self, sink: Sink):
        self._sink = sink
        self._head = bytearray()
        """Of this line, as long as no colon has come."""
        self._field: bytes | None = None
        self._strip = False
        self._after_return = False
        self._lines = 0
        """Of data in this event."""

    def feed(self, chunk: bytes) -> None:
        at = 0
        if self._after_return and chunk:
            self._after_return = False
            at = int(chunk[0] == 0x0A)
        while at < len(chunk):
            found = _BREAK.search(chunk, at)
            end = found.start() if found else len(chunk)
            if end > at:
                self._part(chunk[at:end])
            if found is None:
                return
            at = end + 1
            if chunk[end] == 0x0D:
                self._after_return = at == len(chunk)
                at += at < len(chunk) and chunk[at] == 0x0A
            self._line_ended()

    def finish(self) -> None:
        """The stream is over. By the letter an event without its empty line is none; what it held is told all the same,
        and counts where it is whole in itself."""
        if self._head or self._field is not None:
            self._line_ended()
        self._line_ended()

    def _part(self, piece: bytes) -> None:
        if self._field is None:
            self._head += piece
            colon = self._head.find(b":")
            if colon < 0 and len(self._head) <= _MAX_NAME:
                return
            self._named(bytes(self._head[:colon]) if colon >= 0 else b"?")
            piece = bytes(self._head[colon + 1 :]) if colon >= 0 else b""
            self._head.clear()
        if self._strip and piece:
            self._strip = False
            piece = piece.removeprefix(b" ")
        if piece and self._field == _DATA:
            self._sink.data(piece)

    def _named(self, field: bytes) -> None:
        self._field = field.removeprefix(b"\xef\xbb\xbf")
        self._strip = True
        if self._field == _DATA:
            if self._lines:
                self._sink.data(b"\n")
            self._lines += 1

    def _line_ended(self) -> None:
        if self._field is None and not self._head:
            if self._lines:
                self._sink.dispatch()
            self._lines = 0
            return
        if self._field is None:
            self._named(bytes(self._head))  # a field without a colon has an empty value
        self._field = None
        self._head.clear()
