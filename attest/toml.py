"""TOML of a stranger: read by the standard library, once no key of it is long enough to keep that busy for hours.

tomllib's time grows with the square of a dotted key's parts (80 KB of `a.a.a` take a minute), and by as much for every
key below a deep table.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any, Final

MAX_KEY_PARTS: Final = 32
"""Of one key or table header as it is written: nothing that is read here has a tenth of it."""

# An open string runs to the end of its line, or of the text, where the parser ends as well: what is cut out here
# is what the parser takes for text up to the place where it gives up.
_SIGNS: Final = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*+(?:"{3,5})?'
    r"|'''(?:[^']|'(?!''))*+(?:'{3,5})?"
    r'|"(?:[^"\\\n]|\\[^\n])*+"?'
    r"|'[^'\n]*+'?"
    r"|\#[^\n]*+"
    r"|[\n=,{}\[\]]"
    r"|\.",
    re.DOTALL,
)
_ENDS_A_KEY: Final = frozenset("\n=,{}[]")


def loads(text: str) -> dict[str, Any]:
    """Raises ValueError with line and column, as tomllib does, and RecursionError for what is nested too deeply."""
    _refuse_long_keys(text)
    return tomllib.loads(text)


def _refuse_long_keys(text: str) -> None:
    dots = 0
    for found in _SIGNS.finditer(text):
        sign = found[0]
        if sign in _ENDS_A_KEY:
            dots = 0
        elif sign == ".":
            dots += 1
            if dots >= MAX_KEY_PARTS:
                line = text.count("\n", 0, found.start()) + 1
                column = found.start() - text.rfind("\n", 0, found.start())
                words = f"a key of more than {MAX_KEY_PARTS} parts (at line {line}, column {column})"
                raise tomllib.TOMLDecodeError(words)
