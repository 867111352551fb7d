"""The verbs of `appliance meter` against the real daemon over counters that a test writes (rows D1, J38, J41)."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from appliance.cgroups import hierarchies
from tests.meter_bench import meter_daemon, run_of_its_own
from tests.meter_steady import steady
from tests.sysfs_tree import PowercapTree

_COMMAND = [sys.executable, "-m", "appliance.cli.main", "meter"]
WATTS = {"intel-rapl:0": 20.0, "intel-rapl:0:0": 2.0}


def _meter(*words: str, home: Path | None = None, **more: Any) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "XDG_DATA_HOME": str(home)} if home else None
    return subprocess.run(
        [*_COMMAND, *words], capture_output=True, text=True, check=False, timeout=120, env=environment, **more
    )


def _as_nobody(*words: str) -> subprocess.CompletedProcess[str]:
    """Two refusals come first, as root: what they import may lie where only root looks."""
    program = (
        "import os, sys\n"
        "from appliance.cli.main import run\n"
        "run(['meter', 'status', '--meter-socket', '/nonexistent'])\n"
        "run(['meter', 'serve', '--group', 'nonexistent'])\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "sys.exit(run(['meter', *sys.argv[1:]]))\n"
    )
    command = [sys.executable, "-c", program, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture
def tree(tmp_path: Path) -> PowercapTree:
    found = PowercapTree(tmp_path / "powercap")
    found.packages(dram=True)
    return found


# ---------------------------------------------------------------------------------------------- without a daemon


@pytest.mark.parametrize("verb", [["status"], ["watch", "--once"]])
def test_without_a_daemon_the_face_says_how_to_start_one(tmp_path: Path, verb: list[str]) -> None:
    """Status 4, one line, the mend (formats 9)."""
    ended = _meter(*verb, "--meter-socket", str(tmp_path / "none.sock"))
    assert ended.returncode == 4, ended.stderr
    assert "no meter is running" in ended.stderr
    assert "appliance meter serve" in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_a_refusal_under_json_is_one_document(tmp_path: Path) -> None:
    """With its reason, for whoever scripts it."""
    ended = _meter("status", "--json", "--meter-socket", str(tmp_path / "none.sock"))
    assert json.loads(ended.stdout)["error"]["reason"] == "no_meter"


def test_json_needs_an_end() -> None:
    """A stream is not one document: status 2 names what ends it."""
    ended = _meter("watch", "--json")
    assert ended.returncode == 2
    assert "--once" in ended.stderr


# ---------------------------------------------------------------------------------------------- status, watch


@pytest.mark.root
def test_status_tells_what_is_read(tmp_path: Path, tree: PowercapTree) -> None:
    """Version, each counter with its provenance, gaps, its own CPU time."""
    with meter_daemon(tmp_path, tree.root) as daemon:
        found = json.loads(_meter("status", "--json", "--meter-socket", str(daemon.socket)).stdout)
        text = _meter("status", "--meter-socket", str(daemon.socket)).stdout
    assert [(zone["key"], zone["provenance"]) for zone in found["counters"]] == [
        ("package-0", "simulated"),
        ("package-0/dram", "simulated"),
    ]
    assert found["windows"] == 0
    assert "package-0: powercap, simulated, posing as hw_shunt" in text


@pytest.mark.root
def test_watch_tells_the_joules_of_a_trial_and_conserves(tmp_path: Path, tree: PowercapTree) -> None:
    """A trial's cgroup that burns a CPU gets most of what lies above idle; all parts are the whole (D1)."""
    with meter_daemon(tmp_path, tree.root) as daemon, run_of_its_own() as run, daemon.client() as client:
        prepared = client.prepare(run, 3, ["solver"])
        folders = [one for one in hierarchies().folders(prepared.cgroups["solver"]) if one.is_dir()]
        with contextlib.ExitStack() as stack:
            stack.enter_context(steady(tree, WATTS))
            busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            stack.callback(busy.wait)
            stack.callback(busy.kill)
            for folder in folders:
                (folder / "cgroup.procs").write_text(str(busy.pid))
            ended = _meter("watch", "--seconds", "3", "--json", "--meter-socket", str(daemon.socket))
        client.release(prepared.handle)
    found = json.loads(ended.stdout)
    (own,) = [one for one in found["containers"] if one["run"] == run]
    assert own["name"] == f"{run}/00003/solver"
    assert own["cpuSeconds"] > 0
    assert own["total"]["uj"] > 0
    parts = sum(one["total"]["uj"] for one in found["containers"]) + found["system"]["uj"]
    assert parts == found["total"]["uj"]
    assert found["conservationErrorUj"] == 0
    assert found["provenance"] == "simulated"
    assert found["idle"]["calibrated"] is False
    meter = [one for one in found["containers"] if one["role"] == "meter"]
    assert [one["name"] for one in meter] == ["meter"]


@pytest.mark.root
def test_watch_outlives_the_daemon(tmp_path: Path, tree: PowercapTree) -> None:
    """A restart is said, the line of lines goes on (D1)."""
    socket = tmp_path / "meter.sock"
    with steady(tree, WATTS), contextlib.ExitStack() as first:
        first.enter_context(meter_daemon(tmp_path, tree.root))
        watching = subprocess.Popen(
            [*_COMMAND, "watch", "--meter-socket", str(socket)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert watching.stdout is not None
        assert "total" in watching.stdout.readline()
        first.close()
        with meter_daemon(tmp_path, tree.root):
            time.sleep(2)
            # Whatever was still in the pipe comes first; then a line that only the second daemon can have caused.
            lines = [watching.stdout.readline() for _ in range(3)]
        watching.send_signal(signal.SIGINT)
        _, said = watching.communicate(timeout=60)
    assert all("total" in line for line in lines)
    assert "asking again" in said
    assert watching.returncode == 130


@pytest.mark.root
def test_on_a_terminal_it_is_a_table_in_place(tmp_path: Path, tree: PowercapTree) -> None:
    """Redrawn where it stands, with all its rows; the cursor is given back (D1)."""
    with meter_daemon(tmp_path, tree.root) as daemon, steady(tree, WATTS):
        ours, its = pty.openpty()
        watching = subprocess.Popen(
            [*_COMMAND, "watch", "--seconds", "2", "--meter-socket", str(daemon.socket)],
            stdout=its,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40"},
        )
        os.close(its)
        pieces = []
        with contextlib.suppress(OSError):  # the other side of a terminal ends with EIO
            while piece := os.read(ours, 65536):
                pieces.append(piece)
        os.close(ours)
        assert watching.wait(timeout=60) == 0
    shown = b"".join(pieces).decode()
    words = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", " ", shown).split()
    assert {"watts", "joules", "CPU", "meter", "system", "idle", "total"} <= set(words)
    assert "\x1b[1A" in shown
    assert shown.rstrip().endswith("\x1b[?25h")


@pytest.mark.root
def test_once_is_a_table_with_system_idle_and_total(tmp_path: Path, tree: PowercapTree) -> None:
    """For a script or a glance; what the figures are of stands below (L2's law)."""
    with meter_daemon(tmp_path, tree.root) as daemon, steady(tree, WATTS):
        lines = _meter("watch", "--once", "--meter-socket", str(daemon.socket), home=tmp_path).stdout.splitlines()
    names = [line.split()[0] for line in lines if line]
    assert {"meter", "system", "idle", "total"} <= set(names)
    assert any("(simulated); conservation error 0 uJ" in line for line in lines)
    assert any("idle is not known (none stored)" in line for line in lines)


@pytest.mark.root
def test_a_user_outside_the_group_is_told_so(tmp_path: Path, tree: PowercapTree) -> None:
    """EACCES on the socket is a membership that lacks: status 4, the command (formats 9)."""
    with (
        tempfile.TemporaryDirectory(prefix="meter-") as open_to_all,
        meter_daemon(tmp_path, tree.root, "--group", "daemon") as daemon,
    ):
        Path(open_to_all).chmod(0o755)
        place = Path(open_to_all) / "meter.sock"
        # Pytest's folder is root's alone; the socket's own rights are what is tested.
        daemon.socket.rename(place)
        ended = _as_nobody("status", "--meter-socket", str(place))
        document = _as_nobody("status", "--json", "--socket", str(place))
        place.rename(daemon.socket)
    assert ended.returncode == 4, ended.stderr
    assert "may not ask the meter" in ended.stderr
    assert "usermod -aG daemon nobody" in ended.stderr
    assert json.loads(document.stdout)["error"]["reason"] == "PrivilegeRequired"


# ---------------------------------------------------------------------------------------------- serve


@pytest.mark.root
def test_serve_becomes_the_daemon(tmp_path: Path, tree: PowercapTree) -> None:
    """The same process goes on as the isolated daemon, and ends with its socket gone on SIGTERM."""
    socket = tmp_path / "served.sock"
    serving = subprocess.Popen(
        [*_COMMAND, "serve", "--socket", str(socket), "--group", "root", "--powercap-root", str(tree.root), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        until = time.monotonic() + 60
        while not socket.exists() and serving.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        words = Path(f"/proc/{serving.pid}/cmdline").read_bytes().split(b"\0")
        found = json.loads(_meter("status", "--json", "--meter-socket", str(socket)).stdout)
        again = _meter("serve", "--socket", str(socket), "--group", "root")
    finally:
        serving.terminate()
        document, said = serving.communicate(timeout=30)
    assert words[1:4] == [b"-I", b"-m", b"appliance.meter.daemon.serve"]
    assert found["pid"] == serving.pid
    assert json.loads(document) == {"socket": str(socket), "pid": serving.pid}
    assert again.returncode == 4
    assert "running already" in again.stderr
    assert str(socket) in again.stderr
    assert f"listening at {socket} for the group root; 2 counters: package-0, package-0/dram;" in said.decode()
    assert serving.returncode == 0
    assert not socket.exists()


@pytest.mark.root
def test_serve_without_rights_is_refused(tmp_path: Path) -> None:
    """An ordinary user is told what starts it, before anything is made (W11)."""
    ended = _as_nobody("serve", "--socket", str(tmp_path / "x.sock"))
    assert ended.returncode == 4, ended.stderr
    assert "sudo /" in ended.stderr
    assert "appliance meter serve" in ended.stderr
    assert not (tmp_path / "x.sock").exists()


# ---------------------------------------------------------------------------------------------- on the machine itself


@pytest.mark.root
def test_a_calibration_is_measured_kept_and_used(tmp_path: Path, tree: PowercapTree) -> None:
    """20 W at rest are stored as 20 W, to a percent; `watch` reckons with them at once (J38, D1)."""
    home = tmp_path / "home"
    with meter_daemon(tmp_path, tree.root) as daemon, steady(tree, WATTS):
        at = ("--meter-socket", str(daemon.socket))
        made = json.loads(_meter("calibrate", "--seconds", "4", "--force", "--json", *at, home=home).stdout)
        shown = json.loads(_meter("calibrate", "--show", "--json", *at, home=home).stdout)
        watched = json.loads(_meter("watch", "--once", "--json", *at, home=home).stdout)
    assert made["zones"]["package-0"]["meanUw"] == pytest.approx(20_000_000, rel=0.01)
    assert made["zones"]["package-0/dram"]["meanUw"] == pytest.approx(2_000_000, rel=0.01)
    assert shown["lapsed"] is None
    assert shown["zones"] == made["zones"]
    assert watched["idle"] == {
        "calibrated": True,
        "at": made["at"],
        "expiresAt": made["expiresAt"],
        "reason": None,
    }
    assert watched["idleTotal"]["uj"] > 0
    kept = home / "bench-appliance" / "calibration"
    assert sorted(path.suffix for path in kept.iterdir()) == [".gz", ".json"]


@pytest.mark.root
def test_other_counters_make_it_lapse(tmp_path: Path, tree: PowercapTree) -> None:
    """Shown with the reason, and not used (3.2)."""
    home = tmp_path / "home"
    with steady(tree, WATTS):
        with meter_daemon(tmp_path, tree.root) as daemon:
            at = ("--meter-socket", str(daemon.socket))
            assert _meter("calibrate", "--seconds", "3", "--force", *at, home=home).returncode == 0
        tree.zone("intel-rapl:1", "package-1", 1)
        with meter_daemon(tmp_path, tree.root) as daemon:
            at = ("--meter-socket", str(daemon.socket))
            shown = _meter("calibrate", "--show", *at, home=home)
            watched = json.loads(_meter("watch", "--once", "--json", *at, home=home).stdout)
    assert "does not hold: counters: package-0 by powercap" in shown.stdout
    assert shown.returncode == 6
    assert watched["idle"]["calibrated"] is False
    assert watched["idleTotal"] is None


@pytest.mark.root
def test_a_busy_host_is_not_calibrated(tmp_path: Path, tree: PowercapTree) -> None:
    """Foreign load is named, with the command that shows it; with --force it is kept in what is stored (J38)."""
    home = tmp_path / "home"
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        with meter_daemon(tmp_path, tree.root) as daemon, steady(tree, WATTS):
            at = ("--meter-socket", str(daemon.socket))
            refused = _meter("calibrate", "--seconds", "3", *at, home=home)
            forced = _meter("calibrate", "--seconds", "3", "--force", "--json", *at, home=home)
    finally:
        for one in busy:
            one.kill()
            one.wait()
    assert refused.returncode == 4
    assert "the host is not quiet: cpu_load" in refused.stderr
    assert "or --force" in refused.stderr
    assert forced.returncode == 0, forced.stderr
    assert "cpu_load" in json.loads(forced.stdout)["forced"]


@pytest.mark.root
def test_a_machine_whose_power_varies_is_none_at_rest(tmp_path: Path, tree: PowercapTree) -> None:
    """More than 5 % of scatter is no idle power, whoever forces it; nothing is stored (3.2)."""
    home = tmp_path / "home"
    with meter_daemon(tmp_path, tree.root) as daemon:
        measuring = subprocess.Popen(
            [*_COMMAND, "calibrate", "--seconds", "4", "--force", "--meter-socket", str(daemon.socket)],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "XDG_DATA_HOME": str(home)},
        )
        power = 5_000_000
        while measuring.poll() is None:
            tree.add("intel-rapl:0", power)
            power = 25_000_000 - power
            time.sleep(0.7)
        said = measuring.communicate()[1]
    assert measuring.returncode == 4
    assert "no machine at rest: package-0 varies by" in said
    assert not home.exists()


@pytest.mark.root
def test_calibrate_without_a_counter_is_the_meters_lack(tmp_path: Path) -> None:
    """Status 6, before a minute was waited for (L5's law)."""
    with meter_daemon(tmp_path) as daemon:
        ended = _meter("calibrate", "--force", "--meter-socket", str(daemon.socket), home=tmp_path)
    assert ended.returncode == 6
    assert "no counter" in ended.stderr


def test_show_without_a_calibration_says_how_to_make_one(tmp_path: Path) -> None:
    """Status 3: the file is not there."""
    ended = _meter("calibrate", "--show", home=tmp_path)
    assert ended.returncode == 3
    assert "appliance meter calibrate" in ended.stderr


def test_probe_finds_how_often_a_counter_changes(tmp_path: Path, tree: PowercapTree) -> None:
    """One that changes every 50 ms or so has no floor below half a second; it is said to be simulated (J41)."""
    with steady(tree, WATTS, every_seconds=0.05):
        ended = _meter("probe", "--seconds", "4", "--powercap-root", str(tree.root), "--json")
    (counter,) = json.loads(ended.stdout)["counters"]
    assert counter["name"] == "powercap"
    package = counter["zones"][0]
    assert (package["key"], package["provenance"]) == ("package-0", "simulated")
    assert package["update"]["medianNs"] >= 40_000_000
    assert package["slowerThanKnown"] is True
    assert counter["floorNs"] >= 10 * package["update"]["medianNs"]
    assert counter["readLatency"]["count"] > 100


def test_probe_without_a_counter_is_the_meters_lack(tmp_path: Path) -> None:
    """Status 6, with what is absent."""
    (tmp_path / "none").mkdir()
    ended = _meter("probe", "--powercap-root", str(tmp_path / "none"))
    assert ended.returncode == 6
    assert "no counter" in ended.stderr
    for words in (("probe",), ("calibrate",), ("selftest", "--cgroups"), ("serve", "--group", "root")):
        typed = _meter(*words, "--powercap-root", str(tmp_path / "typo"))
        assert (typed.returncode, "no such folder" in typed.stderr) == (2, True), typed.stderr


@pytest.mark.root
def test_selftest_conserves_and_counts_a_known_burn(tmp_path: Path, tree: PowercapTree) -> None:
    """Two loads alone, alone, together: exact conservation, and no CPU time is lost (T3, 3.2)."""
    with meter_daemon(tmp_path, tree.root) as daemon, steady(tree, WATTS):
        words = ("--seconds", "0.4", "--idle-seconds", "3", "--cgroups", "--json")
        ended = _meter("selftest", *words, "--meter-socket", str(daemon.socket))
    found = json.loads(ended.stdout)
    assert ended.returncode == 0, ended.stderr
    assert found["conserves"] is True
    assert [one["name"] for one in found["windows"]] == ["a alone", "b alone", "a together", "b together"]
    for one in found["windows"]:
        assert one["conservationErrorUj"] == 0
        # A tick of the kernel's is granted: the counter of a running task stands still for so long.
        assert one["cpuErrorNs"] > -10_000_000
    assert {one["zone"] for one in found["additivity"]} == {"package-0", "package-0/dram"}
    assert found["untested"] == {}


@pytest.mark.root
def test_selftest_without_a_counter_tests_what_can_be_tested(tmp_path: Path) -> None:
    """CPU time is measured against the burn; what is not tested is said, with why (3.2)."""
    with meter_daemon(tmp_path) as daemon:
        ended = _meter("selftest", "--seconds", "0.3", "--cgroups", "--json", "--meter-socket", str(daemon.socket))
    found = json.loads(ended.stdout)
    assert ended.returncode == 0, ended.stderr
    assert found["conserves"] is None
    assert set(found["untested"]) == {"additivity", "conservation"}
    assert found["cpuTogetherErrorNs"] is not None
    assert found["windows"][0]["netUj"] is None


@pytest.mark.root
@pytest.mark.docker
def test_selftest_in_containers(tmp_path: Path, tree: PowercapTree) -> None:
    """The loads run by an exec as a solver does; nothing of them stays behind."""
    with meter_daemon(tmp_path, tree.root) as daemon, steady(tree, WATTS):
        words = ("--seconds", "0.4", "--idle-seconds", "2", "--containers", "--json")
        ended = _meter("selftest", *words, "--meter-socket", str(daemon.socket))
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert found["conserves"] is True
    listed = ["docker", "ps", "-a", "--format", '{{.Label "org.bench-appliance.run"}}']
    left = subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split()
    assert not [run for run in left if run.startswith("selftest_")]


@pytest.mark.root
def test_a_cross_check_that_cannot_be_is_listed_as_not_tested(tmp_path: Path, tree: PowercapTree) -> None:
    """The loads are tested all the same; why, in our words: no class and no flag of anybody else's (D3)."""
    if Path("/sys/class/powercap/intel-rapl").exists():
        pytest.skip("this host has what pyRAPL reads")
    words = ("selftest", "--seconds", "0.2", "--idle-seconds", "2", "--cgroups", "--cross-check", "pyrapl")
    bare = _meter(*words)
    with steady(tree, WATTS):
        counted = _meter(*words, "--powercap-root", str(tree.root))
    assert (bare.returncode, counted.returncode) == (0, 0), bare.stderr + counted.stderr
    assert "agreement with pyrapl not tested: this meter reads no counter (/sys/class/powercap: absent)" in bare.stdout
    assert "agreement with pyrapl not tested: pyrapl reads no counter here (" in counted.stdout
    assert not re.search(r"PyRAPL[A-Z]|--cpu-backend", bare.stdout + counted.stdout + bare.stderr + counted.stderr)


def test_a_counter_that_nobody_installed_is_refused_as_every_refusal_is(tmp_path: Path) -> None:
    """By one line of `appliance:`, status 6 (D4)."""
    ended = _meter("serve", "--group", "root", "--socket", str(tmp_path / "s"), "--counter", "wall-metre")
    assert ended.returncode == 6, ended.stderr
    assert ended.stderr.startswith("appliance: --counter wall-metre: no counter plug-in has this name")
    assert ended.stderr.count("\n") == 1


def test_the_group_without_a_verb_prints_its_help_alone() -> None:
    """No empty message behind it; the module is the same program (J41)."""
    ended = subprocess.run([sys.executable, "-m", "appliance", "meter"], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "Usage: appliance meter" in ended.stdout + ended.stderr
    assert "appliance:" not in ended.stderr


def test_an_unknown_cross_check_is_a_word_of_the_command_line() -> None:
    """Status 2, naming the one that is there (D3)."""
    ended = _meter("selftest", "--cross-check", "likwid")
    assert ended.returncode == 2
    assert "--cross-check pyrapl" in ended.stderr
