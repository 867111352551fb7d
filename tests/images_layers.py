"""What the layers of an image hold, read out of its archive."""

from __future__ import annotations

import tarfile
from dataclasses import dataclass

from appliance.images.builder.oci import Image


@dataclass(frozen=True)
class Held:
    mode: int
    link: str
    content: bytes


def layer_files(image: Image) -> dict[str, Held]:
    """Files and links by path; upper layers win."""
    found: dict[str, Held] = {}
    for layer in image.layers:
        with layer.content.path.open("rb") as stream:
            stream.seek(layer.content.offset)
            with tarfile.open(fileobj=stream, mode="r:") as tar:
                for member in tar:
                    if not member.isdir():
                        body = tar.extractfile(member) if member.isfile() else None
                        found[member.name] = Held(member.mode, member.linkname, body.read() if body else b"")
    return found


def layer_names(image: Image) -> set[str]:
    """Every member's path, without reading what they hold."""
    found: set[str] = set()
    for layer in image.layers:
        with layer.content.path.open("rb") as stream:
            stream.seek(layer.content.offset)
            with tarfile.open(fileobj=stream, mode="r:") as tar:
                found |= {member.name for member in tar}
    return found
