"""Energy counters that wrap: exact differences, and the cases in which there is none.

The powercap driver gives `energy_uj = raw * unit_nJ // 1000` and `max_energy_range_uj = (2^32 - 1) * unit_nJ // 1000`
(Linux, intel_rapl_common.c); both are undone exactly here, so that a wrap costs no count. What is no certain difference
is a `Gap` with its reason, never a number.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

_RAW_MAX: Final = 2**32 - 1
_STALE_AFTER_NS: Final = 10_000_000
GapReason = Literal["reset", "implausible", "gap_longer_than_wrap", "out_of_range", "decrease_without_range"]


@dataclass(frozen=True)
class Scale:
    """How a counter's microjoules map to its raw counts."""

    max_range_uj: int | None
    """None where the file could not be read: then no wrap can be told from a reset."""
    unit_nj: int = field(init=False)
    exact: bool = field(init=False)
    """Whether the range is one of a 32-bit raw count; otherwise the microjoules themselves are counted."""
    period_nj: int | None = field(init=False)
    """What one turn of the counter is worth."""

    def __post_init__(self) -> None:
        unit = 1000 if self.max_range_uj is None else -(-self.max_range_uj * 1000 // _RAW_MAX)
        exact = self.max_range_uj is not None and unit > 0 and _RAW_MAX * unit // 1000 == self.max_range_uj
        object.__setattr__(self, "unit_nj", unit if exact else 1000)
        object.__setattr__(self, "exact", exact)
        period = None if self.max_range_uj is None else (self.max_range_uj + 1) * 1000
        object.__setattr__(self, "period_nj", (_RAW_MAX + 1) * unit if exact else period)

    def count(self, uj: int) -> int:
        """The raw count behind a reading (2^32 - 1 at the most, where exact)."""
        return -(-uj * 1000 // self.unit_nj)

    def nanojoules(self, uj: int) -> int:
        return self.count(uj) * self.unit_nj


@dataclass(frozen=True)
class Delta:
    """Energy between two readings."""

    energy_nj: int
    dt_ns: int
    stale: bool = False
    """Unchanged over more than 10 ms although some power was expected."""


@dataclass(frozen=True)
class Gap:
    """No energy can be told between two readings."""

    reason: GapReason
    dt_ns: int
    bounds_nj: tuple[int, int] | None = None
    """`gap_longer_than_wrap` only: the least and the most that fit the two readings and the plausible power."""


def difference(
    scale: Scale,
    prev_uj: int,
    cur_uj: int,
    dt_ns: int,
    most_uw: int,
    *,
    update_ns: int = 0,
    power_expected: bool = False,
) -> Delta | Gap:
    """Between two readings `dt_ns` > 0 apart; `most_uw` is the greatest plausible power of the zone.

    A decrease is a wrap only if the power it means is plausible, else somebody reset the counter. What a counter adds
    every `update_ns` may all fall between two readings that are closer than that.
    """
    if dt_ns <= 0:
        raise ValueError("two readings at one moment have no difference: merge them with the next")
    certain = certain_nj(scale, prev_uj, cur_uj, dt_ns, most_uw, update_ns)
    if certain is not None:
        return _delta(certain, dt_ns, power_expected)
    return gap_of(scale, prev_uj, cur_uj, dt_ns, most_uw, update_ns)


def gap_of(  # noqa: PLR0917  as `difference`
    scale: Scale, prev_uj: int, cur_uj: int, dt_ns: int, most_uw: int, update_ns: int
) -> Gap:
    """Why two readings have no certain difference."""
    period = scale.period_nj
    if scale.max_range_uj is not None and not 0 <= cur_uj <= scale.max_range_uj:
        return Gap("out_of_range", dt_ns)
    plausible_nj = most_uw * (dt_ns + update_ns) // 10**6
    if period is None:
        return Gap("decrease_without_range" if cur_uj < prev_uj else "implausible", dt_ns)
    if plausible_nj >= period:
        energy = (scale.nanojoules(cur_uj) - scale.nanojoules(prev_uj)) % period
        turns = max(0, plausible_nj - energy) // period
        return Gap("gap_longer_than_wrap", dt_ns, (energy, energy + turns * period))
    return Gap("reset" if cur_uj < prev_uj else "implausible", dt_ns)


def certain_nj(  # noqa: PLR0917  as `difference`
    scale: Scale, prev_uj: int, cur_uj: int, dt_ns: int, most_uw: int, update_ns: int
) -> int | None:
    """The nanojoules between two readings; None where there is a gap, and `gap_of` says which."""
    most, unit_nj, period = scale.max_range_uj, scale.unit_nj, scale.period_nj
    # Rounded up each: the raw counts.
    energy = (-(-cur_uj * 1000 // unit_nj) + -prev_uj * 1000 // unit_nj) * unit_nj
    plausible_nj = most_uw * (dt_ns + update_ns) // 10**6
    if period is None or most is None:
        return energy if cur_uj >= prev_uj and energy <= plausible_nj else None
    energy %= period
    return energy if 0 <= cur_uj <= most and energy <= plausible_nj < period else None


def safe_period_ns(scale: Scale, most_uw: int) -> int | None:
    """Longest time between readings that we allow: a quarter of the shortest wrap; None where the range is unknown."""
    return None if scale.period_nj is None else scale.period_nj * 10**6 // (4 * most_uw)


@dataclass(frozen=True)
class Series:
    """A counter read again and again. `advance` gives the next state and what the reading added.

    The nanojoules that no whole microjoule holds are carried on: the microjoules of a window sum to the floor of its
    nanojoules.
    """

    scale: Scale
    most_uw: int
    update_ns: int = 0
    last_uj: int | None = None
    last_ns: int = 0
    carry_nj: int = 0

    def advance(self, uj: int, at_ns: int) -> tuple[Series, Delta | Gap | None]:
        """None: the first reading (a baseline, no energy), or one at the moment of the last (merged with the next)."""
        if self.last_uj is None:
            return Series(self.scale, self.most_uw, self.update_ns, uj, at_ns, self.carry_nj), None
        if at_ns <= self.last_ns:
            return self, None
        dt_ns = at_ns - self.last_ns
        step = difference(
            self.scale, self.last_uj, uj, dt_ns, self.most_uw, update_ns=self.update_ns, power_expected=True
        )
        if isinstance(step, Gap) and step.reason == "out_of_range":
            # The reading is no reading: the next one is compared with the last good one.
            return self, step
        return Series(self.scale, self.most_uw, self.update_ns, uj, at_ns, self.carry_nj), step

    def microjoules(self, step: Delta) -> tuple[Series, int]:
        """Whole microjoules of a step with what was carried, and the state that carries the rest."""
        whole, rest = divmod(self.carry_nj + step.energy_nj, 1000)
        return Series(self.scale, self.most_uw, self.update_ns, self.last_uj, self.last_ns, rest), whole


def _delta(energy_nj: int, dt_ns: int, power_expected: bool) -> Delta:
    return Delta(energy_nj, dt_ns, stale=energy_nj == 0 and dt_ns > _STALE_AFTER_NS and power_expected)
