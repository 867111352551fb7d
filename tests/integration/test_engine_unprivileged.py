"""The engine for a user of the docker group who is not root: a bounded volume, a harvest, locks of one's own."""

from __future__ import annotations

import grp
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import pytest

from appliance.engine.docker import connect
from tests.engine_bench import base_image, new_run

pytestmark = [pytest.mark.docker, pytest.mark.root]

PROGRAM = """
import os, sys
from pathlib import Path
from appliance.engine.docker import connect
from appliance.engine.locks import RunLocks
from appliance.engine.reaper import reaper
from appliance.engine.workspaces import HostWorkspaces
from appliance.ports import LOCK_LABEL, RUN_LABEL, ContainerSpec, ExecSpec
from appliance.tasks.model import Limits

run, image, before = sys.argv[1:]
assert os.geteuid() != 0
engine = connect()
workspaces = HostWorkspaces(engine)
assert (workspaces.kind, workspaces.why_volume) == ("volume", "not root beside the engine")
limits = Limits(memory_mib=64, pids=32, disk_mib=16)
with RunLocks().hold(run) as lock, reaper(run, lock):
    labels = {RUN_LABEL: run, LOCK_LABEL: str(lock)}
    workspace = workspaces.open(Path(before), 16, labels)
    made = engine.create(ContainerSpec(image, "solver", labels, limits, "none", None, mounts=(workspace.mount,)))
    engine.start(made)
    assert engine.in_force(made, limits).limits == limits
    workspace.seed(made)
    script = "echo more >> f; head -c 100000 /dev/zero > large; ln large linked; mkfifo p"
    outcome = engine.execute(made, ExecSpec(("sh", "-c", script), timeout_seconds=30))
    assert outcome.exit == 0, outcome.stderr.kept
    assert engine.evidence(made).oom_kills == 0
    engine.remove(made)
    changes = workspace.harvest()
    print([(one.path, one.kind, len(one.content) if isinstance(one.content, bytes) else one.content.stat().st_size)
           for one in changes.entries], changes.dropped)
    workspace.close()
print(lock.exists(), [*Path(os.environ["HOME"]).glob("**/w*")])
"""


def _python_for_anyone() -> str | None:
    """An interpreter of this version that does not lie in root's home."""
    candidates = [sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"]
    for path in candidates:
        asked = subprocess.run(
            ["setpriv", "--reuid", "65534", "--clear-groups", "--regid", "65534", path, "-c", "0"],
            capture_output=True,
            check=False,
            env={},
        )
        if asked.returncode == 0:
            return path
    return None


def test_a_member_of_the_docker_group_runs_a_trial_without_root() -> None:
    """Formats 9, second and third column but for the meter: the volume, its bound, its harvest, its end (I21)."""
    python = _python_for_anyone()
    if python is None or shutil.which("setpriv") is None:
        pytest.skip("no interpreter that another user may run")
    image = base_image(connect())
    group = grp.getgrnam("docker").gr_gid
    home = Path(tempfile.mkdtemp(prefix="engine_user"))
    try:
        (home / "before").mkdir()
        (home / "before" / "f").write_text("f\n")
        for path in (home, home / "before", home / "before" / "f"):
            os.chown(path, 65534, group)
        top = Path(__file__).parents[2]
        search = os.pathsep.join([str(top), sysconfig.get_paths()["purelib"]])
        user = ["setpriv", "--reuid", "65534", "--regid", str(group), "--clear-groups"]
        done = subprocess.run(
            [*user, python, "-c", PROGRAM, new_run("user"), image, str(home / "before")],
            capture_output=True,
            check=False,
            cwd="/",
            env={"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": search, "XDG_RUNTIME_DIR": str(home)},
        )
    finally:
        shutil.rmtree(home, ignore_errors=True)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode().splitlines() == [
        "[(b'f', 'file', 7), (b'large', 'file', 100000), (b'linked', 'file', 100000)] ((b'p', 'fifo'),)",
        "False []",
    ]
