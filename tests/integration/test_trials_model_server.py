"""The run's own model server: one container without a network, started anew once, with its own cgroup and CPU."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.audit.readings import joules_follow
from appliance.engine.docker import connect
from appliance.errors import HostRefused
from appliance.meter.opening import Decided, Wish, decide
from appliance.ports import RUN_LABEL, Meter
from appliance.records.plan import PlannedEnergy, PlannedServer
from appliance.records.record import Record
from appliance.trials.adapters import this_machine
from appliance.trials.model_server import LOG, ModelServer
from appliance.trials.models import ModelSources
from appliance.trials.session import RunEnded, RunOptions, new_run_id, run_plans
from appliance.trials.stamps import Subject
from tests.engine_bench import base_image, new_run
from tests.gateway_bench import DONE, FIX, MODEL, agent, planned_server, stub_argv, stub_server, upstream
from tests.measured_bench import Between, feeding, header_of, plain_tree
from tests.trials_bench import Watched, left_of, plans_for, records
from tests.trials_suites import small_suite

pytestmark = pytest.mark.docker


@pytest.fixture
def undo() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def served(tmp_path: Path, weights: Path, undo: ExitStack, said: list[str], **changes: Any) -> ModelServer:
    engine = connect()
    planned: PlannedServer = planned_server(weights, **changes)
    server = ModelServer(
        engine,
        planned,
        argv=stub_argv(planned, MODEL),
        image=base_image(engine),
        weights=weights,
        folder=tmp_path / "server",
        labels={RUN_LABEL: new_run("server")},
        cgroup=None,
        log=tmp_path / LOG,
        report=said.append,
    )
    undo.callback(server.close)
    return server


def inspected(server: ModelServer, form: str) -> str:
    container = server._container
    assert container is not None
    words = ["docker", "inspect", "-f", form, container]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def test_it_answers_on_a_socket_of_ours_and_has_no_network(tmp_path: Path, undo: ExitStack) -> None:
    """Weights read-only, limits of its own, its role in a label; nothing is left when it is closed (M10, issue 3)."""
    weights = stub_server(tmp_path / "w.gguf")
    with served(tmp_path, weights, undo, []) as server:
        assert server.socket.is_socket()
        assert inspected(server, "{{.HostConfig.NetworkMode}}") == "none"
        assert inspected(server, '{{index .Config.Labels "org.bench-appliance.role"}}') == "model"
        assert inspected(server, "{{.HostConfig.Memory}} {{.HostConfig.CpuQuota}}") == f"{1024 << 20} 100000"
        mounts = inspected(server, "{{range .Mounts}}{{.Destination}}={{.RW}} {{end}}").split()
        assert "/run/weights.gguf=false" in mounts
        container = str(server._container)
        server.make_fresh()
        assert server._container == container
    assert not server.socket.exists()
    assert connect().processes(container) == 0


def test_one_that_ends_is_started_anew_once(tmp_path: Path, undo: ExitStack) -> None:
    """What it said is kept beside the run; the second end is the run's (issue 3)."""
    said: list[str] = []
    weights = stub_server(tmp_path / "w.gguf")
    with served(tmp_path, weights, undo, said) as server:
        for expected in (1, 2):
            container = str(server._container)
            subprocess.run(["docker", "kill", container], capture_output=True, check=True)
            thread = server._thread
            assert thread is not None
            thread.join(30)
            if expected == 1:
                server.make_fresh()
                assert server.socket.is_socket()
                assert len(said) == 1
                assert "started anew" in said[0]
        with pytest.raises(HostRefused, match="ended 2 times") as refusal:
            server.make_fresh()
    assert refusal.value.where == str(tmp_path / LOG)
    assert (tmp_path / LOG).read_bytes().startswith(b"the stub is listening\n")


def test_one_that_does_not_start_is_refused_with_its_last_words(tmp_path: Path, undo: ExitStack) -> None:
    """Status 4, before any trial (issue 3)."""
    weights = tmp_path / "w.gguf"
    weights.write_bytes(b"GGUF of another engine")
    weights.chmod(0o644)
    with pytest.raises(HostRefused, match=r"did not start: exit 1: SyntaxError"), served(tmp_path, weights, undo, []):
        pass
    assert b"SyntaxError" in (tmp_path / LOG).read_bytes()


def test_other_weights_than_the_planned_are_never_served(tmp_path: Path, undo: ExitStack) -> None:
    """Checked at the start, not when they were planned; also those that the server's user could not read (M10)."""
    weights = stub_server(tmp_path / "w.gguf")
    server = served(tmp_path, weights, undo, [])
    weights.write_bytes(b"GGUF of somebody else")
    with pytest.raises(HostRefused, match="planned are"), server:
        pass
    weights = stub_server(tmp_path / "x.gguf")
    weights.chmod(0o600)
    with pytest.raises(HostRefused, match="only root may read them"), served(tmp_path, weights, undo, []):
        pass


def local_run(
    tmp_path: Path,
    weights: Path,
    *,
    rollouts: int = 1,
    jobs: int = 1,
    meter: Callable[[Meter], Any] = lambda real: real,
    decided: Decided | None = None,
    energy: PlannedEnergy | None = None,
    **run_options: Any,
) -> RunEnded:
    solver = agent(tmp_path / "solvers")
    suite = small_suite(tmp_path / "suite")
    way = upstream(None, provider="local", server=planned_server(weights))
    more = {} if energy is None else {"energy": energy}
    plans = plans_for(suite, solver, model=MODEL, upstream=way, rollouts=rollouts, **more)
    here = this_machine(plans, lambda _words: None, decided)
    return run_plans(
        plans,
        suite,
        solvers={solver.name: solver},
        adapters=replace(here, server_argv=stub_argv, meter=meter(here.meter)),
        out=tmp_path / "run",
        options=RunOptions(
            subjects={solver.name: Subject(None, None, "unknown")},
            keep_suite=False,
            jobs=jobs,
            model=ModelSources(weights=weights),
            **run_options,
        ),
        watcher=Watched(),
    )


def test_a_local_model_answers_a_run_and_its_cpu_is_the_trials(tmp_path: Path) -> None:
    """Weights, engine, slots, threads and sampling in the model's stamp; role `model` beside solver and forwarder, in
    CPU seconds and in energy (M10, issue 3, D5)."""
    burn = "import time; end = time.process_time() + 0.2\nwhile time.process_time() < end: pass"
    weights = stub_server(tmp_path / "w.gguf", turns=f"{burn}\nturns = ({FIX!r}, {DONE!r})")
    ended = local_run(tmp_path, weights, rollouts=2)
    record = records(ended)[0]
    assert [(one.outcome, one.exchanges) for one in record.trials] == [("resolved", 2)] * 2
    assert record.model is not None
    assert record.model.engine is not None
    assert (record.model.provider, record.model.engine.slots, record.model.engine.threads) == ("local", 1, 1)
    assert record.model.sampling == {"temperature": 0.0, "seed": 42.0}
    assert record.model.digest == planned_server(weights).weights
    assert record.prices is None
    for result in record.trials:
        assert set(result.cpu_seconds) == {"solver", "forwarder", "model"}
        # What it burnt before it listened is nobody's: no exchange was in flight.
        assert 0 < (result.cpu_seconds["model"] or 0) < 0.2
        assert result.energy is not None
        assert set(result.energy.by_role) == {"solver", "forwarder", "model"}
        parts = [figure.net_uj or 0 for figure in result.energy.by_role.values()]
        assert sum(parts) == result.energy.total.net_uj
        assert result.energy.cloud is None
    assert Record.from_canonical(ended.records[0].read_bytes(), "r") == record
    assert left_of(ended.run) == []


def test_a_server_that_dies_in_a_trial_is_an_outage_and_the_next_trial_has_another(tmp_path: Path) -> None:
    """`errored: provider_failed`; started anew for the next (M17, issue 3)."""
    run, killed = new_run_id(), []

    def kill() -> None:
        if not killed:
            labels = [f"label=org.bench-appliance.run={run}", "label=org.bench-appliance.role=model"]
            words = ["docker", "ps", "-q", "--filter", labels[0], "--filter", labels[1]]
            killed.extend(subprocess.run(words, capture_output=True, text=True, check=True).stdout.split())
            subprocess.run(["docker", "kill", *killed], capture_output=True, check=True)

    ended = local_run(
        tmp_path,
        stub_server(tmp_path / "w.gguf"),
        rollouts=2,
        run=run,
        meter=lambda real: Between(real, kill, _nothing),
    )
    first, second = records(ended)[0].trials
    assert len(killed) == 1
    assert (first.outcome, first.reason) == ("errored", "provider_failed")
    assert (second.outcome, second.exchanges) == ("resolved", 2)
    assert left_of(run) == []


def _nothing() -> None:
    """Before a window closes."""


@pytest.mark.root
def test_the_joules_of_a_local_model_are_the_trials_from_counters(tmp_path: Path) -> None:
    """Each exchange has a window inside the trial's; by role they make the net, and anybody makes them again from the
    readings (D5, issue 3, J44)."""
    burn = "end = time.process_time() + 0.15\n            while time.process_time() < end: pass"
    slow = (
        "import time\n"
        "from tests import scripted_model\n"
        "before = scripted_model._Handler._generate\n"
        "def burning(self, *words):\n"
        f"    if True:\n        if True:\n            {burn}\n"
        "    before(self, *words)\n"
        "scripted_model._Handler._generate = burning\n"
        f"turns = ({FIX!r}, {DONE!r})"
    )
    tree = plain_tree(tmp_path / "powercap")
    weights = stub_server(tmp_path / "w.gguf", turns=slow)
    energy = PlannedEnergy(mode="measured", active_watts=None, scheduling="exclusive")
    with feeding(tree, 20), decide("measured", Wish(powercap=tree.root), watts_set=False) as decided:
        ended = local_run(tmp_path, weights, rollouts=2, decided=decided, energy=energy, idle_seconds=2.0)
    record = records(ended)[0]
    assert [(one.outcome, one.exchanges) for one in record.trials] == [("resolved", 2)] * 2
    for result in record.trials:
        assert result.energy is not None
        header = header_of(tmp_path / "run", result)
        assert [one.label for one in header.inner] == ["exchange/0", "exchange/1"]
        assert {(one.role, one.trial) for one in header.cgroups} >= {
            ("solver", "own"),
            ("forwarder", "own"),
            ("model", "run"),
            ("harness", None),
        }
        assert set(result.cpu_seconds) == set(result.energy.by_role) == {"solver", "forwarder", "model"}
        assert (result.cpu_seconds["model"] or 0) > 0.2
        assert sum(one.net_uj or 0 for one in result.energy.by_role.values()) == result.energy.total.net_uj
        assert (result.energy.by_role["model"].net_uj or 0) > 0
        assert {one.stage for one in result.energy.parts} == {"exchange"}
    joules_follow(record, tmp_path / "run" / "blobs", allow_missing=False)
    assert left_of(ended.run) == []
