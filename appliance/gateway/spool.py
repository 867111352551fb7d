"""The bytes of an answer on their way to the cassette: short ones in memory, the rest of a long one on the disk."""

from __future__ import annotations

import hashlib
from contextlib import AbstractContextManager
from io import BufferedWriter
from pathlib import Path
from typing import Final

from appliance.files import disk_of

_IN_MEMORY: Final = 256 * 1024


class Spool:
    """`path` is made where the answer is long; whoever takes `content` removes it. HostRefused: a full disk."""

    def __init__(self, path: Path):
        self._path = path
        self._digest = hashlib.sha256()
        self._held: bytearray = bytearray()
        self._stream: BufferedWriter | None = None
        self.bytes = 0

    def add(self, chunk: bytes) -> None:
        self._digest.update(chunk)
        self.bytes += len(chunk)
        if self._stream is not None:
            with self._disk():
                self._stream.write(chunk)
            return
        self._held += chunk
        if len(self._held) > _IN_MEMORY:
            with self._disk():
                self._stream = self._path.open("xb")
                self._stream.write(self._held)
            self._held = bytearray()

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def content(self) -> bytes | Path:
        """Ends it."""
        if self._stream is None:
            return bytes(self._held)
        with self._disk():
            self._stream.close()
        return self._path

    def _disk(self) -> AbstractContextManager[None]:
        return disk_of(self._path.parent, mend=f"free some space at {self._path.parent}")
