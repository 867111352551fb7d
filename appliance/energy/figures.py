"""The joules of one window, as values: what a record states of it, and what a verifier redoes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from appliance.energy.grades import Basis, Provenance
from appliance.energy.uncertainty import Term


@dataclass(frozen=True)
class ZoneEnergy:
    """Microjoules of one zone over the window; gross = idle + system + own + others, to the microjoule.

    Where the series broke, the figures are None, `missing` says why, and `bounds_uj` are those of gross, if known.
    """

    key: str
    source: str
    provenance: Provenance
    claimed: Provenance | None
    basis: Basis
    summed: bool
    gross_uj: int | None
    idle_uj: int | None
    """None: no valid idle was measured."""
    system_uj: int | None
    others_uj: int | None
    own_uj: Mapping[str, int]
    """The trial's share by role; empty where it is not known."""
    ratio_uj: int | None
    """Gross x the trial's share of the machine's whole CPU capacity, as Kepler's utilisation ratio gives it."""
    uncertainty_uj: int | None
    """Expanded, k = 2."""
    lod_uj: int | None
    missing: str | None
    bounds_uj: tuple[int, int] | None
    flags: tuple[str, ...]
    marginal_uj: int | None = None
    """Gross less idle power by the window's time, 0 where that is less (flag `below_idle`; rows J38, J39).

    Not gross less `idle_uj`, which takes no more from a step than there was.
    """
    terms: tuple[Term, ...] = ()
    """The budget of `uncertainty_uj`, which is of net where there is one, else of gross."""
    below_floor: bool = False
    """The window is shorter than this counter resolves, or it stood still; of a sum, that of its worst (row J41)."""

    @property
    def net_uj(self) -> int | None:
        return sum(self.own_uj.values()) if self.own_uj else None


@dataclass(frozen=True)
class InnerEnergy:
    """A case or exchange inside the window."""

    label: str
    net_uj: int | None
    gross_uj: int | None
    below_floor: bool
    missing: str | None


@dataclass(frozen=True)
class Window:
    """One trial's window. `total` sums the zones that may be summed, worst provenance and basis."""

    wall_ns: int
    cpu_ns: Mapping[str, int | None]
    """Charged, by role of the trial's own cgroups."""
    zones: tuple[ZoneEnergy, ...]
    total: ZoneEnergy | None
    """None: no zone was there at all (`key` is the scope: `package+dram`, `package`, `psys`, `package+gpu`)."""
    inner: tuple[InnerEnergy, ...]
    samples: int
    """Between the opening and the close, both not counted."""
    below_floor: bool
    flags: tuple[str, ...]
