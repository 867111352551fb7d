"""Apportioning in integers."""

from __future__ import annotations

import pytest

from appliance.energy.split import Split, apportion, split

TENTH_NS = 100_000_000


@pytest.mark.parametrize(
    ("total", "weights", "shares"),
    [
        (100, [1, 1, 1], [34, 33, 33]),
        (1, [1, 1], [1, 0]),
        (7, [0, 5, 0], [0, 7, 0]),
        (10, [0, 0], None),
        (10**15, [1, 10**12, 3], [1000, 999999999996000, 3000]),
        (7123457, [200000, 100000, 33333, 1], [4274066, 2137033, 712337, 21]),
        (0, [3, 4], [0, 0]),
    ],
)
def test_the_largest_remainders_get_what_is_left(total: int, weights: list[int], shares: list[int] | None) -> None:
    """The vectors of energy.md 3.1, ties to the earlier."""
    assert apportion(total, weights) == shares


@pytest.mark.parametrize(
    ("arguments", "idle", "system", "members"),
    [
        pytest.param(
            (2_000_000, 15_000_000, TENTH_NS, [60000, 20000], 20000), 1_500_000, 100_000, (300_000, 100_000), id="S1"
        ),
        pytest.param((1_200_000, 15_000_000, TENTH_NS, [100], 0), 1_200_000, 0, (0,), id="S2"),
        pytest.param((2_000_000, 15_000_000, TENTH_NS, [0, 0], 0), 1_500_000, 500_000, (0, 0), id="S3"),
        pytest.param(
            (2_000_000, 15_000_000, TENTH_NS, [60000, 50000], -300), 1_500_000, 0, (272_727, 227_273), id="S4"
        ),
        pytest.param((12_000_000, 100_000_000, TENTH_NS, [100000], 0), 10_000_000, 0, (2_000_000,), id="S6"),
        pytest.param((2_000_000, 15_000_000, TENTH_NS, [-5000, 20000], 0), 1_500_000, 0, (0, 500_000), id="S7"),
    ],
)
def test_idle_comes_first_and_the_rest_follows_cpu_time(
    arguments: tuple[int, int, int, list[int], int], idle: int, system: int, members: tuple[int, ...]
) -> None:
    """(S1 S2 S3 S4 S6 S7, T4 T5 T6 T7)"""
    found = split(*arguments)
    assert (found.idle_uj, found.system_uj, found.members_uj) == (idle, system, members)


def test_what_was_odd_about_a_split_is_flagged() -> None:
    """Less than idle, a negative delta, members above the machine's own busy time (T5 T6 T7)."""
    assert split(1_200_000, 15_000_000, TENTH_NS, [100], 0).flags == ("below_idle",)
    assert split(2_000_000, 15_000_000, TENTH_NS, [-5000, 20000], 0).flags == ("negative_cpu",)
    assert split(2_000_000, 15_000_000, TENTH_NS, [60000, 50000], -300).flags == ()
    assert split(2_000_000, 15_000_000, TENTH_NS, [60000, 40000], -2001).flags == ("cpu_excess",)
    assert split(0, 0, TENTH_NS, [], 0) == Split(0, 0, (), ())
