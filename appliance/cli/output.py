"""Where words go: results to standard output, progress and remarks to standard error."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

_emitted = False


def emit_json(value: Any) -> None:
    """The one JSON document of a command run with `--json`: a dict, a list, or a wire model."""
    global _emitted  # noqa: PLW0603 - the error path must know whether standard output has its document already
    _emitted = True
    if hasattr(value, "json_value"):
        value = value.json_value()
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False, default=str) + "\n")
    sys.stdout.flush()


def emitted() -> bool:
    return _emitted


def line(text: str = "") -> None:
    """A line of the answer itself."""
    sys.stdout.write(printable(text) + "\n")


def note(text: str) -> None:
    """A remark, a warning, a step of progress. Nobody there to read it is no reason to end what it speaks of."""
    try:
        sys.stderr.write(printable(text) + "\n")
        sys.stderr.flush()
    except OSError:
        # The reader of a pipe has gone, or the terminal: what is left in the buffer must not fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def printable(text: str) -> str:
    """Text from records and programs without control characters that could drive a terminal; new lines stay."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in "\n\t" else char.encode("unicode_escape").decode() for char in text
    )
