"""However a harness ends, nothing of its run stays; and nothing of a living run is touched (H12, H13, H14)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from appliance.cgroups import hierarchies, remove_run_cgroups, run_cgroup, runs_with_cgroups
from appliance.engine.docker import connect
from appliance.engine.locks import RunLocks, is_locked, lock_path
from appliance.engine.mounting import mounts_under
from appliance.engine.places import places
from appliance.engine.reap import reap_leavings
from appliance.ports import RUN_LABEL
from tests.engine_bench import new_run

pytestmark = [pytest.mark.docker, pytest.mark.root]

HARNESS = textwrap.dedent("""
    import os, sys, time
    from pathlib import Path
    from appliance.engine.docker import connect
    from appliance.engine.locks import RunLocks
    from appliance.engine.reaper import reaper
    from appliance.engine.workspaces import HostWorkspaces
    from appliance.ports import LOCK_LABEL, RUN_LABEL
    from tests.engine_bench import LIMITS, base_image, execute
    from appliance.ports import ContainerSpec

    run, kind, point, before = sys.argv[1:]

    def reached(here):
        if here == point:
            print(here, flush=True)
            time.sleep(600)

    engine = connect()
    image = base_image(engine)
    with RunLocks().hold(run) as lock, reaper(run, lock):
        reached("locked")
        labels = {RUN_LABEL: run, LOCK_LABEL: str(lock)}
        workspace = HostWorkspaces(engine, kind).open(Path(before), 16, labels)
        reached("opened")
        parent = f"/bench-appliance/{run}/00000/solver"
        spec = ContainerSpec(image, "solver", labels, LIMITS, "none", parent, mounts=(workspace.mount,))
        container = engine.create(spec)
        reached("created")
        engine.start(container)
        workspace.seed(container)
        reached("started")
        if point == "executing":
            print(point, flush=True)
            execute(engine, container, ("sh", "-c", "trap '' TERM; kill -STOP 1; while :; do echo x > f; done"))
        execute(engine, container, ("sh", "-c", "echo x > f"))
        engine.remove(container)
        workspace.harvest()
        reached("harvested")
        workspace.close()
        reached("closed")
""")


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Callable[[str, str, str], subprocess.Popen[bytes]]]:
    """`(run, kind, point)` -> a harness that has come to that point and waits there."""
    before = tmp_path / "before"
    before.mkdir()
    (before / "f").write_text("f")
    started: list[subprocess.Popen[bytes]] = []

    def start(run: str, kind: str, point: str) -> subprocess.Popen[bytes]:
        made = subprocess.Popen(
            [sys.executable, "-c", HARNESS, run, kind, point, str(before)],
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )
        started.append(made)
        assert made.stdout is not None
        assert made.stdout.readline().decode().strip() == point
        return made

    yield start
    for made in started:
        made.kill()
        made.wait()


def left_of(run: str) -> list[str]:
    """Everything on this host that carries the run's id."""
    engine, where = connect(), places()
    label = f"{RUN_LABEL}={run}"
    found = [f"container {name}" for name, _ in engine.labelled_containers(label)]
    found += [f"volume {name}" for name, _ in engine.labelled_volumes(label)]
    found += [f"mount {point}" for point in mounts_under(where.scratch(run))]
    found += [f"folder {path}" for path in (where.scratch(run), lock_path(where, run)) if path.exists()]
    found += [f"cgroup {run}"] if run in runs_with_cgroups(hierarchies()) else []
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        if f"/{run}/" in backing.read_text():
            found.append(f"loop device {backing}")
    return found


def soon_nothing_left_of(run: str) -> list[str]:
    for _ in range(150):
        found = left_of(run)
        if not found:
            return []
        time.sleep(0.2)
    return found


@pytest.mark.parametrize("kind", ["overlay", "volume"])
@pytest.mark.parametrize("point", ["locked", "opened", "created", "started", "executing", "harvested", "closed"])
def test_a_killed_harness_leaves_nothing(
    harness: Callable[[str, str, str], subprocess.Popen[bytes]], kind: str, point: str
) -> None:
    """SIGKILL at any point: its reaper holds the other end of a pipe (H12)."""
    run = new_run("killed")
    killed = harness(run, kind, point)
    assert left_of(run)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert soon_nothing_left_of(run) == []


def test_an_interrupted_harness_leaves_nothing(
    harness: Callable[[str, str, str], subprocess.Popen[bytes]],
) -> None:
    """The reaper hears neither Ctrl-C nor SIGTERM, and clears up after an exception as well (H12)."""
    run = new_run("interrupted")
    interrupted = harness(run, "overlay", "started")
    interrupted.send_signal(signal.SIGINT)
    interrupted.wait()
    assert soon_nothing_left_of(run) == []


def test_the_next_command_clears_up_where_the_reaper_died_too_and_spares_the_living(
    harness: Callable[[str, str, str], subprocess.Popen[bytes]],
) -> None:
    """`gc` and every verb that touches the engine: by label and lock, never a living run's (H12, H13, H16)."""
    dead, alive = new_run("dead"), new_run("alive")
    killed, living = harness(dead, "overlay", "started"), harness(alive, "overlay", "started")
    # Its only child is the reaper's shell.
    children = Path(f"/proc/{killed.pid}/task/{killed.pid}/children").read_text().split()
    assert len(children) == 1
    for pid in (int(children[0]), killed.pid):
        subprocess.run(["kill", "-KILL", str(pid)], check=True)
    killed.wait()
    time.sleep(1.0)
    before = left_of(alive)
    assert left_of(dead)
    command = [sys.executable, "-m", "appliance.cli.main", "gc", "--json"]
    done = subprocess.run(command, capture_output=True, check=True, cwd=Path(__file__).parents[2])
    freed = json.loads(done.stdout)
    assert freed["runs"] >= 1 and freed["containers"] >= 1 and freed["mounts"] >= 2
    assert left_of(dead) == []
    assert left_of(alive) == before
    living.send_signal(signal.SIGKILL)
    living.wait()
    assert soon_nothing_left_of(alive) == []


def test_a_run_cannot_be_started_twice_at_a_time() -> None:
    """The lock says who; released, the file is gone (H12)."""
    run = new_run("twice")
    with RunLocks().hold(run) as path:
        assert is_locked(path)
        held = subprocess.run(
            [
                sys.executable,
                "-c",
                "import sys, appliance.engine.locks as locks\nlocks._CLEARING_SECONDS = 0.2\n"
                "try:\n    with locks.RunLocks().hold(sys.argv[1]): pass\n"
                "except locks.HostRefused as refusal: print(refusal.status, refusal)",
                run,
            ],
            capture_output=True,
            check=True,
            cwd=Path(__file__).parents[2],
        )
        assert held.stdout.decode().startswith(f"4 {path}: run {run} is under way in another process")
    assert not is_locked(path) and not path.exists()


def test_exclusive_runs_take_turns() -> None:
    """The second waits until the first is done, and is told so."""
    import threading

    locks, order = RunLocks(), []

    def second() -> None:
        with locks.exclusive(lambda: order.append("second waits")):
            order.append("second has it")

    with locks.exclusive():
        waiting = threading.Thread(target=second)
        waiting.start()
        while not order:
            time.sleep(0.01)
        order.append("first is done")
    waiting.join()
    assert order == ["second waits", "first is done", "second has it"]


def test_leavings_are_looked_for_by_lock_only() -> None:
    """What no lock speaks of may be of a run that is just starting (H13)."""
    scratch = places().scratch(new_run("starting"))
    scratch.mkdir(parents=True)
    try:
        reap_leavings(connect())
        assert scratch.exists()
    finally:
        scratch.rmdir()


def test_run_ids_that_would_leave_their_folder_are_a_bug() -> None:
    """They name folders and cgroups."""
    for run in ("../etc", "a/b", "a-b", ""):
        with pytest.raises(ValueError, match="no run id"):
            places().scratch(run)


def test_roots_gc_takes_the_cgroups_that_an_ordinary_users_run_could_not_remove() -> None:
    """Its lock is gone with it; a cgroup in which something lives stays (formats 9: `sudo appliance gc`). A stray
    file in /tmp under a name like that of a folder of locks changes nothing.
    """
    stray = Path(f"/tmp/bench-appliance-stray-{os.getpid()}")
    stray.touch()
    trees = hierarchies()
    left, alive = new_run(), new_run()
    for run in (left, alive):
        for folder in trees.folders(run_cgroup(run)):
            folder.mkdir(parents=True)
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        (next(iter(trees.folders(run_cgroup(alive)))) / "cgroup.procs").write_text(str(sleeper.pid))
        reap_leavings(connect(), everyone=True)
        assert left not in runs_with_cgroups(trees)
        assert alive in runs_with_cgroups(trees)
    finally:
        sleeper.kill()
        sleeper.wait()
        stray.unlink()
        assert remove_run_cgroups(trees, alive) == ()
