"""Numbers that are none, counters that stand apart, a platform that cannot be."""

from __future__ import annotations

import pytest

from appliance.energy.sentinels import is_sentinel
from appliance.energy.zones import apart_uj, psys_implausible
from tests.sysfs_tree import INTEL_RANGE_UJ


@pytest.mark.parametrize(
    ("number", "of_energy", "of_power"),
    [
        (0, False, False),
        (120_000, False, False),
        (-1, True, True),
        (2**32 - 1, True, True),
        (4294967295000, True, True),
        (4294967295000000, True, True),
        (2**64 - 1, True, True),
        (2**31 - 1, True, True),
        (65_535, False, True),
        (65_535_000, False, True),
        (65_534, False, False),
        (2**32, False, False),
    ],
)
def test_all_bits_set_is_no_number(number: int, of_energy: bool, of_power: bool) -> None:
    """hwmon's 4294967295000 uW is 2^32 - 1 mW; sixteen bits are a sentinel of power alone (ZN10)."""
    assert is_sentinel(number) is of_energy
    assert is_sentinel(number, power=True) is of_power


@pytest.mark.parametrize(
    ("one", "two", "most", "apart"),
    [
        (5, 9, None, 4),
        (9, 5, INTEL_RANGE_UJ, 4),
        (0, INTEL_RANGE_UJ, INTEL_RANGE_UJ, 1),
        (INTEL_RANGE_UJ - 10, 20, INTEL_RANGE_UJ, 31),
        (0, INTEL_RANGE_UJ, None, INTEL_RANGE_UJ),
    ],
)
def test_counters_stand_apart_the_short_way_round(one: int, two: int, most: int | None, apart: int) -> None:
    """(ZN5)"""
    assert apart_uj(one, two, most) == apart


@pytest.mark.parametrize(
    ("psys", "packages", "implausible"),
    [
        (19.9e9, 20e9, True),
        (20e9, 20e9, False),
        (400e9, 20e9, False),
        (400.1e9, 20e9, True),
        (0, 19.9e9, False),
        (0, 20e9, True),
    ],
)
def test_a_platform_holds_its_packages_and_is_not_twenty_times_them(
    psys: float, packages: float, implausible: bool
) -> None:
    """Nothing is said before the packages used 20 J (ZN8)."""
    assert psys_implausible(round(psys), round(packages)) is implausible
