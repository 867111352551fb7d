"""`appliance meter status`: what the daemon reads, what it cannot and why, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from appliance.cli.metering import AsJson, Socket, socket_of


def status(socket: Socket = None, as_json: AsJson = False) -> None:
    """What the daemon reads, what it cannot and why, open windows, gaps, and its own CPU time."""
    from appliance.cli.output import emit_json, line
    from appliance.meter.faces.reaching import connect
    from appliance.meter.faces.status import status_lines

    place = socket_of(socket)
    with connect(place) as client:
        found: Mapping[str, Any] = client.status()
    if as_json:
        emit_json({"socket": str(place), **found})
        return
    for text in status_lines(str(place), found):
        line(text)
