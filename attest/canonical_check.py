"""Whether bytes are their own canonical form, asked of large ones without holding what they say.

A record is one object with thousands of objects in one of its lists. Each of those is looked at alone, and what is
left with `{}` in their places after them: it is canonical exactly where all of these are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from attest import canonical

_MARK: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"|["\[\]{}]', re.DOTALL)
"""A whole string, else one character; a quote alone opens a string that does not end."""
_OUTER: Final = b"{["
"""What an object that is looked at alone stands in."""


def check_canonical(content: bytes) -> None:
    """Raises NotCanonical exactly where `canonical.loads_canonical` does."""
    if len(content) > canonical.MAX_BYTES:
        canonical.loads_canonical(content)
    left, at = bytearray(), 0
    try:
        for begin, end in _objects(content):
            canonical.loads_canonical(content[begin:end])
            left += content[at:begin] + b"{}"
            at = end
        canonical.loads_canonical(bytes(left + content[at:]))
    except canonical.NotCanonical:
        # Its path and place are those of the whole.
        canonical.loads_canonical(content)
        raise


def _objects(content: bytes) -> Iterator[tuple[int, int]]:
    """Where each object begins and ends that stands in a list of the outermost object."""
    opened = bytearray()
    begin = 0
    for found in _MARK.finditer(content):
        mark = found[0]
        if mark in {b"{", b"["}:
            if mark == b"{" and opened == _OUTER:
                begin = found.start()
            opened += mark
            if len(opened) > canonical.MAX_DEPTH:
                raise canonical.NotCanonical("nested too deeply")
        elif mark in {b"}", b"]"}:
            if not opened:
                return
            if opened.pop() == ord("{") and opened == _OUTER:
                yield begin, found.end()
        elif mark == b'"':
            raise canonical.NotCanonical("a string does not end")
