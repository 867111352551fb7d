"""The table of docs/engine.md, made from the contract suite: `python -m tests.contract.table` writes it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

PODMAN_LACKS = {
    "test_a_volume_is_filled_bounded_and_read_back": "it takes a tmpfs volume's size for a project quota, "
    "so without root there is no bounded workspace",
}
"""Test -> why podman 4.3 does not keep it; the suite expects exactly these to fail."""

_ROWS = re.compile(r" \([^()]*\)(?=\.?$)")

DOCUMENT = Path(__file__).parents[2] / "docs" / "engine.md"
BEGIN, END = "<!-- contract table: begin -->", "<!-- contract table: end -->"


def truths() -> list[tuple[str, str]]:
    """`(test, first line of its docstring)` in the suite's order, without the rows that it keeps."""
    tree = ast.parse((Path(__file__).parent / "test_engine_contract.py").read_text())
    return [
        (node.name, _ROWS.sub("", (ast.get_docstring(node) or "").splitlines()[0]))
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]


def table() -> str:
    lines = ["| what holds | Docker 20.10 | podman 4.3 |", "|---|---|---|"]
    for name, words in truths():
        sentence = name.removeprefix("test_").replace("_", " ")
        podman = f"no: {PODMAN_LACKS[name]}" if name in PODMAN_LACKS else "yes"
        lines.append(f"| {sentence}. {words} | yes | {podman} |")
    return "\n".join(lines)


def document_with(table_text: str, document: str) -> str:
    before, _, rest = document.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table_text}\n{END}{after}"


if __name__ == "__main__":
    DOCUMENT.write_text(document_with(table(), DOCUMENT.read_text()))
