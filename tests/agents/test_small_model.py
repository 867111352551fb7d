"""Two agents with a real model of this machine: whatever it makes of the task, the record says what was seen."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from appliance.cli.main import run
from appliance.images.weights import weights
from appliance.records.record import Record
from tests.agents_bench import ROOT, SOLVERS

pytestmark = pytest.mark.agents
MODEL = "smollm2-135m"
SHORT = f"- name: openai/{MODEL}\n  edit_format: whole\n  extra_params:\n    max_tokens: 40\n    temperature: 0\n"
FILES = '[files]\n"{home}/.aider.model.settings.yml" = "aider/short.yml"\n'


@pytest.fixture(params=["aider", "mini-swe-agent"], ids=["llama-edits", "llama-commands"])
def agent(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    """The shipped solver, with answers cut short: a busy machine makes a token a second."""
    name = str(request.param)
    toml = tmp_path / "solvers" / f"{name}.toml"
    shutil.copytree(SOLVERS / name, toml.with_suffix(""))
    text = (SOLVERS / toml.name).read_text()
    if name == "aider":
        (toml.with_suffix("") / "short.yml").write_text(SHORT)
        text = text.replace("[files]\n", FILES)
    else:
        small = toml.with_suffix("") / "small.yaml"
        short = re.sub(r"max_tokens: \d+", "max_tokens: 40", small.read_text())
        small.write_text(re.sub(r"step_limit: \d+", "step_limit: 2", short))
        assert "max_tokens: 40" in short
    toml.write_text(text)
    return name, toml


def test_an_agent_asks_a_local_model_and_its_record_is_replayed(
    agent: tuple[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Weights, engine and sampling in the record, the model's own CPU time and joules; graded by the oracle; the same
    diff and grade again without the model (M10, M14, issue 6 item 4).
    """
    name, toml = agent
    mode = ["--mode", "small"] if name == "mini-swe-agent" else []
    words = ["run", "--suite", str(ROOT / "tasks/smoke"), "--tasks", "word-count", "--solver", str(toml), *mode]
    words += ["--model", MODEL, "--limit-memory-mib", "2048", "--shared", "--no-sign", "--out", str(tmp_path / "r")]
    assert run(words) == 0
    path = tmp_path / "r/records" / f"{name}.json"
    record = Record.read(path)
    (trial,) = record.trials
    assert trial.outcome in ("resolved", "unresolved")
    assert trial.grade is not None
    assert record.model is not None
    assert (record.model.provider, record.model.digest) == ("local", weights(MODEL).sha256)
    assert record.model.sampling is not None
    assert (record.model.sampling["temperature"], record.model.engine is not None) == (0, True)
    assert trial.cause == "exit"
    assert trial.usage.subject is not None
    assert trial.usage.subject.output_tokens > 0
    assert trial.cassette is not None
    assert (trial.cpu_seconds["model"] or 0) > 0
    assert trial.energy is not None
    assert "model" in trial.energy.by_role
    capsys.readouterr()
    words = ["reproduce", str(path), "--replay", "--solver", str(toml), "--out", str(tmp_path / "again"), "--json"]
    status = run(words)
    verdict = json.loads(capsys.readouterr().out)
    assert (status, verdict["outcome"]["verdict"]) == (0, "reproduced"), (verdict["outcome"], verdict["replay"])
    assert verdict["replay"]["unused"] == 0
