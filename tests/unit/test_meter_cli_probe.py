"""What `meter probe` says of a counter whose behaviour is known (rows J41, 3.4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from appliance.energy.counter import AbsentZone, CounterZone, Occupancy, Reading
from appliance.energy.series import Step
from appliance.meter.faces.probe import Probe, pieces, probe, spread
from tests.readings_builder import zone

MS = 1_000_000


class _Clock:
    """A clock that goes on when it is looked at (a read takes time) and when somebody sleeps."""

    def __init__(self, step_ns: int):
        self.now = 0
        self._step_ns = step_ns

    def __call__(self) -> int:
        self.now += self._step_ns
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += round(seconds * 1e9)


class _Ticking:
    """Adds `watts` every `update_ns`, as RAPL does every millisecond."""

    name = "ticking"

    def __init__(
        self, clock: _Clock, update_ns: int, watts: float, zones: tuple[CounterZone, ...], *, dead: bool = False
    ):
        self._clock, self._update_ns, self._watts, self._zones, self._dead = clock, update_ns, watts, zones, dead
        self.failing = False

    def zones(self) -> tuple[CounterZone, ...]:
        return self._zones

    def absent(self) -> tuple[AbsentZone, ...]:
        return ()

    def read(self) -> Sequence[Reading]:
        ticks = 0 if self._dead else self._clock.now // self._update_ns
        value = int(ticks * self._update_ns * self._watts / 1000)
        return ["EIO" if self.failing else value for _ in self._zones]

    def rescan(self) -> bool:
        return False

    def occupancy(self) -> Sequence[Occupancy]:
        return ()

    def close(self) -> None: ...


def _probed(update_ns: int = MS, *, dead: bool = False, **changes: Any) -> Probe:
    clock = _Clock(10_000)
    counter = _Ticking(clock, update_ns, 50.0, (zone("package-0", max_range=None, **changes),), dead=dead)
    return probe(counter, clock, clock.sleep, spin_seconds=1.0, rest_seconds=10.0)


def test_the_update_interval_is_found_by_spinning() -> None:
    """A counter that changes every millisecond is seen to, within the time that a read takes (3.4)."""
    found = _probed()
    (one,) = found.zones
    assert one.update.median_ns == pytest.approx(MS, abs=10_000)
    assert one.update.p99_ns <= MS + 20_000
    assert not one.slower


def test_the_floor_is_ten_updates_or_what_is_known_of_the_kind() -> None:
    """max(shortest window, 10 x update): 10 ms for RAPL as it should be, 200 ms for one that is slow here (J41)."""
    assert _probed().floor_ns == 10 * MS
    slow = _probed(20 * MS)
    assert slow.floor_ns == pytest.approx(200 * MS, abs=MS)
    assert slow.zones[0].slower


def test_a_percent_of_edges_takes_forty_one_updates() -> None:
    """0.408 P tau over P T is 1 % at T = 41 tau: 41 ms for RAPL (3.4)."""
    (one,) = _probed().zones
    assert one.percent_ns == pytest.approx(41 * MS, rel=0.01)


def test_a_counter_that_stands_still_has_no_interval() -> None:
    """Unknown is not zero: the floor is then that of its kind."""
    (one,) = _probed(dead=True).zones
    assert one.update is None
    assert one.floor_ns == 10 * MS
    assert all(scatter.mean_uj == 0 for scatter in one.scatter)


def test_a_zone_that_is_not_summed_sets_no_floor() -> None:
    """psys is a cross-check: however slow it is, no figure waits for it."""
    assert _probed(summed=False).floor_ns is None


def test_scatter_at_rest_is_by_length() -> None:
    """At constant power a window of 100 ms has 5 J, give or take a tick of 50 mJ (3.4)."""
    (one,) = _probed().zones
    by_length = {scatter.length_ns: scatter for scatter in one.scatter}
    hundred = by_length[100 * MS]
    assert hundred.mean_uj == pytest.approx(5_000_000, rel=0.02)
    assert hundred.deviation_uj <= 50_000
    assert hundred.limit_uj == 3 * hundred.deviation_uj


def test_a_reading_that_fails_is_counted_by_name() -> None:
    """EIO is in the report and in no figure (decision 6)."""
    clock = _Clock(100_000)
    counter = _Ticking(clock, MS, 50.0, (zone(),))
    counter.failing = True
    (one,) = probe(counter, clock, clock.sleep, spin_seconds=0.1, rest_seconds=0.1).zones
    assert set(one.errors) == {"EIO"}
    assert one.update is None
    assert one.scatter == ()


def test_a_step_across_an_edge_is_divided_by_time() -> None:
    """3 J over 3 s are three pieces of one; nothing is lost but the unfinished end."""
    assert pieces([Step(0, 1_500, 150), Step(1_500, 3_200, 170)], 1_000) == [100, 100, 100]
    assert pieces([], 1_000) == []


def test_a_percentile_of_one_is_that_one() -> None:
    """Rounded up to a rank that is there."""
    assert (spread([7]).median_ns, spread([7]).p99_ns) == (7, 7)
    assert spread(list(range(1, 101))).p99_ns == 100
