"""The meter under attack: by who may open its socket, by who names a cgroup, by a tree of counters."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.cgroups import hierarchies
from appliance.energy.readings import unpack
from appliance.errors import MeterRefused
from appliance.meter.counters.frames import BadFrame, Frames, frame
from appliance.meter.daemon import windows
from tests.meter_bench import Daemon, meter_daemon, run_of_its_own
from tests.sysfs_tree import PowercapTree

pytestmark = pytest.mark.root
_CONTAINER = "ab" * 32
_DEEPER_THAN_A_PATH = 2200


@pytest.fixture
def tree(tmp_path: Path) -> PowercapTree:
    tree = PowercapTree(tmp_path / "powercap")
    tree.packages(1, dram=True)
    return tree


@pytest.fixture
def daemon(tmp_path: Path, tree: PowercapTree) -> Iterator[Daemon]:
    with meter_daemon(tmp_path, tree.root) as daemon:
        yield daemon


@pytest.fixture
def run() -> Iterator[str]:
    with run_of_its_own("hostile") as run:
        yield run


def _said(daemon: Daemon, *lines: bytes) -> list[dict[str, Any]]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(20)
        client.connect(str(daemon.socket))
        with client.makefile("rb") as answers:
            found = []
            for line in lines:
                client.sendall(line + b"\n")
                found.append(json.loads(answers.readline()))
            return found


def _asked(op: str, **asked: Any) -> bytes:
    return json.dumps({"op": op, "v": 1, **asked}).encode()


def _v2() -> Path:
    unified = hierarchies().unified
    if unified is None:
        pytest.skip("this host has no cgroup v2")
    return unified.mount


@contextlib.contextmanager
def _living_in(folder: bytes) -> Iterator[int]:
    """The pid of somebody who lives in this cgroup, which is made, and gone in the end."""
    os.makedirs(folder)  # noqa: PTH103  # a name of any bytes
    sleeper = subprocess.Popen(["sleep", "600"])
    try:
        Path(os.fsdecode(folder), "cgroup.procs").write_text(str(sleeper.pid))
        yield sleeper.pid
    finally:
        sleeper.kill()
        sleeper.wait()
        for place in (folder, os.path.dirname(folder)):  # noqa: PTH120
            _gone(place)


def _gone(folder: bytes) -> None:
    for _ in range(200):
        with contextlib.suppress(OSError):
            os.rmdir(folder)  # noqa: PTH106
            return
        time.sleep(0.01)


@contextlib.contextmanager
def _nested(folder: Path, depth: int) -> Iterator[None]:
    """So many cgroups, each in the other; a path of the deepest is longer than the kernel takes."""
    at = os.open(folder, os.O_RDONLY)
    made = [at]
    try:
        for _ in range(depth):
            os.mkdir("a", dir_fd=made[-1])
            made.append(os.open("a", os.O_RDONLY, dir_fd=made[-1]))
        yield
    finally:
        for fd in reversed(made[:-1]):
            with contextlib.suppress(OSError):
                os.rmdir("a", dir_fd=fd)
        for fd in made:
            os.close(fd)


@pytest.mark.parametrize(
    "line",
    [b'{"op":"open","v":1,"handle":"\\ud800"}', b'{"op":"close","v":1,"window":"\xed\xa0\x80"}'],
    ids=["escaped", "raw"],
)
def test_half_a_character_in_an_id_is_answered(daemon: Daemon, line: bytes) -> None:
    """It has no UTF-8, so that an answer that repeated it would have none; the daemon went down with every window."""
    refused, after = _said(daemon, line, _asked("status"))
    assert refused["error"]["code"] == "unknown_window"
    assert after["handles"] == 0


def test_a_cgroup_whose_name_is_no_text_is_adopted_and_watched(daemon: Daemon, run: str) -> None:
    """A name is any bytes, and whoever has a delegated cgroup gives one."""
    folder = os.fsencode(_v2()) + b"/hostile\xff" + b"/" + _CONTAINER.encode()
    with _living_in(folder) as pid:
        adopted, line = _said(daemon, _asked("prepare", run=run, adopt={"pid": pid}), _asked("watch"))
    assert adopted["cgroups"]["container"] == f"/hostile?/{_CONTAINER}"
    assert f"/hostile?/{_CONTAINER}" in {one["path"] for one in line["cgroups"]}


def test_a_mount_whose_name_is_no_text_is_no_reason_to_fail(tmp_path: Path) -> None:
    """Anybody with a file system in user space may mount one, and every command of ours reads the list of mounts."""
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "mountinfo").write_bytes(
        b"30 1 0:5 / /mnt/\xff rw - fuse x rw\n31 1 0:6 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
    )
    assert hierarchies(tmp_path).unified is not None


def test_cgroups_deeper_than_a_path_cost_no_watcher_his_line(daemon: Daemon) -> None:
    """Not all of their tasks can be listed; those that can show that the container runs."""
    folder = _v2() / "hostile" / _CONTAINER
    with _living_in(os.fsencode(folder)), _nested(folder, _DEEPER_THAN_A_PATH):
        (line,) = _said(daemon, _asked("watch"))
    assert f"/hostile/{_CONTAINER}" in {one["path"] for one in line["cgroups"]}


def test_cgroups_deeper_than_a_stack_are_removed_with_their_trial(daemon: Daemon, run: str) -> None:
    """Nested by a container a thousand deep, they are removed all the same. (T9)"""
    with daemon.client() as client:
        prepared = client.prepare(run, 0, ["solver"])
        with _nested(_v2() / prepared.cgroups["solver"].lstrip("/"), 1500):
            released = client.release(prepared.handle)
        assert released.flags == ()
        assert client.status()["handles"] == 0


def test_cgroups_too_deep_to_list_keep_no_window_from_its_close(daemon: Daemon, run: str) -> None:
    """Whoever hides there is no stranger that can be named; his CPU time counts all the same."""
    with daemon.client() as client:
        prepared = client.prepare(run, 0, ["solver"])
        opened = client.open(prepared.handle)
        with _nested(_v2() / prepared.cgroups["solver"].lstrip("/"), _DEEPER_THAN_A_PATH):
            client.close(opened.window)
        released = client.release(prepared.handle)
    assert released.readings is not None
    assert unpack(released.readings).header.cpu_after_close_ns == 0


def test_the_meters_own_cgroup_is_not_counted_twice(daemon: Daemon, run: str) -> None:
    """It is in every window already: adopted, it would be a second member with the same time. (C14 T11)"""
    with daemon.client() as client, pytest.raises(MeterRefused, match="counted already"):
        client.adopt(run, daemon.pid)


def test_where_its_words_go_nowhere_the_meter_goes_on(tmp_path: Path, tree: PowercapTree, run: str) -> None:
    """Its standard error is a pipe that nobody reads any more, and it has something to say."""
    theirs, ours = os.pipe()
    with (
        meter_daemon(
            tmp_path, tree.root, before=("bash", "-c", f'exec "$@" 2>/proc/{os.getpid()}/fd/{ours}', "-")
        ) as it,
        it.client() as client,
    ):
        os.close(ours)
        os.close(theirs)
        client.open(client.prepare(run, 0, ["solver"]).handle)
        tree.spoil("intel-rapl:0")
        until = time.monotonic() + 20
        while not client.status()["gaps"] and time.monotonic() < until:
            time.sleep(0.05)
        assert client.status()["gaps"]


def test_no_more_windows_are_open_inside_one_than_readings_can_hold(daemon: Daemon, run: str) -> None:
    """More would make the readings of the whole window unreadable."""
    with daemon.client() as client:
        prepared = client.prepare(run, 0, ["solver"])
        opened = client.open(prepared.handle)
        for _ in range(256):
            client.open(prepared.handle, "case", opened.window)
        with pytest.raises(MeterRefused, match="at once"):
            client.open(prepared.handle, "case", opened.window)
        released = client.release(prepared.handle)
    assert released.readings is not None
    assert len(unpack(released.readings).header.inner) == 256


def test_requests_that_wait_cost_no_more_memory_than_their_bytes(daemon: Daemon) -> None:
    """A hundred connections that only ask, in lines of one byte, were 180 MiB: more than the unit gives the daemon."""
    clients = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(100)]
    try:
        for client in clients:
            client.connect(str(daemon.socket))
            client.setblocking(False)
        for _ in range(20):
            for client in clients:
                with contextlib.suppress(BlockingIOError):
                    client.send(b"x\n" * 32768)
            time.sleep(0.05)
        assert _said(daemon, _asked("status"))[0]["windows"] == 0
        assert _resident_kib(daemon.pid) < 80 * 1024
    finally:
        for client in clients:
            client.close()


def _resident_kib(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith("VmRSS")))


def test_a_pipe_for_a_counter_holds_up_nobody(tmp_path: Path, tree: PowercapTree) -> None:
    """Opened as a file is, it would wait for a writer that never comes."""
    for number, name in enumerate(("energy_uj", "name", "max_energy_range_uj"), start=1):
        zone = tree.zone(f"intel-rapl:{number}", f"package-{number}", 5)
        (zone / name).unlink()
        os.mkfifo(zone / name)
    with meter_daemon(tmp_path, tree.root) as daemon:
        (status,) = _said(daemon, _asked("status"))
    assert [(one["path"], one["reason"]) for one in status["absent"]] == [
        ("intel-rapl:1", "EINVAL"),
        ("intel-rapl:2", "EINVAL"),
    ]


def test_a_zones_name_is_a_name_and_no_file_of_roots(tmp_path: Path, tree: PowercapTree) -> None:
    """Names are shown to the meter's users; ten megabytes of one made every answer too long to be read."""
    secret = tmp_path / "secret"
    secret.write_text("s3cret\n")
    linked = tree.zone("intel-rapl:1", "x", 5)
    (linked / "name").unlink()
    (linked / "name").symlink_to(secret)
    tree.zone("intel-rapl:2", "x" * 10_000_000, 5)
    tree.zone("intel-rapl:3", "root:$6$\x1b[31m", 5)
    with meter_daemon(tmp_path, tree.root) as daemon:
        (status,) = _said(daemon, _asked("status"))
    assert [one["name"] for one in status["counters"]] == ["package-0", "dram"]
    assert {one["path"]: one["reason"] for one in status["absent"]} == {
        "intel-rapl:1": "ELOOP",
        "intel-rapl:2": "its name is no zone's",
        "intel-rapl:3": "its name is no zone's",
    }
    assert "s3cret" not in json.dumps(status)


def test_a_number_wider_than_a_counter_is_a_gap(daemon: Daemon, tree: PowercapTree, run: str) -> None:
    """As a raw number it made the readings of every open window unreadable. (W12)"""
    with daemon.client() as client:
        prepared = client.prepare(run, 0, ["solver"])
        client.open(prepared.handle)
        (tree.root / "intel-rapl:0" / "energy_uj").write_text("9" * 31)
        until = time.monotonic() + 20
        while not client.status()["gaps"] and time.monotonic() < until:
            time.sleep(0.05)
        released = client.release(prepared.handle)
    assert released.readings is not None
    assert unpack(released.readings).header.run == run


def test_more_zones_than_readings_can_hold_are_not_read(tmp_path: Path, run: str) -> None:
    """And it is said."""
    tree = PowercapTree(tmp_path / "many")
    tree.packages(600)
    with meter_daemon(tmp_path, tree.root) as daemon, daemon.client() as client:
        prepared = client.prepare(run, 0, ["solver"])
        client.open(prepared.handle)
        released = client.release(prepared.handle)
        absent = client.status()["absent"]
    assert released.readings is not None
    assert len(unpack(released.readings).header.zones) == 256
    assert [one["reason"] for one in absent] == ["600 zones, of which 256 are read"]


def test_a_window_that_others_made_end_says_that_it_was_cut(daemon: Daemon, run: str) -> None:
    """Anybody's cgroups that come and go are columns of everybody's readings, of which there may be so many: a window
    that is ended for that must not pass for a whole one."""
    rounds = windows.MOST_COLUMNS // 5 + 1
    with run_of_its_own("churn") as others, daemon.client() as client, daemon.client() as stranger:
        prepared = client.prepare(run, 0, ["solver"])
        client.open(prepared.handle)
        for trial in range(rounds):
            churned = stranger.prepare(others, trial, ["solver", "forwarder", "model", "judge", "harness"])
            stranger.release(churned.handle)
        released = client.release(prepared.handle)
    assert "ended_early" in released.flags


def test_a_plug_in_names_its_zones_in_whole_characters() -> None:
    """What it says is shown by a daemon that is root."""
    with pytest.raises(BadFrame, match="no text of ours"):
        list(Frames().feed(frame({"zones": [], "absent": [{"path": "\ud800", "reason": "x"}], "generation": 0})))


def test_who_asks_much_is_served_in_turn_with_who_asks_once(daemon: Daemon, run: str) -> None:
    """Twenty connections with thirty requests each before a stopped daemon, then one of somebody else: his is answered
    after one of each, else whoever floods the meter moves the edges of everybody's windows."""
    with contextlib.ExitStack() as held, daemon.client() as client:
        prepared = client.prepare(run, 0, ["solver"])
        opened = client.open(prepared.handle)
        many = [held.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) for _ in range(21)]
        for one in many:
            one.settimeout(20)
            one.connect(str(daemon.socket))
        *flooding, patient = many
        _said(daemon, _asked("status"))
        os.kill(daemon.pid, signal.SIGSTOP)
        for one in flooding:
            one.sendall((_asked("open", handle=prepared.handle, inside=opened.window) + b"\n") * 30)
        patient.sendall(_asked("status") + b"\n")
        os.kill(daemon.pid, signal.SIGCONT)
        with patient.makefile("rb") as answers:
            open_then = json.loads(answers.readline())["windows"]
    assert open_then <= 1 + 2 * len(flooding)


def test_a_systemd_that_does_not_answer_holds_up_no_window(tmp_path: Path, tree: PowercapTree, run: str) -> None:
    """Any client may name the driver. What systemd is asked is bounded, and what it does not stop is no error. (T9)"""
    systemctl = tmp_path / "systemctl"
    systemctl.write_text('#!/bin/sh\n[ "$1" = start ] || exec sleep 600\n')
    systemctl.chmod(0o755)
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    with meter_daemon(tmp_path, tree.root, environment=path) as daemon, daemon.client() as client:
        prepared = client.prepare(run, 0, ["solver"], driver="systemd")
        client.open(prepared.handle)
        assert client.release(prepared.handle).readings
        systemctl.unlink()
        systemctl.write_text("#!/bin/sh\nexec sleep 600\n")
        systemctl.chmod(0o755)
        with pytest.raises(MeterRefused, match="timed out"):
            client.prepare(run, 1, ["solver"], driver="systemd")
        assert client.status()["handles"] == 0
