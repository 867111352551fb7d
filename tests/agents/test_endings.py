"""How trials of the real agents end that do not end well: whose failure it was is told by what was seen."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from appliance.records.plan import PlannedBudget
from appliance.records.record import Record
from appliance.solvers.definition import SolverDefinition, read_definition
from tests.agents_bench import GIVEN, LOOK, SOLVERS, TOKENS, tried
from tests.scripted_model import Say

pytestmark = pytest.mark.agents
PRICED = "claude-sonnet-4-5"
SECRET = "sk-real-and-secret-0123456789"


def changed(agent: str, folder: Path, old: str, new: str, file: str = "") -> SolverDefinition:
    """The shipped solver with one place changed, in its TOML or in a template of it."""
    toml = SOLVERS / f"{agent}.toml"
    for path in (toml, *(SOLVERS / agent).glob("*")):
        target = folder / path.relative_to(SOLVERS)
        target.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text()
        if path.name == (file or toml.name):
            assert old in text
            text = text.replace(old, new)
        target.write_text(text)
    return read_definition(folder / toml.name)


@pytest.mark.parametrize("agent", sorted(GIVEN))
def test_a_key_that_the_provider_refuses_is_nobodys_failed_attempt(agent: str, tmp_path: Path) -> None:
    """errored: provider_failed, and not unresolved, whatever the agent exits with (M1, M17)."""
    given = GIVEN[agent]
    seen = tried(given, tmp_path, given.model(key="another"))
    (trial,) = Record.read(seen.record).trials
    assert (trial.outcome, trial.reason) == ("errored", "provider_failed")
    assert trial.detail is not None
    assert "key" in trial.detail
    assert trial.grade is None


def test_claude_whose_server_is_down_says_success_and_is_not_believed(tmp_path: Path) -> None:
    """Exit 1, is_error with subtype `success`: its provider failed (M1, M17)."""
    given = GIVEN["claude"]
    with given.model() as gone:
        url = gone.url
    seen = tried(given, tmp_path, given.model(), url=url)
    (trial,) = Record.read(seen.record).trials
    assert (trial.outcome, trial.reason, trial.solver_exit) == ("errored", "provider_failed", 1)
    assert trial.streams is not None
    assert trial.streams.stdout.blob is not None
    said = (seen.record.parents[1] / "blobs/sha256" / trial.streams.stdout.blob.sha256).read_text()
    assert '"is_error":true' in said
    assert '"subtype":"success"' in said
    assert seen.saw == ()


@pytest.mark.parametrize(
    ("agent", "change", "limit"),
    [
        pytest.param("claude", ('"{flags}"', '"--max-turns", "1", "{flags}"'), "turns", id="claude"),
        pytest.param(
            "mini-swe-agent",
            ("cost_limit: 0", "cost_limit: 0\n  step_limit: 1", "gateway.yaml"),
            "steps",
            id="mini-swe-agent",
        ),
    ],
)
def test_an_agent_at_its_own_limit_is_graded(agent: str, change: tuple[str, ...], limit: str, tmp_path: Path) -> None:
    """One turn was all: the oracle decides, and the record says which limit it was (M1, M5)."""
    given = GIVEN[agent]
    seen = tried(given, tmp_path, given.model(), definition=changed(agent, tmp_path / "solvers", *change))
    (trial,) = Record.read(seen.record).trials
    assert (trial.outcome, trial.reason, trial.cause) == ("unresolved", "tests_failed", "exit")
    assert len(seen.asked) == 1
    assert any(f"a limit of its own: {limit}" in fault for fault in trial.faults), trial.faults


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini"])
def test_the_trials_budget_ends_an_agent_and_the_oracle_decides(agent: str, tmp_path: Path) -> None:
    """Told in its provider's own shape, it ends; cause budget, and what it did is graded (M15)."""
    given = GIVEN[agent]
    seen = tried(given, tmp_path, given.model(), budget=PlannedBudget(exchanges=2))
    (trial,) = Record.read(seen.record).trials
    # Its second answer was the command that mends the task.
    assert (trial.outcome, trial.cause) == ("resolved", "budget")
    assert len(seen.asked) == 2
    assert trial.usage.subject is not None
    assert trial.usage.subject.output_tokens == 2 * TOKENS.output


def test_claude_that_says_done_and_did_nothing_is_unresolved(tmp_path: Path) -> None:
    """What it says of itself decides nothing (M6)."""
    given = GIVEN["claude"]
    seen = tried(given, tmp_path, given.model(turns=(LOOK, Say("Done. All tests pass."))))
    (trial,) = Record.read(seen.record).trials
    assert (trial.outcome, trial.solver_exit) == ("unresolved", 0)


def test_claude_at_list_prices_costs_what_it_says(tmp_path: Path) -> None:
    """Ours from dated prices, its own beside it; the key never leaves the host (M2, M15, M16)."""
    given = GIVEN["claude"]
    seen = tried(given, tmp_path, given.model(key=SECRET, model=PRICED), named=PRICED, key=SECRET)
    record = Record.read(seen.record)
    (trial,) = record.trials
    assert trial.outcome == "resolved"
    cost = trial.cost_usd
    assert cost.subject is not None
    assert cost.claimed is not None
    assert Decimal(cost.subject) == Decimal(cost.claimed) > 0
    assert [fault for fault in trial.faults if "dollars" in fault] == []
    assert record.prices is not None
    kept = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert [path for path in kept if SECRET.encode() in path.read_bytes()] == []
