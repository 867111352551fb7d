"""Output kept within a cap: head and tail, while size and digest are those of the whole (rows H18, H19)."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections import deque

from appliance.ports import Captured


class StreamCapture:
    """Fed chunks in order; holds at most `cap` bytes and one chunk, however much comes."""

    def __init__(self, cap: int, spool: int | None = None):
        """`spool`: a descriptor that the head is also written to, as it comes."""
        self._spool = spool
        self._head_cap = cap // 2
        self._tail_cap = cap - cap // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self._total = 0
        self._digest = hashlib.sha256()

    def feed(self, chunk: bytes | memoryview) -> None:
        self._total += len(chunk)
        self._digest.update(chunk)
        room = self._head_cap - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            if self._spool is not None:
                # A full disk is told of by who keeps the whole.
                with contextlib.suppress(OSError):
                    os.write(self._spool, chunk[:room])
            chunk = chunk[room:]
        if not chunk or not self._tail_cap:
            return
        self._tail.append(bytes(chunk))
        self._tail_bytes += len(chunk)
        while self._tail_bytes - len(self._tail[0]) >= self._tail_cap:
            self._tail_bytes -= len(self._tail.popleft())
        # A byte at a time would make the queue a hundred times larger than what it holds.
        if len(self._tail) > 4096:
            self._join()

    def _join(self) -> None:
        whole = b"".join(self._tail)[-self._tail_cap :] if self._tail_cap else b""
        self._tail = deque([whole])
        self._tail_bytes = len(whole)

    def captured(self) -> Captured:
        tail = b"".join(self._tail)
        truncated = self._total > self._head_cap + self._tail_cap
        if truncated:
            tail = tail[-self._tail_cap :] if self._tail_cap else b""
        return Captured(self._total, self._digest.hexdigest(), bytes(self._head), tail, truncated)


class Demultiplexer:
    """The engine's framing of an exec without a terminal: `[stream, 0, 0, 0, length (4, big endian)] payload`."""

    def __init__(self, captures: dict[int, StreamCapture]):
        self._captures = captures
        self._header = bytearray()
        self._stream = 0
        self._left = 0

    def feed(self, chunk: bytes) -> None:
        """Frames may be cut anywhere. Frames of other streams than the captures' are passed over."""
        view = memoryview(chunk)
        while view:
            if not self._left:
                wanted = 8 - len(self._header)
                self._header += view[:wanted]
                view = view[wanted:]
                if len(self._header) < 8:
                    return
                self._stream = self._header[0]
                self._left = int.from_bytes(self._header[4:8], "big")
                self._header.clear()
                continue
            part = view[: self._left]
            if self._stream in self._captures:
                self._captures[self._stream].feed(part)
            self._left -= len(part)
            view = view[len(part) :]
