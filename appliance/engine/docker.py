"""The Docker adapter of `ports.Engine`: hardened containers by id, no pulls, every failure named (rows I16, I27)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import docker
import docker.errors

from appliance.engine import cgroups
from appliance.engine.connection import (
    Address,
    engine_address,
    engine_stamp,
    is_gone,
    is_podman,
    open_client,
    shortened,
    translated,
)
from appliance.engine.execution import ExecState, Execution
from appliance.engine.hardening import CPU_PERIOD_US, MIB, container_body, environment_list
from appliance.engine.hijack import Wire, start_exec
from appliance.errors import HostRefused
from appliance.pins import REFERENCE, Pin
from appliance.ports import (
    ROLE_LABEL,
    RUN_LABEL,
    TRIAL_LABEL,
    ContainerSpec,
    EngineFailed,
    Evidence,
    ExecOutcome,
    ExecSpec,
    InForce,
)
from appliance.records.record import EngineStamp
from appliance.tasks.model import Limits, Network

_VANISHING_SECONDS = 1.5


class DockerEngine:
    """Thread-safe: several trials share one, and its connections are kept alive between calls."""

    def __init__(
        self,
        client: docker.APIClient,
        address: Address,
        api: str,
        version: Mapping[str, Any],
        runtime: str | None = None,
    ):
        """`version` as the engine said it; `runtime` None: the engine's default."""
        # Untyped: half of what docker-py offers has no types, in its stubs either.
        self.client: Any = client
        self.address = address
        self._api = api
        self._version = version
        self._podman = is_podman(version)
        self._runtime = runtime
        self._places: dict[str, cgroups.CgroupPlaces] = {}
        self._guard = threading.Lock()
        self._stamp: EngineStamp | None = None

    # ------------------------------------------------------------------------------------------ what it is

    def stamp(self) -> EngineStamp:
        if self._stamp is None:
            with translated("say what it is"):
                about = self.client.info()
            self._stamp = engine_stamp(self._version, about, self.address, self._runtime)
        return self._stamp

    def resolve(self, pin: Pin) -> str | None:
        for reference in (pin.config, pin.manifest):
            with translated("look for an image"):
                try:
                    found = self.client.inspect_image(reference)
                except docker.errors.ImageNotFound:
                    continue
            layers = tuple(found.get("RootFS", {}).get("Layers") or ())
            if layers != pin.diff_ids:
                raise EngineFailed(f"the engine's image {reference} has other layers than its pin: {', '.join(layers)}")
            return str(found["Id"])
        return None

    def load(self, archive: Path) -> None:
        with translated(f"load {archive.name}"), archive.open("rb") as stream:
            for line in self.client.load_image(stream):
                if "error" in line:
                    raise EngineFailed(f"the engine could not load {archive.name}: {line['error']}")

    def export(self, image: str, archive: Path) -> None:
        try:
            with translated(f"export {image}"), archive.open("wb") as out:
                self.client.inspect_image(image)
                out.writelines(self.client.get_image(image))
        except EngineFailed as error:
            if isinstance(error.__cause__, docker.errors.ImageNotFound):
                raise HostRefused(
                    f"the engine has no image {image}", mend="pull or load it first", reason="no_image"
                ) from error
            raise

    def pull(self, reference: str) -> None:
        """`HOST/REPOSITORY@sha256:...`, never a tag. No method of `ports.Engine`: whoever runs trials cannot pull."""
        if not REFERENCE.fullmatch(reference):
            raise ValueError(f"{reference} names no digest")
        repository, _, digest = reference.partition("@")
        with translated(f"pull {reference}"):
            for line in self.client.pull(repository, tag=digest, stream=True, decode=True):
                if "error" in line:
                    raise EngineFailed(f"the engine could not pull {reference}: {line['error']}")

    # ------------------------------------------------------------------------------------------ a container's life

    def create(self, spec: ContainerSpec) -> str:
        body = container_body(spec, runtime=self._runtime, podman=self._podman)
        with translated("create a container"):
            try:
                return str(self.client.create_container_from_config(body)["Id"])
            except docker.errors.ImageNotFound as error:
                # Never a pull: an image that is not here was to be loaded before the first trial (row I6).
                raise EngineFailed(f"the image {spec.image} is not in the engine") from error
            except docker.errors.APIError as error:
                raise _lacking(error, self._runtime) or error from error

    def start(self, container: str) -> None:
        with translated("start a container"):
            self.client.start(container)

    def remove(self, container: str) -> None:
        with self._guard:
            self._places.pop(container, None)
        with translated("remove a container"):
            try:
                self.client.remove_container(container, v=True, force=True)
            except docker.errors.APIError as error:
                if not is_gone(error):
                    raise

    def execute(self, container: str, spec: ExecSpec, on_started: Callable[[], None] | None = None) -> ExecOutcome:
        return Execution(self, container, spec, local=not self.address.remote).run(on_started)

    def exec_create(self, container: str, spec: ExecSpec) -> str:
        """`execution.ExecCalls`."""
        with translated("create an exec"):
            made = self.client.exec_create(
                container,
                list(spec.argv),
                stdin=spec.stdin is not None,
                user=spec.user,
                workdir=spec.workdir,
                environment=environment_list(spec.env),
            )
        return str(made["Id"])

    def exec_start(self, execution: str) -> Wire:
        """`execution.ExecCalls`."""
        return start_exec(self.address.dial, self._api, execution)

    def exec_state(self, execution: str) -> ExecState:
        """`execution.ExecCalls`."""
        with translated("look at an exec"):
            said = self.client.exec_inspect(execution)
        status = said.get("ExitCode")
        return ExecState(bool(said.get("Running")), None if status is None else int(status), int(said.get("Pid") or 0))

    # ------------------------------------------------------------------------------------------ what holds, what was

    def in_force(self, container: str, asked: Limits) -> InForce:
        said = self._inspect(container)
        held = said["HostConfig"]
        places = self._remember(container, said)
        memory: float | None = held.get("Memory", 0) / MIB or None
        pids: int | None = held.get("PidsLimit") or None
        cpus: float | None = held.get("CpuQuota", 0) / (held.get("CpuPeriod") or CPU_PERIOD_US) or None
        if places is not None:
            memory = cgroups.memory_limit_mib(places)
            pids = cgroups.pids_limit(places)
            cpus = cgroups.cpus_limit(places)
        if memory is None or pids is None or cpus is None:
            lacking = [name for name, held in (("memory", memory), ("pids", pids), ("cpus", cpus)) if held is None]
            raise EngineFailed(f"the container runs without a limit on {', '.join(lacking)}")
        network: Network = "none" if held.get("NetworkMode") == "none" else "open"
        return InForce(
            asked.model_copy(update={"memory_mib": int(memory), "pids": pids, "cpus": _as_asked(cpus, asked.cpus)}),
            network,
        )

    def evidence(self, container: str) -> Evidence:
        self._refuse_vanished(container)
        places = self._places_of(container)
        return Evidence(None, None, None) if places is None else cgroups.read_evidence(places)

    def _refuse_vanished(self, container: str) -> None:
        """A solver can end its container, but not remove it: where one goes away, somebody else took it.

        `docker rm -f` kills first and removes a little later, so one that has stopped is looked at for a while.
        """
        until = time.monotonic() + _VANISHING_SECONDS
        while not self._inspect(container).get("State", {}).get("Running") and time.monotonic() < until:
            time.sleep(0.1)

    def cpu_ns(self, run: str, trial: str | None, role: str) -> int | None:
        """CPU time so far of a trial's container, or of one of the run's own, by the engine's one-shot statistics;
        None where there is none."""
        with translated("read a container's statistics"):
            labels = [f"{RUN_LABEL}={run}", f"{ROLE_LABEL}={role}"]
            labels += [] if trial is None else [f"{TRIAL_LABEL}={trial}"]
            found = self.client.containers(filters={"label": labels})
            if len(found) != 1:
                return None
            said = self.client.stats(str(found[0]["Id"]), stream=False, one_shot=True)
        used = said.get("cpu_stats", {}).get("cpu_usage", {}).get("total_usage")
        return int(used) if used else None

    def processes(self, container: str) -> int:
        try:
            places = self._places_of(container)
        except EngineFailed as error:
            if isinstance(error.__cause__, docker.errors.NotFound):
                return 0
            raise
        count = None if places is None else cgroups.member_count(places)
        if count is not None:
            return count
        try:
            with translated("list a container's processes"):
                return len(self.client.top(container).get("Processes") or ())
        except EngineFailed as error:
            cause = error.__cause__
            if isinstance(cause, docker.errors.APIError) and (is_gone(cause) or cause.status_code == 409):
                return 0
            raise

    def _inspect(self, container: str) -> dict[str, Any]:
        with translated("look at a container"):
            return dict(self.client.inspect_container(container))

    def _places_of(self, container: str) -> cgroups.CgroupPlaces | None:
        known = self._places.get(container)
        return known if known is not None else self._remember(container, self._inspect(container))

    def _remember(self, container: str, said: Mapping[str, Any]) -> cgroups.CgroupPlaces | None:
        """Its cgroups, None where they cannot be seen from here."""
        pid = int(said.get("State", {}).get("Pid") or 0)
        # Another machine's pid may be some process here; only a path with the container's id in it is the container's.
        if self.address.remote or not pid or not cgroups.pid_is_in(pid, str(said["Id"])):
            return None
        places = cgroups.places_of_pid(pid)
        if places is not None:
            with self._guard:
                self._places[container] = places
        return places

    # ------------------------------------------------------------------------------------------ trees

    def put_tree(self, container: str, target: str, tar: Iterable[bytes]) -> None:
        with translated(f"unpack a tree at {target}"):
            if not self.client.put_archive(container, target, _Chunks(tar)):
                raise EngineFailed(f"the engine could not unpack a tree at {target}")

    def get_tree(self, container: str, source: str) -> Iterable[bytes]:
        """The tar stream of `source`; its names begin with the last part of `source`."""
        with translated(f"read {source}"):
            chunks, _ = self.client.get_archive(container, source, chunk_size=1 << 18)
        return _read_translated(chunks, source)

    def labelled_containers(self, label: str) -> list[tuple[str, Mapping[str, str]]]:
        """`(id, labels)`, stopped ones too; `label` is `NAME` or `NAME=VALUE`, as below."""
        with translated("list containers"):
            found = self.client.containers(all=True, filters={"label": label})
        return [(str(one["Id"]), one.get("Labels") or {}) for one in found]

    def labelled_volumes(self, label: str) -> list[tuple[str, Mapping[str, str]]]:
        with translated("list volumes"):
            found = self.client.volumes(filters={"label": label}).get("Volumes") or ()
        return [(str(one["Name"]), one.get("Labels") or {}) for one in found]

    def labelled_networks(self, label: str) -> list[tuple[str, Mapping[str, str]]]:
        with translated("list networks"):
            found = self.client.networks(filters={"label": label})
        return [(str(one["Id"]), one.get("Labels") or {}) for one in found]

    def remove_network(self, name: str) -> None:
        """Gone already is fine."""
        with translated("remove a network"):
            try:
                self.client.remove_network(name)
            except docker.errors.APIError as error:
                if not is_gone(error):
                    raise

    def image_of(self, container: str) -> str:
        return str(self._inspect(container)["Image"])

    def create_volume(self, name: str, options: Mapping[str, str], labels: Mapping[str, str]) -> None:
        with translated("create a volume"):
            self.client.create_volume(name, driver="local", driver_opts=dict(options), labels=dict(labels))

    def remove_volume(self, name: str) -> None:
        """Gone already is fine."""
        with translated("remove a volume"):
            try:
                self.client.remove_volume(name, force=True)
            except docker.errors.APIError as error:
                if not is_gone(error):
                    raise


def _lacking(error: docker.errors.APIError, runtime: str | None) -> HostRefused | None:
    """The refusals of a create call that are the host's to mend."""
    said = str(error).lower()
    if runtime and "runtime" in said:
        mend = f"register {runtime} in /etc/docker/daemon.json and restart the engine"
        return HostRefused(f"the engine has no runtime {runtime!r}: {shortened(error)}", mend=mend, reason="runtime")
    if "init binary not found" in said:
        return HostRefused("podman has no init program", mend="apt-get install catatonit", reason="init")
    return None


class _Chunks:
    """An iterable that requests sends chunked; a bare generator would do, but not for its type."""

    def __init__(self, parts: Iterable[bytes]):
        self._parts = parts

    def __iter__(self) -> Any:
        return iter(self._parts)


def _read_translated(chunks: Iterable[bytes], source: str) -> Iterable[bytes]:
    with translated(f"read {source}"):
        yield from chunks


def _as_asked(held: float, asked: float) -> float:
    """The quota is whole microseconds: within one of them, what holds is what was asked."""
    return asked if abs(held - asked) * CPU_PERIOD_US <= 1.0 else held


def connect(address: str | None = None, runtime: str | None = None) -> DockerEngine:
    """The engine of `address`, `DOCKER_HOST` or this machine. Raises HostRefused with the one command that mends it."""
    where = engine_address(address)
    client, api, version = open_client(where)
    return DockerEngine(client, where, api, version, runtime)
