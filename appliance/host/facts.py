"""What this machine is: the facts that a record stamps, read from injectable roots."""

from __future__ import annotations

import platform
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from appliance.cgroups import Hierarchies, parse_mountinfo
from appliance.digests import sha256_hex
from appliance.energy.cpus import parse_cpuinfo
from appliance.records.record import Check, EngineStamp, HostStamp
from appliance.records.words import NOISE

# Salts the digest, so that it cannot be looked up among digests of machine ids made elsewhere.
_ID_SALT: Final = b"bench-appliance host "
UNKNOWN: Final = "unknown"


@dataclass(frozen=True)
class Roots:
    """Where the kernel's and the distribution's files lie; a test plants its own."""

    proc: Path = Path("/proc")
    sys: Path = Path("/sys")
    etc: Path = Path("/etc")
    var: Path = Path("/var")


@dataclass(frozen=True)
class Facts:
    id: str
    cpu: str
    cores: int
    """Online logical CPUs."""
    memory_mib: int
    kernel: str
    os: str
    gpus: tuple[str, ...]
    cgroups: Hierarchies = field(default_factory=lambda: Hierarchies(()))


def read_facts(roots: Roots = Roots()) -> Facts:  # frozen, only paths
    processor = parse_cpuinfo(text(roots.proc / "cpuinfo") or "")
    return Facts(
        id=_machine_id(roots),
        cpu=processor.brand or platform.machine() or UNKNOWN,
        cores=processor.threads,
        memory_mib=_memory_mib(text(roots.proc / "meminfo") or ""),
        kernel=(text(roots.proc / "sys" / "kernel" / "osrelease") or UNKNOWN).strip(),
        os=_pretty_name(text(roots.etc / "os-release") or ""),
        gpus=_gpus(roots),
        cgroups=parse_mountinfo(text(roots.proc / "self" / "mountinfo") or ""),
    )


def host_stamp(facts: Facts, engine: EngineStamp, fitness: tuple[Check, ...]) -> HostStamp:
    return HostStamp(
        id=facts.id,
        cpu=facts.cpu,
        cores=facts.cores,
        memory_mib=facts.memory_mib,
        gpus=facts.gpus,
        kernel=facts.kernel,
        cgroup=facts.cgroups.kind,
        engine=engine,
        os=facts.os,
        fitness=fitness,
        noisy=any(check.name in NOISE and check.level != "info" for check in fitness),
    )


def text(path: Path) -> str | None:
    """A small file of the kernel's; None where it is absent or unreadable."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def number(path: Path) -> int | None:
    try:
        return int((text(path) or "").strip())
    except ValueError:
        return None


def _machine_id(roots: Roots) -> str:
    """Equal on the same installation; the fallback (no machine-id in a container) is equal on alike machines."""
    for path in (roots.etc / "machine-id", roots.var / "lib" / "dbus" / "machine-id"):
        found = (text(path) or "").strip()
        if found and found != "uninitialized":
            return sha256_hex(_ID_SALT + found.encode())[:32]
    return sha256_hex(_ID_SALT + b"without id " + (text(roots.proc / "cpuinfo") or "").encode()[:4096])[:32]


def _memory_mib(meminfo: str) -> int:
    for line in meminfo.splitlines():
        words = line.split()
        if words[:1] == ["MemTotal:"] and len(words) > 1:
            return int(words[1]) // 1024
    return 0


def _pretty_name(os_release: str) -> str:
    for line in os_release.splitlines():
        key, _, value = line.partition("=")
        if key == "PRETTY_NAME":
            return value.strip().strip("\"'")
    return UNKNOWN


def _gpus(roots: Roots) -> tuple[str, ...]:
    """NVIDIA cards by their driver's own listing, in the order of their bus addresses; no library is loaded."""
    names = []
    for folder in sorted((roots.proc / "driver" / "nvidia" / "gpus").glob("*")):
        for line in (text(folder / "information") or "").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "Model":
                names.append(value.strip())
    return tuple(names)
