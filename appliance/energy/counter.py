"""What a counter is to the meter: zones that are read, each described once, each reading a number or its lack.

Standard library only: the privileged daemon imports this, and so does whoever writes a counter of his own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from appliance.energy.grades import Provenance

CounterDomain = Literal["package", "core", "uncore", "dram", "psys", "gpu", "module", "soc", "wall", "other"]
Unit = Literal["uj", "mj", "mw"]
"""What a raw number counts: microjoules or millijoules since some moment, or milliwatts at this moment."""

NANOJOULES: Final[dict[Unit, int]] = {"uj": 1_000, "mj": 1_000_000}
"""Of one count; `mw` is power and counts nothing."""


@dataclass(frozen=True)
class CounterZone:
    """One counter of energy (or of power), as it is described in a window's readings."""

    id: str
    """Unique while the daemon lives; a zone that went and came back is another one (row W13)."""
    key: str
    """How a record names it: `package-0`, `package-0/dram`, `gpu-<uuid>`."""
    path: str
    """What identifies it to the kernel or the driver: `intel-rapl:a`, a GPU's UUID."""
    name: str
    """What the kernel or the board calls it."""
    domain: CounterDomain
    unit: Unit
    max_range: int | None
    """Greatest raw number before it wraps, in its unit; None: not known, or it never wraps.

    A decrease is a gap then.
    """
    most_uw: int
    """Greatest plausible power."""
    update_period_ns: int
    shortest_window_ns: int
    source: str
    """The counter that reads it, with its version: `powercap`, `nvml 13.590.48`, `pyRAPL 0.2.3.1`."""
    provenance: Provenance
    claimed: Provenance | None = None
    """What a simulated counter posed as."""
    summed: bool = True
    """Part of the machine's total; else a cross-check or a part of another zone, which is never added."""
    flags: tuple[str, ...] = ()
    """Of the zone itself: `mirrored_dies`, `sgx_energy_filtering_possible`."""


@dataclass(frozen=True)
class AbsentZone:
    """One that is there and cannot be used, with the reason (`EACCES`, `duplicate of package-0`) and the mend."""

    path: str
    reason: str
    mend: str | None = None


@dataclass(frozen=True)
class Occupancy:
    """Who is on a GPU at this moment. Pids are the host's."""

    zone: str
    pids: frozenset[int]
    sharing: Literal["mig", "mps", "unknown"] | None = None
    """Clients that no pid tells apart; `unknown`: the list itself could not be read, which is not nobody."""


@dataclass(frozen=True)
class Utilised:
    """Who used a GPU's SMs in the driver's sampling periods since the last time it was asked."""

    zone: str
    percent: Mapping[int, int]
    """By the host's pid; empty where nobody did, or no period ended since."""
    lack: str | None = None
    """The error's name, where it could not be told."""


Reading = int | str
"""A raw number, or the name of the error that stood in its place (`EIO`, `ENODEV`, `GPU_IS_LOST`): a gap, never 0."""


class Counter(Protocol):
    """A source of readings. None of its methods raises for a counter that fails: the failure is a reading."""

    name: str

    def zones(self) -> tuple[CounterZone, ...]:
        """In a fixed order until `rescan` says otherwise."""
        ...

    def absent(self) -> tuple[AbsentZone, ...]: ...

    def read(self) -> Sequence[Reading]:
        """One for each of `zones()`, in that order."""
        ...

    def rescan(self) -> bool:
        """Look for zones anew (after ENODEV, and every 30 s); True where `zones()` has changed."""
        ...

    def occupancy(self) -> Sequence[Occupancy]:
        """Of GPUs; empty elsewhere."""
        ...

    def close(self) -> None: ...
