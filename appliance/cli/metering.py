"""What the verbs of `appliance meter` share: their options, the daemon that answers, names, the idle power."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from appliance.meter.faces.following import Follower, Names
    from appliance.meter.faces.ledger import IdlePower
    from appliance.meter.faces.watching import Watched

Socket = Annotated[
    Path | None,
    # Whether it may be used is for the daemon's answer to say, with the mend.
    typer.Option(
        "--meter-socket",
        "--socket",
        metavar="PATH",
        help="The daemon's socket, else /run/bench-appliance/meter.sock.",
        show_default=False,
        readable=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
Powercap = Annotated[
    Path | None,
    typer.Option(
        "--powercap-root",
        metavar="DIR",
        help="Another root than the kernel's: figures are `simulated`.",
        show_default=False,
    ),
]


def socket_of(given: Path | None) -> Path:
    from appliance.meter.client import SOCKET

    return SOCKET if given is None else given


class KnownIdle:
    """The idle power that `watch` and `export` reckon with: of the stored calibration, where it holds here."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {"calibrated": False, "at": None, "expiresAt": None, "reason": "not asked yet"}

    def of(self, line: Watched) -> IdlePower | None:
        """Asked once the counters are known. A spoiled calibration is told, and is none."""
        from appliance.energy.idle import Idle
        from appliance.errors import InputRefused
        from appliance.meter.calibration import usable

        try:
            calibration, why = usable(line.zones)
        except InputRefused as refusal:
            calibration, why = None, str(refusal)
        if calibration is None:
            self.found["reason"] = why
            return None
        self.found = {"calibrated": True, "at": calibration.at, "expiresAt": calibration.expires_at, "reason": None}
        return Idle(looks=(), stored=calibration.rest)

    @property
    def words(self) -> str:
        if self.found["calibrated"]:
            return f"idle as calibrated at {self.found['at']}"
        return f"idle is not known ({self.found['reason']}): containers and system carry it; appliance meter calibrate"


def follower(socket: Path | None, idle: KnownIdle) -> Follower:
    from appliance.meter.faces.following import Follower
    from appliance.meter.faces.reaching import connect

    place = socket_of(socket)
    return Follower(connect=lambda: connect(place), idle=idle.of, names=_names())


def _names() -> Names:
    """Of running containers; ids stand for names where no engine tells them to this user."""
    from appliance.engine.running import RunningContainers
    from appliance.errors import HostRefused
    from appliance.meter.faces.naming import Known
    from appliance.ports import EngineFailed

    try:
        engine = RunningContainers()
    except (HostRefused, EngineFailed):
        return dict

    def ask() -> dict[str, Known]:
        try:
            return {one.id: Known(one.name, engine.runtime) for one in engine.running()}
        except EngineFailed:
            return {}

    return ask
