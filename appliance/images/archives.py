"""Archives of images in the cache, named by config digest: written whole or not at all, read without unpacking."""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from appliance import bundle
from appliance.errors import InputRefused
from appliance.images.builder.oci import Image, Layer, write_archive
from appliance.images.builder.tar import Slice
from appliance.images.lock import pin_of
from appliance.pins import Pin
from appliance.scratch import scratch_in


def archive_home() -> Path:
    return bundle.cache_home() / "images"


def archive_path(config: str) -> Path:
    return archive_home() / f"{config.removeprefix('sha256:')}.tar"


def keep_archive(image: Image, reference: str) -> Path:
    """Write the image's full archive into the cache."""
    path = archive_path(image.identity.config)
    write_whole(path, image, reference)
    return path


def write_whole(path: Path, image: Image, reference: str, omit: Iterable[str] = ()) -> None:
    with scratch_in(path.parent) as scratch:
        draft = scratch / "image.tar"
        with draft.open("wb") as out:
            write_archive(image, reference, out, omit)
        draft.chmod(0o644)
        draft.replace(path)


def cached(pin: Pin) -> Image | None:
    """The image of a lock's pin where the cache holds it; one that another pin hides under its name is left alone."""
    image = held(pin)
    return image if image and pin_of(image.identity) == pin else None


def held(pin: Pin) -> Image | None:
    """As `cached`, of images of any origin: one that a registry gave is pinned by the manifest that it has there.

    The configuration names the layers, so its digest is enough to know content by.
    """
    path = archive_path(pin.config)
    try:
        image = read_archive(path) if path.is_file() else None
    except InputRefused:
        return None
    same = image is not None and (image.identity.config, image.identity.diff_ids) == (pin.config, pin.diff_ids)
    return image if same else None


def read_archive(path: Path) -> Image:
    """From a docker-archive (`docker save` of any age), ours among them; layers stay where they lie.

    Raises InputRefused where it is none, or names layers that it does not hold.
    """
    try:
        with tarfile.open(path, mode="r:") as tar:
            members = {member.name: member for member in tar}
            described = json.loads(_bytes(tar, members["manifest.json"]))[0]
            config = _bytes(tar, members[described["Config"]])
            wanted = json.loads(config)["rootfs"]["diff_ids"]
            layers = [_member(members, name) for name in described["Layers"]]
    except (OSError, tarfile.TarError, KeyError, IndexError, TypeError, ValueError) as error:
        raise InputRefused(f"not a whole image archive: {error}", where=str(path)) from error
    if len(wanted) != len(layers):
        raise InputRefused(f"{len(layers)} layers where its configuration lists {len(wanted)}", where=str(path))
    found = (Slice(path, member.offset_data, member.size) for member in layers)
    return Image(config, tuple(Layer(digest, content) for digest, content in zip(wanted, found, strict=True)))


def damaged_layers(image: Image) -> tuple[str, ...]:
    """The diffIDs whose bytes are not what they say."""
    return tuple(layer.digest for layer in image.layers if _digest(layer.content) != layer.digest)


def refuse_compressed(image: Image, name: str) -> None:
    """Raises InputRefused where a store exported compressed layers: a pin is over uncompressed ones."""
    for layer in image.layers:
        if next(layer.content.chunks(), b"").startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd")):
            raise InputRefused(
                "this engine's store exports compressed layers, which cannot be pinned yet",
                where=name,
                mend="define the image in images/, or use an engine with the overlay2 store",
            )


def _digest(content: Slice) -> str:
    digest = hashlib.sha256()
    for chunk in content.chunks():
        digest.update(chunk)
    return f"sha256:{digest.hexdigest()}"


def _bytes(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    stream = tar.extractfile(member)
    if stream is None:
        raise KeyError(member.name)
    return stream.read()


def _member(members: dict[str, Any], name: str) -> tarfile.TarInfo:
    """`docker save` of 20.10 writes a layer that two images share as a link to where it lies first."""
    member: tarfile.TarInfo = members[name]
    if member.issym():
        return _member(members, os.path.normpath(str(Path(name).parent / member.linkname)))
    return members[member.linkname] if member.islnk() else member
