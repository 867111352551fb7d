"""The meter that a face asks: the daemon at its socket, or as root the same code as a child."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from appliance.errors import HostRefused
from appliance.meter.client import SOCKET, MeterClient, unreached
from appliance.meter.fitting import refuse_absent_root, refuse_beside_socket

_ANSWER_SECONDS: Final = 20.0
"""A daemon that was stopped for a while and goes on is no dead one (row T10)."""


def reach(socket: Path | None, powercap: Path | None, usual: Path = SOCKET) -> MeterClient:
    """A daemon that was named; one that answers where nobody named any; else, as root, a child of ours.

    `powercap` is another root of counters, which a daemon that runs already does not take: then it is the child.
    """
    refuse_beside_socket(socket, () if powercap is None else ("--powercap-root",))
    refuse_absent_root(powercap)
    if socket is not None:
        return connect(socket)
    if powercap is None and usual.exists():
        try:
            return connect(usual)
        except HostRefused:
            if os.geteuid() != 0:
                raise
    if os.geteuid() != 0:
        raise unreached(usual, FileNotFoundError())
    return MeterClient.start(["--powercap-root", str(powercap)] if powercap is not None else [], _ANSWER_SECONDS)


def connect(path: Path) -> MeterClient:
    """Raises HostRefused with the act that mends it: a face of the meter without a meter is the host's lack."""
    return MeterClient.connect(path, _ANSWER_SECONDS)
