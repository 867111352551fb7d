"""Whether two counters tell the same energy."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import pytest

from appliance.energy.counter import AbsentZone, CounterZone, Occupancy, Reading
from appliance.meter.counters.cross_check import Agreement, cross_check


class Told:
    """Says one number after another."""

    name = "told"

    def __init__(self, numbers: Sequence[Reading], key: str = "package-0", *, max_range: int | None = None):
        self._numbers: Iterator[Reading] = itertools.cycle(numbers)
        self._zone = CounterZone(
            "z0", key, "intel-rapl:0", key, "package", "uj", max_range, 10**12, 1_000_000, 0, "told", "simulated"
        )

    def zones(self) -> tuple[CounterZone, ...]:
        return (self._zone,)

    def absent(self) -> tuple[AbsentZone, ...]:
        return ()

    def read(self) -> Sequence[Reading]:
        return [next(self._numbers)]

    def rescan(self) -> bool:
        return False

    def occupancy(self) -> Sequence[Occupancy]:
        return ()

    def close(self) -> None:
        return


def checked(ours: Sequence[Reading], theirs: Sequence[Reading]) -> Agreement:
    (one,) = cross_check(Told(ours), Told(theirs), lambda: None)
    return one


@pytest.mark.parametrize(
    ("ours", "theirs", "agrees"),
    [
        # before, after | later, last: at the least 90 uJ, at the most 120
        ((100, 110, 200, 220), (105, 204), True),
        ((100, 110, 200, 220), (100, 220), True),
        ((100, 110, 200, 220), (100, 221), True),
        ((100, 110, 200, 220), (100, 222), False),
        ((100, 110, 200, 220), (110, 199), True),
        ((100, 110, 200, 220), (110, 198), False),
        ((100, 100, 200, 200), (100, 200), True),
        ((100, 100, 200, 200), (50, 250), False),
    ],
)
def test_theirs_lies_between_our_least_and_most_but_for_a_count(
    ours: Sequence[int], theirs: Sequence[int], agrees: bool
) -> None:
    """(D3)"""
    assert checked(ours, theirs).agrees is agrees


def test_an_error_of_either_is_no_agreement() -> None:
    """And names itself (D3 W12)."""
    for ours, theirs in (((1, "EIO", 3, 4), (1, 2)), ((1, 2, 3, 4), (1, "EIO"))):
        one = checked(ours, theirs)
        assert (one.agrees, one.lack) == (False, "EIO")


def test_a_counter_set_back_is_no_agreement() -> None:
    """(D3 W10)"""
    assert checked((100, 100, 50, 50), (100, 50)).lack == "decrease_without_range"


def test_zones_of_other_names_are_not_set_against_one_another() -> None:
    """(D3)"""
    assert cross_check(Told([1]), Told([1], key="package-1"), lambda: None) == ()
