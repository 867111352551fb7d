"""Other counters than RAPL in the real daemon: boards through a stub of NVML, somebody's plug-in in its child."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.cgroups import hierarchies
from appliance.energy.readings import Readings, unpack
from appliance.energy.windows import window_of
from appliance.errors import MeterRefused
from appliance.meter.choice import Choice
from appliance.meter.client import MeterClient
from appliance.meter.line import MeterLine
from appliance.meter.measured import MeasuredMeter
from appliance.records.plan import PlannedEnergy
from tests.counter_plugins import Loopback, installed
from tests.meter_bench import meter_daemon, run_of_its_own
from tests.nvml_stub import StubGpus, compile_stub
from tests.sysfs_tree import PowercapTree

pytestmark = pytest.mark.root


@pytest.fixture
def tree(tmp_path: Path) -> PowercapTree:
    tree = PowercapTree(tmp_path / "powercap")
    tree.packages(1)
    return tree


@pytest.fixture
def run() -> Iterator[str]:
    with run_of_its_own() as run:
        yield run


@pytest.fixture
def gpus(tmp_path: Path) -> StubGpus:
    return StubGpus(tmp_path / "gpus")


@pytest.fixture
def client(tmp_path: Path, tree: PowercapTree, gpus: StubGpus) -> Iterator[MeterClient]:
    environment = gpus.environment(compile_stub(tmp_path / "stub"))
    with meter_daemon(tmp_path, tree.root, environment=environment, nvml=True) as daemon, daemon.client() as client:
        yield client


@pytest.fixture
def idler() -> Iterator[subprocess.Popen[bytes]]:
    """A process that holds a board, as the stub will say."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        yield process
        process.kill()


def of_board(readings: Readings) -> list[int | None]:
    zone = next(one for one in readings.header.zones if one.domain == "gpu" and one.unit == "mj")
    return [sample.zones[zone.id] for sample in readings.samples()]


def occupancy(readings: Readings) -> list[tuple[int | None, tuple[str, ...]]]:
    """Strangers and cgroups on the board that is counted, each state once."""
    board = next(one.id for one in readings.header.zones if one.domain == "gpu" and one.unit == "mj")
    states = [
        (event.number, event.cgroups)
        for sample in readings.samples()
        for event in sample.events
        if event.kind == "gpu" and event.subject == board
    ]
    return [state for place, state in enumerate(states) if place == 0 or states[place - 1] != state]


def test_a_boards_millijoules_stand_beside_the_packages_microjoules(
    client: MeterClient, gpus: StubGpus, run: str
) -> None:
    """75 000 mJ more in the driver are 75 000 more in the window, in the driver's own unit. (G1)"""
    prepared = client.prepare(run, 0, ["solver"])
    opened = client.open(prepared.handle)
    gpus.set("0.energy", 1_075_000)
    client.close(opened.window)
    numbers = of_board(unpack(client.release(prepared.handle).readings or b""))
    assert numbers[-1] - numbers[0] == 75_000
    assert "package-0" in opened.counters


def test_whose_process_is_on_a_board_is_told_by_its_cgroup(
    client: MeterClient, gpus: StubGpus, run: str, idler: subprocess.Popen[bytes]
) -> None:
    """Nobody; then the trial's own solver, whatever its pid; then a stranger beside it. (G8, G15)"""
    prepared = client.prepare(run, 0, ["solver"])
    for folder in hierarchies().folders(prepared.cgroups["solver"]):
        (folder / "cgroup.procs").write_text(str(idler.pid))
    opened = client.open(prepared.handle)
    time.sleep(0.15)
    gpus.set("0.compute", idler.pid)
    time.sleep(0.25)
    gpus.set("0.compute", f"{idler.pid},1")
    time.sleep(0.25)
    client.close(opened.window)
    # Alive to the end: readings go a sample beyond the window's.
    readings = unpack(client.release(prepared.handle).readings or b"")
    solver = next(one.id for one in readings.header.cgroups if one.role == "solver")
    assert occupancy(readings) == [(0, ()), (0, (solver,)), (1, (solver,))]


def test_who_used_a_boards_sms_is_read_for_a_window_that_asked_and_shared_out_from_its_readings(
    client: MeterClient, gpus: StubGpus, run: str, idler: subprocess.Popen[bytes]
) -> None:
    """60 percent the solver's, 20 a stranger's, by pid and cgroup; each sample of the driver once, by its own clock in
    microseconds; what stood there before the opening is of no window. (G8, G9)"""
    gpus.set("0.util", f"{idler.pid}:99")
    gpus.set("0.util_at_us", 1_000_000)
    prepared, plain = client.prepare(run, 0, ["solver"]), client.prepare(run, 1, ["solver"])
    for folder in hierarchies().folders(prepared.cgroups["solver"]):
        (folder / "cgroup.procs").write_text(str(idler.pid))
    other = client.open(plain.handle)
    opened = client.open(prepared.handle, gpu_sharing="sm_utilisation")
    gpus.set("0.compute", f"{idler.pid},1")
    time.sleep(0.25)
    gpus.set("0.util", f"{idler.pid}:60,1:20")
    gpus.set("0.util_at_us", 2_000_000)
    time.sleep(0.35)
    client.close(opened.window)
    client.close(other.window)
    readings = unpack(client.release(prepared.handle).readings or b"")
    solver = next(one.id for one in readings.header.cgroups if one.role == "solver" and one.trial == "own")
    told = [event for sample in readings.samples() for event in sample.events if event.kind == "sm"]
    assert [(event.number, event.cgroups) for event in told] == [(20, ()), (60, (solver,))]
    assert readings.header.gpu_sharing == "sm_utilisation"
    board = next(one for one in window_of(readings, None).zones if one.key.startswith("gpu") and "/" not in one.key)
    assert "shared" in board.flags
    beside = unpack(client.release(plain.handle).readings or b"")
    assert beside.header.gpu_sharing == "device_total"
    gpus.set("0.util_at_us", 3_000_000)
    later = client.prepare(run, 2, ["solver"])
    client.close(client.open(later.handle).window)
    last = unpack(client.release(later.handle).readings or b"")
    assert not [event for sample in last.samples() for event in sample.events if event.kind == "sm"]
    with pytest.raises(MeterRefused) as refused:
        client.open(later.handle, gpu_sharing="by_memory")  # type: ignore[arg-type]  # none of ours
    assert refused.value.reason == "bad_message"


def test_a_board_that_is_lost_is_a_gap_and_the_package_is_read_on(
    client: MeterClient, gpus: StubGpus, run: str
) -> None:
    """The window's other zones stay whole. (G12)"""
    prepared = client.prepare(run, 0, ["solver"])
    opened = client.open(prepared.handle)
    time.sleep(0.15)
    gpus.fail("0.energy", 15)
    time.sleep(0.35)
    client.close(opened.window)
    readings = unpack(client.release(prepared.handle).readings or b"")
    words = {event.word for sample in readings.samples() for event in sample.events if event.kind == "gap"}
    assert "GPU_IS_LOST" in words
    package = next(zone.id for zone in readings.header.zones if zone.key == "package-0")
    assert all(sample.zones[package] == 1_000_000 for sample in readings.samples())


def test_a_watchers_first_line_says_who_is_on_the_boards(client: MeterClient, gpus: StubGpus) -> None:
    """Before anything changes. (D1)"""
    gpus.set("0.compute", 1)
    line = next(client.watch())
    assert next(event["number"] for event in line["events"] if event["event"] == "gpu") == 1


def test_somebodys_counter_is_read_in_a_child_without_rights(tmp_path: Path, tree: PowercapTree, run: str) -> None:
    """By its name on the command line; its zone stands in the window's readings; nobody's process reads it. (J47)"""
    with Loopback() as plug, installed(wall_meter="1.2") as site:
        plug.answers["status"] = {"total_wh": 2.0}
        environment = {"PYTHONPATH": str(site), "BENCH_APPLIANCE_COUNTER_WALL_URL": plug.url}
        arguments = ("--counter", "wall-meter")
        with (
            meter_daemon(tmp_path, tree.root, *arguments, environment=environment) as daemon,
            daemon.client() as client,
        ):
            sources = {zone["source"]: zone["domain"] for zone in client.status()["counters"]}
            children = Path(f"/proc/{daemon.pid}/task/{daemon.pid}/children").read_text().split()
            uids = {Path(f"/proc/{child}/status").read_text().split("Uid:")[1].split()[0] for child in children}
            prepared = client.prepare(run, 0, ["solver"])
            opened = client.open(prepared.handle)
            time.sleep(0.3)
            client.close(opened.window)
            readings = unpack(client.release(prepared.handle).readings or b"")
        assert "wall" in sources.values(), sources
        assert uids == {"65534"}
        wall = next(zone for zone in readings.header.zones if zone.domain == "wall")
        numbers = [sample.zones[wall.id] for sample in readings.samples()]
        assert 7_200_000 in numbers


def test_a_counter_that_nobody_installed_is_refused_at_the_start(tmp_path: Path) -> None:
    """One line, status 6."""
    command = [sys.executable, "-m", "appliance.meter.daemon.serve", "--no-nvml", "--socket", str(tmp_path / "s")]
    asked = subprocess.run([*command, "--counter", "nobodys"], capture_output=True, text=True, check=False, timeout=60)
    assert asked.returncode == 6
    assert "nobodys" in asked.stderr.splitlines()[-1]
    assert not (tmp_path / "s").exists()


def test_a_planned_share_by_utilisation_reaches_the_windows_readings(
    tmp_path: Path, tree: PowercapTree, gpus: StubGpus, run: str
) -> None:
    """From the plan of a run through its meter into the header that a verifier computes by. (G8)"""
    planned = PlannedEnergy(mode="auto", active_watts=None, scheduling="exclusive", gpu_sharing="sm_utilisation")
    environment = gpus.environment(compile_stub(tmp_path / "stub"))
    with meter_daemon(tmp_path, tree.root, environment=environment, nvml=True) as daemon:
        line = MeterLine(daemon.client, "the test's")
        meter = MeasuredMeter(planned, Choice("counters", None), line)
        trial = meter.prepare(run, 0, planned, 1.0, by_kind=False)
        trial.open()
        trial.close()
        found = trial.release(0.1, at_limit=False)
        meter.close_run(run)
        line.close()
    assert found.readings is not None
    assert unpack(found.readings).header.gpu_sharing == "sm_utilisation"
