"""What nobody waits for: blocks to be packed, garbage to be looked for. Done once nobody has asked for a moment.

A block of 200 samples takes milliseconds to pack, and Python looks for cyclic garbage when it likes: neither may stand
between a request and its answer. Both are bounded: above `_MOST_BYTES` and `_MOST_OBJECTS` they are done at once.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import Final

from appliance.meter.daemon.store import BlockStore

QUIET_NS: Final = 2_000_000
"""So long nobody has asked: whoever opened a window and closes it at once has done both."""
_SOME_OBJECTS: Final = 2_000
_MOST_OBJECTS: Final = 50_000
"""Made and not freed since the last look; a few MiB."""
_MOST_BYTES: Final = 1024 * 1024
_WHOLE_EVERY: Final = 20
"""Looks, of which one is at the old objects too."""


class Chores:
    def __init__(self, store: BlockStore):
        self._store = store
        self._looks = 0

    @property
    def wait(self) -> bool:
        """There are some."""
        return self._store.unpacked_bytes > 0 or gc.get_count()[0] > _SOME_OBJECTS

    @property
    def press(self) -> bool:
        """They can wait no longer."""
        return self._store.unpacked_bytes > _MOST_BYTES or gc.get_count()[0] > _MOST_OBJECTS

    def do(self) -> None:
        self._store.settle()
        if gc.get_count()[0] > _SOME_OBJECTS:
            self._looks += 1
            gc.collect(2 if self._looks % _WHOLE_EVERY == 0 else 1)

    @contextlib.contextmanager
    def in_charge(self) -> Iterator[None]:
        """Python looks for garbage only here, and never at what is there already."""
        was = gc.isenabled()
        gc.collect()
        gc.freeze()
        gc.disable()
        try:
            yield
        finally:
            gc.unfreeze()
            if was:
                gc.enable()
