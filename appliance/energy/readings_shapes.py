"""The shapes of readings-v1 and their bounds; what they are as bytes stands in `readings`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from appliance.energy.counter import AbsentZone, CounterZone

SCHEMA: Final = "readings-v1"
MAX_LINE_BYTES: Final = 1024 * 1024
MAX_BYTES: Final = 4 * 1024 * 1024 * 1024
"""Of one window once unpacked: a day of 10 Hz with a hundred cgroups."""
MAX_ZONES: Final = 512
MAX_CGROUPS: Final = 4096
MAX_INNER: Final = 4096
MAX_INNER_AT_ONCE: Final = 256
MAX_EVENTS: Final = 4096
"""Before one sample."""
CpuUnit = Literal["us", "ns"]
EventKind = Literal["gap", "suspend", "cpus", "gpu", "late", "zone_gone", "sm"]
GpuSharing = Literal["device_total", "sm_utilisation"]
"""What is told of a board on which others were too: its total, or shares by the utilisation of its SMs."""


@dataclass(frozen=True)
class ReadCgroup:
    """One cgroup whose CPU time was read."""

    id: str
    role: str
    """`solver`, `forwarder`, `model`, `judge`, `harness`, `meter`, or `container` for one that is none of ours."""
    trial: str | None
    """`own`; an opaque id for another trial; `run`: the run's model server, which is the trial's own while one of its
    exchanges is in flight; None for what belongs to none."""


@dataclass(frozen=True)
class InnerWindow:
    """A case or exchange inside the window; nanoseconds since the window opened."""

    label: str
    opened_ns: int
    closed_ns: int


@dataclass(frozen=True)
class Header:
    run: str
    trial: int | None
    """Index over all plans; None for what is no trial (idle, harness)."""
    meter: str
    """Name and version of what read."""
    opened_at: str
    """The wall clock's word, a label only."""
    boot_id: str
    """sha256 of the kernel's boot id: two windows of one boot may be set against each other."""
    opened_boottime_ns: str
    """CLOCK_BOOTTIME at the opening, decimal."""
    length_ns: int
    """From the opening to the close, both in the middle of their reading."""
    open_skew_ns: int
    """How long the opening's reading took, from its first counter to its last."""
    close_skew_ns: int
    period_ns: int
    cpus: int
    tick_ns: int
    cpu_unit: CpuUnit
    """Of the machine's and every cgroup's CPU time, all from one source."""
    zones: tuple[CounterZone, ...]
    cgroups: tuple[ReadCgroup, ...]
    absent: tuple[AbsentZone, ...] = ()
    inner: tuple[InnerWindow, ...] = ()
    strangers_at_close: bool = False
    """At the close the solver's cgroup held a process that was not there at the opening."""
    cpu_after_close_ns: int | None = None
    """Of the solver's cgroup, from the close till the release; None: not readable."""
    flags: tuple[str, ...] = ()
    """Of the reading itself: `cgroup_left`, `thinned`, `client_died`, `ended_early`."""
    gpu_sharing: GpuSharing = "device_total"


@dataclass(frozen=True)
class Event:
    kind: EventKind
    subject: str | None = None
    """A zone's id, where it is of one."""
    word: str | None = None
    """gap: the error's name; gpu: `mig` or `mps`; sm: the error's name, where the driver told no utilisation."""
    number: int | None = None
    """suspend, late: nanoseconds; cpus: how many are online; gpu: processes of none of our cgroups; sm: percent of a
    sampling period of the driver's, of all processes of one cgroup or of none of ours."""
    cgroups: tuple[str, ...] = ()
    """gpu: ids of ours that are on it; sm: the one that it is of, or none."""


@dataclass(frozen=True)
class Sample:
    """Raw numbers of one moment by id, None where nothing was read. A block begins at the moment of the last sample."""

    at_ns: int
    zones: dict[str, int | None]
    machine: int | None
    cgroups: dict[str, int | None]
    events: tuple[Event, ...] = ()


class Malformed(ValueError):
    """No readings of ours: the message names the line."""
