"""What tests of the engine share: the base image, containers that go when the test does, podman's socket."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from appliance.engine.docker import DockerEngine
from appliance.engine.mounting import mounts_under, unmount
from appliance.images.catalog import Catalog
from appliance.images.library import ImageLibrary
from appliance.ports import RUN_LABEL, ContainerSpec, ExecOutcome, ExecSpec, Mount
from appliance.tasks.model import Limits

LIMITS = Limits(wall_seconds=60, cpus=1.0, memory_mib=64, pids=32, disk_mib=16, test_seconds=60)
SCRATCH = Mount("tmpfs", "", "/workspace", options="rw,exec,nosuid,nodev,size=16m,uid=1000,mode=0755")


def new_run(prefix: str = "engine") -> str:
    return f"{prefix}_{os.getpid()}_{time.monotonic_ns() % 10**9}"


def base_image(engine: DockerEngine) -> str:
    pin = Catalog.default().lock("base").pin
    return ImageLibrary(engine).ensure([pin])[pin.config]


@contextlib.contextmanager
def container(
    engine: DockerEngine,
    *,
    mounts: tuple[Mount, ...] = (SCRATCH,),
    limits: Limits = LIMITS,
    run: str | None = None,
    user: str = "1000:1000",
    cgroup_parent: str | None = None,
    started: bool = True,
    command: tuple[str, ...] = ("sleep", "infinity"),
) -> Iterator[str]:
    spec = ContainerSpec(
        image=base_image(engine),
        role="test",
        labels={RUN_LABEL: run or new_run()},
        limits=limits,
        network="none",
        cgroup_parent=cgroup_parent,
        mounts=mounts,
        user=user,
        command=command,
    )
    made = engine.create(spec)
    try:
        if started:
            engine.start(made)
        yield made
    finally:
        engine.remove(made)


def execute(engine: DockerEngine, container: str, argv: Sequence[str], **more: object) -> ExecOutcome:
    return engine.execute(container, ExecSpec(tuple(argv), **({"timeout_seconds": 60.0} | more)))  # type: ignore[arg-type]


def python(engine: DockerEngine, container: str, program: str, **more: object) -> ExecOutcome:
    return execute(engine, container, ("python3", "-c", program), **more)


@contextlib.contextmanager
def podman_service(folder: Path) -> Iterator[str]:
    """The address of a podman with its own storage and socket under `folder`."""
    configuration = folder / "containers.conf"
    init = shutil.which("catatonit") or shutil.which("docker-init") or "/usr/bin/docker-init"
    # Debian's podman only recommends its init; Docker's is the same program for this.
    configuration.write_text(f'[containers]\ninit_path = "{init}"\n[engine]\ninit_path = "{init}"\n')
    socket = folder / "podman.sock"
    command = ["podman", "--root", str(folder / "root"), "--runroot", str(folder / "run")]
    command += ["--cgroup-manager", "cgroupfs", "system", "service", "--time", "0", f"unix://{socket}"]
    environment = {**os.environ, "CONTAINERS_CONF": str(configuration)}
    service = subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(200):
            if socket.exists():
                break
            time.sleep(0.05)
        yield f"unix://{socket}"
    finally:
        service.send_signal(signal.SIGTERM)
        service.wait()
        _end_monitors(folder)
        for point in mounts_under(folder):
            unmount(point)
        shutil.rmtree(folder, ignore_errors=True)


def _end_monitors(folder: Path) -> None:
    """podman's monitor of an exec stays for five minutes after it."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if words[0].endswith(b"/conmon") and any(word.startswith(os.fsencode(folder)) for word in words):
                os.kill(int(entry.name), signal.SIGKILL)
