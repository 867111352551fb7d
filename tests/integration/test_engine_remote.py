"""An engine behind TCP: nothing of its cgroups, pids or mounts is ours to read (formats 9, last column)."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.engine.docker import DockerEngine, connect
from appliance.engine.workspaces import HostWorkspaces
from appliance.ports import RUN_LABEL, Evidence, TreeEntry
from tests.engine_bench import LIMITS, container, execute, new_run
from tests.trials_bench import records, run_suite
from tests.trials_suites import command, small_suite

pytestmark = pytest.mark.docker


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while chunk := source.recv(65536):
            target.sendall(chunk)
        target.shutdown(socket.SHUT_WR)


@pytest.fixture
def remote() -> Iterator[DockerEngine]:
    """This machine's engine, as a remote one is seen."""
    local = connect().address.path
    assert local is not None
    listening = socket.create_server(("127.0.0.1", 0))
    open_ends: list[socket.socket] = []

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = listening.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(local)
                open_ends.extend((near, far))
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=_pass_on, args=pair, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    yield connect(f"tcp://127.0.0.1:{listening.getsockname()[1]}")
    listening.close()
    for end in open_ends:
        end.close()


def test_a_trial_on_a_remote_engine_has_its_walls_and_says_what_it_cannot_see(
    remote: DockerEngine, tmp_path: Path
) -> None:
    """Limits as the engine says, a volume filled and read over the wire, evidence null and not zero (I16, I22)."""
    (tmp_path / "f").write_text("f\n")
    assert remote.stamp().remote
    workspaces = HostWorkspaces(remote)
    assert workspaces.kind == "volume"
    workspace = workspaces.open(tmp_path, 16, {RUN_LABEL: new_run()})
    try:
        with container(remote, mounts=(workspace.mount,)) as made:
            workspace.seed(made)
            assert remote.in_force(made, LIMITS).limits == LIMITS
            outcome = execute(remote, made, ("sh", "-c", "cat > got; (sleep 30) & sleep 0.3; exit 4"), stdin=b"\xff")
            assert (outcome.exit, outcome.timed_out) == (4, False)
            assert remote.evidence(made) == Evidence(None, None, None)
            assert remote.processes(made) >= 3
        assert workspace.harvest().entries == (TreeEntry(b"got", "file", False, b"\xff"),)
    finally:
        workspace.close()


def test_a_limit_ends_an_exec_on_a_remote_engine_too(remote: DockerEngine) -> None:
    """Watched by the clock alone (H6)."""
    with container(remote) as made:
        outcome = execute(remote, made, ("sh", "-c", "echo early; sleep 60"), timeout_seconds=0.8)
        assert (outcome.exit, outcome.timed_out, outcome.stdout.kept) == (None, True, b"early\n")
        remote.remove(made)
        assert remote.processes(made) == 0


def test_a_run_on_a_remote_engine_states_cpu_time_from_one_shot_statistics(
    remote: DockerEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No cgroup of that engine is ours to read: CPU time comes from statistics around the exec, and says so (I19)."""
    monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{remote.address.port}")
    burn = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; times > times"
    solver = command(tmp_path, "burner", burn)
    ended = run_suite(tmp_path / "run", small_suite(tmp_path / "suite"), solver)
    (trial,) = records(ended)[0].trials
    assert trial.outcome == "unresolved"
    assert trial.cpu_source == "stats_one_shot"
    used = trial.cpu_seconds["solver"]
    assert used is not None
    assert trial.wall_seconds is not None
    assert 0 < used <= trial.wall_seconds * 1.5
    assert "times" in trial.harvest.changed if trial.harvest else False
    assert remote.cpu_ns(ended.run, "00000", "solver") is None
