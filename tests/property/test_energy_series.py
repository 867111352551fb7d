"""A zone's series counts as `counters.Series` does, whatever is read and when."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from appliance.energy.counters import Delta, Gap, Series
from appliance.energy.series import Break, Step, ZoneSeries, scale_of
from appliance.energy.split import apportion
from tests.readings_builder import PERIOD_NS, zone
from tests.sysfs_tree import INTEL_RANGE_UJ

_RAW = (
    st.integers(0, INTEL_RANGE_UJ)
    | st.integers(0, 10**7)
    | st.integers(INTEL_RANGE_UJ - 10**6, INTEL_RANGE_UJ + 2)
    | st.sampled_from([0, 1, INTEL_RANGE_UJ, INTEL_RANGE_UJ + 1])
)
_STEPS = st.lists(st.tuples(st.integers(0, 10**9) | st.integers(0, 10**12), _RAW), min_size=1, max_size=12)


@given(_STEPS, st.sampled_from([("uj", INTEL_RANGE_UJ), ("uj", None), ("uj", 2**40), ("mj", 10**9)]), st.booleans())
def test_a_zone_counts_what_the_plain_series_counts(
    steps: list[tuple[int, int]], counter: tuple[str, int | None], slow: bool
) -> None:
    """Steps, breaks and the carried nanojoules of each reading, in order."""
    unit, most = counter
    one = zone(unit=unit, max_range=most, update_period_ns=100_000_000 if slow else 1_000_000)
    found = ZoneSeries(one, PERIOD_NS)
    plain = Series(scale_of(one), one.most_uw, one.update_period_ns)
    factor = 1000 if unit == "mj" else 1
    at_ns = 0
    for waited_ns, raw in steps:
        at_ns += waited_ns
        step = found.advance(raw, at_ns)
        plain, wanted = plain.advance(raw * factor, at_ns)
        if isinstance(wanted, Delta):
            plain, whole = plain.microjoules(wanted)
            assert isinstance(step, Step)
            assert (step.energy_uj, step.until_ns - step.since_ns) == (whole, wanted.dt_ns)
        elif isinstance(wanted, Gap) and wanted.reason != "out_of_range":
            assert isinstance(step, Break)
            assert step.reason == ("reset" if wanted.reason == "decrease_without_range" else wanted.reason)
        else:
            assert step is None


@given(
    st.lists(st.tuples(st.integers(0, 10**9) | st.integers(0, 10**12), _RAW | st.none() | st.just(-1)), max_size=12),
    st.sampled_from([("uj", INTEL_RANGE_UJ), ("uj", None), ("uj", 2**40), ("mj", 10**9), ("mw", None)]),
    st.booleans(),
)
def test_a_reading_that_nothing_is_odd_about_is_taken_the_same_without_an_object(
    steps: list[tuple[int, int | None]], counter: tuple[str, int | None], slow: bool
) -> None:
    """`step_uj` first and `advance` for the rest: the steps of `advance` alone, and the same state after each."""
    unit, most = counter
    one = zone(unit=unit, max_range=most, update_period_ns=100_000_000 if slow else 1_000_000)
    quick, plain = ZoneSeries(one, PERIOD_NS), ZoneSeries(one, PERIOD_NS)
    at_ns = 0
    for waited_ns, raw in steps:
        at_ns += waited_ns
        since_ns = quick.last_ns
        energy_uj = quick.step_uj(raw, at_ns)
        step = quick.advance(raw, at_ns) if energy_uj is None else Step(since_ns or 0, at_ns, energy_uj)
        assert step == plain.advance(raw, at_ns)
        assert vars(quick) == vars(plain)


@given(st.integers(0, 10**12), st.lists(st.integers(0, 10**9) | st.sampled_from([0, 1, 1, 2]), max_size=8))
def test_shares_are_by_largest_remainder_and_ties_go_to_the_earlier(total: int, weights: list[int]) -> None:
    """Every share is the rounded-down one or one more, and none with a smaller remainder got more."""
    shares = apportion(total, weights)
    whole = sum(weights)
    if not whole:
        assert shares is None
        return
    assert shares is not None
    assert sum(shares) == total
    more = [share - total * weight // whole for share, weight in zip(shares, weights, strict=True)]
    assert set(more) <= {0, 1}
    ranks = [(-(total * weight % whole), at) for at, weight in enumerate(weights)]
    assert [at for _, at in sorted(ranks)[: sum(more)]] == sorted(
        (at for at, one in enumerate(more) if one), key=lambda at: ranks[at]
    )
