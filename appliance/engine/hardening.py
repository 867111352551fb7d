"""What every container of ours looks like to the engine: the same walls for all, limits by task (row I16)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from appliance.ports import ROLE_LABEL, ContainerSpec, Mount

HOME = "/home/bench"
HOSTNAME = "bench"
ENVIRONMENT = {"HOME": HOME, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "UTC", "HOSTNAME": HOSTNAME}
CPU_PERIOD_US = 100_000
MIB = 1 << 20
OPEN_FILES = 4096
PROCESSES = 32_768
"""Of one user on the whole host, so no limit of a trial's: that is its cgroup's."""
SHARED_MEMORY_MIB = 64
FILE_SLACK_MIB = 64
"""A file may be this much larger than the disk, so that a writer meets a full disk before its file size limit."""

MASKED = (
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/class/powercap",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
)
"""Hidden: kernel memory, keys, other tenants' timers, and the energy counters (a side channel, and what we measure)."""
READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")


PROFILE = Path(__file__).parent / "seccomp.json"


@cache
def seccomp_option(*, podman: bool) -> str:
    """Docker takes the profile itself, podman the path of a file beside it."""
    if podman:
        return f"seccomp={PROFILE}"
    profile = json.loads(PROFILE.read_text(encoding="utf-8"))
    return f"seccomp={json.dumps(profile, separators=(',', ':'))}"


def scratch_mib(memory_mib: int) -> int:
    """Size of /tmp and of HOME: both are charged to the container's memory, so a quarter of it each."""
    return max(16, memory_mib // 4)


def container_body(spec: ContainerSpec, *, runtime: str | None = None, podman: bool = False) -> dict[str, Any]:
    """The body of the create call. `spec.mounts` may replace a tmpfs of ours by mounting at the same target."""
    limits = spec.limits
    size = scratch_mib(limits.memory_mib)
    taken = {mount.target for mount in spec.mounts}
    tmpfs = {
        "/tmp": f"rw,exec,nosuid,nodev,size={size}m,mode=1777",  # noqa: S108 - the container's
        HOME: f"rw,exec,nosuid,nodev,size={size}m,uid={_number(spec.user)},gid={_number(spec.user)},mode=0700",
    }
    tmpfs = {target: options for target, options in tmpfs.items() if target not in taken}
    tmpfs |= {mount.target: _tmpfs_options(mount) for mount in spec.mounts if mount.kind == "tmpfs"}
    if podman:
        tmpfs = {target: _podman_options(options, spec.user) for target, options in tmpfs.items()}
    memory = limits.memory_mib * MIB
    file_size = (limits.disk_mib + FILE_SLACK_MIB) * MIB
    host: dict[str, Any] = {
        "NetworkMode": _network_mode(spec),
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges:true", seccomp_option(podman=podman)],
        "ReadonlyRootfs": True,
        "Tmpfs": tmpfs,
        "Mounts": [_mount(mount) for mount in spec.mounts if mount.kind != "tmpfs"],
        "Init": spec.init,
        "PidsLimit": limits.pids,
        "Memory": memory,
        "MemorySwap": memory,
        "CpuPeriod": CPU_PERIOD_US,
        "CpuQuota": math.ceil(limits.cpus * CPU_PERIOD_US),
        "Ulimits": [
            {"Name": "nofile", "Soft": OPEN_FILES, "Hard": OPEN_FILES},
            {"Name": "core", "Soft": 0, "Hard": 0},
            {"Name": "fsize", "Soft": file_size, "Hard": file_size},
        ],
        "IpcMode": "private",
        "CgroupnsMode": "private",
        "ShmSize": SHARED_MEMORY_MIB * MIB,
        "OomScoreAdj": 500,
        "LogConfig": {"Type": "none"},
        "RestartPolicy": {"Name": "no"},
        "MaskedPaths": list(MASKED),
        "ReadonlyPaths": list(READ_ONLY),
    }
    if podman:
        # Left out, podman asks for 2^20 of them, which needs more privilege than its service may have.
        host["Ulimits"].append({"Name": "nproc", "Soft": PROCESSES, "Hard": PROCESSES})
    if spec.gpus:
        host["DeviceRequests"] = [{"Driver": "nvidia", "Count": -1, "Capabilities": [["gpu", "compute", "utility"]]}]
    if spec.cgroup_parent:
        host["CgroupParent"] = spec.cgroup_parent
    if runtime:
        host["Runtime"] = runtime
    body = {
        "Image": spec.image,
        "Entrypoint": [],
        "Cmd": list(spec.command),
        "User": spec.user,
        "WorkingDir": spec.workdir,
        "Hostname": HOSTNAME,
        "Env": environment_list({**ENVIRONMENT, **spec.env}),
        "Labels": {**spec.labels, ROLE_LABEL: spec.role},
        "Healthcheck": {"Test": ["NONE"]},
        "NetworkDisabled": spec.network == "none",
        "HostConfig": host,
    }
    if spec.network_of is not None:
        # Its name on the network is the other's, and so is whether there is one.
        del body["Hostname"], body["NetworkDisabled"]
    return body


def _network_mode(spec: ContainerSpec) -> str:
    if spec.network_of is not None:
        return f"container:{spec.network_of}"
    return "none" if spec.network == "none" else "bridge"


def environment_list(environment: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in environment.items()]


def _number(user: str) -> str:
    """The uid of `uid:gid`; names are looked up nowhere."""
    return user.split(":", maxsplit=1)[0]


def _tmpfs_options(mount: Mount) -> str:
    return mount.options or "rw,nosuid,nodev"


def _podman_options(options: str, user: str) -> str:
    """Podman knows no owner of a tmpfs but the container's user (`U`); another's tmpfs it cannot make."""
    words = options.split(",")
    kept = [word for word in words if not word.startswith(("uid=", "gid="))]
    if f"uid={_number(user)}" in words:
        kept.append("U")
    return ",".join(kept)


def _mount(mount: Mount) -> dict[str, Any]:
    body: dict[str, Any] = {
        "Type": mount.kind,
        "Source": mount.source,
        "Target": mount.target,
        "ReadOnly": mount.read_only,
    }
    if mount.kind == "bind":
        # Private: nothing that is mounted later on either side shows on the other.
        body["BindOptions"] = {"Propagation": "rprivate"}
    else:
        body["VolumeOptions"] = {"NoCopy": True}
    return body
