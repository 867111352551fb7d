"""Each agent: the real program in its image, on a real task, by way of gateway and forwarder; recorded and replayed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from appliance.gateway.cassette import read_cassette
from appliance.images.catalog import Catalog
from appliance.images.solver_version import locked_version
from appliance.records.record import Record
from tests.agents_bench import GIVEN, MODEL, ODD, ROOT, TOKENS, Tried, elsewhere, replayed, texts, tried

pytestmark = pytest.mark.agents
PROMPT_BYTES = {"claude": 24_000}
ROUNDS = frozenset({"aider"})
"""It prints thousands of tokens rounded, so nothing is claimed."""


@pytest.fixture(scope="module", params=sorted(GIVEN))
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tried:
    """One trial of each agent, which several tests look at."""
    given = GIVEN[request.param]
    return tried(given, tmp_path_factory.mktemp(given.agent), given.model())


def test_an_agent_mends_a_task_and_its_record_says_what_it_took(recorded: Tried) -> None:
    """Resolved by the oracle; tokens as the model's server counted them, the agent's own count beside them; no price is
    known, and none is made up; version and pins in the record (M2, M4, M9, M14, M18, formats 3).
    """
    agent = recorded.given.agent
    record = Record.read(recorded.record)
    (trial,) = record.trials
    assert (trial.outcome, trial.cause, trial.solver_exit) == ("resolved", "exit", 0), trial.detail
    answers = len(recorded.asked)
    usage = trial.usage.subject
    assert usage is not None
    assert (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens) == (
        TOKENS.input * answers,
        TOKENS.cache_read * answers,
        TOKENS.output * answers,
    )
    assert trial.cost_usd.subject is None
    assert (trial.usage.claimed is None) == (agent in ROUNDS)
    differs = [fault for fault in trial.faults if "the gateway counted" in fault]
    assert differs == []
    assert trial.harvest is not None
    assert trial.harvest.changed == (recorded.given.file,)
    assert (record.solver.name, record.solver.source) == (agent, "release")
    assert record.solver.version == locked_version(agent, Catalog((ROOT / "images",)))
    image = recorded.suite.tasks[0].spec.image
    shown = [stamp.role for stamp in record.images if agent in stamp.role or stamp.role.startswith("task")]
    assert shown == [f"composed:{image}+{agent}", f"solver:{agent}", f"task:{image}"]


def test_the_prompt_arrives_to_the_letter(recorded: Tried) -> None:
    """Quotes, dollars, braces, a dash in front: as the task has it, in the first request and no later one than it
    (J15, J16).
    """
    prompt = recorded.suite.tasks[0].spec.prompt
    assert prompt.startswith(ODD)
    assert any(prompt in text for text in texts(recorded.asked[0].json))
    assert {seen.json.get("model", MODEL) for seen in recorded.asked} == {MODEL}


def test_its_tools_see_the_tasks_image(recorded: Tried) -> None:
    """The path to programs, the host's name and the folder are the container's, and none of them is root (M8, M18)."""
    if recorded.given.agent == "aider":
        pytest.skip("aider gives its model no tools")
    said = "\n".join(texts(recorded.asked[1].json))
    assert "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" in said
    assert "hostname: bench" in said
    assert re.search(r"user: 1000\b", said)
    assert " billing" in said


def test_the_size_of_its_prompt_and_its_joules_are_on_record(recorded: Tried, tmp_path: Path) -> None:
    """The first request's bytes are in the cassette, and its file fixes the flags that make it small: claude's 89 kB
    are not sent (M7).
    """
    (trial,) = Record.read(recorded.record).trials
    assert trial.cassette is not None
    exchanges = read_cassette(recorded.record.parents[1] / "blobs/sha256" / trial.cassette.sha256, tmp_path).exchanges
    first = next(one.asked.body for one in exchanges if one.exchange.act == "generate")
    assert 0 < len(first) < PROMPT_BYTES.get(recorded.given.agent, 80_000)
    assert trial.energy is not None
    assert "solver" in trial.energy.by_role


def test_every_exchange_lies_in_its_cassette(recorded: Tried, tmp_path: Path) -> None:
    """In the order that they came, with the bytes of the request and no key (M14, M16)."""
    (trial,) = Record.read(recorded.record).trials
    assert trial.cassette is not None
    cassette = read_cassette(recorded.record.parents[1] / "blobs/sha256" / trial.cassette.sha256, tmp_path)
    assert len(cassette.exchanges) == trial.exchanges
    sent = [one.asked.body for one in cassette.exchanges if one.exchange.act == "generate"]
    assert sent == [seen.body for seen in recorded.asked]


def test_its_trial_is_replayed_without_a_model(
    recorded: Tried, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same diff, the same grade, and nothing but masked words differs (M14, R3)."""
    capsys.readouterr()
    status, again = replayed(recorded.record, recorded.given.agent, tmp_path / "again")
    verdict = json.loads(capsys.readouterr().out)
    assert status == 0, (verdict["outcome"], verdict["replay"])
    assert verdict["outcome"]["verdict"] == "reproduced"
    assert verdict["replay"]["level"] in ("exact", "masked"), verdict["replay"]
    assert (verdict["replay"]["unused"], verdict["replay"]["divergences"]) == (0, 0)
    (old,), (new,) = Record.read(recorded.record).trials, again.trials
    assert old.harvest is not None
    assert new.harvest is not None
    assert (new.outcome, new.harvest.diff) == ("resolved", old.harvest.diff)
    assert new.usage.subject == old.usage.subject


def test_it_is_replayed_on_another_day_host_and_kernel(
    recorded: Tried, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As if it had been recorded there: all three stand otherwise in the recorded requests (M14)."""
    record, changed = elsewhere(recorded.record, tmp_path / "other")
    assert changed >= ({"date", "kernel"} if recorded.given.agent == "aider" else {"date", "host", "kernel"})
    capsys.readouterr()
    status, again = replayed(record, recorded.given.agent, tmp_path / "again")
    verdict = json.loads(capsys.readouterr().out)
    assert status == 0, (verdict["outcome"], verdict["replay"])
    assert verdict["replay"]["level"] == "masked", verdict["replay"]
    told = "\n".join(verdict["replay"]["trials"][0]["differences"])
    assert all(f": masked by {rule}: recorded " in told for rule in changed), told
    assert (again.trials[0].outcome, verdict["replay"]["unused"]) == ("resolved", 0)
