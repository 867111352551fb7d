"""Trials whose solver asks a model: through the real forwarder and the real gateway, against a scripted server."""

from __future__ import annotations

import gzip
import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.ports import GATEWAY_PORT
from appliance.records.plan import PlannedBudget, PlannedEnergy
from appliance.records.record import Record
from appliance.records.trial import TrialResult
from appliance.solvers.finding import find_solver
from appliance.trials.adapters import this_machine
from appliance.trials.models import ModelSources
from appliance.trials.session import RunEnded, RunOptions, new_run_id, run_plans
from appliance.trials.stamps import Subject
from tests.gateway_bench import AGENT, DONE, FIX, MODEL, agent, upstream
from tests.measured_bench import Between
from tests.scripted_model import Run, Say, ScriptedModel, Status
from tests.trials_bench import Watched, blob, left_of, plans_for, records, run_suite, stdout_of, trial
from tests.trials_suites import small_suite

pytestmark = pytest.mark.docker


def artifact(ended: RunEnded, result: TrialResult, name: str) -> bytes:
    found = next(one for one in result.artifacts if one.name == name)
    return blob(ended, found.blob.sha256)


def transcript(ended: RunEnded, result: TrialResult) -> list[dict[str, Any]]:
    return [json.loads(line) for line in artifact(ended, result, "transcript").splitlines()]


def asking(out: Path, model: ScriptedModel, script: str = AGENT, **words: Any) -> RunEnded:
    """One trial of an agent that runs `script`; `words`: of the plan, of `gateway_bench.agent` and of the upstream."""
    of_agent = {name: words.pop(name) for name in ("asks", "words", "more") if name in words}
    of_upstream = {name: words.pop(name) for name in ("budget", "run_budget") if name in words}
    return run_suite(
        out / "run",
        small_suite(out / "suite"),
        agent(out / "solvers", script=script, **of_agent),
        model=MODEL,
        upstream=upstream(model.url, **of_upstream),
        **words,
    )


def test_an_agent_mends_a_task_and_its_traffic_is_in_the_record(tmp_path: Path) -> None:
    """Exchanges, usage, cassette and transcript; the model's stamp; the forwarder's CPU on a line of its own (M13, M14,
    M15, M19)."""
    with ScriptedModel(FIX, DONE) as model:
        ended = asking(tmp_path, model)
        assert [seen.json["model"] for seen in model.asked] == [MODEL, MODEL]
        assert {seen.header("authorization") for seen in model.saw} == {None}
    result, record = trial(ended), records(ended)[0]
    assert (result.outcome, result.cause, result.exchanges) == ("resolved", "exit", 2)
    assert result.usage.subject is not None
    assert result.usage.subject.output_tokens > 0
    assert result.cassette is not None
    assert len(blob(ended, result.cassette.sha256)) == result.cassette.bytes
    told = transcript(ended, result)
    assert [(one["order"], one["form"], one["status"], one["complete"]) for one in told] == [
        (0, "openai-chat", 200, True),
        (1, "openai-chat", 200, True),
    ]
    assert told[0]["spoken"]["calls"][0]["name"] == "bash"
    assert told[1]["spoken"]["text"] == "Done."
    assert record.model is not None
    assert (record.model.name, record.model.provider) == (MODEL, "compatible")
    assert record.plan.upstream is not None
    assert any("attributed to nobody" in warning for warning in record.warnings)
    assert set(result.cpu_seconds) == {"solver", "forwarder"}
    assert (result.cpu_seconds["forwarder"] or 0) > 0
    assert result.energy is not None
    assert set(result.energy.by_role) == {"solver", "forwarder"}
    assert left_of(ended.run) == []


def test_the_solver_cannot_reach_the_forwarder_but_by_its_port(tmp_path: Path) -> None:
    """No process of it is seen, its port is taken before the solver begins, its folder is elsewhere (M19)."""
    script = (
        "import os, socket, urllib.request\n"
        "seen = [open('/proc/' + pid + '/cmdline').read() for pid in os.listdir('/proc') if pid.isdigit()]\n"
        "print('forwarder' in ''.join(seen).replace('agent.py', ''))\n"
        "print(os.path.exists('/run/appliance-gateway'), os.path.exists('/run/appliance-forwarder'))\n"
        "try:\n"
        f"    socket.create_server(('127.0.0.1', {GATEWAY_PORT}))\n"
        "    print('bound')\n"
        "except OSError as error:\n"
        "    print('in use')\n"
        "try:\n"
        "    os.kill(-1, 0); print('alive')\n"
        "except OSError:\n"
        "    print('nobody')\n"
        f"print(urllib.request.urlopen('http://127.0.0.1:{GATEWAY_PORT}/v1/models').status)\n"
        "print(socket.gethostname(), os.environ['TZ'], os.environ['LC_ALL'], os.environ['HOME'], os.getcwd())\n"
    )
    with ScriptedModel(DONE) as model:
        ended = asking(tmp_path, model, script)
    said = stdout_of(ended, trial(ended)).decode().splitlines()
    assert said[:3] == ["False", "False False", "in use"]
    assert said[4:] == ["200", "bench UTC C.UTF-8 /home/bench /workspace"]
    assert trial(ended).outcome == "unresolved"


def test_a_provider_that_is_gone_is_an_error_and_never_unresolved(tmp_path: Path) -> None:
    """Each try is told; nothing is graded (M17)."""
    with ScriptedModel(FIX, DONE, always=Status(503, retry_after="0.01")) as model:
        ended = asking(tmp_path, model)
    result = trial(ended)
    assert (result.outcome, result.reason, result.grade) == ("errored", "provider_failed", None)
    first = transcript(ended, result)[0]
    assert {one["status"] for one in first["tries"]} == {503}
    assert len(first["tries"]) > 1
    assert result.cassette is not None


def test_an_outage_that_ends_costs_nothing_but_time(tmp_path: Path) -> None:
    """Retried inside the exchange, each try recorded (M17)."""
    faults = [Status(429, retry_after="0.01"), Status(500, retry_after="0.01"), None]
    with ScriptedModel(FIX, DONE, faults=faults) as model:
        ended = asking(tmp_path, model)
    assert trial(ended).outcome == "resolved"
    assert [one["status"] for one in transcript(ended, trial(ended))[0]["tries"]] == [429, 500, 200]


def test_another_model_than_the_plans_is_refused_and_recorded(tmp_path: Path) -> None:
    """Nobody upstream is asked (M13)."""
    with ScriptedModel(FIX, DONE) as model:
        ended = asking(tmp_path, model, asks="another")
        assert model.asked == []
    result = trial(ended)
    assert (result.outcome, result.solver_exit) == ("unresolved", 1)
    assert [one["refused"] for one in transcript(ended, result)] == ["model"]
    assert "none of its requests to its model was answered" in result.faults


def test_over_its_own_budget_a_trial_goes_on_and_the_oracle_decides(tmp_path: Path) -> None:
    """The agent is told to slow down; what it had done till then counts; the cause says it (M15)."""
    with ScriptedModel(FIX, DONE) as model:
        ended = asking(tmp_path, model, budget=PlannedBudget(exchanges=1))
        assert len(model.asked) == 1
    result = trial(ended)
    assert (result.outcome, result.cause, result.solver_exit) == ("resolved", "budget", 1)
    assert [one["refused"] for one in transcript(ended, result)] == [None, "budget"]
    assert transcript(ended, result)[1]["status"] == 429


def test_a_solver_is_told_its_budgets(tmp_path: Path) -> None:
    """Beside the time, what of the model's is bounded (H7, M15)."""
    script = "print(open('/run/appliance/budget.json').read())"
    with ScriptedModel(DONE) as model:
        ended = asking(tmp_path, model, script, budget=PlannedBudget(tokens=9000, exchanges=7))
    assert json.loads(stdout_of(ended, trial(ended))) == {"wallSeconds": 600.0, "tokens": 9000, "exchanges": 7}
    assert trial(ended).exchanges == 0


def test_once_the_runs_budget_is_gone_the_rest_is_excluded(tmp_path: Path) -> None:
    """Also across a resume: what earlier trials used counts, and nobody is asked for more (M15, H22)."""
    suite, solver = small_suite(tmp_path / "suite"), agent(tmp_path / "solvers")
    with ScriptedModel(FIX, DONE) as model:
        way = upstream(model.url, run_budget=PlannedBudget(exchanges=3))

        def ran(**run_options: Any) -> RunEnded:
            return run_suite(
                tmp_path / "run", suite, solver, run_options=run_options, model=MODEL, upstream=way, rollouts=4
            )

        ended = ran()
        found = [(one.outcome, one.reason, one.exchanges) for one in records(ended)[0].trials]
        assert found[0] == ("resolved", None, 2)
        # What it had done when the budget ended is judged: whoever burns it takes no failure of his out of the rate.
        assert found[1][:2] == ("resolved", None)
        assert records(ended)[0].trials[1].cause == "budget"
        assert found[2:] == [("excluded", "budget", None)] * 2
        assert len(model.asked) == 3
        journal = tmp_path / "run" / "journal.jsonl"
        lines = journal.read_bytes().splitlines(keepends=True)
        last = next(at for at, line in enumerate(lines) if json.loads(line).get("trial") == 2)
        journal.write_bytes(b"".join(lines[:last]))
        again = ran(resume=True)
        assert again.started == 2
        assert [one.outcome for one in records(again)[0].trials] == ["resolved", "resolved", *["excluded"] * 2]
        assert len(model.asked) == 3


def test_a_forwarder_that_dies_is_our_failure(tmp_path: Path) -> None:
    """`excluded: engine_error`, whatever the solver made of it (M19)."""
    solver = agent(tmp_path / "solvers", words=', "--patient"')
    with ScriptedModel(FIX, DONE) as model:
        plans = plans_for(small_suite(tmp_path / "suite"), solver, model=MODEL, upstream=upstream(model.url))

        run = new_run_id()

        def kill() -> None:
            labels = [f"label=org.bench-appliance.run={run}", "label=org.bench-appliance.role=forwarder"]
            words = ["docker", "ps", "-q", "--filter", labels[0], "--filter", labels[1]]
            found = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
            assert len(found) == 1
            subprocess.run(["docker", "kill", *found], capture_output=True, check=True)

        here = this_machine(plans, lambda _words: None)
        ended = run_plans(
            plans,
            small_suite(tmp_path / "suite"),
            solvers={solver.name: solver},
            adapters=replace(here, meter=Between(here.meter, kill, lambda: None)),
            out=tmp_path / "run",
            options=RunOptions(run=run, subjects={solver.name: Subject(None, None, "unknown")}, keep_suite=False),
            watcher=Watched(),
        )
    result = trial(ended)
    assert (result.outcome, result.reason) == ("excluded", "engine_error")
    assert "forwarder" in (result.detail or "")
    assert result.exchanges is not None
    assert left_of(ended.run) == []


@pytest.mark.parametrize("scheduling", ["exclusive", "shared"])
def test_two_trials_at_a_time_have_doors_of_their_own(tmp_path: Path, scheduling: Any) -> None:
    """The socket says whose exchange it is, in either scheduling; a solver without a model has none (M13)."""
    energy = PlannedEnergy(mode="auto", active_watts=None, scheduling=scheduling)
    with ScriptedModel(FIX, DONE) as model:
        ended = run_suite(
            tmp_path / "run",
            small_suite(tmp_path / "suite", "a", "b"),
            agent(tmp_path / "solvers"),
            find_solver("reference"),
            run_options={"jobs": 2},
            model=MODEL,
            upstream=upstream(model.url),
            energy=energy,
            rollouts=2,
        )
    asked, reference = records(ended)
    assert [(one.outcome, one.detail, one.exchanges) for one in asked.trials] == [("resolved", None, 2)] * 4
    assert len(model.asked) == 8
    assert [(one.outcome, one.exchanges) for one in reference.trials] == [("resolved", None)] * 4
    assert reference.plan.upstream is None
    assert left_of(ended.run) == []


def test_no_byte_that_is_written_holds_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the run's folder, not the container's environment, not what the solver sees of an answer (M16)."""
    key = "sk-planted-0123456789abcdef"
    monkeypatch.setenv("PLANTED", key)
    script = AGENT.replace("messages = [", "import os; print(dict(os.environ))\nmessages = [", 1)
    with ScriptedModel(Run("cat /proc/1/environ /proc/self/environ; env"), DONE, key=key) as model:
        way = upstream(model.url, provider="openai")
        solver = agent(tmp_path / "solvers", script=script)
        ended = run_suite(
            tmp_path / "run",
            small_suite(tmp_path / "suite"),
            solver,
            run_options={"model": ModelSources(key_variable="PLANTED")},
            model=MODEL,
            upstream=way,
        )
        assert {seen.header("authorization") for seen in model.asked} == {f"Bearer {key}"}
    assert trial(ended).exchanges == 2
    for path in ended.folder.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        with_inner = content + (gzip.decompress(content) if content[:2] == b"\x1f\x8b" else b"")
        assert key.encode() not in with_inner, path


def test_an_answer_of_fifty_megabytes_is_kept_without_being_held(tmp_path: Path) -> None:
    """The cassette holds it whole; the blob is copied piece by piece (issue: figures)."""
    with ScriptedModel(Say("x", fill_bytes=50_000_000)) as model:
        ended = asking(tmp_path, model)
    result = trial(ended)
    assert result.exchanges == 1
    assert result.streams is not None
    assert result.streams.stdout.bytes > 50_000_000


def test_the_record_reads_back(tmp_path: Path) -> None:
    """Strict bytes, with upstream and traffic in them (formats 6)."""
    with ScriptedModel(FIX, DONE) as model:
        ended = asking(tmp_path, model)
    content = ended.records[0].read_bytes()
    assert Record.from_canonical(content, "r").canonical() == content


def test_what_a_parser_says_decides_where_the_oracle_cannot(tmp_path: Path) -> None:
    """A protocol that never ended is `errored`; one that ended by a limit of the agent's own is graded; its own count
    stands beside ours, and a difference is named (M1, M2, M4, M5)."""
    whole = {
        "type": "result", "subtype": "success", "is_error": False, "terminal_reason": "end_turn", "result": "ok",
        "total_cost_usd": 1.5, "usage": {"input_tokens": 5, "output_tokens": 7},
    }  # fmt: skip
    more = 'output = "claude-json"'
    with ScriptedModel(FIX, DONE) as model:
        cut = asking(tmp_path / "cut", model, more=more)
        said = AGENT.replace('print(message["content"])', f"print(json.dumps({json.loads(json.dumps(whole))!r}))")
        ended = asking(tmp_path / "whole", model, said, more=more)
    assert (trial(cut).outcome, trial(cut).reason) == ("errored", "protocol_incomplete")
    assert trial(cut).grade is None
    assert trial(cut).exchanges == 2
    result = trial(ended)
    assert result.outcome == "resolved"
    assert result.usage.claimed is not None
    assert result.usage.claimed.output_tokens == 7
    assert any("the solver says 7 output tokens, the gateway counted" in fault for fault in result.faults)


def test_a_file_that_the_solver_leaves_reaches_its_parser(tmp_path: Path) -> None:
    """Out of HOME, which is a tmpfs; one that is a pipe, or is not there, is none (M5, formats 3)."""
    more = 'output = "mini-trajectory"\noutput_file = "{home}/out.json"'
    left = {"trajectory_format": "mini-swe-agent-1.1", "info": {"exit_status": "LimitsExceeded"}, "messages": []}
    script = AGENT + f"\nopen('/home/bench/out.json', 'w').write({json.dumps(left)!r})\n"
    with ScriptedModel(FIX, DONE) as model:
        ended = asking(tmp_path / "file", model, script, more=more)
        none = asking(tmp_path / "none", model, more=more)
    assert trial(ended).outcome == "resolved"
    assert any("a limit of its own: steps or cost" in fault for fault in trial(ended).faults)
    assert (trial(none).outcome, trial(none).reason) == ("errored", "protocol_incomplete")
