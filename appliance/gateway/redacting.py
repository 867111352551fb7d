"""Known secrets out of bytes that are kept, whatever stream they come in."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import quote

REDACTED: Final = b"<redacted>"


class Redactor:
    """Each secret as it is, as JSON and URLs spell it, and in base64; `count`: places found so far.

    A secret that a model spells over several events of a stream is not found: it never saw one.
    """

    def __init__(self, secrets: Iterable[bytes]):
        spelt = {form for secret in secrets if secret for form in _forms(secret)}
        # The longest first: one that begins another must not be all that is taken out.
        self._longest = max(map(len, spelt), default=0)
        self._pattern = re.compile(b"|".join(re.escape(one) for one in sorted(spelt, key=lambda one: (-len(one), one))))
        self._any = bool(spelt)
        self.count = 0

    def chunks(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        if not self._any:
            yield from chunks
            return
        held = b""
        for chunk in chunks:
            clean, held = self._settled(held + chunk, last=False)
            yield clean
        yield self._settled(held, last=True)[0]

    def content(self, content: bytes) -> bytes:
        return b"".join(self.chunks((content,)))

    def text(self, text: str) -> str:
        if not self._any:
            return text
        return self.content(text.encode(errors="surrogateescape")).decode(errors="surrogateescape")

    def _settled(self, held: bytes, *, last: bool) -> tuple[bytes, bytes]:
        """What no later byte can change, cleaned; and the rest."""
        found: list[bytes] = []
        at, free = 0, len(held) if last else max(len(held) - self._longest + 1, 0)
        while match := self._pattern.search(held, at):
            if match.start() >= free:
                break
            found += [held[at : match.start()], REDACTED]
            self.count += 1
            at = match.end()
        end = max(at, free)
        return b"".join((*found, held[at:end])), held[end:]


def _forms(secret: bytes) -> Iterator[bytes]:
    yield secret
    yield base64.b64encode(secret)
    yield quote(secret, safe="").encode()
    text = secret.decode(errors="replace")
    yield json.dumps(text)[1:-1].encode()
    yield json.dumps(text)[1:-1].replace("/", "\\/").encode()
