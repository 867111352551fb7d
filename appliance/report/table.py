"""A table as plain text: the same bytes on a terminal, in a pipe and in a file."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from appliance.report.words import cell


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, right: frozenset[int] = frozenset()) -> list[str]:
    """Columns as wide as their widest cell in terminal cells; `right`: the columns set flush right."""
    clean = [[cell(text) for text in row] for row in (heads, *rows)]
    widths = [max(cell_len(row[at]) for row in clean) for at in range(len(heads))]
    lines = []
    for row in clean:
        padded = []
        for at, text in enumerate(row):
            space = " " * (widths[at] - cell_len(text))
            padded.append(space + text if at in right else text + space)
        lines.append("  ".join(padded).rstrip())
    return lines
