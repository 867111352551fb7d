"""Artifacts: blobs that a record names by digest."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from appliance.pins import Sha256
from appliance.wire import INFORMATIVE, Wire


class BlobRef(Wire):
    """An artifact by content: `blobs/sha256/<sha256>`."""

    sha256: Annotated[Sha256, INFORMATIVE]
    bytes: Annotated[int, INFORMATIVE] = Field(ge=0)


class Artifact(Wire):
    name: Annotated[str, INFORMATIVE]
    media_type: Annotated[str, INFORMATIVE]
    blob: Annotated[BlobRef, INFORMATIVE]
