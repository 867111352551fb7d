"""What a solver's program says of itself, read out of its output before its container is gone."""

from __future__ import annotations

from typing import Final

from appliance.ports import Engine, EngineFailed, ExecOutcome, ExecSpec, SolveCall
from appliance.solvers.outputs.claimed import Claimed
from appliance.solvers.outputs.parsing import parse

_MOST_BYTES: Final = 32 * 1024 * 1024
_SECONDS: Final = 30.0


def claimed_of(call: SolveCall, ended: ExecOutcome, engine: Engine, container: str) -> Claimed | None:
    """None for a solver without a parser, and for one that never started, or was cut off by its limit."""
    if call.output is None or ended.exit is None or ended.start_error is not None:
        return None
    files = {"stderr": ended.stderr.kept}
    if call.output_file is not None:
        found = _file(call.output_file, engine, container)
        if found is not None:
            files["output_file"] = found
    return parse(call.output, ended.stdout.kept, files)


def _file(path: str, engine: Engine, container: str) -> bytes | None:
    """Its first 32 MiB, as the solver's user; None where it is not there, or is none that ends. HOME is a tmpfs, which
    only a program inside the container can read."""
    read = ExecSpec(
        ("head", "-c", str(_MOST_BYTES), "--", path),
        workdir="/",
        timeout_seconds=_SECONDS,
        capture_bytes=2 * _MOST_BYTES,
    )
    try:
        said = engine.execute(container, read)
    except EngineFailed:
        # A solver may end its own container.
        return None
    return said.stdout.head if said.exit == 0 else None
