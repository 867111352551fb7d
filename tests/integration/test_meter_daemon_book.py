"""Handles and windows without a socket, on real cgroups: what only long waiting would show of the daemon."""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from appliance.cgroups import hierarchies
from appliance.energy.readings import unpack
from appliance.meter.counters.powercap import PowercapCounter
from appliance.meter.daemon import windows
from appliance.meter.daemon.answering import Meter
from appliance.meter.daemon.columns import CpuTimes
from appliance.meter.daemon.handles import Peer
from appliance.meter.daemon.looking import Looker
from appliance.meter.daemon.loop import Loop
from appliance.meter.daemon.messages import Adopt, Open, Prepare, Refused
from appliance.meter.daemon.notify import Notifier
from appliance.meter.daemon.placing import Places
from appliance.meter.daemon.releasing import Reader, header, sealed
from appliance.meter.daemon.sampling import Sampler
from appliance.meter.daemon.watch_lines import Watching
from appliance.meter.daemon.windows import KEPT_NS, LONGEST_NS, Book
from tests.meter_bench import run_of_its_own
from tests.sysfs_tree import PowercapTree

pytestmark = pytest.mark.root
TREES = hierarchies()
OURS = Peer(connection=1, uid=0)


@dataclass(frozen=True)
class Parts:
    book: Book
    places: Places
    sampler: Sampler
    tree: PowercapTree

    def settle(self) -> None:
        while self.places.step():
            time.sleep(0.005)


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Parts]:
    tree = PowercapTree(tmp_path / "powercap")
    tree.packages(1)
    cpu = CpuTimes(TREES)
    looker = Looker((PowercapCounter(tree.root),), cpu)
    places = Places(TREES, cpu)
    sampler = Sampler(looker, 100_000_000, lambda pids: ((), len(pids)))
    parts = Parts(Book(sampler, places), places, sampler, tree)
    yield parts
    for handle in list(parts.book.handles.values()):
        parts.book.drop(handle)
    parts.settle()
    looker.close()


@pytest.fixture
def run() -> Iterator[str]:
    with run_of_its_own() as run:
        yield run


def prepare(parts: Parts, run: str, trial: int = 0, peer: Peer = OURS) -> str:
    return parts.book.prepare(Prepare("prepare", 1, run, trial, ("solver",)), peer).handle


def there(run: str) -> bool:
    return any(folder.exists() for folder in TREES.folders(f"/bench-appliance/{run}"))


def test_a_dead_clients_handle_is_kept_for_a_minute_and_then_dropped_with_its_cgroups(parts: Parts, run: str) -> None:
    """59 s later it can be released; 60 s later it is gone, its readings and its cgroups too. (formats 5)"""
    handle = prepare(parts, run)
    parts.book.open(Open("open", 1, handle), OURS)
    parts.sampler.tick()
    now = time.monotonic_ns()
    parts.book.client_died(OURS.connection)
    assert parts.book.open_windows == 0
    assert parts.sampler.store.total_bytes > 0
    parts.book.expire(now + KEPT_NS - 10**9)
    assert list(parts.book.handles) == [handle]
    parts.book.expire(time.monotonic_ns() + KEPT_NS)
    parts.settle()
    assert parts.book.handles == {}
    assert parts.sampler.store.total_bytes == 0
    assert not there(run)


def test_only_the_dead_clients_windows_end(parts: Parts, run: str) -> None:
    """Another connection's, of the same user and run, goes on."""
    first, second = prepare(parts, run, 1, Peer(1, 0)), prepare(parts, run, 2, Peer(2, 0))
    for handle in (first, second):
        parts.book.open(Open("open", 1, handle), OURS)
    parts.book.client_died(1)
    assert parts.book.open_windows == 1
    assert parts.book.handles[first].expires_ns is not None
    assert parts.book.handles[second].expires_ns is None


def test_a_window_that_somebody_forgot_ends_after_a_day(parts: Parts, run: str) -> None:
    """What one window keeps is bounded in time, too."""
    handle = prepare(parts, run)
    parts.book.open(Open("open", 1, handle), OURS)
    now = time.monotonic_ns()
    parts.book.expire(now + LONGEST_NS - 10**9)
    assert parts.book.open_windows == 1
    parts.book.expire(now + LONGEST_NS + 10**9)
    assert parts.book.open_windows == 0


def test_a_window_ends_before_it_has_seen_more_cgroups_than_readings_can_name(
    parts: Parts, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trials that come and go beside a long window are columns of it; readings that nobody could unpack help nobody."""
    monkeypatch.setattr(windows, "MOST_COLUMNS", 5)
    handle = prepare(parts, run, 99)
    parts.book.open(Open("open", 1, handle), OURS)
    for trial in range(4):
        parts.book.drop(parts.book.handles[prepare(parts, run, trial)])
    assert parts.book.open_windows == 1
    prepare(parts, run, 7)
    assert parts.book.open_windows == 0
    window = parts.book.handles[handle].window
    assert window is not None
    assert len(window.columns) == 5


def test_windows_inside_one_are_so_many_and_no_more(parts: Parts, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """too_many, and the window goes on. (D5)"""
    monkeypatch.setattr(windows, "MOST_INNER", 3)
    handle = prepare(parts, run)
    opened = parts.book.open(Open("open", 1, handle), OURS)
    for _ in range(3):
        parts.book.open(Open("open", 1, handle, inside=opened.window), OURS)
    with pytest.raises(Refused) as refused:
        parts.book.open(Open("open", 1, handle, inside=opened.window), OURS)
    assert refused.value.code == "too_many"
    assert parts.book.open_windows == 4


def test_all_users_together_have_so_many_handles_and_no_more(
    parts: Parts, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second user is refused once the first ones hold them all."""
    monkeypatch.setattr(windows, "MOST_HANDLES", 2)
    prepare(parts, f"{run}a", 0, Peer(1, 0))
    prepare(parts, f"{run}b", 0, Peer(2, 1))
    with pytest.raises(Refused) as refused:
        prepare(parts, f"{run}c", 0, Peer(3, 2))
    assert refused.value.code == "too_many"


def test_a_run_is_its_first_users_while_anything_of_it_is_prepared(parts: Parts, run: str) -> None:
    """Another user can neither read nor remove its cgroups; afterwards the name is free."""
    handle = prepare(parts, run)
    with pytest.raises(Refused) as refused:
        prepare(parts, run, 1, Peer(2, 1000))
    assert refused.value.code == "not_yours"
    parts.book.drop(parts.book.handles[handle])
    parts.settle()
    assert prepare(parts, run, 1, Peer(2, 1000))


def test_what_was_made_for_a_prepare_that_is_refused_goes_again(parts: Parts, run: str) -> None:
    """Roles of which one is counted already leave nothing of the others."""
    parts.book.prepare(Prepare("prepare", 1, run, None, ("model",)), OURS)
    with pytest.raises(Refused):
        parts.book.prepare(Prepare("prepare", 1, run, None, ("harness", "model")), OURS)
    parts.settle()
    assert not any(folder.exists() for folder in TREES.folders(f"/bench-appliance/{run}/harness"))
    assert any(folder.exists() for folder in TREES.folders(f"/bench-appliance/{run}/model"))


def test_a_pid_that_is_not_there_is_not_adopted(parts: Parts, run: str) -> None:
    """And nothing is kept of it."""
    with pytest.raises(Refused):
        parts.book.prepare(Prepare("prepare", 1, run, adopt=Adopt(2**22 - 1)), OURS)
    assert parts.book.handles == {}


def test_lines_for_a_watcher_that_does_not_read_are_dropped_and_then_so_is_he(parts: Parts) -> None:
    """Never more than one line waits for him; after ten seconds his connection ends, and nobody watches."""
    looker = parts.sampler.looker
    reader = Reader("m", "b", 100_000_000, looker.cpu, looker)
    watching = Watching(TREES, looker, parts.places, reader, "0")
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    its.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    meter = Meter("0", parts.sampler, parts.places, reader, watching)
    loop = Loop(meter, Notifier({}), listener=None, clients=[its])
    connection = next(iter(loop._connections.values()))
    connection.watching = True
    now = time.monotonic_ns()
    seconds = 0
    while loop._connections:
        assert connection._unsent < 64 * 1024
        loop._tell_watchers(now + seconds * 10**9)
        seconds += 1
        assert seconds < 100
    assert seconds > 10
    ours.close()


@pytest.mark.parametrize("busy", [1, 2, 3])
def test_readings_are_sealed_although_the_kernel_is_busy_with_a_page_of_them(
    parts: Parts, run: str, monkeypatch: pytest.MonkeyPatch, busy: int
) -> None:
    """F_SEAL_WRITE is refused while anything holds a page: another file is taken, three at most. (formats 5)"""
    name = prepare(parts, run)
    parts.book.open(Open("open", 1, name), OURS)
    parts.sampler.tick()
    handle = parts.book.handle(name, OURS)
    parts.book.take_out(handle)
    assert handle.window is not None
    cpu = parts.sampler.looker.cpu
    head = header(handle, handle.window, Reader("test/1", "0" * 64, 100_000_000, cpu, parts.sampler.looker), None)
    seal, held = fcntl.fcntl, list[mmap.mmap]()

    def held_first(fd: int, command: int, *words: int) -> int:
        if command == fcntl.F_ADD_SEALS and len(held) < busy:
            held.append(mmap.mmap(fd, 0))
        return seal(fd, command, *words)

    monkeypatch.setattr(fcntl, "fcntl", held_first)
    open_before = len(list(Path("/proc/self/fd").iterdir()))
    if busy == 3:
        with pytest.raises(OSError, match="busy"):
            sealed(handle.window, head)
    else:
        fd, named = sealed(handle.window, head)
        content = os.pread(fd, 1 << 20, 0)
        with pytest.raises(PermissionError):
            os.pwrite(fd, b"x", 0)
        os.close(fd)
        assert (hashlib.sha256(content).hexdigest(), len(content)) == (named.sha256, named.bytes)
        assert len(list(unpack(content).samples())) >= 1
    assert len(held) == busy
    for one in held:
        one.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == open_before
