"""The messages of the meter's socket, version 1 (formats 5; published as meter-messages-v1). Standard library only.

Field names on the wire are lowerCamelCase of those here; `parsing` makes requests of what arrives.
"""

from __future__ import annotations

import errno
import json
from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache
from typing import Any, Final, Literal

from appliance.energy.counter import AbsentZone, CounterZone
from appliance.energy.readings import GpuSharing

MAX_BYTES: Final = 64 * 1024
"""Of one request, its line feed not counted."""
Code = Literal["bad_message", "bad_version", "unknown_window", "not_yours", "too_many", "no_counter"]
Role = Literal["solver", "forwarder", "model", "judge", "harness"]
Driver = Literal["cgroupfs", "systemd"]


class Refused(Exception):
    """Answered with `{"error": {"code", "message"}}`; the connection stays."""

    def __init__(self, code: Code, message: str):
        super().__init__(message)
        self.code = code
        self.message = message


def refused_by_the_host(error: BaseException, what: str) -> Refused:
    """The kernel's word on a cgroup, a file, a memory file: `too_many` where it is one of number, else `no_counter`."""
    cause = error if isinstance(error, OSError) else error.__cause__
    scarce = isinstance(cause, OSError) and cause.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC)
    return Refused("too_many" if scarce else "no_counter", f"{what}: {error}")


# ---------------------------------------------------------------------------------------------- requests


@dataclass(frozen=True)
class Adopt:
    pid: int
    """Of any process in the container, as the host numbers it."""


@dataclass(frozen=True)
class Prepare:
    op: Literal["prepare"]
    v: Literal[1]
    run: str
    trial: int | None = None
    """Index over all plans; None: roles `harness` and `model` are the run's own, and no role is the machine at rest."""
    roles: tuple[Role, ...] = ()
    driver: Driver = "cgroupfs"
    adopt: Adopt | None = None
    """A running container, in place of roles."""


@dataclass(frozen=True)
class Open:
    op: Literal["open"]
    v: Literal[1]
    handle: str
    label: str | None = None
    inside: str | None = None
    """The window of this handle that it lies in."""
    gpu_sharing: GpuSharing = "device_total"
    """What the readings are to say of boards on which others are too; of no window that lies in another."""


@dataclass(frozen=True)
class Close:
    op: Literal["close"]
    v: Literal[1]
    window: str


@dataclass(frozen=True)
class Release:
    op: Literal["release"]
    v: Literal[1]
    handle: str


@dataclass(frozen=True)
class Status:
    op: Literal["status"]
    v: Literal[1]


@dataclass(frozen=True)
class Watch:
    op: Literal["watch"]
    v: Literal[1]


Request = Prepare | Open | Close | Release | Status | Watch


# ---------------------------------------------------------------------------------------------- answers


@dataclass(frozen=True)
class Problem:
    code: Code
    message: str


@dataclass(frozen=True)
class Error:
    error: Problem


@dataclass(frozen=True)
class Prepared:
    handle: str
    cgroups: dict[str, str]
    """Role -> what the engine takes as `cgroup_parent`; `container` -> the kernel path of an adopted one."""


@dataclass(frozen=True)
class Opened:
    window: str
    counters: tuple[str, ...]
    """Keys of the zones that are read."""
    opened_at: str


@dataclass(frozen=True)
class Closed:
    closed_at: str


@dataclass(frozen=True)
class Named:
    """readings-v1; the bytes come as a file descriptor beside the line."""

    sha256: str
    bytes: int


@dataclass(frozen=True)
class Released:
    readings: Named | None
    """None: no window was opened on this handle."""
    flags: tuple[str, ...]


@dataclass(frozen=True)
class StatusAnswer:
    version: str
    counters: tuple[CounterZone, ...]
    absent: tuple[AbsentZone, ...]
    windows: int
    """Open now, inner ones too."""
    handles: int
    watchers: int
    gaps: dict[str, int]
    """Readings that failed since the daemon began, by the error's name."""
    cpu_seconds: float
    """Of the daemon itself."""
    period_ns: int
    cpu_unit: Literal["us", "ns"]
    started_at: str
    pid: int
    discovery: Literal["off", "inotify", "looking"] = "off"
    """How containers are found that nobody prepared: `off` while nobody watches; `looking`, once a second, where the
    kernel does not tell."""


@dataclass(frozen=True)
class WatchedCgroup:
    id: str
    role: str
    run: str | None
    trial: int | None
    path: str


@dataclass(frozen=True)
class WatchedEvent:
    """As in readings-v1."""

    event: str
    subject: str | None = None
    word: str | None = None
    number: int | None = None
    cgroups: tuple[str, ...] = ()


@dataclass(frozen=True)
class WatchLine:
    """One second. Whole by itself; raw numbers, never joules."""

    version: str
    boot_id: str
    """sha256 of the kernel's boot id."""
    boottime_ns: str
    monotonic_ns: str
    skew_ns: int
    cpus: int
    tick_ns: int
    cpu_unit: Literal["us", "ns"]
    period_ns: int
    zones: tuple[CounterZone, ...]
    absent: tuple[AbsentZone, ...]
    cgroups: tuple[WatchedCgroup, ...]
    raw: tuple[str | None, ...]
    """Zones, the machine's CPU time, cgroups, in this order."""
    events: tuple[WatchedEvent, ...]
    gaps: dict[str, int]
    cpu_seconds: float
    windows: int


Answer = Error | Prepared | Opened | Closed | Released | StatusAnswer | WatchLine


# ---------------------------------------------------------------------------------------------- encoding


_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def encode(answer: Answer) -> bytes:
    """One line. What a watched event does not say is left out, as in readings-v1; elsewhere null is said.

    A cgroup's name may be any bytes, and a request may hold half a character: said with `?`, never a reason to end.
    """
    return _ENCODER.encode(_to_json(answer)).encode(errors="replace") + b"\n"


def refusal(problem: Refused) -> bytes:
    return encode(Error(Problem(problem.code, problem.message)))


def _to_json(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        named = {wire: _to_json(getattr(value, name)) for name, wire in _names(type(value))}
        if isinstance(value, WatchedEvent):
            return {name: one for name, one in named.items() if one is not None and one != []}
        return named
    if isinstance(value, dict):
        # Its keys are names of others (roles, errors), not ours.
        return {key: _to_json(one) for key, one in value.items()}
    return [_to_json(one) for one in value] if isinstance(value, list | tuple) else value


@lru_cache(maxsize=64)
def _names(kind: type[Any]) -> tuple[tuple[str, str], ...]:
    """Of a message's fields, here and on the wire."""
    return tuple((one.name, _camel(one.name)) for one in fields(kind))


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)
