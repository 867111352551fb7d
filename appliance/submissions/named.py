"""The blobs that a record names."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel

from appliance.records.blob import BlobRef
from appliance.records.record import Record


def blobs_named(record: Record) -> tuple[BlobRef, ...]:
    """Each digest once, in the order of the fields; the journal and the suite's archive are among them."""
    return tuple({ref.sha256: ref for ref in _refs(record)}.values())


def _refs(value: object) -> Iterator[BlobRef]:
    if isinstance(value, BlobRef):
        yield value
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _refs(getattr(value, name))
    elif isinstance(value, tuple):
        for item in value:
            yield from _refs(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _refs(item)
