"""What nobody waits for: blocks are packed and garbage is looked for once nobody has asked for a moment."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass, field

import pytest

from appliance.energy.readings import pack
from appliance.meter.daemon import blocks
from appliance.meter.daemon.blocks import Block, BlockWriter
from appliance.meter.daemon.chores import _MOST_BYTES, Chores
from appliance.meter.daemon.store import BlockStore


@dataclass(eq=False)
class Held:
    """A window as its blocks know it."""

    blocks: list[Block] = field(default_factory=list)


class Knot:
    """Garbage that only the collector finds."""

    def __init__(self) -> None:
        self.itself = self


def block(*events: int) -> Block:
    writer = BlockWriter((), (), [1], 0, ())
    for at in events or (1,):
        writer.sample(at, [1 + at])
    return writer.finish()


def test_a_block_is_packed_once_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not at the edge that ends it: an answer waits there (formats 5, the limit of a window's edges)."""
    packed: list[bytes] = []

    def packing(lines: bytes) -> bytes:
        packed.append(lines)
        return pack(lines)

    monkeypatch.setattr(blocks, "pack", packing)
    store, window = BlockStore(), Held()
    chores = Chores(store)
    store.hold(block(1, 2, 3), [window])
    assert packed == []
    assert chores.wait
    assert not chores.press
    chores.do()
    assert len(packed) == 1
    assert store.unpacked_bytes == 0
    assert store.total_bytes == window.blocks[0].cost_bytes
    assert len(packed) == 1


def test_blocks_that_pile_up_are_packed_at_once() -> None:
    """However many ask without a pause, what waits is bounded."""
    store, window = BlockStore(), Held()
    chores = Chores(store)
    for _ in range(20):
        if chores.press:
            break
        store.hold(block(*range(1, 20_000)), [window])
    assert chores.press
    assert _MOST_BYTES < store.unpacked_bytes < 2 * _MOST_BYTES
    chores.do()
    assert not chores.press
    store.drop(window)
    assert store.total_bytes == 0


def test_garbage_is_looked_for_by_chores_alone() -> None:
    """While the daemon serves, Python interrupts nothing for it; cyclic garbage is found all the same."""
    chores = Chores(BlockStore())
    assert gc.isenabled()
    with chores.in_charge():
        assert not gc.isenabled()
        knots = [Knot() for _ in range(3000)]
        last = weakref.ref(knots[-1])
        knots.clear()
        assert last() is not None
        assert chores.wait
        chores.do()
        assert last() is None
    assert gc.isenabled()
