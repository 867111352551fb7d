"""Which names and relative paths a suite may use."""

from __future__ import annotations

import unicodedata
from typing import Final

MAX_NAME: Final = 200
MAX_DEPTH: Final = 100
"""Folders in folders; far below where Python's own walks end in a RecursionError."""
_JOINERS: Final = "\u200c\u200d"
"""Letters of Persian, Hindi and emoji need them; every other format character could disguise a name."""
_REFUSED_KINDS: Final = frozenset({"Cc", "Cf", "Cs", "Cn", "Zl", "Zp"})


def name_problem(name: str) -> str | None:
    """Why `name` cannot name a suite or task; None where it can (row H25: nothing is ever derived from it)."""
    problems = (
        (not 1 <= len(name) <= MAX_NAME, f"has {len(name)} characters, not 1 to {MAX_NAME}"),
        (name != name.strip(), "starts or ends with white space"),
        (name.startswith("."), "starts with a dot"),
        ("/" in name or "\\" in name, "holds a slash"),
        (any(_hidden(char) for char in name), "holds a control or format character"),
        (
            not unicodedata.is_normalized("NFC", name),
            "is not in Unicode's composed form (NFC): two could look the same",
        ),
    )
    return next((problem for holds, problem in problems if holds), None)


def _hidden(char: str) -> bool:
    return unicodedata.category(char) in _REFUSED_KINDS and char not in _JOINERS


def relative_problem(path: str) -> str | None:
    """Why `path` cannot be a path below a folder of ours; None where it can."""
    parts = path.split("/")
    problems = (
        (not path, "is empty"),
        (path.startswith("/"), "is absolute"),
        (len(parts) > MAX_DEPTH, f"lies more than {MAX_DEPTH} folders deep"),
        (".." in parts, "climbs with .."),
        ("" in parts or "." in parts, "is not in its shortest form"),
        (any(ord(char) < 32 or char == "\x7f" for char in path), "holds a control character"),
    )
    return next((problem for holds, problem in problems if holds), None)
