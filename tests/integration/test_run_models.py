"""`appliance run` with a model, as a program of its own: what it says before, and what is left where it is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from appliance.records.record import Record
from tests.gateway_bench import DONE, FIX, MODEL, agent
from tests.scripted_model import Run, ScriptedModel, Silence
from tests.trials_bench import left_of
from tests.trials_suites import write_suite
from tests.typed_runs import run_id, said_by, started, until

pytestmark = pytest.mark.docker


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A suite, an agent, and keys and known roots of their own."""
    write_suite(tmp_path / "tasks" / "small", ("a",))
    agent(tmp_path / "solvers")
    for name in ("DATA", "CONFIG"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return tmp_path


def words(model: ScriptedModel, *more: str) -> tuple[str, ...]:
    return ("--suite", "small", "--solver", "toy", "--model", MODEL, "--model-url", model.url, "--no-sign", *more)


def containers(run: str) -> dict[str, str]:
    """Role -> id, of those that run."""
    line = '{{.Label "org.bench-appliance.role"}} {{.ID}}'
    listed = subprocess.run(
        ["docker", "ps", "--filter", f"label=org.bench-appliance.run={run}", "--format", line],
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(one.split() for one in listed.stdout.splitlines())


def test_a_killed_harness_leaves_no_forwarder_and_resume_tries_the_trial_again(there: Path) -> None:
    """No container, no socket, no folder; the plan's upstream goes on without its flags (H12, H22, M19)."""
    with ScriptedModel(Run("touch /tmp/waits; until [ -e /tmp/go ]; do sleep 0.1; done"), FIX, DONE) as model:
        first = started(there, "run", *words(model), "--out", str(there / "r"))
        run = until(lambda: run_id(there / "r"))
        until(lambda: model.asked)
        assert {"solver", "forwarder"} <= set(until(lambda: containers(run)))
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        until(lambda: not left_of(run))
    with ScriptedModel(FIX, DONE) as model:
        # Another server under the same plan would be another plan: the port is part of its URL.
        plan = json.loads((there / "r" / "plan.json").read_text())["plans"][0]
        assert plan["upstream"]["baseUrl"] != model.url
        refused = started(there, "run", "--resume", "r", *words(model))
        assert "not the same run" in said_by(refused)
        assert refused.returncode == 2


def test_a_resumed_run_keeps_its_upstream(there: Path) -> None:
    """Without a flag, the plan's; a budget that differs is another run (H22, M15)."""
    with ScriptedModel(FIX, DONE) as model:
        process = started(there, "run", *words(model, "--budget-tokens", "100000", "--rollouts", "2", "--out", "r"))
        said = said_by(process)
        assert process.returncode == 0, said
        assert f"model:   {MODEL} by compatible at {model.url}\n" in said
        assert f"model:   {MODEL} 100000 tokens at most for each trial\n" in said
        journal = there / "r" / "journal.jsonl"
        lines = journal.read_bytes().splitlines(keepends=True)
        second = next(at for at, line in enumerate(lines) if json.loads(line).get("trial") == 1)
        journal.write_bytes(b"".join(lines[:second]))
        other = started(there, "run", "--resume", "r", *words(model, "--budget-tokens", "5", "--rollouts", "2"))
        assert "upstream.budget.tokens: 100000, now 5" in said_by(other)
        assert other.returncode == 2
        other = started(there, "run", "--resume", "r", "--budget-exchanges", "3")
        assert "not the same run: upstream.budget.exchanges: None, now 3 (" in said_by(other)
        assert other.returncode == 2
        before = len(model.asked)
        again = started(there, "run", "--resume", "r", "--no-sign")
        said = said_by(again)
        assert again.returncode == 0, said
        assert len(model.asked) == before + 2
    record = Record.read(there / "r" / "records" / "toy.json")
    assert [(one.outcome, one.exchanges) for one in record.trials] == [("resolved", 2)] * 2
    assert record.plan.upstream is not None
    assert record.plan.upstream.budget.tokens == 100_000


def test_a_dry_run_says_model_provider_prices_and_budgets_and_asks_nobody(there: Path) -> None:
    """Row M15, design 8: the worst in dollars, from budgets and the day's prices; no key is needed for it."""
    asked = ("--suite", "small", "--solver", "toy", "--model", "gpt-4o", "--dry-run", "--rollouts", "4")
    process = started(there, "run", *asked, "--budget-usd", "0.50", "--run-budget-exchanges", "9")
    said = said_by(process)
    assert process.returncode == 0, said
    for line in ("model gpt-4o", "by openai", "0.5 usd at most for each trial", "9 exchanges at most for the run"):
        assert line in said
    assert "dollars: at most 2, by the budget of a trial, and its last answer (2.5 a million tokens in, 10 out)" in said
    process = started(there, "run", *asked, "--json")
    out, _ = process.communicate()
    told = json.loads(out)["estimate"]["dollars"]
    assert (told["worstUsd"], told["inputPerMillionUsd"], told["outputPerMillionUsd"]) == (None, "2.5", "10")


@pytest.mark.parametrize(
    ("more", "status", "says"),
    [
        (("--model", "gpt-4o", "--provider", "anthropic"), 2, "toy speaks openai-chat"),
        (("--model", "gpt-4o", "--provider", "telnet"), 2, "telnet"),
        (("--model", "gpt-4o"), 4, "OPENAI_API_KEY"),
        (("--model", "gpt-4o", "--model-key-env", "NO_SUCH"), 4, "NO_SUCH"),
        (("--model", "unheard-of", "--budget-usd", "1"), 2, "--budget-usd"),
        (("--model", "unheard-of", "--provider", "local"), 2, "--model-file"),
        ((), 2, "requires a model"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_anything_starts(
    there: Path, more: tuple[str, ...], status: int, says: str
) -> None:
    """Each with its flag or variable, and nothing on the disk (M13, M15, M16)."""
    process = started(there, "run", "--suite", "small", "--solver", "toy", "--no-sign", "--out", "r", *more)
    said = said_by(process)
    assert process.returncode == status, said
    assert says in said
    assert not (there / "r").exists()


def test_ctrl_c_while_a_model_is_asked_leaves_nothing(there: Path) -> None:
    """Windows closed, containers, socket and folder removed on the way out; the trial counts as never begun (H12)."""
    with ScriptedModel(Run("touch /tmp/waits; until [ -e /tmp/go ]; do sleep 0.1; done"), FIX, DONE) as model:
        process = started(there, "run", *words(model), "--out", "r")
        run = until(lambda: run_id(there / "r"))
        until(lambda: "forwarder" in containers(run) and model.asked)
        process.send_signal(signal.SIGINT)
        said = said_by(process)
        assert process.returncode == 130, said
        assert left_of(run) == []
        record = Record.read(there / "r" / "records" / "toy.json")
        assert [(one.outcome, one.exchanges) for one in record.trials] == [("cancelled", 1)]
        assert record.trials[0].cassette is not None
        again = started(there, "run", "--resume", "r", "--no-sign")
        until(lambda: len(model.asked) == 2)
        again.send_signal(signal.SIGTERM)
        assert "resume" in said_by(again)
        assert again.returncode == 143
    assert left_of(run) == []


def test_a_silent_provider_does_not_outlast_the_trials_limit(there: Path) -> None:
    """The limit ends the solver, and the exchange with it (H7, M17)."""
    with ScriptedModel(FIX, always=Silence(600)) as model:
        process = started(there, "run", *words(model), "--out", "r", "--limit-wall-seconds", "3")
        said = said_by(process)
        assert process.returncode == 0, said
    result = Record.read(there / "r" / "records" / "toy.json").trials[0]
    assert (result.outcome, result.cause, result.exchanges) == ("unresolved", "timeout", 1)
