"""Others' counters in an unprivileged child: a real process, a real entry point, a wall meter over HTTP."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.errors import MeterRefused
from appliance.meter.counters.child_counter import ChildCounter
from appliance.meter.counters.child_process import Program
from appliance.meter.counters.sources import open_counters
from tests.counter_plugins import Loopback, installed, until
from tests.sysfs_tree import PowercapTree


@pytest.fixture(scope="module")
def plugins() -> Iterator[Path]:
    with installed(wall_meter="1.2", scripted="0.1") as folder:
        yield folder


@pytest.fixture
def server(plugins: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    with Loopback() as one:
        monkeypatch.setenv("PYTHONPATH", str(plugins))
        monkeypatch.setenv("BENCH_APPLIANCE_COUNTER_WALL_URL", one.url)
        monkeypatch.setenv("BENCH_APPLIANCE_COUNTER_SCRIPT_URL", one.url)
        one.answers = {"begin": {}, "read": {"readings": [7]}, "rescan": {}, "status": {"total_wh": 1.5}}
        yield one


@pytest.fixture
def scripted(server: Loopback) -> Iterator[Callable[..., ChildCounter]]:
    with contextlib.ExitStack() as stack:

        def opened(**arguments: Any) -> ChildCounter:
            arguments = {"patience_seconds": 2.0, "first_pause_seconds": 0.05, **arguments}
            one = ChildCounter(Program("plugin:scripted", ("plugin", "scripted")), **arguments)
            stack.callback(one.close)
            return one

        yield opened


def children() -> set[int]:
    """Processes of this one."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        found |= {int(pid) for pid in (task / "children").read_text().split()}
    return found


def test_a_wall_meter_over_http_is_a_counter_by_its_entry_point(server: Loopback) -> None:
    """Its label names the plug-in and its version, its key the plug-in; it is not added to anything (J47)."""
    counter = ChildCounter.of_plugin("wall-meter")
    zone = counter.zones()[0]
    assert (zone.key, zone.source, zone.unit, zone.domain) == (
        "wall-meter/outlet",
        "plugin:wall-meter 1.2",
        "mj",
        "wall",
    )
    assert (zone.summed, zone.provenance) == (False, "hw_shunt")
    assert until(counter.read, lambda one: one != ["STALE"]) == [5_400_000]
    server.answers["status"] = {"total_wh": 2.5}
    assert until(counter.read, lambda one: one != [5_400_000]) == [9_000_000]
    server.answers["status"] = 503
    assert until(counter.read, lambda one: one != [9_000_000]) == ["UNREACHABLE"]
    server.answers["status"] = {"total_wh": None}
    assert until(counter.read, lambda one: one != ["UNREACHABLE"]) == ["NOT_A_NUMBER"]
    counter.close()


def test_alone_on_a_machine_it_is_the_sum(server: Loopback, tmp_path: Path) -> None:
    """Beside the packages that it holds it is not (J47)."""
    tree = PowercapTree(tmp_path / "powercap")
    for packages, summed in ((0, True), (1, False)):
        tree.packages(packages)
        counters = open_counters(powercap=tree.root, plugins=["wall-meter"])
        zones = {zone.key: zone.summed for one in counters for zone in one.zones() if zone.domain != "gpu"}
        assert zones.pop("wall-meter/outlet") is summed
        assert zones == ({"package-0": True} if packages else {})
        for one in counters:
            one.close()


def test_a_refusal_leaves_no_child_and_no_file(server: Loopback, tmp_path: Path) -> None:
    """Of the counters that were opened before it (J47)."""
    tree = PowercapTree(tmp_path / "powercap")
    tree.packages()
    files, before = len(list(Path("/proc/self/fd").iterdir())), children()
    with pytest.raises(MeterRefused):
        open_counters(powercap=tree.root, plugins=["wall-meter", "none"])
    assert children() == before
    assert len(list(Path("/proc/self/fd").iterdir())) == files


def test_a_plugin_or_backend_that_is_not_there_is_refused_with_the_known_ones(server: Loopback) -> None:
    """(J47)"""
    with pytest.raises(MeterRefused, match="no counter plug-in has this name") as refused:
        open_counters(plugins=["wall-metre"])
    assert "scripted, wall-meter" in str(refused.value.mend)
    with pytest.raises(MeterRefused, match="no CPU backend is called 'perf'"):
        open_counters(cpu_backend="perf")


def test_a_plugin_has_no_rights(scripted: Callable[..., ChildCounter], monkeypatch: pytest.MonkeyPatch) -> None:
    """No capability, no way back, no file of the daemon's, none that it can write, no secret of the environment."""
    monkeypatch.setenv("SECRET_TOKEN", "s3cret")
    root, groups = os.geteuid() == 0, os.getgroups()
    if root:
        os.setgroups([*groups, 4242])
    try:
        with Path(__file__).open() as ours:
            os.set_inheritable(ours.fileno(), True)
            counter = scripted()
    finally:
        if root:
            os.setgroups(groups)
    facts = {one.path: one.reason for one in counter.absent()}
    assert facts["uid"] == ("65534 65534 65534 65534" if root else " ".join([str(os.getuid())] * 4))
    if root:
        assert facts["groups"] == "none"
    assert facts["caps"] == " ".join(["0" * 16] * 4)
    assert (facts["no_new_privs"], facts["root"], facts["write"]) == ("1", "refused", "refused")
    assert facts["core"] == "(0, 0)"
    assert facts["memory"] == "(1073741824, 1073741824)"
    assert facts["folder"] == "/"
    # Three streams, two pipes, and the listing itself.
    assert len(facts["files"].split()) == 6
    assert "SECRET_TOKEN" not in facts["environment"]
    assert "BENCH_APPLIANCE_COUNTER_SCRIPT_URL" in facts["environment"]


@pytest.mark.root
def test_what_is_closed_to_others_is_opened_for_its_own_folder_alone(
    scripted: Callable[..., ChildCounter], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Python in root's home runs as nobody, and sees nothing else of that home; nobody else sees any difference."""
    with installed(closed=True, scripted="0.1") as folder:
        monkeypatch.setenv("PYTHONPATH", str(folder))
        facts = {one.path: one.reason for one in scripted().absent()}
        assert facts["beside"] == "site"
        assert (folder.parent / "secret").read_text() == "s3cret"
        assert folder.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.root
def test_a_package_that_nobody_can_read_is_said_to_be_missing(server: Loopback, plugins: Path) -> None:
    """Not run with more rights instead (J40)."""
    (plugins / "scripted.py").chmod(0o600)
    try:
        counter = ChildCounter.of_plugin("scripted")
    finally:
        (plugins / "scripted.py").chmod(0o644)
    assert counter.zones() == ()
    assert "Permission denied" in counter.absent()[0].reason
    counter.close()


def test_a_plugin_poses_as_no_other_counter(scripted: Callable[..., ChildCounter], server: Loopback) -> None:
    """Whatever source, key and sum it claims (J47)."""
    server.answers["begin"] = {"zones": [{"key": "package-0", "domain": "package", "source": "powercap"}]}
    zone = scripted().zones()[0]
    assert (zone.key, zone.source, zone.summed) == ("scripted/package-0", "plugin:scripted 0.1", False)


def test_a_dead_child_is_a_lack_and_is_started_again(scripted: Callable[..., ChildCounter], server: Loopback) -> None:
    """Its zones keep their ids; its last words are told once, without their control characters (W12)."""
    said: list[str] = []
    counter = scripted(say=said.append)
    zones = counter.zones()
    assert counter.read() == [7]
    server.answers["read"] = {"do": "die"}
    assert counter.read() == ["CHILD_DIED"]
    server.answers["read"] = {"readings": [9]}
    assert until(counter.read, lambda one: one == [9]) == [9]
    assert counter.zones() == zones
    assert said == ["plugin:scripted ended (CHILD_DIED): ?[31mtold to die", "plugin:scripted runs again"]


def test_a_zone_that_begins_to_fail_is_told_once_and_its_return_too(
    scripted: Callable[..., ChildCounter], server: Loopback
) -> None:
    """As the kernel's counters are (W12)."""
    said: list[str] = []
    counter = scripted(say=said.append)
    assert counter.read() == [7]
    server.answers["read"] = {"readings": ["UNREACHABLE"]}
    assert [counter.read() for _ in range(3)] == [["UNREACHABLE"]] * 3
    server.answers["read"] = {"readings": [9]}
    assert [counter.read() for _ in range(2)] == [[9]] * 2
    assert said == ["UNREACHABLE scripted/a", "scripted/a reads again"]


def test_a_setting_that_did_not_arrive_is_named_with_what_passes_it_on(
    server: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No KeyError of a plug-in's: the variable, and that sudo drops it (J47)."""
    monkeypatch.delenv("BENCH_APPLIANCE_COUNTER_WALL_URL")
    counter = ChildCounter.of_plugin("wall-meter")
    reason = counter.absent()[0].reason
    counter.close()
    assert "BENCH_APPLIANCE_COUNTER_WALL_URL" in reason
    assert "was it exported? (sudo keeps it with -E)" in reason
    assert "KeyError" not in reason


def test_one_that_raises_is_dead(scripted: Callable[..., ChildCounter], server: Loopback) -> None:
    """(W12)"""
    said: list[str] = []
    counter = scripted(say=said.append)
    server.answers["read"] = {"do": "raise"}
    assert counter.read() == ["CHILD_DIED"]
    assert said == ["plugin:scripted ended (CHILD_DIED): RuntimeError: told so"]


def test_the_pause_before_each_start_doubles(scripted: Callable[..., ChildCounter], server: Loopback) -> None:
    """A child that dies at every read is not started at every read (W12)."""
    began: list[float] = []

    def begin() -> dict[str, Any]:
        began.append(time.monotonic())
        return {}

    server.answers["begin"] = begin
    server.answers["read"] = {"do": "die"}
    counter = scripted(first_pause_seconds=0.3)
    assert until(lambda: (counter.read(), len(began))[1], lambda count: count == 4) == 4
    pauses = [after - before for before, after in itertools.pairwise(began)]
    assert pauses == sorted(pauses)


def test_a_slow_child_answers_a_later_read(scripted: Callable[..., ChildCounter], server: Loopback) -> None:
    """And is never waited for; what is older than the counter's own period is a lack (row STALE)."""
    server.answers["begin"] = {"zones": [{"update_period_ns": 60_000_000_000}]}
    counter = scripted(patience_seconds=0.01)
    assert until(counter.read, lambda one: one == [7]) == [7]
    server.answers["read"] = {"do": "sleep", "seconds": 0.5, "readings": [8]}
    began = time.monotonic()
    kept = [counter.read() for _ in range(20)]
    assert kept == [[7]] * 20
    assert time.monotonic() - began < 0.4, "twenty reads waited for one answer"
    assert until(counter.read, lambda one: one == [8]) == [8]


def test_a_reading_older_than_its_counters_period_is_stale(
    scripted: Callable[..., ChildCounter], server: Loopback
) -> None:
    """(W12)"""
    counter = scripted(patience_seconds=0.01)
    until(counter.read, lambda one: one == [7])
    server.answers["read"] = {"do": "sleep", "seconds": 0.3, "readings": [8]}
    assert until(counter.read, lambda one: one != [7]) == ["STALE"]


@pytest.mark.parametrize(
    ("pattern", "times"),
    [([255], 5), ([0, 0, 0, 2, 123, 125], 1), ([0, 0, 0, 1, 65], 1), ([0, 0, 0, 4, 110, 117, 108, 108], 1)],
)
def test_what_is_no_frame_ends_the_child(
    scripted: Callable[..., ChildCounter], server: Loopback, pattern: list[int], times: int
) -> None:
    """(W12)"""
    counter = scripted()
    server.answers["read"] = {"do": "babble", "bytes": pattern, "times": times, "readings": [1]}
    assert counter.read() == ["BAD_FRAME"]
    server.answers["read"] = {"readings": [9]}
    assert until(counter.read, lambda one: one == [9]) == [9]


@pytest.mark.parametrize("readings", [[], [1, 2]])
def test_not_one_reading_a_zone_ends_the_child(
    scripted: Callable[..., ChildCounter], server: Loopback, readings: list[int]
) -> None:
    """(W12)"""
    counter = scripted()
    server.answers["read"] = {"readings": readings}
    assert counter.read() == ["BAD_FRAME"]


@pytest.mark.parametrize("reading", [-1, 2**64, True, None, 1.5, "", "eio", "E" * 41, [1]])
def test_what_is_no_reading_is_a_lack(scripted: Callable[..., ChildCounter], server: Loopback, reading: object) -> None:
    """(W12)"""
    counter = scripted()
    server.answers["read"] = {"readings": [reading]}
    assert counter.read() == ["NOT_A_NUMBER"]


def test_a_shouting_child_is_neither_heard_nor_stopped(scripted: Callable[..., ChildCounter], server: Loopback) -> None:
    """What it writes to its standard error is read and forgotten, its output goes nowhere."""
    server.answers["begin"] = {"zones": [{"update_period_ns": 60_000_000_000}]}
    counter = scripted(patience_seconds=0.05)
    server.answers["read"] = {"do": "shout", "readings": [3]}
    assert until(counter.read, lambda one: one == [3]) == [3]


@pytest.mark.parametrize(
    "zone",
    [
        {"unit": "kwh"},
        {"domain": "moon"},
        {"provenance": "certified"},
        {"most_uw": 0},
        {"max_range": 0},
        {"key": ""},
        {"key": "a\nb"},
        {"name": "x" * 201},
        {"flags": ["contended"]},
        {"summed": 1},
        {"update_period_ns": -1},
        {"claimed": "none"},
    ],
)
def test_a_zone_that_is_none_is_not_taken(
    scripted: Callable[..., ChildCounter], server: Loopback, zone: dict[str, Any]
) -> None:
    """The counter is absent, and says why (J40)."""
    server.answers["begin"] = {"zones": [zone]}
    counter = scripted()
    assert counter.zones() == ()
    assert counter.absent()[0].reason.startswith("BAD_FRAME: ")


def test_zones_that_change_are_taken_over_at_the_next_look(
    scripted: Callable[..., ChildCounter], server: Loopback
) -> None:
    """Till then they are gone; what stayed the same keeps its id (W13)."""
    counter = scripted()
    before = counter.zones()[0]
    server.answers["rescan"] = {"zones": [{}, {"id": "b", "key": "b"}]}
    server.answers["read"] = {"readings": ["EIO"]}
    assert counter.read() == ["EIO"]
    server.answers["read"] = lambda: {"readings": [1, 2] if "rescan" in server.asked else ["EIO"]}
    assert until(counter.read, lambda one: one == ["ENODEV"]) == ["ENODEV"]
    assert counter.rescan()
    assert [zone.key for zone in counter.zones()] == ["scripted/a", "scripted/b"]
    assert counter.zones()[0] == before
    assert until(counter.read, lambda one: one == [1, 2]) == [1, 2]


def test_a_board_of_a_plugins_tells_who_is_on_it(scripted: Callable[..., ChildCounter], server: Loopback) -> None:
    """By our id; nobody knows before the first answer and after its death (G8)."""
    server.answers["begin"] = {"zones": [{"domain": "gpu"}]}
    counter = scripted()
    zone = counter.zones()[0]
    assert zone.summed
    assert [(one.zone, one.sharing) for one in counter.occupancy()] == [(zone.id, "unknown")]
    server.answers["read"] = {"readings": [1], "on": [{"zone": "a", "pids": [41, 42]}]}
    counter.read()
    assert [(one.zone, one.pids, one.sharing) for one in counter.occupancy()] == [(zone.id, frozenset({41, 42}), None)]
    server.answers["read"] = {"do": "die"}
    counter.read()
    assert [one.sharing for one in counter.occupancy()] == ["unknown"]


def test_a_plugin_that_cannot_be_made_is_absent_till_it_can(
    scripted: Callable[..., ChildCounter], server: Loopback
) -> None:
    """Its reason is one line (J40)."""
    server.answers["begin"] = {"do": "raise"}
    counter = scripted()
    assert [one.reason for one in counter.absent()] == ["RuntimeError: told so in two lines"]
    assert counter.read() == []


def test_closing_ends_a_child_that_is_stuck(scripted: Callable[..., ChildCounter], server: Loopback) -> None:
    """No process and no open file stays."""
    files, before = len(list(Path("/proc/self/fd").iterdir())), children()
    counter = scripted(patience_seconds=0.05)
    server.answers["read"] = {"do": "sleep", "seconds": 600}
    counter.read()
    assert children() - before
    counter.close()
    counter.close()
    assert children() == before
    assert (counter.zones(), counter.read(), counter.rescan()) == ((), [], False)
    assert until(lambda: len(list(Path("/proc/self/fd").iterdir())), lambda count: count <= files + 1) <= files + 1


def test_closing_ends_what_a_child_has_started(scripted: Callable[..., ChildCounter], server: Loopback) -> None:
    """Its whole session."""
    counter = scripted()
    argument = f"{600 + os.getpid() / 1e6:f}"
    server.answers["read"] = {"do": "spawn", "argument": argument, "readings": [1]}
    assert counter.read() == [1]
    assert until(lambda: running(argument), bool)
    counter.close()
    assert not until(lambda: running(argument), lambda found: not found)


def running(argument: str) -> bool:
    """A process with this argument; those that end meanwhile are none."""
    found = False
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found = found or argument.encode() in file.read_bytes()
    return found


def test_the_end_of_the_daemon_ends_a_child_that_is_stuck(
    scripted: Callable[..., ChildCounter], server: Loopback
) -> None:
    """Its pipe tells it, also in the middle of a reading."""
    counter = scripted(patience_seconds=0.05)
    server.answers["read"] = {"do": "sleep", "seconds": 600}
    counter.read()
    child = counter._child
    assert child is not None
    os.close(child._requests)
    child._open.remove(child._requests)
    assert until(child._popen.poll, lambda status: status is not None) == 0
