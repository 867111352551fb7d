"""`appliance meter watch`: watts and joules while they are used, by container."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from appliance.cli.metering import AsJson, KnownIdle, Socket, follower

if TYPE_CHECKING:
    from rich.console import RenderableType

    from appliance.meter.faces.following import Lost, Seen

_STYLES = {"container": "", "gone": "dim", "system": "cyan", "idle": "cyan", "total": "bold", "beside": "dim"}


def watch(
    socket: Socket = None,
    once: Annotated[bool, typer.Option("--once", help="One second, then print it and end.")] = False,
    seconds: Annotated[
        float | None, typer.Option("--seconds", min=1, help="End after so many.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Watts and joules by container, idle, system and the whole; needs no privilege beyond the group `bench`.

    With --json, one document at the end of --once or --seconds. What is shown here is never what is signed.
    """
    import sys

    from appliance.cli.output import emit_json, line
    from appliance.errors import UsageRefused
    from appliance.meter.faces.showing import json_value

    if once and seconds is not None:
        raise UsageRefused("--once and --seconds exclude each other", mend="drop one of them")
    limit = 1.0 if once else seconds
    if as_json and limit is None:
        raise UsageRefused("--json is one document: it needs an end", mend="--once, or --seconds N")
    idle = KnownIdle()
    stream = _until(limit, follower(socket, idle).follow(patient=False))
    if as_json:
        emit_json(json_value(_last(stream), idle.found))
    elif once:
        for text in _table_lines(_last(stream), idle):
            line(text)
    elif sys.stdout.isatty():
        _live(stream, idle)
    else:
        _plain(stream, idle)


def _until(limit: float | None, stream: Iterator[Seen | Lost]) -> Iterator[Seen | Lost]:
    """Ends once lines that tell of use span `limit` seconds; the first line is a baseline."""
    from appliance.meter.faces.following import Seen

    told = 0.0
    for one in stream:
        yield one
        if isinstance(one, Seen):
            told += one.picture.seconds
            # A line comes a second after the other, give or take: two are never waited for as three.
            if limit is not None and told >= limit - 0.5:
                return


def _last(stream: Iterator[Seen | Lost]) -> Seen:
    from appliance.cli.output import note
    from appliance.meter.faces.following import Lost

    last: Seen | None = None
    for one in stream:
        if isinstance(one, Lost):
            note(f"{one.why}; asking again")
        else:
            last = one
    if last is None:  # the stream ends only behind a line that was seen
        raise AssertionError
    return last


def _plain(stream: Iterator[Seen | Lost], idle: KnownIdle) -> None:
    """A line a second; what is known of them once, on standard error."""
    import sys
    from datetime import UTC, datetime

    from appliance.cli.output import line, note
    from appliance.meter.faces.following import Lost
    from appliance.meter.faces.showing import plain_line, remarks

    said: tuple[str, ...] = ()
    for one in stream:
        at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        if isinstance(one, Lost):
            note(f"{at}  {one.why}; asking again")
            said = ()
            continue
        # The error is in every line; a remark is told when it changes.
        told = tuple(remark.split("; conservation")[0] for remark in remarks(one, idle.words))
        for remark in told:
            if remark not in said:
                note(remark)
        said = told
        if one.picture.seconds:
            line(plain_line(one, at))
            sys.stdout.flush()


def _live(stream: Iterator[Seen | Lost], idle: KnownIdle) -> None:
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    from appliance.meter.faces.following import Lost

    shown: RenderableType = Text("waiting for the first line")
    with Live(shown, refresh_per_second=4, transient=False) as live:
        for one in stream:
            if isinstance(one, Lost):
                live.update(Group(shown, Text(f"{one.why}; asking again", style="red")))
                continue
            shown = _rendered(one, idle, live.console.size.height)
            live.update(shown)


def _rendered(seen: Seen, idle: KnownIdle, height: int) -> RenderableType:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from appliance.cli.output import printable
    from appliance.meter.faces.showing import remarks, rows

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("", overflow="ellipsis", no_wrap=True, min_width=12)
    # Wide enough that the columns do not move from second to second.
    for heading, width in (("watts", 9), ("joules", 12), ("CPU", 6)):
        table.add_column(heading, justify="right", no_wrap=True, min_width=width)
    said = list(remarks(seen, idle.words))
    # Heading, system, idle, total, and the line that a prompt comes to stand on.
    beside = sum(1 for view in seen.picture.zones if not view.zone.summed)
    for row in rows(seen, most=max(1, height - 5 - len(said) - beside)):
        cells = (Text(printable(row.name)), row.watts, row.joules, row.cpu)
        table.add_row(*cells, style=_STYLES[row.kind])
    error = "bold red" if seen.picture.error_uj else "dim"
    return Group(table, *(Text(printable(remark), style=error) for remark in said))


def _table_lines(seen: Seen, idle: KnownIdle) -> Iterator[str]:
    from appliance.meter.faces.showing import remarks, rows

    found = list(rows(seen))
    width = max(len(row.name) for row in found)
    yield f"{'':<{width}}  {'watts':>10}  {'joules':>12}  {'CPU':>6}"
    for row in found:
        yield f"{row.name:<{width}}  {row.watts:>10}  {row.joules:>12}  {row.cpu:>6}".rstrip()
    yield from remarks(seen, idle.words)
