"""The exact arithmetic of counters that wrap; every vector of the acceptance page."""

from __future__ import annotations

import pytest

from appliance.energy.counters import Delta, Gap, Scale, Series, difference, safe_period_ns

INTEL, AMD, DRAM = Scale(262143328850), Scale(65532610987), Scale(65712999613)
KILOWATT_UW = 1_000_000_000
TENTH_NS = 100_000_000


@pytest.mark.parametrize(
    ("scale", "before", "after", "nanojoules"),
    [
        pytest.param(INTEL, 262143322807, 3051, 9_155_250, id="W1"),
        pytest.param(AMD, 65532609476, 762, 2_288_700, id="W2"),
        pytest.param(DRAM, 65712998098, 765, 2_295_000, id="W3"),
        pytest.param(INTEL, 262143328850, 0, 61_035, id="W4"),
    ],
)
def test_a_wrap_costs_no_count(scale: Scale, before: int, after: int, nanojoules: int) -> None:
    """Over the wrap, the difference is the one of the raw 32-bit counts, last count included (W1 W2 W3 W4, J45)."""
    assert difference(scale, before, after, TENTH_NS, KILOWATT_UW) == Delta(nanojoules, TENTH_NS)


def test_the_drivers_unit_is_found_from_the_range() -> None:
    """Ranges of the table give the units that the driver truncated (W1 W2 W3)."""
    assert [scale.unit_nj for scale in (INTEL, AMD, DRAM)] == [61_035, 15_258, 15_300]
    assert all(scale.exact for scale in (INTEL, AMD, DRAM))


def test_a_range_of_no_32_bit_count_is_counted_in_microjoules() -> None:
    """An odd range wraps after its last microjoule: 100 below the end to 50 is 151 (J45)."""
    odd = Scale(1_000_000)
    assert not odd.exact
    assert difference(odd, 999_900, 50, TENTH_NS, 5_000_000) == Delta(151_000, TENTH_NS)


def test_an_unchanged_counter_is_zero_and_stale_where_power_was_expected() -> None:
    """(W5)"""
    assert difference(INTEL, 5, 5, 20_000_000, KILOWATT_UW, power_expected=True) == Delta(0, 20_000_000, stale=True)
    assert difference(INTEL, 5, 5, 10_000_000, KILOWATT_UW, power_expected=True) == Delta(0, 10_000_000)
    assert difference(INTEL, 5, 5, 20_000_000, KILOWATT_UW) == Delta(0, 20_000_000)


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        pytest.param(100_000_000_000, 5_000_000, "reset", id="W6"),
        pytest.param(1_000_000, 200_000_000_000, "implausible", id="W7"),
        pytest.param(5, 262143328851, "out_of_range", id="W9"),
    ],
)
def test_what_is_no_certain_difference_is_a_gap(before: int, after: int, reason: str) -> None:
    """A reset, a jump and a reading beyond the range give no energy (W6 W7 W9)."""
    gap = difference(INTEL, before, after, TENTH_NS, KILOWATT_UW)
    assert isinstance(gap, Gap)
    assert (gap.reason, gap.dt_ns) == (reason, TENTH_NS)


def test_a_gap_in_which_it_may_have_wrapped_twice_has_bounds_and_no_number() -> None:
    """3000 s at up to 1 kW: whole turns of 262.1 kJ, as many as the power allows (W8)."""
    gap = difference(INTEL, 1_000_000, 75_000_000_000, 3000 * 10**9, KILOWATT_UW)
    assert isinstance(gap, Gap)
    assert gap.reason == "gap_longer_than_wrap"
    assert gap.bounds_nj is not None
    low, high = gap.bounds_nj
    turn = INTEL.period_nj
    assert turn is not None
    assert (high - low) % turn == 0
    assert low <= 75 * 10**12 < high <= 3000 * 1000 * 10**9


def test_without_a_range_a_decrease_is_a_gap() -> None:
    """(W10)"""
    unknown = Scale(None)
    assert difference(unknown, 10, 20, TENTH_NS, KILOWATT_UW) == Delta(10_000, TENTH_NS)
    assert difference(unknown, 20, 10, TENTH_NS, KILOWATT_UW) == Gap("decrease_without_range", TENTH_NS)


def test_two_readings_at_one_moment_are_merged_with_the_next() -> None:
    """Nothing is divided by no time, and no energy is lost (W16)."""
    series, _ = Series(INTEL, KILOWATT_UW).advance(61_035, 0)
    series, nothing = series.advance(122_070, 0)
    assert nothing is None
    series, step = series.advance(183_105, TENTH_NS)
    assert step == Delta(2_000 * 61_035, TENTH_NS)
    with pytest.raises(ValueError, match="merge"):
        difference(INTEL, 1, 2, 0, KILOWATT_UW)


def test_the_first_reading_is_a_baseline_of_no_energy() -> None:
    """An absolute counter is never booked (W17)."""
    series, step = Series(INTEL, KILOWATT_UW).advance(200_000_000_000, 5)
    assert step is None
    assert series.last_uj == 200_000_000_000


def test_an_out_of_range_reading_leaves_the_last_good_one_standing() -> None:
    """The next good reading spans the gap, since the counter ran on (W9 W12)."""
    series, _ = Series(INTEL, KILOWATT_UW).advance(61_035, 0)
    series, gap = series.advance(INTEL.max_range_uj + 1, TENTH_NS)  # type: ignore[operator]
    assert isinstance(gap, Gap)
    series, step = series.advance(122_070, 2 * TENTH_NS)
    assert step == Delta(1_000 * 61_035, 2 * TENTH_NS)


def test_the_longest_allowed_period_is_a_quarter_of_the_shortest_wrap() -> None:
    """65 s for Intel and 16 s for AMD at 1 kW (energy 2.1, Startup)."""
    assert safe_period_ns(INTEL, KILOWATT_UW) == 65_535_832_227
    assert safe_period_ns(AMD, KILOWATT_UW) == 16_383_152_750
    assert safe_period_ns(Scale(None), KILOWATT_UW) is None


def test_a_counter_past_2_to_the_53_is_exact() -> None:
    """200 days of uptime under 64 busy cores: the raw counts are whole numbers, however large (issue: the meter)."""
    big = Scale(2**60)
    assert difference(big, 2**59 + 1, 2**59 + 4, TENTH_NS, KILOWATT_UW) == Delta(3_000, TENTH_NS)
