"""The CPU time of a model server between the beginnings and the ends of one trial's exchanges."""

from __future__ import annotations

from collections.abc import Callable

from appliance.meter.serving import ModelTime


def clock(*readings: int | None) -> Callable[[], int | None]:
    left = iter(readings)
    return lambda: next(left)


def test_only_what_is_used_within_exchanges_counts() -> None:
    """Two exchanges of 5 and 7; what lies between them is nobody's (D5)."""
    time = ModelTime(clock(100, 105, 200, 207))
    time.open()
    for order in (0, 1):
        time.began(order)
        time.ended(order)
    time.close()
    assert time.charged_ns == 12


def test_exchanges_that_overlap_are_counted_once() -> None:
    """From the first beginning to the last end (D5)."""
    time = ModelTime(clock(100, 130))
    time.open()
    time.began(0)
    time.began(1)
    time.ended(0)
    time.ended(1)
    assert time.charged_ns == 30


def test_the_window_is_the_bound() -> None:
    """An exchange that outlasts the solver ends with it; one that ends before its window is none (D5)."""
    time = ModelTime(clock(100, 110))
    time.began(0)
    time.open()
    time.ended(0)
    time.began(1)
    time.close()
    time.ended(1)
    time.began(2)
    assert time.charged_ns == 10


def test_a_reading_that_failed_leaves_no_figure() -> None:
    """Missing is not zero; a counter that went back is a server that was started anew."""
    time = ModelTime(clock(100, None, 200, 210))
    time.open()
    time.began(0)
    time.ended(0)
    assert time.charged_ns is None
    time.began(1)
    time.ended(1)
    assert time.charged_ns is None
    anew = ModelTime(clock(100, 3))
    anew.open()
    anew.began(0)
    anew.ended(0)
    assert anew.charged_ns == 0
    assert ModelTime(clock()).charged_ns == 0
