"""Who works while a window is open."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from appliance.trials.turns import Turns


@pytest.mark.parametrize(("first", "second"), [("work", "window"), ("window", "work"), ("window", "window")])
def test_in_an_exclusive_run_nothing_of_ours_overlaps_a_window(first: str, second: str) -> None:
    """design 8: who comes second waits, though it was given every chance to begin."""
    turns = Turns(exclusive=True)
    order: list[str] = []
    inside, begun = threading.Event(), threading.Event()

    def come_first() -> None:
        with getattr(turns, first)():
            inside.set()
            begun.wait(0.3)
            order.append("first ends")

    def come_second() -> None:
        inside.wait()
        with getattr(turns, second)():
            order.append("second begins")
            begun.set()

    run_all(come_first, come_second)
    assert order == ["first ends", "second begins"]


def test_a_waiting_window_goes_before_new_work() -> None:
    """Else work that keeps coming would hold it off for ever."""
    turns = Turns(exclusive=True)
    order: list[str] = []
    inside, waiting = threading.Event(), threading.Event()

    def work() -> None:
        with turns.work():
            inside.set()
            waiting.wait()
            time.sleep(0.2)

    def window() -> None:
        inside.wait()
        waiting.set()
        with turns.window():
            order.append("window")

    def later() -> None:
        waiting.wait()
        time.sleep(0.1)
        with turns.work():
            order.append("later work")

    run_all(work, window, later)
    assert order == ["window", "later work"]


def test_work_overlaps_work_in_an_exclusive_run() -> None:
    """--jobs overlaps the rest."""
    turns = Turns(exclusive=True)
    both = threading.Barrier(2, timeout=20)

    def work() -> None:
        with turns.work():
            both.wait()

    other = threading.Thread(target=work)
    other.start()
    work()
    other.join()
    assert not both.broken


def test_in_a_shared_run_windows_overlap() -> None:
    """They share the dynamic energy."""
    turns = Turns(exclusive=False)
    with turns.window(), turns.window(), turns.work():
        pass


def run_all(*steps: Callable[[], None]) -> None:
    threads = [threading.Thread(target=step) for step in steps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
        assert not thread.is_alive()
