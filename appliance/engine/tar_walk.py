"""Harvest of a volume from the engine's tar stream: every path is there, most of them unchanged (rows I21, I28)."""

from __future__ import annotations

import os
import stat
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from appliance.engine.harvest import FILE_BYTES, INLINE_BYTES, Collector
from appliance.engine.laying import content_chunks
from appliance.engine.pristine import Pristine
from appliance.ports import Changes, EngineFailed

_CHUNK = 1 << 18


class ChunkReader:
    """A file-like view of chunks, as tarfile's stream mode wants it."""

    def __init__(self, chunks: Iterable[bytes], limit: int):
        self._chunks = iter(chunks)
        self._rest = b""
        self._left = limit

    def read(self, size: int = -1) -> bytes:
        parts, wanted = [], size
        while wanted > 0:
            if not self._rest:
                chunk = next(self._chunks, None)
                if chunk is None:
                    break
                self._left -= len(chunk)
                if self._left < 0:
                    raise StreamTooLongError
                self._rest = chunk
            part, self._rest = self._rest[:wanted], self._rest[wanted:]
            parts.append(part)
            wanted -= len(part)
        return b"".join(parts)


def _opened(chunks: Iterable[bytes], limit: int) -> tarfile.TarFile:
    reader: Any = ChunkReader(chunks, limit)  # not a whole file: stream mode only ever reads
    return tarfile.open(fileobj=reader, mode="r|", encoding="utf-8", errors="surrogateescape", bufsize=_CHUNK)


class StreamTooLongError(Exception):
    """Sparse files can make a small volume into an endless stream."""


def tar_changes(
    chunks: Iterable[bytes],
    pristine: Pristine,
    spill: Path,
    *,
    limit: int,
    read_one: Callable[[bytes], Iterable[bytes]],
    sockets: Sequence[bytes] = (),
) -> Changes:
    """`spill`: a folder for large contents. `read_one` gives the tar stream of one path (behind a hard link).

    `sockets` are named beside the stream: engines leave them out of it.
    """
    walk = _Walk(pristine, spill, read_one, sockets)
    try:
        with _opened(chunks, limit) as tar:
            for member in tar:
                # tarfile keeps every member it has seen; a million of them are not ours to hold.
                tar.members = []  # type: ignore[attr-defined]  # missing in its stub
                walk.member(tar, member)
        return walk.changes(whole=True)
    except StreamTooLongError:
        return walk.changes(whole=False)
    except tarfile.TarError as error:
        raise EngineFailed(f"the workspace's tar stream is broken: {error}") from error


class _Walk:
    def __init__(
        self,
        pristine: Pristine,
        spill: Path,
        read_one: Callable[[bytes], Iterable[bytes]],
        sockets: Sequence[bytes],
    ):
        self._sockets = sockets
        self._pristine = pristine
        self._collector = Collector(pristine)
        self._collector.gone_below(b"")
        self._spill = spill
        self._read_one = read_one
        self._empty: set[bytes] = set()
        self._skipped = b""
        self._linked: list[tuple[bytes, bytes, int]] = []
        self._changed: dict[bytes, bytes | Path] = {}

    def changes(self, *, whole: bool) -> Changes:
        if not whole:
            self._collector.cut_off()
            return self._collector.changes()
        for path, first, mode in self._linked:
            self._copy_of(path, first, mode)
        for path in self._sockets:
            self._empty.discard(path.rpartition(b"/")[0])
            self._collector.special(path, stat.S_IFSOCK)
        for folder in self._empty:
            self._collector.folder(folder, empty=True)
        return self._collector.changes()

    def member(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        path = _relative(member.name)
        if not path or (self._skipped and path.startswith(self._skipped)):
            return
        self._empty.discard(path.rpartition(b"/")[0])
        if member.isdir():
            if self._collector.folder(path, empty=False):
                self._empty.add(path)
            else:
                # The stream goes depth first: all that is below comes before anything that is not.
                self._skipped = path + b"/"
        elif member.issym():
            self._collector.link(path, os.fsencode(member.linkname))
        elif member.islnk():
            self._hard_link(path, _relative(member.linkname), member.mode)
        elif member.isreg():
            stream = tar.extractfile(member)
            if stream is None:
                raise EngineFailed(f"the workspace's tar stream holds no content for {path!r}")
            self._file(path, member.mode, member.size, stream)
        else:
            kind = stat.S_IFIFO if member.isfifo() else stat.S_IFBLK
            self._collector.special(path, kind)

    def _file(self, path: bytes, mode: int, size: int, stream: IO[bytes]) -> None:
        if size > FILE_BYTES:
            self._collector.file(path, mode, size, lambda: iter(()), self._unkept)
            return
        content = self._taken(stream, size)
        kept = self._offer(path, mode, size, content)
        if not kept and isinstance(content, Path):
            content.unlink()

    def _taken(self, stream: IO[bytes], size: int) -> bytes | Path:
        if size <= INLINE_BYTES:
            return stream.read(size)
        descriptor, name = tempfile.mkstemp(dir=self._spill)
        with os.fdopen(descriptor, "wb") as writing:
            while chunk := stream.read(_CHUNK):
                writing.write(chunk)
        return Path(name)

    def _offer(self, path: bytes, mode: int, size: int, content: bytes | Path) -> bool:
        """Whether `content`'s file is still needed."""
        kept: list[Path] = []

        def keep() -> Path:
            if isinstance(content, Path):
                kept.append(content)
                return content
            descriptor, name = tempfile.mkstemp(dir=self._spill)
            with os.fdopen(descriptor, "wb") as writing:
                writing.write(content)
            return Path(name)

        def chunks() -> Iterator[bytes]:
            return content_chunks(content)

        if self._collector.file(path, mode, size, chunks, keep):
            self._changed[path] = content
        return bool(kept)

    def _unkept(self) -> Path:
        raise AssertionError("a file past the cap is never kept")

    def _hard_link(self, path: bytes, first: bytes, mode: int) -> None:
        """The content is that of an earlier path: one that changed, a pristine one, or one that was not kept."""
        known = self._changed.get(first)
        if known is None and self._collector.is_unchanged(first):
            known = self._pristine.source / os.fsdecode(first)
        if known is None:
            # Later: the engine locks the container while its stream is being read.
            self._linked.append((path, first, mode))
            return
        size = len(known) if isinstance(known, bytes) else known.stat().st_size
        self._offer(path, mode, size, known)

    def _copy_of(self, path: bytes, first: bytes, mode: int) -> None:
        with _opened(self._read_one(first), FILE_BYTES + (1 << 20)) as tar:
            member = tar.next()
            stream = None if member is None else tar.extractfile(member)
            if member is None or stream is None:
                raise EngineFailed(f"the engine does not give {first!r}")
            self._file(path, mode, member.size, stream)


def _relative(name: str) -> bytes:
    """Without the first part: the stream's names begin with the folder that was asked for."""
    return os.fsencode(name).strip(b"/").partition(b"/")[2]
