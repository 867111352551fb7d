"""One zone read again and again: steps of energy, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from appliance.energy.counter import CounterZone
from appliance.energy.counters import Scale, certain_nj, gap_of
from appliance.energy.sentinels import is_sentinel

_STALE_NS: Final = 10_000_000
# Power is not counted between readings: what lies between two that are further apart than this nobody knows.
_LONGEST_POWER_GAP_PERIODS: Final = 10
_HALF_PJ_IN_UJ: Final = 2_000_000
_FAST_STEPS: Final = 10
"""Updates that a sample must span, at the least, for its energy to be split by itself."""


@dataclass(frozen=True, slots=True)
class Step:
    """Energy between two readings of a zone."""

    since_ns: int
    until_ns: int
    energy_uj: int


@dataclass(frozen=True, slots=True)
class Break:
    """No number between two readings; `bounds_uj` where the counter may have turned more than once."""

    reason: str
    since_ns: int
    until_ns: int
    bounds_uj: tuple[int, int] | None = None


def is_slow(zone: CounterZone, period_ns: int) -> bool:
    """Whether a window sampled every `period_ns` is split as one step: NVML's 100 ms at 10 Hz is, RAPL's 1 ms not."""
    return _FAST_STEPS * zone.update_period_ns > period_ns


def scale_of(zone: CounterZone) -> Scale:
    """Of a counter of energy. Millijoules are counted as microjoules, so that their last count is worth one too."""
    if zone.unit == "mj" and zone.max_range is not None:
        return _scale(zone.max_range * 1000 + 999)
    return _scale(zone.max_range)


@lru_cache(maxsize=64)
def _scale(max_range_uj: int | None) -> Scale:
    return Scale(max_range_uj)


class ZoneSeries:
    """`advance` takes each reading in order of time, None where there was none; `flags` says what was odd."""

    def __init__(self, zone: CounterZone, period_ns: int):
        self.zone = zone
        self.flags: set[str] = set()
        self.last_ns: int | None = None
        """Of the last reading that was one."""
        self.began_ns: int | None = None
        self.last_raw = 0
        self.only_zero = True
        """Every reading was 0 itself."""
        self.moved = False
        """Some step had energy."""
        self.began_blind = False
        """It was there before it could be read."""
        self.power_gap_ns = _LONGEST_POWER_GAP_PERIODS * max(period_ns, zone.update_period_ns)
        self._counts = zone.unit != "mw"
        self._update_ns = zone.update_period_ns
        self._factor = 1000 if zone.unit == "mj" else 1
        self._scale = scale_of(zone)
        self._stale_ns = max(_STALE_NS, 10 * zone.update_period_ns)
        self._gap = False
        self._carry = 0
        """Of what is no whole microjoule: nanojoules, or half picojoules of power."""

    @property
    def unit_nj(self) -> int:
        """What one count is worth: the counter's resolution; 0 for power."""
        if self.zone.unit == "mw":
            return 0
        return self._scale.unit_nj * self._factor

    def advance(self, raw: int | None, at_ns: int) -> Step | Break | None:
        """None: the first reading, none at all, or one at the moment of the last (merged with the next)."""
        # A counter of energy passes any number on its way, and its range is checked; power stands at no sentinel.
        if raw is not None and (raw < 0 or (self.zone.unit == "mw" and is_sentinel(raw, power=True))):
            self.flags.add("implausible")
            raw = None
        if raw is None:
            self._gap = True
            self.began_blind = self.began_blind or self.began_ns is None
            return None
        step = self._power(raw, at_ns) if self.zone.unit == "mw" else self._energy(raw, at_ns)
        if isinstance(step, Step):
            self.moved = self.moved or step.energy_uj > 0
        return step

    def step_uj(self, raw: int | None, at_ns: int) -> int | None:
        """What `advance` says of a reading that nothing is odd about, without an object for it: the energy since
        `last_ns`. None: nothing was taken, and `advance` has to say.

        A window's every reading comes through here; a property test holds it to `advance`.
        """
        since_ns = self.last_ns
        if raw is None or raw < 0 or since_ns is None or at_ns <= since_ns or self._gap or not self._counts:
            return None
        dt_ns = at_ns - since_ns
        scale, most_uw, factor, before = self._scale, self.zone.most_uw, self._factor, self.last_raw
        energy_nj = certain_nj(scale, before * factor, raw * factor, dt_ns, most_uw, self._update_ns)
        if energy_nj is None or (energy_nj == 0 and dt_ns > self._stale_ns):
            return None
        self.last_ns, self.last_raw = at_ns, raw
        if raw:
            self.only_zero = False
        whole, self._carry = divmod(self._carry + energy_nj, 1000)
        if whole:
            self.moved = True
        return whole

    @property
    def in_gap(self) -> bool:
        """The last reading was none."""
        return self._gap

    def _took(self, raw: int, at_ns: int) -> None:
        if self.began_ns is None:
            self.began_ns = at_ns
        elif self._gap:
            self.flags |= {"gap", "bridged"}
        self._gap = False
        self.last_ns, self.last_raw = at_ns, raw
        if raw:
            self.only_zero = False

    def _energy(self, raw: int, at_ns: int) -> Step | Break | None:
        """The same as `counters.Series`, which a property test holds it to, without a state anew for every reading."""
        since_ns = self.last_ns
        if since_ns is None:
            self._took(raw, at_ns)
            return None
        if at_ns <= since_ns:
            return None
        zone, factor = self.zone, self._factor
        before_uj, now_uj = self.last_raw * factor, raw * factor
        energy_nj = certain_nj(self._scale, before_uj, now_uj, at_ns - since_ns, zone.most_uw, zone.update_period_ns)
        if energy_nj is not None:
            self._took(raw, at_ns)
            if energy_nj == 0 and at_ns - since_ns > self._stale_ns:
                self.flags.add("stale")
            whole, self._carry = divmod(self._carry + energy_nj, 1000)
            return Step(since_ns, at_ns, whole)
        step = gap_of(self._scale, before_uj, now_uj, at_ns - since_ns, zone.most_uw, zone.update_period_ns)
        if step.reason == "out_of_range":
            self.flags.add("out_of_range")
            self._gap = True
            return None
        self._took(raw, at_ns)
        self.flags -= {"bridged"}
        reason = "reset" if step.reason == "decrease_without_range" else step.reason
        self.flags |= {"gap", reason}
        bounds = None if step.bounds_nj is None else (step.bounds_nj[0] // 1000, -(-step.bounds_nj[1] // 1000))
        return Break(reason, since_ns, at_ns, bounds)

    def _power(self, raw: int, at_ns: int) -> Step | Break | None:
        """The trapezoid between two readings of milliwatts (row G4)."""
        if raw * 1000 > self.zone.most_uw:
            self.flags.add("implausible")
            self._gap = True
            return None
        since_ns, before = self.last_ns, self.last_raw
        if since_ns is not None and at_ns <= since_ns:
            return None
        gap = self._gap
        self._took(raw, at_ns)
        if since_ns is None:
            return None
        if gap and at_ns - since_ns > self.power_gap_ns:
            self.flags -= {"bridged"}
            return Break("gap", since_ns, at_ns)
        # Milliwatts by nanoseconds are picojoules; twice that, for the mean of two.
        whole, self._carry = divmod(self._carry + (before + raw) * (at_ns - since_ns), _HALF_PJ_IN_UJ)
        return Step(since_ns, at_ns, whole)
