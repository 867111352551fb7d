"""Where words go: results to standard output, progress and remarks to standard error."""

from __future__ import annotations

import os
import sys
from typing import Any

from appliance.printing import json_text

_emitted = False


def emit_json(value: Any) -> None:
    """The one JSON document of a command run with `--json`: a dict, a list, or a wire model."""
    global _emitted  # noqa: PLW0603 - the error path must know whether standard output has its document already
    _emitted = True
    if hasattr(value, "json_value"):
        value = value.json_value()
    sys.stdout.write(json_text(value, sys.stdout.encoding or "utf-8") + "\n")
    sys.stdout.flush()


def emitted() -> bool:
    return _emitted


def line(text: str = "") -> None:
    """A line of the answer itself, and one line only: what a stranger wrote into a value begins no other."""
    sys.stdout.write(_unbroken(text) + "\n")


def block(text: str) -> None:
    """Text of many lines that is the whole answer, as a schema."""
    sys.stdout.write(printable(text) + "\n")


def note(text: str) -> None:
    """A remark, a warning, a step of progress, in one line. Nobody there to read it ends nothing of what it tells."""
    try:
        sys.stderr.write(_unbroken(text) + "\n")
        sys.stderr.flush()
    except OSError:
        # The reader of a pipe has gone, or the terminal: what is left in the buffer must not fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def counted(number: int, noun: str) -> str:
    """`1 record`, `2 records`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def one_line(text: str, longest: int = 2000) -> str:
    """For a refusal: line feeds of a stranger's text are escaped as well; of an endless one both ends are kept."""
    if len(text) > longest:
        text = f"{text[: longest // 2]} [...] {text[-longest // 2 :]}"
    return _unbroken(text).replace("\t", "\\t")


def _unbroken(text: str) -> str:
    return printable(text).replace("\n", "\\n")


def printable(text: str) -> str:
    """Text from records and programs without control characters that could drive a terminal; new lines stay."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in "\n\t" else char.encode("unicode_escape").decode() for char in text
    )
