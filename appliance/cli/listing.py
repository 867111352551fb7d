"""Lists of what lies on disk by name: each entry read by itself, so that a broken one hides no other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from appliance.cli import output

Row = dict[str, Any]


def show_listing(found: Iterable[tuple[Row, Callable[[], Row]]], line: Callable[[Row], str], *, as_json: bool) -> None:
    """`found`: what is known of each by its name, and what reading it adds. A row's `problem` is its refusal, or None;
    a row with one has nothing but its name's."""
    rows = [_read(known, read) for known, read in found]
    if as_json:
        output.emit_json(rows)
        return
    for row in rows:
        output.line(line(row))


def _read(known: Row, read: Callable[[], Row]) -> Row:
    from appliance.errors import Refusal

    try:
        return {**known, **read(), "problem": None}
    except Refusal as refusal:
        return {**known, "problem": str(refusal)}
