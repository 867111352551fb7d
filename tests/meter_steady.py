"""Counters that go on by the clock, as real ones do: constant watts, whoever reads them and whenever."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping

from tests.sysfs_tree import PowercapTree


@contextlib.contextmanager
def steady(tree: PowercapTree, watts: Mapping[str, float], every_seconds: float = 0.002) -> Iterator[None]:
    """`watts` by zone path. What a late wake-up misses, the next one makes up for."""
    ended = threading.Event()
    began = time.monotonic_ns()
    origin = {path: tree.get(path) for path in watts}

    def go_on() -> None:
        while not ended.wait(every_seconds):
            grown = time.monotonic_ns() - began
            for path, power in watts.items():
                tree.set(path, origin[path] + int(power * grown / 1000))

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
