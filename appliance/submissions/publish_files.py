"""Files of a published folder: whole or not there, and what is there already is not written again."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from appliance.digests import sha256_of_stream
from appliance.files import fsync_folder, write_atomically
from appliance.reading import open_regular, read_regular
from appliance.records.blob import BlobRef
from attest.errors import Refused

_CHUNK: Final = 1024 * 1024


def keep(path: Path, content: bytes) -> None:
    """Written where it is not there yet, or holds something else."""
    try:
        if read_regular(path, len(content), follow=False) == content:
            return
    except OSError:
        pass
    write_atomically(path, content)


def copy_blob(source: Path, target: Path, ref: BlobRef) -> None:
    """By pieces, for a blob may be large. Raises Refused (blob) where it is no longer what was checked."""
    if _holds(target, ref):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with open_regular(source, follow=False) as content, _draft(target) as draft:
        with os.fdopen(draft, "wb", closefd=False) as stream:
            while piece := content.read(_CHUNK):
                stream.write(piece)
        os.fchmod(draft, 0o644)
        os.fsync(draft)
        os.lseek(draft, 0, os.SEEK_SET)
        with os.fdopen(draft, "rb", closefd=False) as written:
            if sha256_of_stream(written) != ref.sha256:
                raise Refused("blob", "has another digest than a moment ago", where=str(source))


@contextmanager
def _draft(target: Path) -> Iterator[int]:
    """A file of its own that takes the place of `target` where the block ends well."""
    descriptor, draft = tempfile.mkstemp(prefix=f".{target.name[:60]}.", dir=target.parent)
    try:
        yield descriptor
        Path(draft).replace(target)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)
    fsync_folder(target.parent)


def _holds(path: Path, ref: BlobRef) -> bool:
    try:
        with open_regular(path, follow=False) as content:
            return os.fstat(content.fileno()).st_size == ref.bytes and sha256_of_stream(content) == ref.sha256
    except OSError:
        return False


def tidy(folder: Path, below: Iterable[str], names: Iterable[str]) -> None:
    """Removes drafts of our own writers that were killed: of files called `names` in `folder`, and of files named by a
    digest in the folders `below` it. Everybody else's hidden files stay. Called under the lock."""
    ours = "|".join(re.escape(name) for name in names)
    for place, draft in ((folder, rf"\.({ours})"), *((folder / name, r"\.[0-9a-f]{60}.*") for name in below)):
        pattern = re.compile(rf"{draft}\.[a-z0-9_]{{8}}")
        for path in place.glob(".*.*"):
            if path.is_file() and pattern.fullmatch(path.name):
                path.unlink(missing_ok=True)
