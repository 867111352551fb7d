"""What may be signed at all: every trust mode asks this before it signs."""

from __future__ import annotations

from attest.errors import Refused
from attest.statement import MAX_STATEMENT_BYTES, parse


def refuse_unsignable(statement_bytes: bytes) -> None:
    """Raises Refused (statement) for what is not the canonical bytes of an in-toto statement."""
    if len(statement_bytes) > MAX_STATEMENT_BYTES:
        raise Refused("statement", f"{len(statement_bytes)} bytes, over the bound of {MAX_STATEMENT_BYTES}")
    if statement_bytes.startswith(b"DSSEv1 "):
        raise Refused("statement", "bytes that begin with 'DSSEv1 ' are never signed: they could pass for another")
    parse(statement_bytes)
