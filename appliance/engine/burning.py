"""A program of ours in a container of ours, started and waiting: what the meter's own test burns CPU with."""

from __future__ import annotations

from dataclasses import dataclass

from appliance.errors import HostRefused
from appliance.ports import RUN_LABEL, ContainerSpec, Engine, ExecSpec, Mount
from appliance.tasks.model import Limits

_LIMITS = Limits(wall_seconds=600, cpus=1.0, memory_mib=128, pids=32, disk_mib=16, test_seconds=60)
_SCRATCH = Mount("tmpfs", "", "/workspace", options="rw,noexec,nosuid,nodev,size=1m")
_PATIENCE_SECONDS = 30.0


@dataclass(frozen=True)
class Said:
    stdout: bytes
    exit: int | None


class WaitingContainer:
    """An idle container under `cgroup_parent`; its program runs by an exec, as a solver's does. Raises HostRefused."""

    def __init__(self, engine: Engine, image: str, run: str, cgroup_parent: str, *, program: str, cpu_seconds: float):
        """`image`: an engine's id with python3 in it; `program` takes `cpu_seconds` and waits for a line."""
        self._engine = engine
        self._argv = ("python3", "-I", "-S", "-c", program, str(cpu_seconds))
        self._seconds = cpu_seconds
        spec = ContainerSpec(
            image=image,
            role="solver",
            labels={RUN_LABEL: run},
            limits=_LIMITS,
            network="none",
            cgroup_parent=cgroup_parent,
            mounts=(_SCRATCH,),
        )
        self._container = engine.create(spec)
        try:
            engine.start(self._container)
        except BaseException:
            self.close()
            raise

    def run(self) -> Said:
        # Twice a busy machine's patience: the load is bounded by CPU time, not by the clock.
        limit = _PATIENCE_SECONDS + 60 * self._seconds
        ended = self._engine.execute(self._container, ExecSpec(self._argv, stdin=b"go\n", timeout_seconds=limit))
        if ended.timed_out or ended.start_error is not None:
            raise HostRefused(ended.start_error or f"a load of {self._seconds:g} s did not end in {limit:g} s")
        return Said(ended.stdout.kept, ended.exit)

    def close(self) -> None:
        self._engine.remove(self._container)
