"""Windows of the real daemon over a powercap tree that the test changes: edges, blocks, faults, ends."""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import json
import os
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.cgroups import hierarchies
from appliance.energy.readings import Event, Readings, Sample, unpack
from appliance.errors import MeterRefused
from appliance.meter.client import MeterClient
from appliance.meter.daemon import windows
from appliance.meter.daemon.messages import Opened, Prepared
from tests.meter_bench import Daemon, meter_daemon, run_of_its_own
from tests.sysfs_tree import PowercapTree

pytestmark = pytest.mark.root
ZONE = "intel-rapl:0"


@pytest.fixture
def tree(tmp_path: Path) -> PowercapTree:
    tree = PowercapTree(tmp_path / "powercap")
    tree.packages(2)
    return tree


@pytest.fixture
def daemon(tmp_path: Path, tree: PowercapTree) -> Iterator[Daemon]:
    with meter_daemon(tmp_path, tree.root) as daemon:
        yield daemon


@pytest.fixture
def client(daemon: Daemon) -> Iterator[MeterClient]:
    with daemon.client() as client:
        yield client


@pytest.fixture
def run() -> Iterator[str]:
    with run_of_its_own() as run:
        yield run


def begin(client: MeterClient, run: str, trial: int = 0) -> tuple[Prepared, Opened]:
    prepared = client.prepare(run, trial, ["solver"])
    return prepared, client.open(prepared.handle)


def end(client: MeterClient, prepared: Prepared, opened: Opened) -> Readings:
    client.close(opened.window)
    released = client.release(prepared.handle)
    assert released.readings is not None
    return unpack(released.readings)


def of_zone(readings: Readings, key: str = "package-0") -> list[int | None]:
    """Every number of a zone's key, under whatever ids."""
    ids = [zone.id for zone in readings.header.zones if zone.key == key]
    return [sample.zones[one] for sample in readings.samples() for one in ids if one in sample.zones]


def events(readings: Readings, kind: str) -> list[Event]:
    return [event for sample in readings.samples() for event in sample.events if event.kind == kind]


def until_sampled(client: MeterClient, samples: int = 2) -> None:
    """Long enough for so many samples, by the daemon's own clock."""
    time.sleep(0.1 * samples + 0.05)


# ---------------------------------------------------------------------------------------------- edges


def test_a_window_shorter_than_a_period_has_its_two_edges_and_all_its_energy(
    client: MeterClient, tree: PowercapTree, run: str
) -> None:
    """The first reading is a baseline at 0, whatever the counter says; the last stands at the close. (T1, W17)"""
    prepared, opened = begin(client, run)
    tree.add(ZONE, 7_000_000)
    readings = end(client, prepared, opened)
    samples = list(readings.samples())
    assert [samples[0].at_ns, samples[-1].at_ns] == [0, readings.header.length_ns]
    assert len(samples) <= 3
    assert [samples[0].zones["z0"], samples[-1].zones["z0"]] == [1_000_000, 8_000_000]


def test_energy_before_the_opening_and_after_the_close_is_in_no_window(
    client: MeterClient, tree: PowercapTree, run: str
) -> None:
    """What the counter did outside is outside, whatever the daemon read meanwhile for others."""
    long = begin(client, run, 1)
    tree.add(ZONE, 1_000_000)
    short = begin(client, run, 2)
    tree.add(ZONE, 20_000_000)
    client.close(short[1].window)
    tree.add(ZONE, 300_000_000)
    until_sampled(client)
    inner = of_zone(end(client, *short))
    outer = of_zone(end(client, *long))
    assert inner[-1] - inner[0] == 20_000_000
    assert outer[-1] - outer[0] == 321_000_000


def test_windows_that_overlap_share_the_bytes_between_their_edges(client: MeterClient, run: str) -> None:
    """A block is packed once: the shorter window's blocks lie in the longer one's, byte for byte."""
    long = begin(client, run, 1)
    short = begin(client, run, 2)
    until_sampled(client, 3)
    client.close(short[1].window)
    client.close(long[1].window)
    of_short, of_long = (client.release(one[0].handle).readings for one in (short, long))
    assert of_short is not None
    assert of_long is not None
    behind_header = of_short.index(b"\x1f\x8b\x08", 3)
    assert of_short[behind_header:] in of_long
    first, second = unpack(of_short), unpack(of_long)
    assert [one.trial for one in first.header.cgroups if one.role == "solver"].count("own") == 1
    others = {one.trial for one in second.header.cgroups if one.role == "solver"} - {"own"}
    assert len(others) == 1
    assert all(len(other or "") == 8 for other in others)


def test_a_window_inside_has_samples_at_its_very_edges(client: MeterClient, tree: PowercapTree, run: str) -> None:
    """Cases one after another inside a trial's window; what stays open ends with it. (D5)"""
    prepared, opened = begin(client, run)
    for number in (1, 2):
        case = client.open(prepared.handle, f"case {number}", inside=opened.window)
        tree.add(ZONE, number * 1_000_000)
        client.close(case.window)
    client.open(prepared.handle, "exchange", inside=opened.window)
    tree.add(ZONE, 5_000_000)
    readings = end(client, prepared, opened)
    at = {sample.at_ns: sample.zones["z0"] for sample in readings.samples()}
    inner = {one.label: at[one.closed_ns] - at[one.opened_ns] for one in readings.header.inner}
    assert inner == {"case 1": 1_000_000, "case 2": 2_000_000, "exchange": 5_000_000}
    assert readings.header.inner[2].closed_ns == readings.header.length_ns


def test_the_first_close_counts_and_the_second_says_the_same(client: MeterClient, tree: PowercapTree, run: str) -> None:
    """A window is closed once."""
    prepared, opened = begin(client, run)
    first = client.close(opened.window)
    tree.add(ZONE, 9_000_000)
    assert client.close(opened.window) == first
    numbers = of_zone(end(client, prepared, opened))
    assert numbers[-1] == numbers[0]


def test_a_handle_has_one_window_and_windows_inside_it_only_while_it_is_open(client: MeterClient, run: str) -> None:
    """A second one is refused, one inside another's too, and one inside a closed one."""
    prepared, opened = begin(client, run, 1)
    other, _ = begin(client, run, 2)
    for handle, inside, reason in (
        (prepared.handle, None, "bad_message"),
        (other.handle, opened.window, "unknown_window"),
    ):
        with pytest.raises(MeterRefused) as refused:
            client.open(handle, inside=inside)
        assert refused.value.reason == reason
    client.close(opened.window)
    with pytest.raises(MeterRefused) as refused:
        client.open(prepared.handle, inside=opened.window)
    assert refused.value.reason == "bad_message"


def test_a_handle_whose_window_was_never_opened_is_released_without_readings(client: MeterClient, run: str) -> None:
    """Its cgroups go all the same."""
    prepared = client.prepare(run, 0, ["solver"])
    assert client.release(prepared.handle).readings is None
    assert not any(folder.exists() for folder in hierarchies().folders(f"/bench-appliance/{run}"))
    with pytest.raises(MeterRefused) as refused:
        client.release(prepared.handle)
    assert refused.value.reason == "unknown_window"


def test_a_trial_is_prepared_once(client: MeterClient, run: str) -> None:
    """Twice would remove the cgroup under the first one's feet."""
    prepared = client.prepare(run, 0, ["solver"])
    with pytest.raises(MeterRefused) as refused:
        client.prepare(run, 0, ["forwarder"])
    assert refused.value.reason == "bad_message"
    client.release(prepared.handle)
    client.release(client.prepare(run, 0, ["solver"]).handle)


def test_the_machine_at_rest_is_a_window_without_a_trial(client: MeterClient, run: str) -> None:
    """No role, no cgroup of its own; several at a time."""
    first, second = client.prepare(run, None, []), client.prepare(run, None, [])
    opened = client.open(first.handle)
    readings = end(client, first, opened)
    assert readings.header.trial is None
    assert {one.role for one in readings.header.cgroups} == {"meter"}
    client.release(second.handle)


def test_the_meters_own_time_is_a_column_of_its_own_and_in_no_trial(client: MeterClient, run: str) -> None:
    """It moves into a cgroup of its own; its CPU time grows while it samples. (T11)"""
    prepared, opened = begin(client, run)
    until_sampled(client, 3)
    readings = end(client, prepared, opened)
    meter = next(one for one in readings.header.cgroups if one.role == "meter")
    solver = next(one for one in readings.header.cgroups if one.role == "solver")
    samples = list(readings.samples())
    assert meter.trial is None
    assert samples[-1].cgroups[meter.id] > samples[0].cgroups[meter.id]
    assert samples[-1].cgroups[solver.id] == samples[0].cgroups[solver.id] == 0


def test_moments_are_of_the_boot_clock_and_the_wall_clock_is_a_label(client: MeterClient, run: str) -> None:
    """No duration comes from a clock that somebody may set. (W15)"""
    before = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    prepared, opened = begin(client, run)
    began = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    readings = end(client, prepared, opened)
    after = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    assert before <= int(readings.header.opened_boottime_ns) <= began
    assert 0 < readings.header.length_ns <= after - before
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert readings.header.boot_id == hashlib.sha256(boot.encode()).hexdigest()


def test_readings_cannot_be_changed_by_whoever_gets_them(daemon: Daemon, run: str) -> None:
    """The descriptor reads a sealed memory file: neither written, nor cut, nor made longer, nor opened to be."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.connect(str(daemon.socket))

        def ask(**asked: object) -> tuple[dict, list[int]]:
            sock.sendall(json.dumps({"v": 1, **asked}).encode() + b"\n")
            line, fds, _, _ = socket.recv_fds(sock, 65536, 1)
            return json.loads(line), list(fds)

        handle = ask(op="prepare", run=run, trial=0, roles=["solver"])[0]["handle"]
        window = ask(op="open", handle=handle)[0]["window"]
        ask(op="close", window=window)
        answer, fds = ask(op="release", handle=handle)
    content = os.pread(fds[0], 10_000, 0)
    assert hashlib.sha256(content).hexdigest() == answer["readings"]["sha256"]
    for change in (lambda: os.pwrite(fds[0], b"x", 0), lambda: os.ftruncate(fds[0], 1)):
        with pytest.raises(OSError, match=r"Bad file descriptor|Invalid argument"):
            change()
    assert stat.S_IMODE(os.fstat(fds[0]).st_mode) == 0o400
    assert fcntl.fcntl(fds[0], fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
    assert fcntl.fcntl(fds[0], fcntl.F_GET_SEALS) & fcntl.F_SEAL_WRITE
    assert fcntl.fcntl(fds[0], fcntl.F_GET_SEALS) & fcntl.F_SEAL_SEAL
    os.close(fds[0])


# ---------------------------------------------------------------------------------------------- faults


def test_a_read_that_fails_is_a_gap_with_its_reason_and_the_next_number_spans_it(
    client: MeterClient, daemon: Daemon, tree: PowercapTree, run: str
) -> None:
    """Null and the error's name, never 0; the other zone is read on; counted in status. (W12)"""
    prepared, opened = begin(client, run)
    until_sampled(client)
    before = tree.get(ZONE)
    tree.spoil(ZONE)
    until_sampled(client, 3)
    tree.set(ZONE, before + 4_000_000)
    until_sampled(client)
    gaps = client.status()["gaps"]
    readings = end(client, prepared, opened)
    numbers = of_zone(readings)
    assert None in numbers
    assert [number for number in numbers if number is not None][-1] == before + 4_000_000
    assert None not in of_zone(readings, "package-1")
    assert {event.word for event in events(readings, "gap")} == {"ENODATA"}
    assert gaps["ENODATA"] == len(events(readings, "gap"))
    assert daemon.log().count("ENODATA") == 1


def test_windows_that_begin_in_a_gap_have_a_base_when_it_ends(
    client: MeterClient, tree: PowercapTree, run: str
) -> None:
    """The older window knows where the counter stood before; the younger one learns it at the next block's head."""
    older = begin(client, run, 1)
    tree.spoil(ZONE)
    younger = begin(client, run, 2)
    until_sampled(client)
    tree.set(ZONE, 50_000_000)
    until_sampled(client)
    tree.add(ZONE, 3_000_000)
    until_sampled(client)
    in_younger = [number for number in of_zone(end(client, *younger)) if number is not None]
    in_older = [number for number in of_zone(end(client, *older)) if number is not None]
    assert [in_younger[0], in_younger[-1]] == [50_000_000, 53_000_000]
    assert [in_older[0], in_older[-1]] == [1_000_000, 53_000_000]


def test_a_zone_that_went_and_came_back_is_another_zone(client: MeterClient, tree: PowercapTree, run: str) -> None:
    """Looked for at once when it is gone; the old one is said to be gone, the new one has an id of its own. (W13)"""
    prepared, opened = begin(client, run)
    until_sampled(client)
    tree.spoil(ZONE)
    tree.remove(ZONE)
    until_sampled(client, 3)
    tree.zone(ZONE, "package-0", 77)
    tree.spoil("intel-rapl:1")
    until_sampled(client, 14)
    readings = end(client, prepared, opened)
    ids = [zone.id for zone in readings.header.zones if zone.key == "package-0"]
    assert len(ids) == 2
    assert ids[0] in {event.subject for event in events(readings, "zone_gone")}
    last = list(readings.samples())[-1]
    assert ids[0] not in last.zones
    assert last.zones[ids[1]] == 77


def test_a_daemon_that_was_stopped_says_how_late_it_was_and_misses_no_energy(
    client: MeterClient, daemon: Daemon, tree: PowercapTree, run: str
) -> None:
    """One long sample, flagged late, and the next ones in time again. (T10)"""
    prepared, opened = begin(client, run)
    until_sampled(client)
    os.kill(daemon.pid, signal.SIGSTOP)
    tree.add(ZONE, 10_000_000)
    time.sleep(2)
    os.kill(daemon.pid, signal.SIGCONT)
    until_sampled(client, 3)
    readings = end(client, prepared, opened)
    late = events(readings, "late")
    steps = _steps(list(readings.samples()))
    assert len(late) == 1
    assert late[0].number is not None
    assert late[0].number > 1_500_000_000
    assert max(steps) == late[0].number + readings.header.period_ns
    assert sum(step > 1_000_000_000 for step in steps) == 1
    numbers = of_zone(readings)
    assert numbers[-1] - numbers[0] == 10_000_000


def test_a_cpu_that_goes_offline_is_said(tmp_path: Path, tree: PowercapTree, run: str) -> None:
    """Without a crash; the header has what was online at the opening. (T8)"""
    online = tmp_path / "online"
    online.write_text("0-3,6\n")
    with meter_daemon(tmp_path, tree.root, "--cpus-online", str(online)) as daemon, daemon.client() as client:
        prepared, opened = begin(client, run)
        with online.open("r+") as file:
            file.write("0-2,6\n")
        until_sampled(client)
        readings = end(client, prepared, opened)
    assert readings.header.cpus == 5
    assert [event.number for event in events(readings, "cpus")] == [4]


def test_without_any_counter_cpu_time_is_read_all_the_same(tmp_path: Path, run: str) -> None:
    """Windows without a zone: cgroups for those who may not make any. (formats 9)"""
    with meter_daemon(tmp_path) as daemon, daemon.client() as client:
        prepared, opened = begin(client, run)
        assert opened.counters == ()
        readings = end(client, prepared, opened)
    assert readings.header.zones == ()
    assert all(sample.machine is not None for sample in readings.samples())


def test_where_nothing_at_all_can_be_read_no_window_opens(tmp_path: Path, run: str) -> None:
    """no_counter, and the daemon stays. (formats 5)"""
    hide = ["unshare", "-m", "sh", "-c", 'umount -R /sys/fs/cgroup && exec "$@"', "sh"]
    with meter_daemon(tmp_path, before=hide) as daemon, daemon.client() as client:
        prepared = client.prepare(run, None, [])
        with pytest.raises(MeterRefused) as refused:
            client.open(prepared.handle)
        assert refused.value.reason == "no_counter"
        assert client.status()["counters"] == []


def test_a_full_disk_costs_no_reading(tmp_path: Path, tree: PowercapTree, run: str) -> None:
    """Readings go from memory to the client: the daemon has no file on a disk open, and needs no room on any."""
    (tmp_path / "full").mkdir()
    folder = tmp_path / "full"
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(folder)], check=True)
    try:
        with meter_daemon(tmp_path, tree.root, socket=folder / "m.sock", environment={"TMPDIR": str(folder)}) as daemon:
            with pytest.raises(OSError, match="No space left"):
                (folder / "filler").write_bytes(b"x" * 1_000_000)
            with daemon.client() as client:
                prepared, opened = begin(client, run)
                tree.add(ZONE, 5)
                until_sampled(client)
                numbers = of_zone(end(client, prepared, opened))
            there = [str(entry.readlink()) for entry in Path(f"/proc/{daemon.pid}/fd").iterdir()]
        assert numbers[-1] - numbers[0] == 5
        # The lock beside the socket is a file, and stays empty.
        assert [name for name in there if name.startswith(str(folder))] == [str(folder / "m.sock.lock")]
    finally:
        subprocess.run(["umount", str(folder)], check=True)


# ---------------------------------------------------------------------------------------------- ends


def test_the_windows_of_a_client_that_died_end_and_are_there_for_the_next(
    daemon: Daemon, tree: PowercapTree, run: str
) -> None:
    """Closed at its death, flagged, and released by another connection of the same user. (formats 5)"""
    dying = daemon.client()
    prepared, _ = begin(dying, run)
    tree.add(ZONE, 2_000_000)
    dying.close_connection()
    with daemon.client() as client:
        while client.status()["windows"]:
            time.sleep(0.01)
        tree.add(ZONE, 500_000_000)
        released = client.release(prepared.handle)
    assert released.readings is not None
    assert "client_died" in released.flags
    numbers = of_zone(unpack(released.readings))
    assert numbers[-1] - numbers[0] == 2_000_000


def test_a_run_that_is_taken_up_again_takes_its_dead_trials_place(daemon: Daemon, run: str) -> None:
    """Prepared anew without waiting for the minute to pass."""
    dying = daemon.client()
    dead, _ = begin(dying, run)
    dying.close_connection()
    with daemon.client() as client:
        while client.status()["windows"]:
            time.sleep(0.01)
        prepared, opened = begin(client, run)
        with pytest.raises(MeterRefused) as refused:
            client.release(dead.handle)
        assert refused.value.reason == "unknown_window"
        assert end(client, prepared, opened)


def test_a_flood_of_windows_is_refused_and_costs_no_one_elses_reading(
    tmp_path: Path, tree: PowercapTree, run: str
) -> None:
    """One user's handles are so many and no more; the memory stays bounded, the other window sound."""
    with meter_daemon(tmp_path, tree.root) as daemon, daemon.client() as client, daemon.client() as flooding:
        prepared, opened = begin(client, run)
        handles = []
        with pytest.raises(MeterRefused) as refused:
            for _ in range(windows.MOST_HANDLES_OF_ONE + 1):
                handles.append(flooding.prepare(f"{run}_f", None, []).handle)
                flooding.open(handles[-1])
        assert refused.value.reason == "too_many"
        assert len(handles) == windows.MOST_HANDLES_OF_ONE - 1
        tree.add(ZONE, 3)
        until_sampled(client)
        numbers = of_zone(end(client, prepared, opened))
        assert numbers[-1] - numbers[0] == 3
        flooding.close_connection()
        status = Path(f"/proc/{daemon.pid}/status").read_text()
        assert int(status.split("VmRSS:")[1].split()[0]) < 40 * 1024


def _steps(samples: list[Sample]) -> list[int]:
    return [after.at_ns - before.at_ns for before, after in itertools.pairwise(samples)]
