"""The content pin of an image: what identifies it in every kind of engine store."""

from __future__ import annotations

from typing import Annotated

from pydantic import StringConstraints

from appliance.wire import EXACT, Wire

Digest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
"""`sha256:` and 64 hex digits, as OCI writes it."""
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""64 hex digits, as our own files write it."""


class Pin(Wire):
    """Looked up by `config`, then `manifest`; found images must agree on `diff_ids`. Tags are never trusted."""

    config: Annotated[Digest, EXACT]
    """Digest of the image's configuration: its id on overlay2 stores and podman."""
    manifest: Annotated[Digest, EXACT]
    """Digest of the OCI manifest over uncompressed layers: its id on containerd stores and in a registry."""
    diff_ids: Annotated[tuple[Digest, ...], EXACT]
    """Digests of the uncompressed layers, lowest first: what every store reports."""
