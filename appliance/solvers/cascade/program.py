"""The kind `cascade`: in each trial's container a client of ours, and the control socket bound in."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from appliance.ports import ExecSpec, Mount, SolveCall
from appliance.records.plan import PlannedTask
from appliance.solvers.cascade import client
from appliance.solvers.programs import OURS, laid_out

PROGRAM: Final = "cascade_client.py"
SOCKET: Final = "/run/appliance-cascade/control.sock"


@dataclass(frozen=True)
class CascadeProgram:
    """`socket`: of the host; None, and one that is not there, is found missing by the client."""

    name: str
    socket: Path | None

    def call(self, task: PlannedTask, folder: Path, scratch: Path) -> SolveCall:
        del folder
        mounts, env = laid_out(task, scratch)
        copy = scratch / "appliance" / PROGRAM
        shutil.copyfile(Path(client.__file__), copy)
        copy.chmod(0o644)
        if self.socket is not None and self.socket.is_socket():
            # The socket alone, not its folder: whatever else lies there is nothing of the container's.
            mounts = (*mounts, Mount("bind", str(self.socket.resolve()), SOCKET, read_only=True))
        argv = ("python3", "-I", f"{OURS}/{PROGRAM}", SOCKET, task.spec.name, f"{OURS}/prompt.txt")
        limit = task.spec.limits.wall_seconds
        return SolveCall(
            ExecSpec(argv=argv, env=env, timeout_seconds=limit),
            mounts,
            control_socket=str(self.socket) if self.socket else "--cascade-socket",
        )
