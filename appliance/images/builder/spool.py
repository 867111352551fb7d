"""Contents on disk instead of in memory: what large packages unpack to (an agent's program alone may have 400 MB)."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Protocol

from appliance.images.builder.tar import CHUNK, Slice


class Source(Protocol):
    def read(self, size: int, /) -> bytes: ...


class Spool:
    """One file under `scratch`, appended to; it goes when the scratch folder goes."""

    def __init__(self, scratch: Path) -> None:
        descriptor, path = tempfile.mkstemp(prefix="spool.", dir=scratch)
        self._path = Path(path)
        # Unbuffered: whatever was kept can be read at once.
        self._file = os.fdopen(descriptor, "wb", buffering=0)
        self._length = 0

    def keep(self, stream: Source) -> Slice:
        """The rest of `stream`."""
        offset = self._length
        while chunk := stream.read(CHUNK):
            self._write(chunk)
        return Slice(self._path, offset, self._length - offset)

    def keep_bytes(self, content: bytes) -> Slice:
        offset = self._length
        self._write(content)
        return Slice(self._path, offset, len(content))

    def _write(self, content: bytes) -> None:
        left = memoryview(content)
        while left:
            left = left[self._file.write(left) :]
        self._length += len(content)

    def close(self) -> None:
        self._file.close()
