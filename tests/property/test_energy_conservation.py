"""What holds for every history."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.energy import estimators
from appliance.energy.counters import Delta, Scale, Series, difference
from appliance.energy.cpus import DesignPower
from appliance.energy.split import apportion, split

RANGES = st.sampled_from([262143328850, 65532610987, 65712999613])
MOST_UW = 10**9
TEN_SECONDS_NS = 10**10


@settings(max_examples=1000)
@given(
    measured=st.integers(0, 10**12),
    idle_uw=st.integers(0, 10**9),
    dt_ns=st.integers(1, 10**11),
    members=st.lists(st.integers(-(10**6), 10**9), max_size=12),
    system=st.integers(-(10**6), 10**9),
)
def test_a_split_conserves_and_is_never_negative(
    measured: int, idle_uw: int, dt_ns: int, members: list[int], system: int
) -> None:
    """idle + system + members == measured, to the microjoule (energy 3.1)."""
    found = split(measured, idle_uw, dt_ns, members, system)
    assert found.idle_uj + found.system_uj + sum(found.members_uj) == measured
    assert min(found.idle_uj, found.system_uj, *found.members_uj) >= 0
    assert len(found.members_uj) == len(members)


@given(total=st.integers(0, 10**18), weights=st.lists(st.integers(0, 10**12), min_size=1, max_size=20))
def test_no_share_is_off_by_a_whole_unit(total: int, weights: list[int]) -> None:
    """Largest remainder: each share within one of its exact value."""
    shares = apportion(total, weights)
    whole = sum(weights)
    if shares is None:
        assert whole == 0
        return
    assert sum(shares) == total
    assert all(abs(share * whole - total * weight) < whole for share, weight in zip(shares, weights, strict=True))


@given(max_range=RANGES, count=st.integers(0, 2**32 - 1))
def test_the_raw_count_is_found_again_from_what_the_driver_prints(max_range: int, count: int) -> None:
    """(energy 2.1: both directions exact)"""
    scale = Scale(max_range)
    assert scale.count(count * scale.unit_nj // 1000) == count


@given(max_range=RANGES, start=st.integers(0, 2**32 - 1), added=st.integers(0, 10**6))
def test_a_plausible_difference_is_exact_wherever_it_starts(max_range: int, start: int, added: int) -> None:
    """Over the wrap or not (W1 - W4)."""
    scale = Scale(max_range)
    before = start * scale.unit_nj // 1000
    after = (start + added) % 2**32 * scale.unit_nj // 1000
    assert difference(scale, before, after, TEN_SECONDS_NS, MOST_UW) == Delta(added * scale.unit_nj, TEN_SECONDS_NS)


@given(max_range=RANGES, start=st.integers(0, 2**32 - 1), steps=st.lists(st.integers(0, 10**6), max_size=40))
def test_the_microjoules_of_a_window_are_the_floor_of_its_nanojoules(
    max_range: int, start: int, steps: list[int]
) -> None:
    """No sample loses a fraction: it is carried (energy 3.1)."""
    scale = Scale(max_range)
    count = start
    series, _ = Series(scale, MOST_UW).advance(count * scale.unit_nj // 1000, 0)
    total = 0
    for number, added in enumerate(steps, start=1):
        count = (count + added) % 2**32
        series, step = series.advance(count * scale.unit_nj // 1000, number * TEN_SECONDS_NS)
        assert isinstance(step, Delta)
        series, whole = series.microjoules(step)
        total += whole
    assert total == sum(steps) * scale.unit_nj // 1000


@given(
    wall_ns=st.integers(0, 10**15),
    cpu_ns=st.integers(0, 10**15),
    threads=st.integers(1, 512),
    power=st.tuples(st.integers(1, 10**9), st.integers(0, 10**8), st.integers(0, 10**8)),
)
def test_an_estimate_lies_in_its_interval_and_adds_up(
    wall_ns: int, cpu_ns: int, threads: int, power: tuple[int, int, int]
) -> None:
    """gross = idle + net, all of it in whole microjoules (L1)."""
    point, low, high = power
    found = estimators.curve(wall_ns, cpu_ns, threads, DesignPower(point, max(0, point - low), point + high, "table"))
    assert found.gross_uj is not None
    assert found.idle_uj is not None
    assert found.net_uj is not None
    assert found.gross_uj == found.idle_uj + found.net_uj
    assert 0 <= found.interval[0] <= found.net_uj <= found.interval[1]
    assert estimators.again(found.model, found.inputs) == found


@given(wall_ns=st.integers(0, 10**15), watts=st.floats(0.001, 10_000))
def test_a_wall_estimate_lies_in_its_interval(wall_ns: int, watts: float) -> None:
    """[20 %, 200 %] of it."""
    found = estimators.wall(wall_ns, watts)
    assert found.net_uj is not None
    assert found.interval[0] <= found.net_uj <= found.interval[1]
