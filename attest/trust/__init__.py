"""Trust modes: who signs, and under which root. `local` is here; private and public deployments keep the same shape."""

from __future__ import annotations

from typing import Protocol

from attest.predicate import LogReference
from attest.roots import Assurance, PinnedRoot


class TrustMode(Protocol):
    """A signer and the root that its signatures are checked by."""

    @property
    def name(self) -> str:
        """As in roots.toml."""
        ...

    @property
    def assurance(self) -> Assurance: ...

    @property
    def identity(self) -> str:
        """The name that the certificate will carry."""
        ...

    @property
    def issuer(self) -> str: ...

    @property
    def root(self) -> PinnedRoot: ...

    def last_checkpoint(self) -> LogReference | None:
        """Size and root of the signer's own log as last signed; None where it keeps none."""
        ...

    def sign(self, statement: bytes) -> bytes:
        """The bundle, JSON, of an in-toto statement given as its canonical bytes. Nothing else is ever signed."""
        ...
