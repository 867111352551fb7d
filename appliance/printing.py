"""JSON for people's terminals and everybody's parsers. Standard library only."""

from __future__ import annotations

import json
from typing import Any


def json_text(value: Any, encoding: str = "utf-8") -> str:
    """Indented JSON without a final line feed.

    A character that drives a terminal, hides, or has no place in `encoding` is escaped: it parses to the same.
    """
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False, default=str)
    if text.isascii() and "\x7f" not in text:
        return text  # json itself escapes every ASCII control character but DEL
    return "".join(char if char == "\n" or _shows(char, encoding) else _escaped(char) for char in text)


def _shows(char: str, encoding: str) -> bool:
    if char.isascii() or not char.isprintable():
        return char.isprintable()
    try:
        char.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def _escaped(char: str) -> str:
    return json.dumps(char)[1:-1] if char != "\x7f" else "\\u007f"
