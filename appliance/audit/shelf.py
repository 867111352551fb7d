"""Readings among the blobs of a record: held to their digest, and to what their window can hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from appliance.digests import sha256_hex
from appliance.energy.readings import Malformed, Readings, Sample, unpack
from appliance.reading import read_regular
from appliance.records.blob import BlobRef
from attest.errors import Refused

MAX_PACKED_BYTES: Final = 512 * 1024 * 1024
"""Of one window's readings as they are stored."""
_BYTES_HEAD: Final = 2 * 1024 * 1024
_BYTES_A_SECOND: Final = 64 * 1024
"""Unpacked, of honest readings at the most: a hundred cgroups at a hundred samples a second."""
_SAMPLES_HEAD: Final = 4_000
_SAMPLES_A_SECOND: Final = 1_000
"""At the most: a hundred times the usual, and what other windows' edges add."""
_NS: Final = 10**9


class Missing(Exception):
    """No such blob; `path` is where the record names it."""

    def __init__(self, path: str):
        super().__init__(path)
        self.path = path


class Shelf:
    def __init__(self, folder: Path):
        self._folder = folder

    def readings(self, ref: BlobRef, path: str) -> Readings:
        """Only its header is read yet. Raises Missing, Refused."""
        try:
            content = read_regular(self._folder / "sha256" / ref.sha256, MAX_PACKED_BYTES, follow=False)
        except FileNotFoundError as error:
            raise Missing(path) from error
        except OSError as error:
            raise Refused("blob", f"readings cannot be read: {error.strerror or error}", where=path) from error
        if len(content) != ref.bytes or sha256_hex(content) != ref.sha256:
            raise Refused("blob", "not the bytes that the record names", where=path)
        try:
            return unpack(content)
        except Malformed as error:
            raise Refused("energy", f"no readings of ours: {error}", where=path) from error


@dataclass(frozen=True)
class _Bounded(Readings):
    """Readings of no more than their window can hold: a small blob may unpack to hours of work."""

    most_samples: int = 0

    def samples(self) -> Iterator[Sample]:
        for number, sample in enumerate(super().samples()):
            if number >= self.most_samples:
                raise Malformed(f"over {self.most_samples} samples, more than its window holds")
            yield sample


def bounded(readings: Readings, seconds_most: int, path: str) -> Readings:
    """The same, whose samples end in Malformed once there are too many. Raises Refused for too long a window."""
    if readings.header.length_ns > seconds_most * _NS:
        raise Refused("energy", f"a window of over {seconds_most} s", where=path)
    seconds = readings.header.length_ns // _NS + 1
    return _Bounded(
        header=readings.header,
        content=readings.content,
        most_bytes=_BYTES_HEAD + _BYTES_A_SECOND * seconds,
        most_samples=_SAMPLES_HEAD + _SAMPLES_A_SECOND * seconds,
    )
