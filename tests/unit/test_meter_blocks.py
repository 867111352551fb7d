"""Blocks: the same bytes as readings-v1's own lines, and coarser ones that lose nothing that was counted."""

from __future__ import annotations

import itertools
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.energy.counter import CounterZone
from appliance.energy.readings import (
    Event,
    Header,
    InnerWindow,
    ReadCgroup,
    Readings,
    header_line,
    pack,
    sample_line,
    unpack,
)
from appliance.energy.windows import window_of
from appliance.meter.daemon.blocks import Block, BlockWriter
from appliance.meter.daemon.columns import Column, CpuFile
from appliance.meter.daemon.store import HARD_BYTES, SOFT_BYTES, BlockStore
from appliance.meter.daemon.thinning import thinned

ZONE = CounterZone(
    id="z0", key="package-0", path="intel-rapl:0", name="package-0", domain="package", unit="uj", max_range=10**12,
    most_uw=10**9, update_period_ns=1_000_000, shortest_window_ns=10_000_000, source="powercap",
    provenance="simulated", claimed="hw_shunt",
)  # fmt: skip


def column(name: str, role: str = "solver") -> Column:
    return Column(name, f"/{name}", role, None, None, None, CpuFile(Path("/nowhere"), 2))


SOLVER, OTHER = column("c0"), column("c1", "container")


@dataclass(eq=False)
class Held:
    """A window as its blocks know it."""

    blocks: list[Block] = field(default_factory=list)


def readings(blocks: Sequence[Block], inner: tuple[InnerWindow, ...] = ()) -> Readings:
    """A window over these blocks; the solver's is its own."""
    columns = {one.id: one for block in blocks for one in block.columns}
    header = Header(
        run="r", trial=0, meter="m", opened_at="2026-01-02T03:04:05.000Z", boot_id="b", opened_boottime_ns="0",
        length_ns=sum(block.length_ns for block in blocks), open_skew_ns=0, close_skew_ns=0, period_ns=100_000_000,
        cpus=2, tick_ns=10_000_000, cpu_unit="us", zones=(ZONE,), inner=inner,
        cgroups=tuple(ReadCgroup(one.id, one.role, "own" if one is SOLVER else "f00d") for one in columns.values()),
    )  # fmt: skip
    return unpack(pack(header_line(header)) + b"".join(block.content for block in blocks))


@given(
    base=st.lists(st.one_of(st.none(), st.integers(0, 2**60)), min_size=2, max_size=4),
    steps=st.lists(st.lists(st.one_of(st.none(), st.integers(-(2**55), 2**55)), min_size=4, max_size=4), max_size=6),
)
def test_what_a_block_writes_is_what_readings_v1_would(base: list[int | None], steps: list[list[int | None]]) -> None:
    """The quick line and the library's are the same bytes; a number that no difference tells is null, and asks for a
    new head."""
    columns = (SOLVER, OTHER)[: len(base) - 2]
    writer = BlockWriter((ZONE,), columns, base, 0, ())
    last, expected = list(base), b""
    for number, step in enumerate(steps, start=1):
        values = [None if one is None or was is None else was + one for was, one in zip(last, step, strict=False)]
        told = [
            None if value is None or was is None or abs(value - was) > 2**53 else value - was
            for value, was in zip(values, last, strict=True)
        ]
        news = writer.sample(number * 7, values)
        assert news == any(value is not None and one is None for value, one in zip(values, told, strict=True))
        expected += sample_line(7, told)
        last = [was if one is None else value for value, was, one in zip(values, last, told, strict=True)]
    assert zlib.decompress(writer.finish().content, 31).split(b"\n", 1)[1] == expected


def test_a_column_that_is_first_read_inside_a_block_asks_for_a_new_head() -> None:
    """Its number has no base yet; the sample says null, the next head the whole number."""
    writer = BlockWriter((ZONE,), (SOLVER,), [None, 1, 1], 0, ())
    assert not writer.sample(10, [None, 2, 2])
    assert writer.sample(20, [700, 3, 3])
    first = writer.finish()
    second = BlockWriter((ZONE,), (SOLVER,), [700, 3, 3], 20, ())
    second.sample(30, [900, 4, 4])
    found = [sample.zones["z0"] for sample in readings([first, second.finish()]).samples()]
    assert found == [None, None, None, 700, 900]


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Block], list[int]]:
    """Consecutive blocks of one window, the second column coming and going; and the moments that are marked."""
    at = zone = machine = 0
    own = other = 0
    blocks, marks = [], []
    for _ in range(draw(st.integers(1, 4))):
        columns = (SOLVER, OTHER) if draw(st.booleans()) else (SOLVER,)
        width = 2 + len(columns)
        writer = BlockWriter((ZONE,), columns, [zone, machine, own, other][:width], at, ())
        for _ in range(draw(st.integers(1, 12))):
            at += draw(st.integers(1, 400_000_000))
            zone += draw(st.integers(0, 1000))
            step = (draw(st.integers(0, 50)), draw(st.integers(0, 50)))
            own, other, machine = own + step[0], other + step[1], machine + sum(step)
            mark = draw(st.booleans())
            values: list[int | None] = [zone, machine, own, other][:width]
            if draw(st.integers(0, 9)) == 0:
                writer.sample(at, [None, *values[1:]], [Event("gap", subject="z0", word="EIO")])
                at += 1
            writer.sample(at, values, mark=mark)
            marks += [at] if mark else []
        blocks.append(writer.finish())
    return blocks, marks


@given(histories(), st.sampled_from([1, 500_000_000, 10_000_000_000]))
def test_a_coarser_block_has_the_same_energy_the_same_cpu_time_and_the_same_length(
    history: tuple[list[Block], list[int]], spacing_ns: int
) -> None:
    """Gross to the microjoule, CPU time of the trial to the microsecond, marks where they were, gaps still said."""
    blocks, marks = history
    fine, coarse = readings(blocks), readings([thinned(blocks, spacing_ns)])
    before, after = window_of(fine, None), window_of(coarse, None)
    assert coarse.header.length_ns == fine.header.length_ns
    assert after.cpu_ns == before.cpu_ns
    assert [zone.gross_uj for zone in after.zones] == [zone.gross_uj for zone in before.zones]
    assert set(marks) <= {sample.at_ns for sample in coarse.samples()}
    words = [{event.word for sample in one.samples() for event in sample.events} for one in (fine, coarse)]
    assert words[0] == words[1]
    steps = [two.at_ns - one.at_ns for one, two in itertools.pairwise(coarse.samples())]
    kept = [step for step in steps if step]
    # Beside marks and the end, no two samples are nearer than asked.
    assert sum(step < spacing_ns for step in kept) <= len(set(marks)) + 1


def filled(store: BlockStore, window: Held, blocks: int, samples: int = 200) -> None:
    at = sum(block.length_ns for block in window.blocks)
    for _ in range(blocks):
        writer = BlockWriter((ZONE,), (SOLVER,), [at, at + at % 7919, at], at, ())
        for _ in range(samples):
            at += 100_000_000
            writer.sample(at, [at, at + at % 7919, at])
        store.hold(writer.finish(), [window])


def test_what_is_kept_stays_bounded_and_whole() -> None:
    """Above the soft bound the oldest blocks become coarser, a little at a time, till it holds again."""
    store, window = BlockStore(), Held()
    filled(store, window, blocks=1500, samples=20)
    block = window.blocks[0]
    copies = SOFT_BYTES // (len(block.content) + 1024) + 200
    for _ in range(copies - len(window.blocks)):
        store.hold(replace(block, holders=set()), [window])
    store.settle()
    assert store.over_full
    steps = 0
    while store.over_full:
        store.thin_one()
        steps += 1
    assert store.total_bytes <= SOFT_BYTES < HARD_BYTES
    assert 0 < steps < 1000
    assert window.blocks[0].level == 1
    assert window.blocks[-1].level == 0
    length = window_of(readings(window.blocks[:3]), None).wall_ns
    assert length == sum(one.length_ns for one in window.blocks[:3])


def test_blocks_are_not_joined_across_another_windows_edge() -> None:
    """Whoever begins or ends between two blocks still finds his edge."""
    store, long, short = BlockStore(), Held(), Held()
    filled(store, long, blocks=2)
    store.hold(long.blocks[1], [short])
    short.blocks[:] = [long.blocks[1]]
    for _ in range(2):
        store.thin_one()
    assert [block.level for block in long.blocks] == [1, 1]
    assert short.blocks == [long.blocks[1]]
    assert readings(short.blocks).header.length_ns == 200 * 100_000_000


def test_dropped_windows_leave_nothing_behind() -> None:
    """A block goes with the last window that holds it."""
    store, one, two = BlockStore(), Held(), Held()
    filled(store, one, blocks=3)
    for block in list(one.blocks):
        store.hold(block, [two])
    store.drop(one)
    assert store.total_bytes > 0
    store.drop(two)
    assert store.total_bytes == 0


@pytest.mark.parametrize(("unit", "most_uw"), [("mw", 10**9), ("uj", 10**12)])
def test_what_must_be_read_often_is_not_made_coarser(unit: str, most_uw: int) -> None:
    """Sampled power, and a counter that could go round between samples a second apart."""
    store, window = BlockStore(), Held()
    zone = replace(ZONE, unit=unit, most_uw=most_uw, max_range=10**12 if unit == "uj" else None)  # type: ignore[arg-type]
    writer = BlockWriter((zone,), (), [1, 1], 0, ())
    writer.sample(100_000_000, [2, 2])
    store.hold(writer.finish(), [window])
    store.thin_one()
    assert window.blocks[0].level == 0


def test_percentages_of_a_boards_sms_add_up_where_blocks_are_thinned() -> None:
    """What else is said twice is said once. (G8)"""
    writer = BlockWriter((ZONE,), (), [0, 0], 0, ())
    used = Event("sm", subject="z0", number=30, cgroups=("c0",))
    others = Event("sm", subject="z0", number=5)
    for at in range(1, 5):
        writer.sample(at * 10, [at, at], [used, others, Event("cpus", number=3)])
    window = Held()
    store = BlockStore()
    store.hold(writer.finish(), [window])
    thin = thinned(window.blocks, 10**9)
    lines = zlib.decompress(thin.content, 31).decode().splitlines()
    told = [json.loads(line) for line in lines if "event" in line]
    assert told == [
        {"event": "sm", "subject": "z0", "number": 120, "cgroups": ["c0"]},
        {"event": "sm", "subject": "z0", "number": 20},
        {"event": "cpus", "number": 3},
    ]
