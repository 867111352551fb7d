"""Boards and plug-ins through the real daemon: from the driver's numbers to a window's joules."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from appliance.cgroups import hierarchies
from appliance.energy.readings import unpack
from appliance.energy.windows import Window, ZoneEnergy, window_of
from appliance.errors import Refusal
from appliance.meter.client import MeterClient
from appliance.meter.daemon.messages import Opened, Prepared
from tests.counter_plugins import Loopback, installed, until
from tests.meter_bench import run_of_its_own
from tests.nvml_stub import StubGpus, compile_stub, uuid
from tests.pyrapl_bench import ClassTree
from tests.sysfs_tree import PowercapTree

pytestmark = pytest.mark.root
GPU = f"gpu-{uuid(0)[4:].lower()}"
Opening = Callable[..., MeterClient]


@pytest.fixture
def tree(tmp_path: Path) -> PowercapTree:
    tree = PowercapTree(tmp_path / "powercap")
    tree.packages()
    return tree


@pytest.fixture
def opening(tree: PowercapTree) -> Iterator[Opening]:
    with contextlib.ExitStack() as stack:

        def started(*arguments: str) -> MeterClient:
            return stack.enter_context(MeterClient.start(["--powercap-root", str(tree.root), *arguments]))

        yield started


@pytest.fixture
def gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StubGpus:
    gpus = StubGpus(tmp_path / "nvml.txt")
    for name, value in gpus.environment(compile_stub(tmp_path / "library")).items():
        monkeypatch.setenv(name, value)
    return gpus


@pytest.fixture
def run() -> Iterator[str]:
    with run_of_its_own("counters") as run:
        yield run


@contextlib.contextmanager
def working_in(prepared: Prepared) -> Iterator[int]:
    """Pid of a program in the solver's cgroup; gone when this is left."""
    files = [str(folder / "cgroup.procs") for folder in hierarchies().folders(prepared.cgroups["solver"])]
    program = (
        f"import time\nfor file in {files!r}:\n    open(file, 'w').write('0')\nprint('in', flush=True)\ntime.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.kill()
            process.wait()


def begin(client: MeterClient, run: str, trial: int = 0) -> tuple[Prepared, Opened]:
    prepared = client.prepare(run, trial, ["solver"])
    return prepared, client.open(prepared.handle)


def ended(client: MeterClient, prepared: Prepared) -> Window:
    """Once nothing is in its cgroups any more."""
    released = client.release(prepared.handle)
    assert released.readings is not None
    return window_of(unpack(released.readings), None)


def of(window: Window, key: str) -> ZoneEnergy:
    return next(zone for zone in window.zones if zone.key == key)


def test_a_boards_joules_go_to_the_trial_that_is_on_it(opening: Opening, gpus: StubGpus, run: str) -> None:
    """Whatever joules its counter gave; the sum says that a board is in it (G1 G8)."""
    client = opening()
    prepared = client.prepare(run, 0, ["solver"])
    with working_in(prepared) as pid:
        gpus.set("0.compute", pid)
        opened = client.open(prepared.handle)
        gpus.set("0.energy", 1_075_000)
        time.sleep(0.3)
        client.close(opened.window)
    window = ended(client, prepared)
    board = of(window, GPU)
    assert (board.gross_uj, board.missing, board.summed) == (75_000_000, "no idle power was measured", True)
    assert "shared" not in board.flags
    assert window.total is not None
    assert window.total.key == "package+gpu"
    assert (board.provenance, board.claimed, board.source) == ("simulated", "hw_shunt", "nvml 13.580.65.06")


def test_a_stranger_on_the_board_leaves_the_boards_total_alone(opening: Opening, gpus: StubGpus, run: str) -> None:
    """At whatever sample (G8)."""
    client = opening()
    prepared = client.prepare(run, 0, ["solver"])
    with working_in(prepared) as pid:
        gpus.set("0.compute", f"{pid},1")
        opened = client.open(prepared.handle)
        gpus.set("0.energy", 1_075_000)
        time.sleep(0.3)
        client.close(opened.window)
    board = of(ended(client, prepared), GPU)
    assert "shared" in board.flags
    assert (board.gross_uj, board.net_uj) == (75_000_000, None)


@pytest.mark.parametrize(("key", "value"), [("0.mig", 1), ("0.mps", "1")])
def test_a_board_whose_clients_are_not_told_apart_is_shared(
    opening: Opening, gpus: StubGpus, run: str, key: str, value: object
) -> None:
    """MIG and MPS (G10 G11)."""
    client = opening()
    prepared = client.prepare(run, 0, ["solver"])
    with working_in(prepared) as pid:
        gpus.set("0.compute", pid)
        gpus.set(key, value)
        opened = client.open(prepared.handle)
        gpus.set("0.energy", 1_075_000)
        time.sleep(0.3)
        client.close(opened.window)
    board = of(ended(client, prepared), GPU)
    assert board.net_uj is None
    assert "shared" in board.flags


def test_a_reloaded_driver_is_a_gap_and_the_processors_joules_stay(
    opening: Opening, gpus: StubGpus, tree: PowercapTree, run: str
) -> None:
    """Never -1074.9 J (G2 G12)."""
    gpus.set("0.energy", 1_075_000)
    client = opening()
    prepared, opened = begin(client, run)
    gpus.set("0.energy", 100)
    tree.add("intel-rapl:0", 5_000_000)
    time.sleep(0.3)
    client.close(opened.window)
    window = ended(client, prepared)
    assert of(window, GPU).gross_uj is None
    assert of(window, GPU).missing is not None
    assert of(window, "package-0").gross_uj is not None


def test_an_error_that_passes_is_bridged_by_the_counter(opening: Opening, gpus: StubGpus, run: str) -> None:
    """Booked once (G3)."""
    client = opening()
    prepared = client.prepare(run, 0, ["solver"])
    with working_in(prepared) as pid:
        gpus.set("0.compute", pid)
        opened = client.open(prepared.handle)
        gpus.fail("0.energy", 3)
        time.sleep(0.3)
        gpus.set("0.energy", 1_150_000)
        time.sleep(0.3)
        client.close(opened.window)
    board = of(ended(client, prepared), GPU)
    assert board.gross_uj == 150_000_000
    assert {"gap", "bridged"} <= set(board.flags)


def test_a_wall_meter_is_in_the_readings_under_its_own_name(
    opening: Opening, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Selected by name; beside a package it is a cross-check, never added (J47)."""
    with installed(wall_meter="1.2") as folder, Loopback() as server:
        server.answers["status"] = {"total_wh": 1.0}
        monkeypatch.setenv("PYTHONPATH", str(folder))
        monkeypatch.setenv("BENCH_APPLIANCE_COUNTER_WALL_URL", server.url)
        client = opening("--no-nvml", "--counter", "wall-meter")
        prepared, opened = begin(client, run)
        asked = len(server.asked)
        assert until(lambda: len(server.asked), lambda count: count > asked + 3) > asked + 3
        server.answers["status"] = {"total_wh": 1.001}
        asked = len(server.asked)
        until(lambda: len(server.asked), lambda count: count > asked + 8)
        client.close(opened.window)
        window = ended(client, prepared)
    wall = of(window, "wall-meter/outlet")
    assert (wall.source, wall.summed, wall.gross_uj) == ("plugin:wall-meter 1.2", False, 3_600_000_000 // 1000)
    assert window.total is not None
    assert window.total.key == "package"


def test_a_plugin_that_is_not_there_is_refused_at_the_start(opening: Opening) -> None:
    """Its name and the known ones are said (J47)."""
    with pytest.raises(Refusal):
        opening("--counter", "none").status()


def test_pyrapl_is_a_backend_by_name(tmp_path: Path) -> None:
    """Through the daemon, in a namespace where its paths are the test's (D3)."""
    tree = ClassTree(tmp_path / "class")
    tree.sockets(dram=True)
    program = (
        "from appliance.meter.client import MeterClient\n"
        "with MeterClient.start(['--no-nvml', '--cpu-backend', 'pyrapl']) as client:\n"
        "    print(sorted((zone['key'], zone['source']) for zone in client.status()['counters']))\n"
    )
    ran = subprocess.run([*tree.within(), sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "('package-0', 'pyRAPL 0.2.3.1')" in ran.stdout
    assert "('package-0/dram', 'pyRAPL 0.2.3.1')" in ran.stdout
