"""The two named estimators, with their labels and intervals."""

from __future__ import annotations

import pytest

from appliance.energy import estimators
from appliance.energy.cpus import DesignPower, Processor, design_power, parse_cpuinfo
from appliance.errors import UsageRefused

SECOND_NS = 1_000_000_000
HUNDRED_WATTS = DesignPower(point_uw=100_000_000, low_uw=80_000_000, high_uw=125_000_000, source="table")


def test_three_seconds_at_twenty_watts_are_sixty_joules() -> None:
    """`wall`: gross = net = watts x wall, interval [20 % x watts, 2 x watts] x wall, idle unknown (J35 J37)."""
    found = estimators.wall(3 * SECOND_NS, 20.0)
    assert (found.gross_uj, found.net_uj, found.idle_uj) == (60_000_000, 60_000_000, None)
    assert found.interval == (12_000_000, 120_000_000)
    assert found.inputs["watts"] == 20.0
    assert found.inputs["wattsSource"] == "JOULE_BENCH_ACTIVE_WATTS"


def test_the_default_is_sixty_five_watts_and_says_so() -> None:
    """(J37)"""
    found = estimators.wall(SECOND_NS, None)
    assert found.net_uj == 65_000_000
    assert (found.inputs["watts"], found.inputs["wattsSource"]) == (65.0, "default")


@pytest.mark.parametrize("text", ["", "abc", "-5", "nan", "inf", "0", "1e999", "20 W"])
def test_watts_that_are_none_are_refused_with_status_2(text: str) -> None:
    """(J37)"""
    with pytest.raises(UsageRefused) as refusal:
        estimators.active_watts({"JOULE_BENCH_ACTIVE_WATTS": text})
    assert refusal.value.status == 2
    assert "JOULE_BENCH_ACTIVE_WATTS" in str(refusal.value)


def test_watts_are_read_from_the_environment_or_absent() -> None:
    """(J37)"""
    assert estimators.active_watts({"JOULE_BENCH_ACTIVE_WATTS": "20"}) == 20.0
    assert estimators.active_watts({}) is None


@pytest.mark.parametrize(("percent", "gross_watts"), [(0, 12), (10, 32), (50, 75), (100, 102), (30, 53.5), (75, 88.5)])
def test_the_curve_goes_through_its_published_points(percent: int, gross_watts: float) -> None:
    """12, 32, 75 and 102 % of the design power at 0, 10, 50 and 100 %, linear between (energy 5)."""
    found = estimators.curve(SECOND_NS, 4 * SECOND_NS * percent // 100, 4, HUNDRED_WATTS)
    assert found.gross_uj == round(gross_watts * 1e6)
    assert found.idle_uj == 12_000_000
    assert found.net_uj == found.gross_uj - found.idle_uj


def test_the_interval_spans_the_three_curves_and_the_range_of_the_power() -> None:
    """At half load: cubic 0.1125, linear 0.45 and Teads 0.63 of the design power above rest (energy 5)."""
    found = estimators.curve(SECOND_NS, 2 * SECOND_NS, 4, HUNDRED_WATTS)
    assert found.interval == (9_000_000, 78_750_000)


def test_cpu_time_that_was_not_read_gives_no_number_but_bounds() -> None:
    """Missing is not zero: the interval is that of any utilisation."""
    found = estimators.curve(SECOND_NS, None, 4, HUNDRED_WATTS)
    assert (found.gross_uj, found.net_uj) == (None, None)
    assert found.interval == (0, 112_500_000)


def test_cpu_time_beyond_the_wall_is_full_load() -> None:
    """A tick too many at the edge does not leave the curve (C11)."""
    assert estimators.utilisation(SECOND_NS, 5 * SECOND_NS, 4) == 10**9
    assert estimators.utilisation(0, 5, 4) == 0


def test_recorded_inputs_give_the_same_estimate_again() -> None:
    """Anyone can redo it from the record (L1)."""
    for found in (
        estimators.wall(12_345, 33.3),
        estimators.wall(12_345, None),
        estimators.curve(SECOND_NS, 123_456_789, 4, HUNDRED_WATTS),
        estimators.curve(SECOND_NS, None, 4, HUNDRED_WATTS),
    ):
        assert estimators.again(found.model, found.inputs) == found


def test_inputs_that_lack_something_are_a_value_error() -> None:
    """(L1)"""
    with pytest.raises(ValueError, match="wall/1"):
        estimators.again("wall/1", {"watts": 3})
    with pytest.raises(ValueError, match="no estimator"):
        estimators.again("guess/1", {})


CPUINFO = """processor\t: 0
model name\t: AMD EPYC 7763 64-Core Processor
physical id\t: 0
flags\t\t: fpu vme hypervisor
processor\t: 1
model name\t: AMD EPYC 7763 64-Core Processor
physical id\t: 0
flags\t\t: fpu vme hypervisor
"""


def test_a_known_brand_in_a_virtual_machine_gets_its_share() -> None:
    """2 of 128 threads of a 280 W package, with a wider range (energy 5)."""
    processor = parse_cpuinfo(CPUINFO)
    assert processor == Processor("AMD EPYC 7763 64-Core Processor", threads=2, packages=1, virtual=True)
    assert design_power(processor) == DesignPower(4_375_000, 2_187_500, 8_750_000, "table,vm-share")


def test_a_known_brand_on_metal_has_its_design_power_a_package() -> None:
    """(energy 5)"""
    found = design_power(Processor("AMD EPYC 7763 64-Core Processor", threads=256, packages=2, virtual=False))
    assert (found.point_uw, found.source) == (560_000_000, "table")


@pytest.mark.parametrize(
    ("brand", "source"),
    [
        ("AMD EPYC", "class:server"),
        ("AMD EPYC 7763", "class:server"),
        ("Some Thing", "class:other"),
        ("", "class:other"),
    ],
)
def test_a_brand_that_is_not_in_the_table_to_the_letter_takes_its_class(brand: str, source: str) -> None:
    """No likeness is matched (energy 5)."""
    assert design_power(Processor(brand, threads=2, packages=1, virtual=True)).source == source
