"""What a bench needs of its host: one pure function a part, each finding with the one command that mends it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from appliance import mends
from appliance.cgroups import Hierarchies
from appliance.errors import HostRefused, Refusal
from appliance.records.record import Check, EngineStamp

Level = Literal["ok", "info", "warn", "error"]
"""`error`: something that every run needs is missing; `warn`: some runs lack something, or figures blur."""
LEAST_FREE_MIB: Final = 1024
ENOUGH_FREE_MIB: Final = 8 * 1024
_OLDEST_DOCKER: Final = (20, 10)
_OLDEST_PODMAN: Final = (4, 3)
_REQUIREMENT: Final = re.compile(r"([A-Za-z0-9._-]+)\s*(?:>=\s*([0-9.]+))?")


@dataclass(frozen=True)
class Finding:
    part: str
    """`engine`, `cgroups`, `meter`, `counters`, `signing`, `disk`, `noise`, `images`, `python`, `platform`,
    `builders`."""
    level: Level
    message: str
    mend: str | None = None


def refuse_foreign_platform(system: str, machine: str) -> None:
    """Images, locks and the seccomp profile are for x86-64 Linux; everything else raises HostRefused at once."""
    if system != "Linux" or machine not in ("x86_64", "AMD64"):
        raise HostRefused(
            f"this is {system} on {machine}; the bench runs on Linux on x86-64 only",
            mend="use an x86-64 Linux machine",
            reason="platform",
        )


def engine(stamp: EngineStamp) -> Iterable[Finding]:
    """Of an engine that answers; one that does not is a HostRefused of the adapter's, for `refused`."""
    yield Finding("engine", "ok", f"{stamp.name} {stamp.version}, {stamp.storage_driver}, {stamp.runtime}")
    oldest = _OLDEST_PODMAN if stamp.name == "podman" else _OLDEST_DOCKER
    if _version(stamp.version)[:2] < oldest:
        wanted = ".".join(str(part) for part in oldest)
        message = f"{stamp.name} {stamp.version} is older than {wanted}, the oldest that was tried"
        yield Finding("engine", "warn", message, "apt-get install --only-upgrade docker.io")
    if stamp.remote:
        message = "the engine is remote: CPU time comes from its statistics, joules are estimates"
        yield Finding("engine", "warn", message, "unset DOCKER_HOST")
    if stamp.rootless:
        message = "the engine is rootless: CPU time comes from its statistics, joules are estimates"
        yield Finding("engine", "warn", message, "unset DOCKER_HOST")


def bridge(stamp: EngineStamp, interfaces: Iterable[str], restart: str) -> Iterable[Finding]:
    """docker0 goes when somebody flushes the network; trials have none, yet a daemon without it is half dead."""
    local = stamp.name == "docker" and not stamp.remote and not stamp.rootless
    if local and "docker0" not in set(interfaces):
        yield Finding("engine", "warn", "the bridge docker0 is missing", restart)


def cgroups(trees: Hierarchies, stamp: EngineStamp | None, *, root: bool, writable: bool) -> Finding:
    """Whose hands the trial's cgroup is in (formats 9)."""
    kind = trees.kind
    if trees.unified is None and trees.v1("cpuacct") is None:
        return Finding("cgroups", "warn", f"{kind}: no CPU time can be read", "mount -t cgroup2 cgroup2 /sys/fs/cgroup")
    if stamp is not None and (stamp.remote or stamp.rootless):
        return Finding("cgroups", "info", f"{kind}: this engine's cgroups are out of reach; its statistics stand in")
    systemd = stamp is not None and stamp.cgroup_driver == "systemd"
    driver = ", systemd driver (untested on a systemd host)" if systemd else ""
    if root and writable:
        return Finding("cgroups", "ok", f"{kind}{driver}: trials get a cgroup of ours, read exactly and removed")
    if root:
        message = f"{kind}{driver}: mounted read-only here, the engine makes the trials' cgroups"
        return Finding("cgroups", "warn", message, mends.as_root("gc"))
    message = f"{kind}{driver}: the engine makes the trials' cgroups, and nobody removes them"
    return Finding("cgroups", "info", message, mends.as_root("gc"))


def leavings(runs: Iterable[str]) -> Iterable[Finding]:
    """Runs whose cgroups are there: live ones among them, which `gc` leaves alone."""
    names = sorted(runs)
    if names:
        shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
        counted = "1 run" if len(names) == 1 else f"{len(names)} runs"
        yield Finding("cgroups", "info", f"cgroups of {counted}, live or cut off: {shown}", "appliance gc")


def counters(found: Sequence[str], reason: str | None, *, privilege: bool, mend: str | None = None) -> Finding:
    """What a run would find: of the meter that answers, else of this host's own files."""
    if found:
        return Finding("counters", "ok", f"{', '.join(found)} can be read: energy will be measured")
    if privilege:
        mend = mend or mends.start_meter()
        return Finding("counters", "warn", f"{reason}: energy will be estimated", mend)
    return Finding("counters", "info", f"{reason}: energy will be estimated")


def meter(where: str, version: str | None, refusal: Refusal | None, *, root: bool) -> Finding:
    """`refusal`: why the daemon at `where` does not answer us; None with no version: there is none."""
    if version is not None:
        return Finding("meter", "ok", f"{version} answers at {where}")
    if refusal is not None:
        return Finding("meter", "warn", f"{refusal.message} ({where})", refusal.mend)
    if root:
        return Finding("meter", "info", "no daemon answers; a run of root's starts its own where there are counters")
    return Finding("meter", "info", "no daemon answers", mends.start_meter())


def signing(initialised: bool) -> Finding:
    if initialised:
        return Finding("signing", "ok", "the local trust root is there")
    return Finding("signing", "info", "no local trust root yet; the first run makes one", "appliance trust init")


def disk(where: str, free_mib: int, mend: str) -> Finding:
    message = f"{free_mib / 1024:.1f} GiB free at {where}"
    if free_mib < LEAST_FREE_MIB:
        return Finding("disk", "error", message, mend)
    if free_mib < ENOUGH_FREE_MIB:
        return Finding("disk", "warn", message, mend)
    return Finding("disk", "ok", message)


def image(name: str, present: bool) -> Finding:
    if present:
        return Finding("images", "ok", f"{name} is in the engine")
    return Finding("images", "warn", f"{name} is not in the engine", f"appliance images load {name}")


def requirements(required: Iterable[str], installed: Callable[[str], str | None]) -> Iterable[Finding]:
    """`required` as the package's own metadata has it; those of extras are nobody's need."""
    mend = "pip install --upgrade bench-appliance"
    lacking = 0
    for line in required:
        found = _REQUIREMENT.match(line)
        if found is None or "extra ==" in line:
            continue
        name, least = found[1], found[2]
        version = installed(name)
        if version is None:
            yield Finding("python", "error", f"{name} is not installed", mend)
        elif least is not None and _version(version) < _version(least):
            yield Finding("python", "error", f"{name} {version} is older than {least}", mend)
        else:
            continue
        lacking += 1
    if not lacking:
        yield Finding("python", "ok", "every package that is needed is installed")


def builders(found: Iterable[str]) -> Finding:
    """Nix is one more way to the same pins, never needed (row I24)."""
    programs = tuple(found)
    if programs:
        return Finding("builders", "info", f"native, {', '.join(programs)}")
    return Finding("builders", "info", "native; neither nix nor nix-portable is on PATH", "apt-get install nix-bin")


def noise(checks: Iterable[Check], *, strict: bool) -> Iterable[Finding]:
    """The checks of fitness: conditions in one line, each warning in its own; `strict` makes warnings errors."""
    checks = tuple(checks)
    unfit = [check for check in checks if check.level != "info"]
    if not unfit:
        yield Finding("noise", "ok", f"quiet: {len(checks)} checks, no warning")
    for check in unfit:
        level: Level = "error" if strict or check.level == "error" else "warn"
        yield Finding("noise", level, f"{check.name}: {check.message}", check.mend)


def refused(part: str, refusal: Refusal) -> Finding:
    """What an adapter refused, as a finding: its message, place and mend."""
    place = f" ({refusal.where})" if refusal.where else ""
    return Finding(part, "error", f"{refusal.message}{place}", refusal.mend)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])
