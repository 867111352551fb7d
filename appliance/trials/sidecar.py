"""A trial's way to its model: the gateway's socket here, the forwarder beside the solver there (row M19).

The forwarder shares the solver's network namespace and nothing else: it is in no process of the solver's reach, listens
before the solver's exec, and its end in the middle of a trial is ours to answer for, never the solver's.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from appliance.ports import GATEWAY_PORT, ContainerSpec, Engine, EngineFailed, Mount, Traffic, TrialGateway
from appliance.tasks.model import Limits

GATEWAY_FOLDER: Final = "/run/appliance-gateway"
PROGRAM_FOLDER: Final = "/run/appliance-forwarder"
PROGRAM: Final = "forwarder.py"
ROLE: Final = "forwarder"
_COMMAND: Final = (
    "python3",
    "-I",
    f"{PROGRAM_FOLDER}/{PROGRAM}",
    "--port",
    str(GATEWAY_PORT),
    "--socket",
    f"{GATEWAY_FOLDER}/gateway.sock",
)
LIMITS: Final = Limits(cpus=1.0, memory_mib=128, pids=32, disk_mib=16)
"""Of the forwarder: it holds pieces of what it carries, never the whole."""
_READY_SECONDS: Final = 30.0


class Sidecar:
    """One trial's, in this order: start, stop, finish."""

    def __init__(self, engine: Engine, door: TrialGateway, program: Path):
        """`program`: the folder that holds the forwarder's program, and nothing else."""
        self._engine = engine
        self._door = door
        self._program = program
        self._container: str | None = None
        self._finished = False

    def start(self, solver: str, image: str, labels: Mapping[str, str], cgroup: str | None) -> None:
        """Beside a started container. Raises EngineFailed where the road does not open."""
        self._container = self._engine.create(
            ContainerSpec(
                image=image,
                role=ROLE,
                labels=labels,
                limits=LIMITS,
                network="none",
                network_of=solver,
                cgroup_parent=cgroup,
                mounts=(
                    Mount("bind", str(self._door.folder), GATEWAY_FOLDER, read_only=True),
                    Mount("bind", str(self._program), PROGRAM_FOLDER, read_only=True),
                ),
                workdir="/",
                command=_COMMAND,
                init=False,
            )
        )
        self._engine.start(self._container)
        if not self._door.wait_ready(_READY_SECONDS):
            raise EngineFailed(f"the forwarder was not heard of within {_READY_SECONDS:g} s")

    def stop(self) -> None:
        """The solver has ended, and its container is still there: an engine may keep it as long as another shares its
        network. Raises EngineFailed where the forwarder had ended before."""
        alive = self._container is not None and self._engine.processes(self._container) > 0
        self.remove()
        if not alive:
            raise EngineFailed("the forwarder between the solver and its model ended while the solver ran")

    def remove(self) -> None:
        if self._container is not None:
            self._engine.remove(self._container)

    def finish(self) -> Traffic:
        """Once the solver is gone."""
        self._finished = True
        return self._door.finish()

    def discard(self) -> Traffic | None:
        """Where a phase before has failed: what was asked till then, which has its price; None where it was told."""
        self.remove()
        return None if self._finished else self.finish()
