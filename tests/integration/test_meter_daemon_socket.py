"""The meter's socket to the letter, on the real daemon (formats 5)."""

from __future__ import annotations

import json
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from appliance.cgroups import hierarchies
from appliance.errors import HostRefused, MeterRefused
from appliance.meter.client import MeterClient
from appliance.meter.daemon import loop as daemon_loop
from appliance.schemas import first_problem
from tests.meter_bench import Daemon, meter_daemon, run_of_its_own
from tests.sysfs_tree import PowercapTree

pytestmark = pytest.mark.root


@pytest.fixture
def tree(tmp_path: Path) -> PowercapTree:
    tree = PowercapTree(tmp_path / "powercap")
    tree.packages(2, dram=True)
    return tree


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("meter")
    tree = PowercapTree(folder / "powercap")
    tree.packages(1)
    with meter_daemon(folder, tree.root) as daemon:
        yield daemon


class Raw:
    """The socket without a client's manners."""

    def __init__(self, daemon: Daemon):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(20)
        self.socket.connect(str(daemon.socket))
        self._lines = self.socket.makefile("rb")

    def say(self, line: bytes) -> dict[str, Any]:
        self.socket.sendall(line)
        return self.hear()

    def hear(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self._lines.readline())
        return answer

    def ask(self, op: str, **asked: Any) -> dict[str, Any]:
        return self.say(json.dumps({"op": op, "v": 1, **asked}).encode() + b"\n")

    def code(self, line: bytes) -> str:
        code: str = self.say(line)["error"]["code"]
        return code

    def close(self) -> None:
        self._lines.close()
        self.socket.close()


@pytest.fixture
def raw(shared: Daemon):
    raw = Raw(shared)
    yield raw
    raw.close()


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{\n", "bad_message"),
        (b"[]\n", "bad_message"),
        (b"\xff\xfe\n", "bad_message"),
        (b"[" * 20_000 + b"\n", "bad_message"),
        (b'{"op": "status"}\n', "bad_version"),
        (b'{"op": "status", "v": 2}\n', "bad_version"),
        (b'{"op": "status", "v": true}\n', "bad_version"),
        (b'{"op": "sing", "v": 1}\n', "bad_message"),
        (b'{"op": ["status"], "v": 1}\n', "bad_message"),
        (b'{"op": "status", "v": 1, "more": 1}\n', "bad_message"),
        (b'{"op": "prepare", "v": 1}\n', "bad_message"),
        (b'{"op": "prepare", "v": 1, "run": "../x", "trial": 1, "roles": ["solver"]}\n', "bad_message"),
        (b'{"op": "prepare", "v": 1, "run": "a-b", "trial": 1, "roles": ["solver"]}\n', "bad_message"),
        (b'{"op": "prepare", "v": 1, "run": "meter", "trial": 1, "roles": ["solver"]}\n', "bad_message"),
        (b'{"op": "prepare", "v": 1, "run": "r", "trial": 1.0, "roles": ["solver"]}\n', "bad_message"),
        (b'{"op": "prepare", "v": 1, "run": "r", "trial": -1, "roles": ["solver"]}\n', "bad_message"),
        (b'{"op": "prepare", "v": 1, "run": "r", "trial": 100000, "roles": ["solver"]}\n', "bad_message"),
        (b'{"op": "prepare", "v": 1, "run": "r", "trial": 1, "roles": ["solver", "solver"]}\n', "bad_message"),
        (b'{"op": "prepare", "v": 1, "run": "r", "trial": 1, "roles": ["root"]}\n', "bad_message"),
        (b'{"op": "prepare", "v": 1, "run": "r", "trial": null, "roles": ["solver"]}\n', "bad_message"),
        (b'{"op": "prepare", "v": 1, "run": "r", "roles": [], "driver": "upstart"}\n', "bad_message"),
        (b'{"op": "prepare", "v": 1, "run": "r", "adopt": {"pid": "1"}}\n', "bad_message"),
        (b'{"op": "prepare", "v": 1, "run": "r", "adopt": {"pid": 2147483647}}\n', "bad_message"),
        (b'{"op": "open", "v": 1, "handle": "nobody"}\n', "unknown_window"),
        (b'{"op": "open", "v": 1, "handle": ""}\n', "bad_message"),
        (b'{"op": "open", "v": 1, "handle": "x", "label": "\\ud800"}\n', "bad_message"),
        (b'{"op": "close", "v": 1, "window": "nothing"}\n', "unknown_window"),
        (b'{"op": "release", "v": 1, "handle": "nobody"}\n', "unknown_window"),
        (b"x" * 65_537 + b"\n", "bad_message"),
        (b"x" * 1_000_000 + b"\n", "bad_message"),
    ],
    ids=lambda value: value[:40].decode("latin1") if isinstance(value, bytes) else value,
)
def test_what_is_no_message_of_ours_gets_its_code_and_the_connection_stays(raw: Raw, line: bytes, code: str) -> None:
    """Every refusal is one line with its code; the next request on the same connection is answered. (formats 5)"""
    assert raw.code(line) == code
    assert raw.ask("status")["handles"] == 0


def test_a_message_of_64_kib_is_taken_and_one_byte_more_is_not(raw: Raw) -> None:
    """The limit is of the line without its line feed. (formats 5)"""
    start, end = b'{"op":"status","v":1', b"}"
    fitting = start + b" " * (65_536 - len(start) - len(end)) + end
    assert "version" in raw.say(fitting + b"\n")
    assert raw.code(b" " + fitting + b"\n") == "bad_message"


def test_what_follows_a_line_that_was_too_long_is_answered(raw: Raw) -> None:
    """A line without an end is refused once, passed over to its end, and what stands behind it is a request."""
    raw.socket.sendall(b"y" * 300_000)
    assert raw.hear()["error"]["code"] == "bad_message"
    raw.socket.sendall(b"y" * 10 + b'\n{"op":"status","v":1}\n')
    assert "version" in raw.hear()


def test_many_requests_in_one_piece_are_answered_in_their_order(raw: Raw) -> None:
    """Pipelined requests keep their order, more than one turn's worth of them."""
    wanted = [f"h{number}" for number in range(200)]
    raw.socket.sendall(b"".join(b'{"op":"open","v":1,"handle":"%s"}\n' % name.encode() for name in wanted))
    assert [raw.hear()["error"]["message"].split()[-1] for _ in wanted] == wanted


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    value=st.dictionaries(
        st.sampled_from(["op", "v", "run", "trial", "roles", "adopt", "driver", "handle", "window", "label", "inside"]),
        st.one_of(
            st.sampled_from(["prepare", "open", "close", "release", "status", "solver", "cgroupfs"]),
            st.integers(-(2**70), 2**70),
            st.text(max_size=8),
            st.none(),
            st.booleans(),
            st.lists(st.sampled_from(["solver", "model", 3]), max_size=2),
            st.dictionaries(st.just("pid"), st.integers(), max_size=1),
        ),
    )
)
def test_no_object_of_whatever_shape_ends_the_daemon(raw: Raw, value: dict[str, Any]) -> None:
    """Anything that is JSON is answered with a line that the published schema admits."""
    answer = raw.say(json.dumps({"v": 1, **value}).encode() + b"\n")
    assert first_problem("meter-messages-v1", answer) is None
    if "handle" in answer:
        raw.ask("release", handle=answer["handle"])


def test_every_message_of_a_window_keeps_to_the_published_schema(shared: Daemon, raw: Raw) -> None:
    """What is asked and what is answered, from prepare to release, status and watch. (formats 5)"""
    with run_of_its_own() as run:
        asked: list[dict[str, Any]] = []

        def ask(op: str, **more: Any) -> dict[str, Any]:
            asked.append({"op": op, "v": 1, **more})
            answer = raw.ask(op, **more)
            assert first_problem("meter-messages-v1", answer) is None
            return answer

        handle = ask("prepare", run=run, trial=0, roles=["solver"])["handle"]
        window = ask("open", handle=handle, label="whole")["window"]
        inner = ask("open", handle=handle, inside=window)["window"]
        ask("close", window=inner)
        ask("close", window=window)
        ask("release", handle=handle)
        ask("status")
        ask("watch")
        assert all(first_problem("meter-messages-v1", one) is None for one in asked)
        assert first_problem("meter-messages-v1", {**asked[0], "more": 1}) is not None


@pytest.fixture
def open_folder():
    """pytest's own folders are closed to other users."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_a_window_is_another_users_to_nobody(open_folder: Path, tree: PowercapTree) -> None:
    """Handles belong to the uid at the other end of the socket (SO_PEERCRED): another one may not open, close or
    release them, nor prepare in the same run. (formats 5: not_yours)"""
    arguments = ("--group", "nogroup")
    with run_of_its_own() as run, meter_daemon(open_folder, tree.root, *arguments) as daemon, daemon.client() as ours:
        prepared = ours.prepare(run, 3, ["solver"])
        opened = ours.open(prepared.handle)
        answers = _as_nobody(
            daemon.socket,
            {"op": "open", "v": 1, "handle": prepared.handle},
            {"op": "close", "v": 1, "window": opened.window},
            {"op": "release", "v": 1, "handle": prepared.handle},
            {"op": "prepare", "v": 1, "run": run, "trial": 4, "roles": ["solver"]},
        )
        assert [one["error"]["code"] for one in answers] == ["not_yours"] * 4
        ours.close(opened.window)
        assert ours.release(prepared.handle).readings


def test_the_socket_is_its_groups_and_nobody_elses(tmp_path: Path, tree: PowercapTree) -> None:
    """0660 and the group's where there is one; 0600 where there is none, and said. (formats 5)"""
    with meter_daemon(tmp_path, tree.root, "--group", "nogroup") as daemon:
        found = daemon.socket.stat()
        assert stat.S_IMODE(found.st_mode) == 0o660
        assert found.st_gid == 65534
    with meter_daemon(tmp_path, tree.root, "--group", "there_is_none") as daemon:
        assert stat.S_IMODE(daemon.socket.stat().st_mode) == 0o600
        assert "no group there_is_none here" in daemon.log()


def test_sigterm_closes_windows_and_leaves_nothing(tmp_path: Path, tree: PowercapTree) -> None:
    """Status 0, socket and cgroups gone, in every hierarchy."""
    with run_of_its_own() as run, meter_daemon(tmp_path, tree.root) as daemon:
        client = daemon.client()
        prepared = client.prepare(run, 0, ["solver", "forwarder"])
        client.open(prepared.handle)
        assert any(folder.exists() for folder in hierarchies().folders(prepared.cgroups["solver"]))
        assert daemon.stop(signal.SIGTERM) == 0
        assert not any(folder.exists() for folder in hierarchies().folders(f"/bench-appliance/{run}"))
        assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("meter.sock")) == []
        with pytest.raises(MeterRefused) as refused:
            client.status()
        assert refused.value.reason == "gone"


def test_a_killed_daemons_socket_is_taken_over_and_a_living_ones_is_not(tmp_path: Path, tree: PowercapTree) -> None:
    """kill -9 leaves a socket that the next one takes; beside a living one it ends with one line, status 4."""
    with meter_daemon(tmp_path, tree.root) as first:
        first.stop(signal.SIGKILL)
        assert first.socket.exists()
        with meter_daemon(tmp_path, tree.root) as second:
            asked = _serve("--socket", str(second.socket), "--powercap-root", str(tree.root))
            assert asked.returncode == 4
            assert asked.stderr.count("\n") == 1
            assert "another meter serves here" in asked.stderr
            with second.client() as client:
                assert client.status()["pid"] == second.pid


def test_what_is_no_socket_is_left_where_it_lies(tmp_path: Path) -> None:
    """A file at the socket's path is somebody's: refused, and not removed."""
    (tmp_path / "meter.sock").write_text("mine")
    asked = _serve("--socket", str(tmp_path / "meter.sock"))
    assert asked.returncode == 4
    assert (tmp_path / "meter.sock").read_text() == "mine"


@pytest.mark.parametrize("period", ["9", "0", "-5", "fast", "60001"])
def test_a_period_out_of_bounds_is_a_usage_error(period: str, tmp_path: Path) -> None:
    """Status 2, and the bounds."""
    asked = _serve("--socket", str(tmp_path / "s"), "--period-ms", period)
    assert asked.returncode == 2
    assert "from 10 to 60000" in asked.stderr


def test_a_period_in_which_a_counter_may_go_round_unseen_is_refused(tmp_path: Path) -> None:
    """A package of a kilowatt with AMD's range: 16 s at the most. (energy.md 2.1: T_safe)"""
    tree = PowercapTree(tmp_path / "powercap")
    tree.zone("intel-rapl:0", "package-0", 1, max_range_uj=65_532_610_987)
    asked = _serve("--socket", str(tmp_path / "s"), "--powercap-root", str(tree.root), "--period-ms", "20000")
    assert asked.returncode == 6
    assert "package-0" in asked.stderr
    assert "--period-ms 16383" in asked.stderr


def test_a_flood_of_connections_is_refused_beyond_a_number_and_the_others_are_served(
    tmp_path: Path, tree: PowercapTree
) -> None:
    """Those beyond are told too_many; a window that is open meanwhile goes on being sampled."""
    with run_of_its_own() as run, meter_daemon(tmp_path, tree.root) as daemon, daemon.client() as client:
        prepared = client.prepare(run, 0, ["solver"])
        opened = client.open(prepared.handle)
        flood = [Raw(daemon) for _ in range(daemon_loop.MOST_CONNECTIONS_OF_ONE + 20)]
        for one in flood[-20:]:
            assert one.hear()["error"]["code"] == "too_many"
            with pytest.raises(json.JSONDecodeError):
                one.hear()
        for one in flood:
            one.close()
        client.close(opened.window)
        assert client.release(prepared.handle).readings


def test_without_a_descriptor_left_the_daemon_goes_on_and_takes_connections_again(
    tmp_path: Path, tree: PowercapTree
) -> None:
    """Prepares are refused as too_many while there are some for whoever comes to release; where all are gone, who
    connects waits, nothing spins, and he is served once there is one."""
    limit = ["sh", "-c", 'ulimit -n 48 && exec "$@"', "sh"]
    with run_of_its_own() as run, meter_daemon(tmp_path, tree.root, before=limit) as daemon:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.connect(str(daemon.socket))
        client = MeterClient(sock)
        handles = []
        with pytest.raises(MeterRefused) as refused:
            for number in range(60):
                handles.append(client.prepare(run, number, ["solver"]).handle)
        assert refused.value.reason == "too_many"
        others = [Raw(daemon) for _ in range(20)]
        before = client.status()["cpuSeconds"]
        time.sleep(0.5)
        assert client.status()["cpuSeconds"] - before < 0.25
        assert "no connection is taken for a second" in daemon.log()
        others[0].close()
        others[1].close()
        for handle in handles:
            client.release(handle)
        assert others[-1].ask("status")["handles"] == 0
        for one in others[2:]:
            one.close()
        client.close_connection()


def test_a_client_that_only_asks_and_never_reads_is_not_waited_for(tmp_path: Path, tree: PowercapTree) -> None:
    """Its requests stay with the kernel once a mebibyte of answers waits for it; others are answered, memory stays."""
    with meter_daemon(tmp_path, tree.root) as daemon, daemon.client() as client:
        rude = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        rude.connect(str(daemon.socket))
        rude.setblocking(False)
        sent = 0
        for _ in range(200):
            try:
                while True:
                    sent += rude.send(b'{"op":"status","v":1}\n' * 1000)
            except BlockingIOError:
                client.status()
        assert sent < 64 * 1024 * 1024
        assert _rss_kib(daemon.pid) < 40 * 1024
        rude.close()


def test_a_watcher_that_does_not_read_blocks_nobody(tmp_path: Path, tree: PowercapTree) -> None:
    """Lines are dropped for it, not kept; the other watcher gets its line a second, each whole by itself. (D1)"""
    with meter_daemon(tmp_path, tree.root) as daemon:
        deaf = Raw(daemon)
        deaf.socket.sendall(b'{"op":"watch","v":1}\n')
        with daemon.client() as client:
            lines = client.watch()
            first, second, third = next(lines), next(lines), next(lines)
        assert [zone["key"] for zone in first["zones"]] == [zone["key"] for zone in third["zones"]]
        assert int(first["monotonicNs"]) < int(second["monotonicNs"]) < int(third["monotonicNs"])
        assert first["raw"][:4] == ["1000000"] * 4
        assert [one["role"] for one in first["cgroups"]].count("meter") == 1
        assert len(third["raw"]) == len(third["zones"]) + 1 + len(third["cgroups"])
        deaf.close()


def test_a_child_of_a_run_ends_with_its_client_and_says_nothing(tmp_path: Path, tree: PowercapTree) -> None:
    """Over a socket pair: the same answers; when the client goes, the cgroups go at once. (formats 5)"""
    with run_of_its_own() as run:
        client = MeterClient.start(["--powercap-root", str(tree.root), "--no-nvml"])
        prepared = client.prepare(run, 0, ["solver"])
        client.open(prepared.handle)
        client.close_connection()
        assert not any(folder.exists() for folder in hierarchies().folders(f"/bench-appliance/{run}"))


def test_where_no_meter_listens_the_client_says_so_with_the_kernels_reason(tmp_path: Path) -> None:
    """HostRefused from the OSError: whoever asks decides what follows."""
    with pytest.raises(HostRefused) as refused:
        MeterClient.connect(tmp_path / "nothing.sock")
    assert isinstance(refused.value.__cause__, FileNotFoundError)


def test_systemd_is_told_when_it_is_ready_that_it_lives_and_that_it_stops(tmp_path: Path, tree: PowercapTree) -> None:
    """READY=1 once it listens, STATUS with what it does, WATCHDOG=1 within half the time it may be silent."""
    heard = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    heard.bind(str(tmp_path / "notify"))
    heard.settimeout(20)
    environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"}
    with meter_daemon(tmp_path, tree.root, environment=environment) as daemon:
        words = [heard.recv(4096).decode() for _ in range(6)]
        assert words[0] == "READY=1"
        assert "STATUS=4 counters, 0 windows open" in words
        assert words.count("WATCHDOG=1") >= 2
        daemon.stop()
        rest = []
        heard.setblocking(False)
        while True:
            try:
                rest.append(heard.recv(4096).decode())
            except BlockingIOError:
                break
        assert rest[-1] == "STOPPING=1"


def test_unknown_trials_and_runs_stay_apart_in_ten_clients_at_once(tmp_path: Path, tree: PowercapTree) -> None:
    """Windows of many connections overlap; each gets its own readings, with its own solver as its own."""
    with run_of_its_own() as run, meter_daemon(tmp_path, tree.root) as daemon:
        clients = [daemon.client() for _ in range(10)]
        handles = [client.prepare(run, number, ["solver"]) for number, client in enumerate(clients)]
        windows = [client.open(one.handle) for client, one in zip(clients, handles, strict=True)]
        for client, window in zip(clients, windows, strict=True):
            client.close(window.window)
        released = [client.release(one.handle) for client, one in zip(clients, handles, strict=True)]
        assert len({one.readings for one in released}) == 10
        for client in clients:
            client.close_connection()
        time.sleep(0.05)
        with daemon.client() as client:
            assert client.status()["handles"] == 0


def _serve(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "appliance.meter.daemon.serve", "--no-nvml", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def _as_nobody(path: Path, *messages: dict[str, Any]) -> list[dict[str, Any]]:
    program = (
        "import json, os, socket, sys\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); f = s.makefile('rb')\n"
        "for line in sys.argv[2:]:\n"
        "    s.sendall(line.encode() + b'\\n'); sys.stdout.write(f.readline().decode())\n"
    )
    lines = [json.dumps(message) for message in messages]
    done = subprocess.run(
        [sys.executable, "-c", program, str(path), *lines], capture_output=True, text=True, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def _rss_kib(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError(f"no memory of {pid}")
