"""Configuration, manifest and archive of an image, as bytes of our own: the pin is known before any engine sees it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from appliance.images.builder.tar import Entry, Slice, tar_chunks

LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
PLATFORM = {"architecture": "amd64", "os": "linux"}


@dataclass(frozen=True)
class Layer:
    """One uncompressed layer and where its bytes lie; `digest` is diffID and blob digest at once."""

    digest: str
    content: Slice

    @property
    def size(self) -> int:
        return self.content.size


@dataclass(frozen=True)
class Identity:
    """The three digests of a pin, before they are a wire value."""

    config: str
    manifest: str
    diff_ids: tuple[str, ...]


@dataclass(frozen=True)
class Image:
    """Bytes of an image: its configuration and its layers, lowest first."""

    config: bytes
    layers: tuple[Layer, ...]

    @property
    def manifest(self) -> bytes:
        layers = [{"digest": layer.digest, "mediaType": LAYER_TYPE, "size": layer.size} for layer in self.layers]
        config = {"digest": digest_of(self.config), "mediaType": CONFIG_TYPE, "size": len(self.config)}
        return canonical({"config": config, "layers": layers, "mediaType": MANIFEST_TYPE, "schemaVersion": 2})

    @property
    def identity(self) -> Identity:
        diff_ids = tuple(layer.digest for layer in self.layers)
        return Identity(digest_of(self.config), digest_of(self.manifest), diff_ids)

    @property
    def settings(self) -> dict[str, Any]:
        """`Env`, `Cmd`, `User` and the like, as the configuration has them."""
        settings: dict[str, Any] = json.loads(self.config).get("config") or {}
        return settings


def configuration(
    diff_ids: Sequence[str],
    epoch: int,
    *,
    env: Mapping[str, str],
    user: str,
    labels: Mapping[str, str],
    workdir: str = "/workspace",
    command: Sequence[str] = ("/bin/bash",),
) -> bytes:
    created = datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    settings = {
        "Cmd": list(command),
        "Env": [f"{key}={env[key]}" for key in sorted(env)],
        "Labels": dict(labels),
        "User": user,
        "WorkingDir": workdir,
    }
    return canonical(
        {
            **PLATFORM,
            "created": created,
            "config": settings,
            "rootfs": {"type": "layers", "diff_ids": list(diff_ids)},
            "history": [{"created": created, "created_by": "bench-appliance"} for _ in diff_ids],
        }
    )


def archive_chunks(image: Image, reference: str, omit: Iterable[str] = ()) -> Iterable[bytes]:
    """One tar that is an OCI image layout and a docker-archive at once.

    A pure docker-archive gets another id on containerd stores; overlay2 stores cannot load a pure OCI layout.
    `omit`: diffIDs whose bytes are left out (a thin archive, for an engine that is known to hold them).
    """
    left_out = set(omit)
    manifest = image.manifest
    repository, _, tag = reference.rpartition(":")
    full = f"docker.io/{repository if '/' in repository else f'library/{repository}'}:{tag}"
    index = {
        "schemaVersion": 2,
        "mediaType": INDEX_TYPE,
        "manifests": [
            {
                "mediaType": MANIFEST_TYPE,
                "digest": digest_of(manifest),
                "size": len(manifest),
                "platform": PLATFORM,
                "annotations": {"io.containerd.image.name": full, "org.opencontainers.image.ref.name": tag},
            }
        ],
    }
    docker = [
        {
            "Config": _blob(digest_of(image.config)),
            "RepoTags": [reference],
            "Layers": [_blob(layer.digest) for layer in image.layers],
        }
    ]
    blobs: dict[str, bytes | Slice] = {digest_of(image.config): image.config, digest_of(manifest): manifest}
    blobs |= {layer.digest: layer.content for layer in image.layers if layer.digest not in left_out}
    entries = [
        Entry("blobs", "directory", 0o755),
        Entry("blobs/sha256", "directory", 0o755),
        Entry("index.json", content=canonical(index)),
        Entry("manifest.json", content=canonical(docker)),
        Entry("oci-layout", content=b'{"imageLayoutVersion":"1.0.0"}'),
        *(Entry(_blob(digest), content=content) for digest, content in blobs.items()),
    ]
    return tar_chunks(entries)


def write_archive(image: Image, reference: str, out: BinaryIO, omit: Iterable[str] = ()) -> None:
    for chunk in archive_chunks(image, reference, omit):
        out.write(chunk)


def reference(name: str, config: str) -> str:
    """A name for people; nothing is ever looked up by it."""
    return f"bench-appliance/{name}:{config.removeprefix('sha256:')[:12]}"


def file_as_slice(path: Path) -> Slice:
    return Slice(path, 0, path.stat().st_size)


def canonical(value: Any) -> bytes:
    """Sorted keys, no white space, ASCII: equal bytes on every Python (the builder runs without our JSON library)."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _blob(digest: str) -> str:
    return f"blobs/sha256/{digest.removeprefix('sha256:')}"
