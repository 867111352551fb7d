"""The meter on this machine's own cgroups and engine."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from appliance import cgroups
from appliance.engine.docker import connect
from appliance.meter.cgroups import cpu_sources
from appliance.meter.local import LocalMeter, LocalTrial
from appliance.records.plan import PlannedEnergy
from tests.engine_bench import base_image

PLANNED = PlannedEnergy(mode="estimator:curve", active_watts=None, scheduling="shared")
BURN = """
import os, sys
first = sum(os.times()[:2])
while sum(os.times()[:2]) - first < float(sys.argv[1]): pass
print(sum(os.times()[:2]) - first)
"""
EXEC_CONSTANT = 0.3
"""CPU seconds beside the burn: joining the cgroups, starting an interpreter and ending it; 11 to 40 ms on an idle host,
several times that where eight start at once on two busy cores."""
TICK = 0.01
TREES = cgroups.hierarchies()


@pytest.fixture
def run() -> Iterator[str]:
    name = f"t{uuid.uuid4().hex[:12]}"
    yield name
    cgroups.remove_run_cgroups(TREES, name)


@pytest.fixture(params=["as it is", "v1", "v2"])
def meter(request: pytest.FixtureRequest, tmp_path: Path) -> LocalMeter:
    """On the host's hierarchies; on a hybrid host also on each kind alone, as a pure host would show it."""
    if request.param == "as it is":
        return LocalMeter(PLANNED)
    if TREES.kind != "hybrid":
        pytest.skip("one kind of cgroup here")
    (tmp_path / "self").mkdir()
    shown = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if " - cgroup" in line]
    kept = [line for line in shown if (" - cgroup2 " in line) == (request.param == "v2")]
    (tmp_path / "self" / "mountinfo").write_text("\n".join(kept) + "\n")
    return LocalMeter(PLANNED, proc=tmp_path)


def fill(folder: Path, name: str) -> None:
    """A v1 cpuset gets its parent's, the top down, as an engine does it."""
    if not (folder / name).read_text().strip():
        fill(folder.parent, name)
        (folder / name).write_text((folder.parent / name).read_text())


class Container:
    """What an engine does, without one: a child cgroup in every hierarchy, a process kept in it, execs into it."""

    def __init__(self, parent: str, name: str = "c"):
        self.folders = [folder / name for folder in TREES.folders(parent)]
        for folder in self.folders:
            folder.mkdir(parents=True, exist_ok=True)
            for file in ("cpuset.cpus", "cpuset.mems"):
                if (folder / file).exists() and not (folder / "cgroup.controllers").exists():
                    fill(folder, file)
        self.children = [self.start("sleep", "600")]

    def start(self, *argv: str) -> subprocess.Popen[str]:
        def join() -> None:
            for folder in self.folders:
                (folder / "cgroup.procs").write_text("0")

        return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, preexec_fn=join)  # noqa: PLW1509

    def leave_behind(self, seconds: float) -> None:
        self.children.append(self.start(sys.executable, "-c", BURN, str(seconds)))

    def remove(self) -> None:
        for child in self.children:
            child.kill()
            child.wait()
        for folder in self.folders:
            for _ in range(200):
                try:
                    folder.rmdir()
                    break
                except OSError:
                    time.sleep(0.005)


def burn(container: Container, seconds: float) -> float:
    """CPU seconds that the exec says it used itself."""
    out, _ = container.start(sys.executable, "-c", BURN, str(seconds)).communicate()
    return float(out)


def opened(meter: LocalMeter, run: str, trial: int) -> tuple[LocalTrial, Container]:
    held = meter.prepare(run, trial, PLANNED, 1.0, by_kind=False)
    container = Container(held.cgroups["solver"])
    held.open()
    return held, container


@pytest.mark.root
def test_a_prepared_cgroup_takes_a_task_at_once_in_every_hierarchy(meter: LocalMeter, run: str) -> None:
    """A v1 cpuset without CPUs would refuse it; nothing is left to the engine (I19)."""
    held = meter.prepare(run, 0, PLANNED, 1.0, by_kind=False)
    sleeper = subprocess.Popen(["sleep", "600"])
    try:
        for folder in meter._trees.folders(held.cgroups["solver"]):
            (folder / "cgroup.procs").write_text(str(sleeper.pid))
    finally:
        sleeper.kill()
        sleeper.wait()
        held.release(0.0, at_limit=True)


@pytest.mark.root
def test_the_window_is_charged_what_the_exec_used(meter: LocalMeter, run: str) -> None:
    """The parent's own counter, within a tick below and the exec's own start above (I19, C2, T1)."""
    held, container = opened(meter, run, 0)
    used = burn(container, 0.3)
    held.close()
    container.remove()
    found = held.release(1.0, at_limit=False)
    charged = found.cpu_seconds["solver"]
    assert charged is not None
    assert used - TICK <= charged <= used + EXEC_CONSTANT
    assert found.cpu_source == "cgroup_parent"
    assert found.flags == ()
    assert found.energy.total.inputs is not None
    assert found.energy.total.inputs["cpuNs"] == round(charged * 1e9)


@pytest.mark.root
def test_the_parent_keeps_what_a_removed_child_used(meter: LocalMeter, run: str) -> None:
    """The child's cgroup is gone, unread, before the window closes (C2 C3 T2)."""
    held, container = opened(meter, run, 0)
    used = burn(container, 0.2)
    container.remove()
    held.close()
    charged = held.release(1.0, at_limit=False).cpu_seconds["solver"]
    assert charged is not None
    assert charged >= used - TICK


@pytest.mark.root
def test_what_came_before_the_window_is_not_charged(meter: LocalMeter, run: str) -> None:
    """The container's start is the harness's doing (J43)."""
    held = meter.prepare(run, 0, PLANNED, 1.0, by_kind=False)
    container = Container(held.cgroups["solver"])
    before = burn(container, 0.4)
    held.open()
    held.close()
    container.remove()
    charged = held.release(1.0, at_limit=False).cpu_seconds["solver"]
    assert charged is not None
    assert charged < before / 2


@pytest.mark.root
def test_a_process_that_runs_on_after_the_close_is_flagged_and_not_charged(meter: LocalMeter, run: str) -> None:
    """It was not there at open, and CPU time grew till release (formats 5)."""
    held, container = opened(meter, run, 0)
    container.leave_behind(5.0)
    held.close()
    time.sleep(0.3)
    container.remove()
    found = held.release(1.0, at_limit=False)
    assert found.flags == ("ran_on",)
    assert found.energy.total.flags == ("ran_on",)


@pytest.mark.root
def test_at_a_limit_nobody_ran_on(meter: LocalMeter, run: str) -> None:
    """Cause timeout or budget: it was still running because we stopped it (formats 5)."""
    held, container = opened(meter, run, 0)
    container.leave_behind(5.0)
    held.close()
    time.sleep(0.3)
    container.remove()
    assert held.release(1.0, at_limit=True).flags == ()


@pytest.mark.root
def test_whoever_was_there_at_open_did_not_run_on(meter: LocalMeter, run: str) -> None:
    """The container's init, reaping after the exec, is no solver (formats 5)."""
    held = meter.prepare(run, 0, PLANNED, 1.0, by_kind=False)
    container = Container(held.cgroups["solver"])
    container.leave_behind(5.0)
    held.open()
    held.close()
    time.sleep(0.3)
    container.remove()
    assert held.release(1.0, at_limit=False).flags == ()


@pytest.mark.root
def test_the_engines_own_monitor_is_neither_charged_nor_running_on(meter: LocalMeter, run: str) -> None:
    """Podman puts its conmon under the parent that we name, and starts more of it for each exec (formats 5)."""
    held, container = opened(meter, run, 0)
    monitor = Container(held.cgroups["solver"], "conmon")
    spent = burn(monitor, 0.3)
    monitor.leave_behind(5.0)
    held.close()
    time.sleep(0.2)
    container.remove()
    found = held.release(1.0, at_limit=False)
    monitor.remove()
    charged = found.cpu_seconds["solver"]
    assert charged is not None
    assert charged < spent / 2
    assert "ran_on" not in found.flags


@pytest.mark.root
def test_release_removes_the_trials_cgroups_in_every_hierarchy(meter: LocalMeter, run: str) -> None:
    """And the run's end the run's, with the base where no other run is (H12, formats 9)."""
    held, container = opened(meter, run, 7)
    meter.harness_cgroup(run)
    held.close()
    container.remove()
    held.release(1.0, at_limit=False)
    assert not [folder for folder in meter._trees.folders(cgroups.trial_cgroup(run, 7)) if folder.exists()]
    assert run in cgroups.runs_with_cgroups(TREES)
    meter.close_run(run)
    assert run not in cgroups.runs_with_cgroups(meter._trees)
    assert not [folder for folder in meter._trees.folders(cgroups.run_cgroup(run)) if folder.exists()]


@pytest.mark.root
def test_a_trial_that_never_opened_is_released_all_the_same(meter: LocalMeter, run: str) -> None:
    """An engine that failed between prepare and open leaves nothing, and no number (H12)."""
    held = meter.prepare(run, 0, PLANNED, 1.0, by_kind=False)
    found = held.release(0.0, at_limit=False)
    assert found.cpu_seconds == {"solver": None}
    assert found.energy.total.net_uj is None
    assert not [folder for folder in TREES.folders(cgroups.trial_cgroup(run, 0)) if folder.exists()]


@pytest.mark.root
def test_many_trials_at_once_are_each_charged_their_own(meter: LocalMeter, run: str) -> None:
    """Eight windows over one another, four trials of either of two runs (issue: nothing assumes one at a time)."""
    other = f"{run}b"
    try:

        def one(number: int) -> tuple[float, float]:
            held, container = opened(meter, run if number % 2 else other, number)
            used = burn(container, 0.1 * (1 + number % 3))
            held.close()
            container.remove()
            charged = held.release(1.0, at_limit=False).cpu_seconds["solver"]
            assert charged is not None
            return used, charged

        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(one, range(8)))
        assert all(used - TICK <= charged <= used + EXEC_CONSTANT for used, charged in found)
    finally:
        meter.close_run(other)
        meter.close_run(run)
        cgroups.remove_run_cgroups(TREES, other)
    assert not {run, other} & cgroups.runs_with_cgroups(meter._trees)


@pytest.mark.root
def test_a_v1_counter_that_was_set_back_is_flagged(meter: LocalMeter, run: str) -> None:
    """`cpuacct.usage` is writable; nothing negative comes of it (C9 T5)."""
    accounting = TREES.v1("cpuacct")
    held = meter.prepare(run, 0, PLANNED, 1.0, by_kind=False)
    container = Container(held.cgroups["solver"])
    burn(container, 0.1)
    held.open()
    if accounting is None or cpu_sources(meter._trees)[0].hierarchy.version == 2:
        container.remove()
        held.release(0.0, at_limit=True)
        pytest.skip("v2 is read here, and its counter cannot be set back")
    folder = accounting.folder(held.cgroups["solver"])
    assert folder is not None
    (folder / "cpuacct.usage").write_text("0")
    held.close()
    container.remove()
    found = held.release(1.0, at_limit=False)
    assert "v1_reset" in found.flags
    assert found.cpu_seconds == {"solver": 0.0}


@pytest.mark.root
def test_v1_and_v2_tell_the_same_of_one_burn(run: str) -> None:
    """Both counters of a hybrid host, read one after the other and never added (C15)."""
    sources = cpu_sources(TREES)
    if len(sources) < 2:
        pytest.skip("one kind of cgroup here")
    meter = LocalMeter(PLANNED)
    held = meter.prepare(run, 0, PLANNED, 1.0, by_kind=False)
    container = Container(held.cgroups["solver"])
    burn(container, 0.2)
    container.remove()
    found = [source.read(held.cgroups["solver"]) for source in sources]
    held.release(1.0, at_limit=False)
    assert all(reading is not None for reading in found)
    first, second = (reading.cpu_ns for reading in found if reading is not None)
    assert abs(first - second) <= 50_000_000


@pytest.mark.docker
@pytest.mark.root
def test_a_real_containers_exec_is_charged_to_its_parent(meter: LocalMeter, run: str) -> None:
    """The engine puts the container below our cgroup; what the exec used is there after it is gone (I19)."""
    image = base_image(connect())
    held = meter.prepare(run, 0, PLANNED, 1.0, by_kind=False)
    name = f"appliance-test-{run}"
    try:
        subprocess.run(
            [
                *("docker", "run", "-d", "--name", name, "--label", f"org.bench-appliance.run={run}", "--init"),
                *("--network", "none", "--cgroup-parent", held.cgroups["solver"], image, "sleep", "600"),
            ],
            check=True,
            capture_output=True,
        )
        held.open()
        said = subprocess.run(
            ["docker", "exec", name, "python3", "-c", BURN, "0.4"], check=True, capture_output=True, text=True
        )
        held.close()
    finally:
        subprocess.run(["docker", "rm", "-f", name], check=False, capture_output=True)
    found = held.release(1.0, at_limit=False)
    charged = found.cpu_seconds["solver"]
    assert charged is not None
    assert float(said.stdout) - TICK <= charged <= float(said.stdout) + EXEC_CONSTANT
    assert found.flags == ()
    assert not [folder for folder in meter._trees.folders(cgroups.trial_cgroup(run, 0)) if folder.exists()]
    meter.close_run(run)


AS_NOBODY = """
import json, os, sys
from appliance.meter.local import LocalMeter
from appliance.records.plan import PlannedEnergy
planned = PlannedEnergy(mode="auto", active_watts=None, scheduling="shared")
LocalMeter(planned).stamp()
# Only now, with everything imported: another user may not be able to read this checkout.
os.setgroups([]), os.setgid(65534), os.setuid(65534)
meter = LocalMeter(planned)
held = meter.prepare(sys.argv[1], 0, planned, 1.0, by_kind=False)
held.open(), held.close()
print(json.dumps([dict(held.cgroups), meter.harness_cgroup(sys.argv[1]), meter.leaves_cgroups]))
found = held.release(1.0, at_limit=False)
meter.close_run(sys.argv[1])
print(json.dumps([found.cpu_source, found.cpu_seconds, found.energy.total.model]))
"""


@pytest.mark.root
def test_without_root_the_engine_makes_the_cgroups_and_the_parent_is_still_read(run: str) -> None:
    """Named for the engine, read by anyone, left for `gc`, which is said (formats 9)."""
    theirs = cgroups.role_cgroup(run, 0, "solver")
    for folder in TREES.folders(theirs):
        folder.mkdir(parents=True)
    said = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, run],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert said.returncode == 0, said.stderr
    names, outcome = (json.loads(line) for line in said.stdout.splitlines())
    assert names == [{"solver": theirs}, cgroups.harness_cgroup(run), True]
    assert outcome == ["cgroup_parent", {"solver": 0.0}, "teads-curve/1"]
    assert all(folder.is_dir() for folder in TREES.folders(theirs))
