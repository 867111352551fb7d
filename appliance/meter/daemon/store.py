"""Finished blocks in the order of time, each once, for as long as a window holds them; coarser where they are many.

What is kept is bounded: above `SOFT_BYTES` the oldest are thinned, a little at a time; above `HARD_BYTES` no further
window is opened.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from appliance.energy.counters import Scale, safe_period_ns
from appliance.meter.daemon.blocks import Block, Holder
from appliance.meter.daemon.thinning import thinned

SOFT_BYTES: Final = 6 * 1024 * 1024
"""Some hours of one window with ten cgroups."""
HARD_BYTES: Final = 24 * 1024 * 1024
SPACINGS_NS: Final = (1_000_000_000, 10_000_000_000)
"""Of samples, after the first thinning and after the second."""
_AT_ONCE_BYTES: Final = 16 * 1024
_AT_ONCE_BLOCKS: Final = 64
"""Of packed readings a step: some milliseconds of work."""
_MOST_COLUMNS: Final = 1024


class BlockStore:
    def __init__(self) -> None:
        self.unpacked_bytes = 0
        """Of blocks that came since `settle`."""
        self._unpacked: list[Block] = []
        self._settled_bytes = 0
        self._blocks: dict[int, Block] = {}
        self._nothing_to_thin = False

    @property
    def total_bytes(self) -> int:
        self.settle()
        return self._settled_bytes

    @property
    def over_full(self) -> bool:
        return self._settled_bytes > SOFT_BYTES and not self._nothing_to_thin

    @property
    def full(self) -> bool:
        return self._settled_bytes > HARD_BYTES

    def settle(self) -> None:
        """Packs the blocks that came, and counts them."""
        for block in self._unpacked:
            self._settled_bytes += block.cost_bytes
        self._unpacked.clear()
        self.unpacked_bytes = 0

    def hold(self, block: Block, windows: Sequence[Holder]) -> None:
        """For all of these at once: an edge finishes a block beside a hundred windows."""
        if windows and not block.holders:
            self._blocks[id(block)] = block
            self._unpacked.append(block)
            self.unpacked_bytes += len(block.lines) or 1
            self._nothing_to_thin = False
        block.holders.update(windows)
        for window in windows:
            window.blocks.append(block)

    def drop(self, window: Holder) -> None:
        """All that this window holds."""
        self.settle()
        for block in window.blocks:
            block.holders.discard(window)
            if not block.holders and self._blocks.pop(id(block), None) is not None:
                self._settled_bytes -= block.cost_bytes
        window.blocks.clear()
        self._nothing_to_thin = False

    def thin_one(self) -> None:
        """The oldest blocks that are finest and have the same windows, as many as one step bears."""
        self.settle()
        for level, spacing_ns in enumerate(SPACINGS_NS):
            together = self._oldest(level, spacing_ns)
            if together:
                self._replace(together, thinned(together, spacing_ns))
                return
        self._nothing_to_thin = True

    def _oldest(self, level: int, spacing_ns: int) -> list[Block]:
        found: list[Block] = []
        length = 0
        for block in self._blocks.values():
            if not found:
                if block.level == level and _safe(block, spacing_ns):
                    found, length = [block], len(block.content)
                continue
            length += len(block.content)
            first = found[0]
            same = block.level == level and block.zones == first.zones and block.holders == first.holders
            columns = len({one.id for one in (*found[0].columns, *block.columns)})
            if not same or length > _AT_ONCE_BYTES or len(found) >= _AT_ONCE_BLOCKS or columns > _MOST_COLUMNS:
                break
            found.append(block)
        return found

    def _replace(self, together: Sequence[Block], one: Block) -> None:
        one.holders = set(together[0].holders)
        for window in one.holders:
            at = window.blocks.index(together[0])
            window.blocks[at : at + len(together)] = [one]
        places = {id(block) for block in together}
        # Rebuilt in its order, with the new one where the old ones were.
        kept: dict[int, Block] = {}
        for place, block in self._blocks.items():
            if place not in places:
                kept[place] = block
            elif block is together[0]:
                kept[id(one)] = one
        self._blocks = kept
        self._settled_bytes += one.cost_bytes - sum(block.cost_bytes for block in together)


def _safe(block: Block, spacing_ns: int) -> bool:
    """Whether no counter can go round between samples so far apart; power that is sampled is not thinned."""
    for zone in block.zones:
        if zone.unit == "mw":
            return False
        safe = safe_period_ns(Scale(zone.max_range), zone.most_uw) if zone.unit == "uj" else None
        if safe is not None and spacing_ns > safe:
            return False
    return True
