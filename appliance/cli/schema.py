"""List, show or check against the published JSON Schemas."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from appliance.cli import output

app = typer.Typer(no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@app.command("list")
def list_(json: Json = False) -> None:
    """Every schema with what it is the shape of."""
    from appliance import schemas

    rows = [
        {
            "name": name,
            "id": schemas.schema_id(name),
            "sha256": schemas.schema_digest(name),
            "of": schemas.ROOTS[name].what,
        }
        for name in schemas.names()
    ]
    if json:
        output.emit_json(rows)
        return
    wide = max((len(row["name"]) for row in rows), default=0)
    for row in rows:
        output.line(f"{row['name']:<{wide}}  {row['of']}")


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="As `schema list` names it, for example record-v1.")], json: Json = False
) -> None:
    """The schema itself, defaults included."""
    from appliance import schemas

    content = schemas.committed(name).decode()
    if json:
        import json as reader

        output.emit_json(reader.loads(content))
    else:
        output.block(content.rstrip("\n"))


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(help="Records, plans, journals, verdicts, locks, checks.")],
    schema: Annotated[str | None, typer.Option("--schema", help="Instead of the one that the file names.")] = None,
    json: Json = False,
) -> None:
    """Hold files to their schemas; the first that fails ends with status 3, naming file and JSON path."""
    from appliance.audit import documents

    held: list[dict[str, Any]] = []
    for path in files:
        name = documents.check_file(path, schema)
        held.append({"file": str(path), "schema": name})
        if not json:
            output.line(f"{path}: holds as {name}")
    if json:
        output.emit_json(held)
