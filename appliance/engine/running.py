"""The names of running containers, for what shows watts beside them. Reads only."""

from __future__ import annotations

from dataclasses import dataclass

from appliance.engine.connection import translated
from appliance.engine.docker import DockerEngine, connect


@dataclass(frozen=True)
class Running:
    id: str
    name: str


class RunningContainers:
    """Of one engine. Raises HostRefused at construction where none answers, EngineFailed later."""

    def __init__(self, engine: DockerEngine | None = None):
        self._engine = engine or connect()
        self.runtime = self._engine.stamp().name

    def running(self) -> tuple[Running, ...]:
        with translated("list containers"):
            found = self._engine.client.containers()
        return tuple(Running(str(one["Id"]), str((one.get("Names") or ["/"])[0]).lstrip("/")) for one in found)
