"""`appliance meter export`: the same figures for Prometheus, under Kepler's names."""

from __future__ import annotations

from typing import Annotated

import typer

from appliance.cli.metering import AsJson, KnownIdle, Socket, follower


def export(
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Where /metrics is served; 0 takes a free port.")
    ] = "127.0.0.1:9102",
    socket: Socket = None,
    as_json: AsJson = False,
) -> None:
    """Serve /metrics for Prometheus, under Kepler's names and ours. Needs no privilege beyond the group `bench`.

    A daemon that is restarted is found again; the counters go on. docs/grafana has a dashboard. With --json, the one
    document is the address.
    """
    from appliance.cli.output import emit_json, note
    from appliance.meter.faces.export import Exporter, listen_of

    place = listen_of(listen)
    idle = KnownIdle()
    exporter = Exporter(place, follower(socket, idle), note)
    try:
        host = f"[{place.host}]" if ":" in place.host else place.host
        url = f"http://{host}:{exporter.port}/metrics"
        note(f"serving {url}")
        if as_json:
            emit_json({"url": url})
        if not place.loopback:
            note("whoever reaches that address reads it: there is neither a password nor encryption")
        exporter.wait()
    finally:
        exporter.close()
