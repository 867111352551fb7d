"""One trial of a record, or one artifact after its digest is checked."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from appliance.cli import output

app = typer.Typer()


@app.command(context_settings={"allow_extra_args": True})
def show(  # noqa: PLR0917 - a command's options
    context: typer.Context,
    record: Annotated[Path, typer.Argument(help="A record's file, or a run folder that holds one.")],
    trial: Annotated[int | None, typer.Option("--trial", min=0, help="Its place in the list, from 0.")] = None,
    artifact: Annotated[str | None, typer.Option("--artifact", help="Its name: diff, stdout, stderr, ...")] = None,
    blobs: Annotated[
        Path | None, typer.Option("--blobs", help="Where the blobs lie, if not beside the record.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """The trials of a record; with --trial, every field of one; with --artifact, the bytes of one blob."""
    from appliance.errors import UsageRefused
    from appliance.report import detail
    from appliance.report.load import blobs_beside, load_records, record_paths
    from appliance.report.text import render_text

    if context.args:
        mend = f"--artifact {context.args[0]}" if len(context.args) == 1 else "name one record"
        raise UsageRefused(f"one record and no other word: {' '.join(context.args)}", mend=mend)
    if artifact is not None and json:
        raise UsageRefused("an artifact is bytes, not JSON", mend="leave --json out")
    paths = record_paths(record)
    if len(paths) > 1:
        raise UsageRefused("more than one record here", where=str(record), mend=f"one of: {', '.join(map(str, paths))}")
    opened = load_records(paths)[0]
    chosen = None if trial is None else detail.trial_at(opened, trial)
    known = detail.record_artifacts(opened) if chosen is None else detail.artifacts_of(chosen)
    if artifact is not None:
        _pour(detail.artifact(known, artifact, blobs or blobs_beside(paths[0])))
        return
    output.note("unverified: no signature was checked; `appliance verify RECORD` does")
    if json:
        output.emit_json(chosen or opened)
    elif chosen is not None:
        sys.stdout.write(detail.trial_text(chosen, known))
    else:
        sys.stdout.write(f"{render_text([opened])}\n{detail.trial_list(opened)}")


def _pour(content: bytes) -> None:
    """As they are into a file or a pipe; on a terminal without what could drive it."""
    if sys.stdout.isatty():
        output.block(content.decode("utf-8", "backslashreplace").rstrip("\n"))
    else:
        sys.stdout.buffer.write(content)
    sys.stdout.flush()
