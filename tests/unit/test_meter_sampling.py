"""What a sampler says beside numbers, on looks that no test can make the kernel give: sleep, CPUs, GPUs."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from appliance.cgroups import Hierarchies
from appliance.energy.counter import AbsentZone, CounterZone, Occupancy, Reading
from appliance.energy.readings import Header, Readings, header_line, pack, unpack
from appliance.meter.daemon import peers
from appliance.meter.daemon.answering import Meter
from appliance.meter.daemon.blocks import Block
from appliance.meter.daemon.columns import CpuTimes
from appliance.meter.daemon.given import KEPT_NS, MOST_FILES_OF_ONE, Given
from appliance.meter.daemon.looking import Look, Looker
from appliance.meter.daemon.loop import Loop
from appliance.meter.daemon.notify import Notifier
from appliance.meter.daemon.peers import Connection
from appliance.meter.daemon.sampling import Sampler
from appliance.meter.daemon.store import BlockStore

BOARD = CounterZone(
    id="z7", key="gpu-1", path="1", name="board", domain="gpu", unit="mj", max_range=None, most_uw=10**9,
    update_period_ns=100_000_000, shortest_window_ns=10**9, source="stub", provenance="simulated",
)  # fmt: skip


class Board:
    """A counter whose zone and occupants the test sets."""

    name = "board"

    def __init__(self) -> None:
        self.shown = (BOARD,)
        self.after_rescan = self.shown
        self.pids: frozenset[int] = frozenset()
        self.millijoules: Reading = 5

    def zones(self) -> tuple[CounterZone, ...]:
        return self.shown

    def absent(self) -> tuple[AbsentZone, ...]:
        return ()

    def read(self) -> Sequence[Reading]:
        return [self.millijoules for _ in self.shown]

    def rescan(self) -> bool:
        changed = self.shown != self.after_rescan
        self.shown = self.after_rescan
        return changed

    def occupancy(self) -> Sequence[Occupancy]:
        return [Occupancy(zone.id, self.pids) for zone in self.shown]

    def close(self) -> None: ...


class Sleeper(Looker):
    """Whose machine slept between two looks."""

    slept_ns = 0

    def look(self) -> Look:
        seen = super().look()
        return replace(seen, offset_ns=seen.offset_ns + self.slept_ns)


@dataclass(eq=False)
class Window:
    id: str = "w"
    blocks: list[Block] = field(default_factory=list)


def sampler(board: Board, online: Path = Path("/nowhere")) -> tuple[Sampler, Sleeper]:
    looker = Sleeper((board,), CpuTimes(Hierarchies(())), online)
    return Sampler(looker, 100_000_000, lambda pids: (tuple(f"c{pid}" for pid in sorted(pids) if pid < 9), 0)), looker


def readings(window: Window) -> Readings:
    zones = {zone.id: zone for block in window.blocks for zone in block.zones}
    header = Header(
        run="r", trial=0, meter="m", opened_at="2026-01-02T03:04:05.000Z", boot_id="b", opened_boottime_ns="0",
        length_ns=sum(block.length_ns for block in window.blocks), open_skew_ns=0, close_skew_ns=0, period_ns=1,
        cpus=1, tick_ns=1, cpu_unit="us", zones=tuple(zones.values()), cgroups=(),
    )  # fmt: skip
    return unpack(pack(header_line(header)) + b"".join(block.content for block in window.blocks))


def words(window: Window) -> list[tuple[str, str | None, int | None, tuple[str, ...]]]:
    return [
        (event.kind, event.word, event.number, event.cgroups)
        for sample in readings(window).samples()
        for event in sample.events
        if event.kind != "late"
    ]


def test_a_machine_that_slept_inside_a_window_is_said_to_have_slept() -> None:
    """CLOCK_BOOTTIME ran on where CLOCK_MONOTONIC stood: by 50 ms is nothing, by more is a suspension. (W14)"""
    one, looker = sampler(Board())
    window = Window()
    one.join(window)
    one.write_edges()
    looker.slept_ns = 49_000_000
    one.tick()
    looker.slept_ns += 8_000_000_000
    one.tick()
    one.tick()
    one.leave(window)
    one.write_edges()
    slept = [number for kind, _, number, _ in words(window) if kind == "suspend"]
    assert len(slept) == 1
    assert abs((slept[0] or 0) - 8_000_000_000) < 1_000_000


def test_what_it_slept_before_a_window_is_none_of_the_windows_business() -> None:
    """The clocks are compared between looks of open windows only. (W14)"""
    one, looker = sampler(Board())
    first, second = Window("1"), Window("2")
    one.join(first)
    one.write_edges()
    one.leave(first)
    one.write_edges()
    looker.slept_ns = 3_600 * 10**9
    one.join(second)
    one.write_edges()
    one.leave(second)
    one.write_edges()
    assert [kind for kind, *_ in words(second)] == ["gpu"]


def test_who_is_on_a_board_is_said_at_every_head_and_when_it_changes() -> None:
    """Nobody is said too; a window that begins later knows from its first block on. (G8)"""
    board = Board()
    one, _ = sampler(board)
    long, short = Window("1"), Window("2")
    one.join(long)
    one.write_edges()
    one.tick()
    board.pids = frozenset({3, 99})
    one.tick()
    one.tick()
    one.join(short)
    one.write_edges()
    one.leave(short)
    one.write_edges()
    one.leave(long)
    one.write_edges()
    nobody, three = ("gpu", None, 0, ()), ("gpu", None, 0, ("c3",))
    assert words(short) == [three]
    # Its head, the change, the head that the short one's opening made, and that of its close.
    assert words(long) == [nobody, three, three, three]


def test_a_zone_of_another_identity_cuts_the_block_and_never_mixes_with_the_old_one() -> None:
    """The old column ends with null, the new one begins with its own number, the old is said to be gone. (W13)"""
    board = Board()
    one, _ = sampler(board)
    window = Window()
    one.join(window)
    one.write_edges()
    board.millijoules = "GPU_IS_LOST"
    board.after_rescan = (replace(BOARD, id="z8"),)
    one._rescanned_ns = 0
    one.tick()
    board.millijoules = 1
    one.tick()
    one.leave(window)
    one.write_edges()
    samples = list(readings(window).samples())
    assert [sample.zones.get("z7") for sample in samples][:2] == [5, None]
    assert [sample.zones.get("z8") for sample in samples][-1] == 1
    assert [event.subject for sample in samples for event in sample.events if event.kind == "zone_gone"] == ["z7"]
    assert one.looker.gaps["GPU_IS_LOST"] >= 1


def test_cpus_are_counted_from_the_kernels_list(tmp_path: Path) -> None:
    """`0-2,8-9` is five; what is no list leaves the number as it was. (T8)"""
    online = tmp_path / "online"
    online.write_text("0-2,8-9\n")
    _, looker = sampler(Board(), online)
    assert looker.cpus() == 5
    online.write_text("rubbish\n")
    assert looker.cpus() == 5
    online.write_text("0\n")
    assert looker.cpus() == 1


def test_without_an_open_window_a_look_is_written_nowhere() -> None:
    """Nothing is kept of what a watcher is shown."""
    one, _ = sampler(Board())
    one.tick()
    one.change()
    assert one.store.total_bytes == 0


def test_a_line_for_nobody_is_lost_and_nothing_waits(tmp_path: Path) -> None:
    """Standard error is a pipe that is full and that nobody drains: the daemon's one thread goes on (T8)."""
    program = (
        "import os, sys\n"
        "from appliance.meter.daemon.looking import log\n"
        "_, end = os.pipe()\n"
        "os.set_blocking(end, False)\n"
        "try:\n"
        "    while True: os.write(end, b'x' * 4096)\n"
        "except BlockingIOError: os.set_blocking(end, True)\n"
        "os.dup2(end, 2)\n"
        "log('y' * 5000)\n"
        "print('went on')\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True, timeout=60, cwd=tmp_path
    )
    assert ended.stdout == "went on\n"


def _loop(*zones: CounterZone) -> Loop:
    sampler = SimpleNamespace(period_ns=20 * 10**9, looker=SimpleNamespace(zones=zones), store=BlockStore())
    meter = SimpleNamespace(sampler=sampler, places=None, watching=None)
    return Loop(cast(Meter, meter), Notifier(), listener=None)


def test_a_counter_that_came_later_is_read_as_often_as_it_needs(capfd: pytest.CaptureFixture[str]) -> None:
    """The period was checked against those of the start only; a shorter one is kept, and said (energy.md 2.1)."""
    narrow = replace(BOARD, key="package-1", unit="uj", domain="package", max_range=65_532_610_987, most_uw=10**9)
    loop = _loop(narrow)
    assert loop._pace() == loop._pace() < 17 * 10**9
    assert capfd.readouterr().err.count("package-1 may go round unseen: read every 16383 ms") == 1
    assert _loop()._pace() == 20 * 10**9


def test_root_still_asks_where_users_have_filled_the_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some are kept for root, who must see what goes on (T10)."""
    loop = _loop()
    loop._connections = {10_000 + number: cast(Connection, SimpleNamespace(uid=number)) for number in range(1, 481)}
    admitted = {}
    for uid in (1000, 0):
        monkeypatch.setattr(peers, "_uid", lambda _, uid=uid: uid)
        ours, its = socket.socketpair()
        loop._welcome(its)
        admitted[uid] = its.fileno() in loop._connections
        ours.close()
    assert admitted == {1000: False, 0: True}


def test_readings_that_nobody_takes_do_not_fill_the_memory() -> None:
    """A descriptor that a client holds is memory of the daemon's: its user's oldest are emptied, another's stay, and
    after a while all are (D5).
    """
    given, held = Given(), []

    def give(uid: int, length: int) -> None:
        fd = os.memfd_create("readings-v1")
        os.truncate(fd, length)
        held.append(os.dup(fd))
        given.add(uid, fd, length)

    give(1, 100)
    for _ in range(40):
        give(2, 2**20)
    assert os.fstat(held[0]).st_size == 100
    sizes = [os.fstat(fd).st_size for fd in held[1:]]
    assert sizes == [0] * 8 + [2**20] * 32
    for _ in range(70):
        give(3, 1)
    assert sum(1 for fd in held[41:] if os.fstat(fd).st_size) == MOST_FILES_OF_ONE
    given.expire(time.monotonic_ns() + KEPT_NS)
    assert not any(os.fstat(fd).st_size for fd in held)
    assert not list(given.deadlines())
    for fd in held:
        os.close(fd)


def test_an_edge_is_read_when_it_is_asked_for_and_written_after_the_answer() -> None:
    """What the counter says in between is of the next window, and whatever comes first writes the edge. (T1)"""
    board = Board()
    one, _ = sampler(board)
    first, second = Window("1"), Window("2")
    one.join(first)
    board.millijoules = 7
    one.leave(first)
    board.millijoules = 11
    assert first.blocks == []
    one.join(second)
    board.millijoules = 20
    one.leave(second)
    one.write_edges()
    numbers = [[sample.zones["z7"] for sample in readings(one).samples()] for one in (first, second)]
    assert numbers == [[5, 7], [11, 20]]


def test_a_regular_sample_right_after_an_edge_is_passed_over_but_never_two_in_a_row() -> None:
    """The edge was one; windows that open and close all the time keep no sample away. (T2)"""
    board = Board()
    one, looker = sampler(board)
    meter = cast("Meter", SimpleNamespace(sampler=one, places=SimpleNamespace(removing=False), watching=None))
    loop = Loop(meter, Notifier({}), listener=None)
    ticks: list[int] = []
    one.tick = lambda: ticks.append(1) or looker.look()  # type: ignore[method-assign,func-returns-value]
    window = Window()
    one.join(window)
    one.write_edges()
    taken = []
    for _ in range(4):
        one.mark()
        loop._sample_ns = time.monotonic_ns()
        loop._sample_if_due()
        taken.append(len(ticks))
    assert taken == [0, 1, 1, 2]
    time.sleep(0.02)
    loop._sample_ns = time.monotonic_ns()
    loop._sample_if_due()
    assert len(ticks) == 3
