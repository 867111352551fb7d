"""Cgroups of the real daemon: real containers burning CPU, adopted and prepared, on each kind of hierarchy."""

from __future__ import annotations

import contextlib
import itertools
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.cgroups import hierarchies
from appliance.energy.idle import Idle, Rest, ZoneRest
from appliance.energy.readings import Readings, unpack
from appliance.energy.split import apportion
from appliance.energy.windows import window_of
from appliance.engine.docker import DockerEngine, connect
from appliance.errors import MeterRefused
from appliance.meter.client import MeterClient
from appliance.meter.daemon.messages import Opened, Prepared
from tests.engine_bench import container, execute, new_run, python
from tests.meter_bench import Daemon, meter_daemon, run_of_its_own
from tests.sysfs_tree import PowercapTree

BURN = "import time\nend = time.process_time() + {seconds}\nwhile time.process_time() < end: pass"
TREES = hierarchies()
ZONE = "intel-rapl:0"
pytestmark = pytest.mark.root
V1_ONLY = 'umount /sys/fs/cgroup/unified && exec "$@"'
V2_ONLY = 'for m in /sys/fs/cgroup/*; do [ $m = /sys/fs/cgroup/unified ] || umount $m 2>/dev/null; done; exec "$@"'


@pytest.fixture
def tree(tmp_path: Path) -> PowercapTree:
    tree = PowercapTree(tmp_path / "powercap")
    tree.packages(1)
    return tree


@pytest.fixture
def run() -> Iterator[str]:
    with run_of_its_own() as run:
        yield run


@pytest.fixture(scope="module")
def engine() -> DockerEngine:
    return connect()


@pytest.fixture
def daemon(tmp_path: Path, tree: PowercapTree) -> Iterator[Daemon]:
    with meter_daemon(tmp_path, tree.root) as daemon:
        yield daemon


@pytest.fixture
def client(daemon: Daemon) -> Iterator[MeterClient]:
    with daemon.client() as client:
        yield client


def end(client: MeterClient, prepared: Prepared, opened: Opened) -> Readings:
    client.close(opened.window)
    released = client.release(prepared.handle)
    assert released.readings is not None
    return unpack(released.readings)


def cpu(readings: Readings, role: str) -> list[int]:
    """Microseconds of the window's own cgroup of a role, at every sample that has it."""
    ids = [one.id for one in readings.header.cgroups if one.role == role and one.trial == "own"]
    scale = 1 if readings.header.cpu_unit == "us" else 1000
    numbers = [sample.cgroups.get(one) for sample in readings.samples() for one in ids]
    return [number // scale for number in numbers if number is not None]


def folders(path: str) -> list[Path]:
    return [folder for folder in TREES.folders(path) if folder.exists()]


@contextlib.contextmanager
def burning_in(path: str, seconds: float, *, then: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """A program in the cgroup of that kernel path, in every hierarchy that has it."""
    enter = "".join(f"open({str(one / 'cgroup.procs')!r}, 'w').write('0')\n" for one in folders(path))
    program = f"{enter}{BURN.format(seconds=seconds)}\nprint('burnt', flush=True)\n{then}"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.docker
def test_a_containers_window_is_charged_what_it_burnt_to_its_last_exit(
    client: MeterClient, engine: DockerEngine, run: str
) -> None:
    """The trial's own cgroup outlives the container: what a container did that was gone between two samples is in the
    close's reading, and the samples' differences sum to it. (C2, C3, T2)"""
    prepared = client.prepare(run, 0, ["solver"])
    opened = client.open(prepared.handle)
    with container(engine, run=run, cgroup_parent=prepared.cgroups["solver"]) as made:
        python(engine, made, BURN.format(seconds=0.3))
    readings = end(client, prepared, opened)
    numbers = cpu(readings, "solver")
    assert numbers == sorted(numbers)
    assert numbers[-1] - numbers[0] >= 300_000
    assert window_of(readings, None).cpu_ns["solver"] == (numbers[-1] - numbers[0]) * 1000
    assert folders(f"/bench-appliance/{run}") == []


@pytest.mark.docker
def test_containers_that_overlap_get_the_joules_that_a_hand_computes(
    tmp_path: Path, engine: DockerEngine, run: str
) -> None:
    """Two trials at once: of every sample's energy each gets its share of the CPU time, by largest remainder; together
    with the system's it is all that was measured. (T3, T2)"""
    tree = PowercapTree(tmp_path / "powercap")
    # A range that is no 32-bit count's: microjoules are counted as they are.
    tree.zone(ZONE, "package-0", 5, max_range_uj=10**12)
    with meter_daemon(tmp_path, tree.root) as daemon, daemon.client() as client:
        trials = [client.prepare(run, number, ["solver"]) for number in (0, 1)]
        with (
            container(engine, run=run, cgroup_parent=trials[0].cgroups["solver"]) as one,
            container(engine, run=run, cgroup_parent=trials[1].cgroups["solver"]) as two,
        ):
            windows = [client.open(prepared.handle) for prepared in trials]
            for made, seconds in ((one, 0.6), (two, 0.2)):
                asked = engine.client.exec_create(made, ["python3", "-c", BURN.format(seconds=seconds)])
                engine.client.exec_start(asked["Id"], detach=True)
            for step in range(20):
                tree.add(ZONE, 1_000_003 + step)
                time.sleep(0.06)
        for opened in windows:
            client.close(opened.window)
        readings = [unpack(client.release(prepared.handle).readings or b"") for prepared in trials]
    for seen in readings:
        zone = window_of(seen, _no_idle(seen)).zones[0]
        assert (zone.gross_uj, zone.idle_uj) == (sum(1_000_003 + step for step in range(20)), 0)
        assert (zone.own_uj["solver"], zone.others_uj, zone.system_uj) == _by_hand(seen)
        assert all(share > 0 for share in _by_hand(seen))


def _no_idle(readings: Readings) -> Idle:
    """A machine that takes no power at rest."""
    at = int(readings.header.opened_boottime_ns)
    return Idle((Rest(readings.header.boot_id, at, 60.0, {"package-0": ZoneRest(0, 0, 0, 60)}, None),))


def _by_hand(readings: Readings) -> tuple[int, int, int]:
    """Microjoules of the trial, of the other columns and of the rest, of a window without idle."""
    own = [one.id for one in readings.header.cgroups if one.trial == "own"]
    lag = readings.header.cpus * readings.header.tick_ns // 1000
    sums, owed = [0, 0, 0], 0
    for before, after in itertools.pairwise(readings.samples()):
        names = sorted(set(after.cgroups) & set(before.cgroups))
        weights = [(after.cgroups[name] or 0) - (before.cgroups[name] or 0) for name in names]
        # The machine's time is counted by ticks, the members' exactly: it may come a tick late (row C12).
        left = (after.machine or 0) - (before.machine or 0) - sum(weights) + owed
        owed = min(0, max(left, -lag))
        energy = (after.zones["z0"] or 0) - (before.zones["z0"] or 0)
        shares = apportion(energy, [*weights, max(0, left)]) or [0] * len(weights) + [energy]
        for name, share in zip(names, shares, strict=False):
            sums[0 if name in own else 1] += share
        sums[2] += shares[-1]
    return sums[0], sums[1], sums[2]


def test_a_task_that_moves_leaves_its_past_where_it_was(client: MeterClient, run: str) -> None:
    """What it burnt in one trial's cgroup stays that trial's, what it burns in the next is the next one's, and the two
    make the whole. (C8)"""
    first, second = (client.prepare(run, number, ["solver"]) for number in (0, 1))
    opened = [client.open(prepared.handle) for prepared in (first, second)]
    move = "".join(
        f"open({str(one / 'cgroup.procs')!r}, 'w').write('0')\n" for one in folders(second.cgroups["solver"])
    )
    rest = f"{move}{BURN.format(seconds=0.4)}\nprint('moved', flush=True)"
    with burning_in(first.cgroups["solver"], 0.2, then=rest) as process:
        process.wait()
    charged = []
    for prepared, window in zip((first, second), opened, strict=True):
        numbers = cpu(end(client, prepared, window), "solver")
        charged.append(numbers[-1] - numbers[0])
    assert charged[0] >= 190_000
    assert charged[1] >= 390_000
    assert charged[0] < charged[1]


@pytest.mark.docker
def test_a_container_that_stands_still_is_charged_nothing_meanwhile(
    client: MeterClient, engine: DockerEngine, run: str
) -> None:
    """A paused container's counter stands; nothing of ours pauses one, for that would change the trial. (C6)"""
    prepared = client.prepare(run, 0, ["solver"])
    with container(engine, run=run, cgroup_parent=prepared.cgroups["solver"]) as made:
        asked = engine.client.exec_create(made, ["python3", "-c", BURN.format(seconds=30)])
        engine.client.exec_start(asked["Id"], detach=True)
        engine.client.pause(made)
        opened = client.open(prepared.handle)
        time.sleep(0.5)
        client.close(opened.window)
        engine.client.unpause(made)
    numbers = cpu(unpack(client.release(prepared.handle).readings or b""), "solver")
    assert numbers[0] > 0
    assert numbers[-1] == numbers[0]


@pytest.mark.docker
def test_a_running_container_is_adopted_by_the_pid_of_any_process_in_it(
    client: MeterClient, engine: DockerEngine, run: str
) -> None:
    """Its cgroup is found by /proc/PID/cgroup, v2's before v1's, read by nobody twice, and never removed. (C15)"""
    with container(engine, run=new_run("adopted")) as made:
        pid = engine.client.inspect_container(made)["State"]["Pid"]
        prepared = client.adopt(run, pid)
        assert prepared.cgroups["container"].endswith(made)
        opened = client.open(prepared.handle)
        python(engine, made, BURN.format(seconds=0.3))
        readings = end(client, prepared, opened)
        numbers = cpu(readings, "container")
        assert numbers[-1] - numbers[0] >= 300_000
        assert folders(prepared.cgroups["container"]) != []
        assert execute(engine, made, ("true",)).exit == 0


@pytest.mark.docker
def test_an_adopted_containers_last_exit_is_read_before_its_cgroup_is_gone(
    tmp_path: Path, tree: PowercapTree, engine: DockerEngine, run: str
) -> None:
    """The kernel says that nobody is left in it; the regular look, seconds later, would find nothing to read. (C4, C5)

    Rarely the engine is quicker: one of three is enough, and none would be without that word.
    """
    charged = []
    with meter_daemon(tmp_path, tree.root, "--period-ms", "5000") as daemon, daemon.client() as client:
        for _ in range(3):
            busy = shlex.join(("python3", "-c", BURN.format(seconds=0.3)))
            with container(engine, run=new_run("ending"), command=("sh", "-c", f"sleep 1; {busy}")) as made:
                prepared = client.adopt(run, engine.client.inspect_container(made)["State"]["Pid"])
                opened = client.open(prepared.handle)
                engine.client.wait(made)
                time.sleep(0.2)
                numbers = cpu(end(client, prepared, opened), "container")
                charged.append(numbers[-1] - numbers[0])
    assert max(charged) >= 300_000, charged


@pytest.mark.docker
def test_a_container_that_restarts_is_another_member_and_nothing_is_negative(
    client: MeterClient, engine: DockerEngine, run: str
) -> None:
    """Same path, new inode, its count begins anew: another column, which the window owns too. (C1, C7, T9)"""
    with container(engine, run=new_run("restarted")) as made:
        prepared = client.adopt(run, engine.client.inspect_container(made)["State"]["Pid"])
        opened = client.open(prepared.handle)
        python(engine, made, BURN.format(seconds=0.4))
        engine.client.restart(made, timeout=0)
        python(engine, made, BURN.format(seconds=0.1))
        time.sleep(0.25)
        readings = end(client, prepared, opened)
    ids = [one.id for one in readings.header.cgroups if one.role == "container"]
    assert len(ids) == 2
    grown = 0
    for one in ids:
        numbers = [sample.cgroups[one] for sample in readings.samples() if sample.cgroups.get(one) is not None]
        assert numbers == sorted(numbers)
        grown += numbers[-1] - numbers[0]
    assert grown >= 400_000
    assert window_of(readings, None).cpu_ns["container"] == grown * 1000


@pytest.mark.docker
def test_a_container_inside_a_trials_cgroup_is_not_counted_a_second_time(
    client: MeterClient, engine: DockerEngine, run: str
) -> None:
    """The parent includes its children: adopting one is refused; a container adopted twice is one column. (C14)"""
    prepared = client.prepare(run, 0, ["solver"])
    with container(engine, run=run, cgroup_parent=prepared.cgroups["solver"]) as made:
        with pytest.raises(MeterRefused) as refused:
            client.adopt(run, engine.client.inspect_container(made)["State"]["Pid"])
        assert refused.value.reason == "bad_message"
    with container(engine, run=new_run("twice")) as made:
        pid = engine.client.inspect_container(made)["State"]["Pid"]
        first, second = client.adopt(run, pid), client.adopt(run, pid)
        opened = client.open(first.handle)
        client.release(second.handle)
        readings = end(client, first, opened)
        assert [one.trial for one in readings.header.cgroups if one.role == "container"] == ["own"]
    client.release(prepared.handle)


@pytest.mark.docker
def test_a_watcher_sees_running_containers_that_nobody_prepared_or_adopted(
    client: MeterClient, engine: DockerEngine, run: str
) -> None:
    """By the names that engines give their cgroups; what is below a trial's cgroup stands there once, as its. (D1)"""
    prepared = client.prepare(run, 7, ["solver"])
    with (
        container(engine, run=run, cgroup_parent=prepared.cgroups["solver"]) as inside,
        container(engine, run=new_run("watched")) as beside,
    ):
        line = next(client.watch())
    by_path = {one["path"]: one for one in line["cgroups"]}
    assert not any(path.endswith(inside) for path in by_path)
    assert by_path[prepared.cgroups["solver"]] | {"id": ""} == {
        "id": "", "role": "solver", "run": run, "trial": 7, "path": prepared.cgroups["solver"],
    }  # fmt: skip
    found = next(one for path, one in by_path.items() if path.endswith(beside))
    assert (found["role"], found["run"], found["trial"]) == ("container", None, None)
    assert len(line["raw"]) == 1 + 1 + len(line["cgroups"])


def test_a_process_that_is_in_no_container_is_not_adopted(client: MeterClient, run: str) -> None:
    """The root cgroup is the machine: refused; so is a pid that nobody has."""
    for pid in (2**22 - 1, 2):
        with pytest.raises(MeterRefused) as refused:
            client.adopt(run, pid)
        assert refused.value.reason == "bad_message"


@pytest.mark.parametrize(("kind", "unit"), [("v1", "ns"), ("v2", "us")], ids=["cgroup v1 alone", "cgroup v2 alone"])
def test_each_kind_of_hierarchy_alone_counts_the_same_burn(
    kind: str, unit: str, tmp_path: Path, tree: PowercapTree, run: str
) -> None:
    """Seen by a daemon whose mounts are those of a pure host: machine and cgroups from one source. (C10, C15)"""
    if TREES.kind != "hybrid":
        pytest.skip("one kind of cgroup here")
    before = ["unshare", "-m", "sh", "-c", V1_ONLY if kind == "v1" else V2_ONLY, "sh"]
    with meter_daemon(tmp_path, tree.root, before=before) as daemon, daemon.client() as client:
        prepared = client.prepare(run, 0, ["solver", "forwarder"])
        opened = client.open(prepared.handle)
        with burning_in(prepared.cgroups["solver"], 0.3) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"burnt\n"
        readings = end(client, prepared, opened)
        log = daemon.log()
    assert f"cgroup {kind}" in log
    assert readings.header.cpu_unit == unit
    numbers = cpu(readings, "solver")
    assert numbers[-1] - numbers[0] >= 300_000
    machine = [sample.machine or 0 for sample in readings.samples()]
    scale = 1 if unit == "us" else 1000
    # Two clocks on v2, where the root is counted by ticks (row C12).
    assert (machine[-1] - machine[0]) // scale >= (numbers[-1] - numbers[0]) * 0.9
    assert folders(f"/bench-appliance/{run}") == []


def test_tasks_in_the_v1_tree_alone_are_read_there(client: MeterClient, run: str) -> None:
    """Some engines join one tree only: the column follows them, in the unit of the others. (C15)"""
    if TREES.kind != "hybrid":
        pytest.skip("one kind of cgroup here")
    prepared = client.prepare(run, 0, ["solver"])
    accounting = TREES.v1("cpuacct")
    assert accounting is not None
    home = accounting.folder(prepared.cgroups["solver"])
    program = (
        f"open({str(home) + '/cgroup.procs'!r}, 'w').write('0')\nprint(flush=True)\ninput()\n{BURN.format(seconds=0.3)}"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        opened = client.open(prepared.handle)
        process.communicate(b"\n")
    readings = end(client, prepared, opened)
    numbers = cpu(readings, "solver")
    assert numbers[-1] - numbers[0] >= 300_000
    assert window_of(readings, None).cpu_ns["solver"] == (numbers[-1] - numbers[0]) * 1000


def test_who_stays_behind_in_the_solvers_cgroup_is_seen_and_what_he_burns_after_is_not_the_trials(
    client: MeterClient, run: str
) -> None:
    """At the close a process is there that was not at the opening; the release says what ran on. (formats 5: ran_on)"""
    prepared = client.prepare(run, 0, ["solver"])
    opened = client.open(prepared.handle)
    with burning_in(prepared.cgroups["solver"], 0.1, then=BURN.format(seconds=0.3) + "\ninput()") as process:
        assert process.stdout is not None
        process.stdout.readline()
        client.close(opened.window)
        time.sleep(0.2)
        process.kill()
        process.wait()
        released = client.release(prepared.handle)
    readings = unpack(released.readings or b"")
    assert readings.header.strangers_at_close
    assert (readings.header.cpu_after_close_ns or 0) > 5_000_000
    numbers = cpu(readings, "solver")
    assert numbers[-1] - numbers[0] < 250_000


def test_who_was_there_at_the_opening_is_no_stranger(client: MeterClient, run: str) -> None:
    """A container's main process idles in the cgroup before, during and after."""
    prepared = client.prepare(run, 0, ["solver"])
    with burning_in(prepared.cgroups["solver"], 0, then="import time\ntime.sleep(60)") as process:
        assert process.stdout is not None
        process.stdout.readline()
        opened = client.open(prepared.handle)
        client.close(opened.window)
        process.kill()
        process.wait()
        header = unpack(client.release(prepared.handle).readings or b"").header
    assert not header.strangers_at_close
    assert header.cpu_after_close_ns is not None


def test_a_cgroup_that_is_still_held_is_left_and_said(client: MeterClient, run: str) -> None:
    """The release is answered all the same, flagged, after half a second of trying; other windows are sampled on."""
    other = client.prepare(run, 1, ["solver"])
    watching = client.open(other.handle)
    prepared = client.prepare(run, 0, ["solver"])
    opened = client.open(prepared.handle)
    with burning_in(prepared.cgroups["solver"], 0, then="import time\ntime.sleep(60)") as process:
        assert process.stdout is not None
        process.stdout.readline()
        client.close(opened.window)
        released = client.release(prepared.handle)
        assert "cgroup_left" in released.flags
        assert folders(prepared.cgroups["solver"]) != []
        process.kill()
        process.wait()
    readings = end(client, other, watching)
    samples = list(readings.samples())
    assert max(after.at_ns - before.at_ns for before, after in itertools.pairwise(samples)) < 500_000_000


def test_a_release_that_waits_keeps_no_other_threads_window_waiting(client: MeterClient, run: str) -> None:
    """One client, two threads: while a release tries for half a second to remove a cgroup that is held, the other's
    windows open and close."""
    prepared = client.prepare(run, 0, ["solver"])
    client.open(prepared.handle)
    other = client.prepare(run, 1, ["solver"])
    with burning_in(prepared.cgroups["solver"], 0, then="import time\ntime.sleep(60)") as process:
        assert process.stdout is not None
        process.stdout.readline()
        order: list[str] = []
        waiting = threading.Thread(target=lambda: order.append(client.release(prepared.handle).flags[0]))
        waiting.start()
        time.sleep(0.1)
        client.close(client.open(other.handle).window)
        order.append("closed")
        waiting.join()
        process.kill()
        process.wait()
    assert order == ["closed", "cgroup_left"]
    client.release(other.handle)


def test_the_runs_own_cgroups_are_prepared_once_a_run_and_belong_to_no_trial(client: MeterClient, run: str) -> None:
    """`harness` and `model` under the run; in a trial's window they are columns of nobody's but
    the run's, whose model server is told apart: its time inside an exchange is the trial's. (formats 5)"""
    own = client.prepare(run, None, ["harness", "model"])
    assert own.cgroups == {role: f"/bench-appliance/{run}/{role}" for role in ("harness", "model")}
    with pytest.raises(MeterRefused):
        client.prepare(run, None, ["model"])
    prepared = client.prepare(run, 0, ["solver"])
    opened = client.open(prepared.handle)
    readings = end(client, prepared, opened)
    assert {one.role: one.trial for one in readings.header.cgroups} == {
        "meter": None, "harness": None, "model": "run", "solver": "own",
    }  # fmt: skip
    client.release(own.handle)
    assert folders(f"/bench-appliance/{run}") == []


def test_a_cgroup_of_a_dead_client_goes_with_its_handle(tmp_path: Path, tree: PowercapTree, run: str) -> None:
    """Here at the daemon's end, before the minute is over."""
    with meter_daemon(tmp_path, tree.root) as daemon:
        client = daemon.client()
        prepared = client.prepare(run, 0, ["solver"])
        client.close_connection()
        time.sleep(0.1)
        assert folders(prepared.cgroups["solver"]) != []
        daemon.stop()
        assert folders(prepared.cgroups["solver"]) == []


def test_v1s_counter_that_somebody_wrote_to_is_a_negative_difference(
    tmp_path: Path, tree: PowercapTree, run: str
) -> None:
    """cpuacct.usage takes a 0: the readings keep what was read, and the figures flag it. (C9)"""
    if TREES.kind != "hybrid":
        pytest.skip("one kind of cgroup here")
    before = ["unshare", "-m", "sh", "-c", V1_ONLY, "sh"]
    with meter_daemon(tmp_path, tree.root, before=before) as daemon, daemon.client() as client:
        prepared = client.prepare(run, 0, ["solver"])
        opened = client.open(prepared.handle)
        with burning_in(prepared.cgroups["solver"], 0.1) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(0.15)
            accounting = TREES.v1("cpuacct")
            assert accounting is not None
            (accounting.mount / prepared.cgroups["solver"][1:] / "cpuacct.usage").write_text("0")
            time.sleep(0.15)
        readings = end(client, prepared, opened)
    assert "v1_reset" in window_of(readings, None).flags
