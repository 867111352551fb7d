"""The shipped agents with a stub in a program's place: what it is given, and what if it is not there."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from appliance.records.record import Record
from appliance.solvers.definition import read_definition
from tests.scripted_model import ScriptedModel
from tests.trials_suites import write_suite

pytestmark = pytest.mark.docker
SOLVERS = Path(__file__).parents[2] / "solvers"
AGENTS = ("aider", "claude", "codex", "gemini", "mini-swe-agent", "opencode", "qwen")
PROMPT = "--mend it: \"quotes\", 'these', $HOME `id` {prompt} {{task}} \\n ünïcödé\n\nand a second paragraph\n"
SAID = {
    "claude": '{"type":"result","subtype":"success","is_error":false,"result":"mended","terminal_reason":"completed"}',
    "gemini": '{"response": "mended", "stats": {"models": {}}}',
}
STUB = """#!/bin/sh
[ "$1" = --version ] && echo 1.2.3 && exit
cat >&2
pwd > {home}/where; [ "$(cat {home}/where)" = /workspace ] || exit 9
printf '#!/bin/sh\\nexit 0\\n' > program.sh
echo {said}
"""


@pytest.fixture
def there(tmp_path: Path) -> Path:
    write_suite(tmp_path / "tasks" / "small")
    toml = tmp_path / "tasks/small/fix/task.toml"
    told = "prompt = '''\n" + PROMPT.replace("'these'", "these") + "'''"
    toml.write_text(toml.read_text().replace('prompt = "mend fix"', told))
    return tmp_path


def image(there: Path, agent: str, target: str) -> None:
    """An image of this name, found before the shipped one, that holds a stub at `target`."""
    folder = there / "images" / agent
    folder.mkdir(parents=True)
    folder.joinpath("image.toml").write_text(
        f'kind = "solver"\nfiles = [{{source = "stub", target = "opt/solvers/{agent}/{target}", executable = true}}]\n'
    )
    folder.joinpath("stub").write_text(STUB.format(home="$HOME", said=shlex.quote(SAID[agent])))
    appliance(there, "images", "lock", agent)


def appliance(there: Path, *words: str, status: int = 0) -> str:
    argv = [sys.executable, "-m", "appliance.cli.main", *words]
    env = os.environ | {"STUB_KEY": "any"}
    ran = subprocess.run(argv, cwd=there, capture_output=True, text=True, check=False, env=env)
    assert ran.returncode == status, ran.stderr
    return ran.stderr


def run(there: Path, agent: str, *, status: int = 0) -> Record:
    with ScriptedModel() as model:
        words = ("--suite", "small", "--solver", agent, "--model", "scripted", "--model-url", model.url)
        words += ("--provider", "anthropic" if agent == "claude" else "google", "--model-key-env", "STUB_KEY")
        appliance(there, "run", *words, "--out", "r", "--no-sign", status=status)
        assert model.saw == []
    record = Record.read(there / "r" / "records" / f"{agent}.json")
    composed = record.plan.tasks[0].images.composed.config
    subprocess.run(["docker", "rmi", "--force", composed], check=False, capture_output=True)
    return record


@pytest.mark.parametrize("agent", ["claude", "gemini"])
def test_a_stub_in_the_agents_place_is_given_the_prompt_to_the_letter_in_the_workspace(agent: str, there: Path) -> None:
    """Resolved, cwd = workdir; quotes, dollars, a dash in front: as the task has them (J15, J16)."""
    image(there, agent, f"bin/{agent}")
    record = run(there, agent)
    (trial,) = record.trials
    assert (trial.outcome, trial.solver_exit, trial.exchanges) == ("resolved", 0, 0)
    assert trial.streams is not None
    assert trial.streams.stderr.blob is not None
    given = (there / "r/blobs/sha256" / trial.streams.stderr.blob.sha256).read_text()
    assert given == record.plan.tasks[0].spec.prompt
    assert given.startswith('--mend it: "quotes", these, $HOME `id` {prompt} {{task}} \\n ünïcödé\n\nand')
    assert record.solver.version == "1.2.3"


@pytest.mark.parametrize("agent", ["claude", "gemini"])
def test_an_agent_whose_program_is_not_there_is_errored_and_names_it(agent: str, there: Path) -> None:
    """Not unresolved: nothing of it ever ran (J15, J16)."""
    image(there, agent, "bin/something-else")
    (trial,) = run(there, agent, status=5).trials
    assert (trial.outcome, trial.reason) == ("errored", "start_failed")
    assert trial.detail is not None
    assert f"/opt/solvers/{agent}/bin/{agent}" in trial.detail
    assert trial.grade is None


@pytest.mark.parametrize("agent", AGENTS)
def test_every_shipped_agent_is_a_valid_solver_that_holds_no_key_and_no_address(agent: str) -> None:
    """Its wire, its parser, its version; all that it sends goes to the gateway (formats 3, M16)."""
    definition = read_definition(SOLVERS / f"{agent}.toml")
    assert (definition.name, definition.image, definition.needs_model) == (agent, agent, True)
    assert definition.wire is not None
    assert definition.output is not None
    assert definition.version_argv is not None
    assert definition.argv[0] == "sh" or definition.argv[0].startswith(f"/opt/solvers/{agent}/")
    texts = [*definition.env.values(), *definition.templates.values()]
    assert any("{base_url}" in text for text in texts)
    assert any("{dummy_key}" in text for text in texts)
    assert [text for text in texts if "http://" in text or "https://" in text] == []
