"""`appliance meter serve`: looks whether the daemon can do its work here, then becomes it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from appliance.cli.metering import AsJson, Powercap


def serve(  # noqa: PLR0917 - a command's options
    socket: Annotated[
        Path | None,
        typer.Option(
            "--socket",
            "--meter-socket",
            metavar="PATH",
            help="Where it listens, else /run/bench-appliance/meter.sock.",
            show_default=False,
            readable=False,
        ),
    ] = None,
    group: Annotated[str, typer.Option("--group", help="Who may ask it, besides its own user.")] = "bench",
    powercap: Powercap = None,
    period_ms: Annotated[int, typer.Option("--period-ms", min=10, max=60_000, help="Between samples.")] = 100,
    counter: Annotated[
        list[str] | None,
        typer.Option("--counter", metavar="NAME", help="A counter of a plug-in; may be given more than once."),
    ] = None,
    cpu_backend: Annotated[
        str | None, typer.Option("--cpu-backend", metavar="NAME", help="`pyrapl` in place of our own reader.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Read counters and cgroups for whoever asks at the socket. Needs root, or the capabilities of the systemd unit.

    It stays in the foreground and says on standard error what happens to its counters. With --json, the one document is
    where it is about to listen.
    """
    import os
    import sys

    from appliance.cli.output import emit_json
    from appliance.meter.faces.starting import daemon_argv, refuse_unable

    place = refuse_unable(socket, group, powercap)
    argv = daemon_argv(
        sys.executable,
        socket=place,
        group=group,
        powercap=powercap,
        period_ms=period_ms,
        counters=tuple(counter or ()),
        cpu_backend=cpu_backend,
    )
    if as_json:
        emit_json({"socket": str(place), "pid": os.getpid()})
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(argv[0], argv)  # noqa: S606 - the daemon takes our place, so that whoever supervises us supervises it
