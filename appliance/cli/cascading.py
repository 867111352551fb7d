"""The word that `run` and `reproduce` share about a cascade: its control socket."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from appliance.errors import UsageRefused

if TYPE_CHECKING:
    from appliance.solvers.definition import SolverDefinition


def refuse_unasked(socket: Path | None, solvers: tuple[SolverDefinition, ...]) -> None:
    """Raises UsageRefused for a cascade without a socket, and for a socket that no solver here is asked over."""
    cascades = [solver.name for solver in solvers if solver.kind == "cascade"]
    if cascades and socket is None:
        raise UsageRefused(
            f"solver {cascades[0]} is answered over a control socket, and none was given",
            where="--cascade-socket",
            mend="--cascade-socket PATH, where the cascade listens on this host",
        )
    if socket is not None and not cascades:
        raise UsageRefused(
            "no solver here is a cascade", where="--cascade-socket", mend="leave it away, or name one with --solver"
        )
