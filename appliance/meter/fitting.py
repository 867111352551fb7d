"""What a command line says of the meter, held against itself: what cannot both be meant is refused (status 2)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from appliance.errors import UsageRefused


def refuse_beside_socket(socket: Path | None, own: Sequence[str]) -> None:
    """`own`: flags for a meter that is started here, which one that runs already does not take."""
    if socket is not None and own:
        raise UsageRefused(
            f"{own[0]} is for a meter that is started here, and --meter-socket names one that runs",
            where=f"--meter-socket {socket}",
            mend=f"leave one of the two away, or give `meter serve` {own[0]}",
        )


def refuse_absent_root(powercap: Path | None) -> None:
    """A folder of counters that was named and is not there is a slip, not a host without counters."""
    if powercap is not None and not powercap.is_dir():
        raise UsageRefused(
            "there is no such folder of counters",
            where=f"--powercap-root {powercap}",
            mend="name the folder that intel-rapl:0 lies in",
        )
