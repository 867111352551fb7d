"""The content pin of an image: what identifies it in every kind of engine store."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import StringConstraints

from appliance.wire import EXACT, Wire

Digest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
"""`sha256:` and 64 hex digits, as OCI writes it."""
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""64 hex digits, as our own files write it."""

REFERENCE: Final = re.compile(
    r"(?=[^/]*[.:]|localhost/)[a-z0-9][a-z0-9.-]*(?::[0-9]{1,5})?"
    r"(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)+@sha256:[0-9a-f]{64}"
)
"""`HOST[:PORT]/REPOSITORY@sha256:...`: an image of a registry by its manifest. Without a host it would be one of an
engine's choosing; with a tag it could mean two things."""


class Pin(Wire):
    """Looked up by `config`, then `manifest`; found images must agree on `diff_ids`. Tags are never trusted."""

    config: Annotated[Digest, EXACT]
    """Digest of the image's configuration: its id on overlay2 stores and podman."""
    manifest: Annotated[Digest, EXACT]
    """Digest of the OCI manifest over uncompressed layers: its id on containerd stores. Of an image that a registry
    gave, the digest that it was asked for by."""
    diff_ids: Annotated[tuple[Digest, ...], EXACT]
    """Digests of the uncompressed layers, lowest first: what every store reports."""
