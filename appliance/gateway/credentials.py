"""What is taken out of requests and answers before anything keeps them or passes them on (row M16)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final
from urllib.parse import unquote_plus

from appliance.gateway.exchange import CREDENTIAL_HEADERS, CREDENTIAL_QUERY, Asked, Headers

_LOOKS_SECRET: Final = re.compile(
    r"(^|[-_])(auth|authorization|credentials?|cookie2?|password|passwd|secret|(api|access|auth|private|session)[-_]?key"
    r"|(access|auth|bearer|csrf|id|identity|refresh|security|session|xsrf|gitlab|github)?[-_]?token)$"
)
"""Names of headers beside the listed ones. `...-tokens`, which providers count by, is none of them."""
_USER: Final = re.compile(r"^([a-zA-Z][a-zA-Z0-9+.-]*://)[^/@]*@")
SHORTEST_SECRET: Final = 16
"""A shorter key is a placeholder, as `EMPTY` for a server without keys: to black it out would change what was said."""

_KEPT: Final = frozenset(
    {
        "content-type", "openai-model", "openai-processing-ms", "openai-version", "request-id", "retry-after",
        "retry-after-ms", "x-request-id", "x-should-retry",
    }
)  # fmt: skip
_KEPT_BEGINNINGS: Final = ("anthropic-ratelimit-", "x-ratelimit-")


def is_credential(header: str) -> bool:
    """`header`: a name in lower case."""
    return header in CREDENTIAL_HEADERS or _LOOKS_SECRET.search(header) is not None


def asked_of(method: str, target: str, headers: Iterable[tuple[str, str]], body: bytes, scrub: Scrub) -> Asked:
    """The request without credentials, nor what looks like one, nor any of `scrub`'s secrets."""
    kept = tuple((name, scrub.text(value)) for name, value in headers if not is_credential(name))
    return Asked(method, scrub.text(_target(target)), kept, scrub.whole(body))


def kept_of_answer(headers: Iterable[tuple[str, str]], scrub: Scrub) -> Headers:
    """What an agent can need of an answer's headers: never a cookie, nor the name of an account."""
    return tuple(
        (name, scrub.text(value)) for name, value in headers if name in _KEPT or name.startswith(_KEPT_BEGINNINGS)
    )


def _target(target: str) -> str:
    place, mark, query = _USER.sub(r"\1", target).partition("?")
    if not mark:
        return place
    parts = [part for part in query.split("&") if unquote_plus(part.partition("=")[0]).lower() not in CREDENTIAL_QUERY]
    return f"{place}?{'&'.join(parts)}" if parts else place


class Scrub:
    """Blacks out secrets wherever they stand, length by length: a provider may say a key back to whoever sent it."""

    def __init__(self, secrets: Sequence[str] = ()):
        self._secrets = tuple(secret.encode() for secret in secrets if len(secret) >= SHORTEST_SECRET)

    def whole(self, content: bytes) -> bytes:
        for secret in self._secrets:
            if secret in content:
                content = content.replace(secret, b"*" * len(secret))
        return content

    def text(self, content: str) -> str:
        return self.whole(content.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")

    def split(self, content: bytes) -> tuple[bytes, bytes]:
        """Of a stream: what may go on, scrubbed, and the end that may be a secret's beginning, to be put before what
        comes next.
        """
        content = self.whole(content)
        kept = max((_begun(content, secret) for secret in self._secrets), default=0)
        return (content[:-kept], content[-kept:]) if kept else (content, b"")


def _begun(content: bytes, secret: bytes) -> int:
    """How many bytes at the end of `content` are the beginning of `secret`."""
    longest = min(len(secret) - 1, len(content))
    return next((size for size in range(longest, 0, -1) if content.endswith(secret[:size])), 0)
