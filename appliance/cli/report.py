"""Tables of records: resolution, energy, wall time."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from appliance.cli import output

app = typer.Typer()


class Form(StrEnum):
    text = "text"
    json = "json"
    csv = "csv"
    html = "html"


@app.command()
def report(  # noqa: PLR0917  the options of a verb
    paths: Annotated[list[Path] | None, typer.Argument(help="Run folders or records.")] = None,
    results: Annotated[list[Path] | None, typer.Option("--results", help="The same as PATH.")] = None,
    form: Annotated[Form | None, typer.Option("--format", help="How to say it.")] = None,
    ratio: Annotated[
        bool, typer.Option("--ratio", help="Also joules by Kepler's utilisation ratio (json and csv have them anyway).")
    ] = False,
    out: Annotated[Path | None, typer.Option("--out", help="Write it to this file instead.")] = None,
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Tables of records, as they stood at the end of `run`. Signatures are not looked at: that is `verify`."""
    from appliance.errors import UsageRefused
    from appliance.files import write_atomically
    from appliance.report.load import load_records
    from appliance.report.render import render

    if json and form not in (None, Form.json):
        raise UsageRefused(f"--json and --format {form} ask for two forms")
    wanted = [*(paths or []), *(results or [])]
    if not wanted:
        raise UsageRefused("no records named", mend="appliance report PATH...")
    text = render(load_records(wanted), "json" if json else (form or Form.text).value, ratio=ratio)
    output.note("unverified: no signature was checked; `appliance verify RECORD` does")
    if out is not None:
        try:
            write_atomically(out, text.encode())
        except OSError as error:
            raise UsageRefused(error.strerror or str(error), where=f"--out {out}", mend="name another place") from error
        return
    sys.stdout.write(text)
    sys.stdout.flush()
