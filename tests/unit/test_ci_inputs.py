"""The first thing that the recipes of docs/ci do: refuse an input that was not decided, before anything is run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.ci_bench import Runner, StepFailed, read, run_gitlab

_INPUTS = {"suite": "smoke", "solver": "noop", "trust": "lab"}
_UNDECIDED = ["", "yes", "x'\n::stop-commands::tok\n::warning::from an input"]


def _surroundings(tmp_path: Path) -> dict[str, str]:
    """Where whatever comes after the first step is seen: a venv, a token, a run."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("python3", "appliance"):
        (tools / name).write_text(f"#!/bin/sh\ntouch '{tmp_path}/came-to-it'\nexit 9\n")
        (tools / name).chmod(0o755)
    return {"PATH": f"{tools}:{os.environ['PATH']}"}


@pytest.mark.parametrize("word", _UNDECIDED, ids=["nothing", "other", "commands"])
def test_the_action_asks_for_the_suites_fate_before_it_runs_and_repeats_no_input(tmp_path: Path, word: str) -> None:
    """Not after hours of run and a public signature; and an input's text never becomes a workflow command."""
    runner = Runner(tmp_path, tmp_path, _surroundings(tmp_path))
    with pytest.raises(StepFailed) as failed:
        runner.run({**_INPUTS, "with-suite": word})
    assert failed.value.status == 2
    assert failed.value.said.strip() == "::error::with-suite is true or false"
    assert not (tmp_path / "came-to-it").exists()


@pytest.mark.parametrize("word", _UNDECIDED, ids=["nothing", "other", "commands"])
def test_the_template_asks_for_the_suites_fate_before_it_runs_and_repeats_no_input(tmp_path: Path, word: str) -> None:
    """Row by row the same."""
    with pytest.raises(StepFailed) as failed:
        run_gitlab(tmp_path, {"BENCH_WITH_SUITE": word}, _surroundings(tmp_path))
    assert failed.value.status == 2
    assert failed.value.said.strip() == "BENCH_WITH_SUITE is true or false"
    assert not (tmp_path / "came-to-it").exists()


@pytest.mark.parametrize(("word", "option"), [("true", "--with-suite"), ("false", "--without-suite")])
def test_what_was_decided_comes_to_publish_as_its_option(tmp_path: Path, word: str, option: str) -> None:
    runner = Runner(tmp_path, tmp_path, _surroundings(tmp_path))
    with pytest.raises(StepFailed, match="Install"):
        runner.run({**_INPUTS, "with-suite": word})
    assert runner.outputs == {"steps.asked.outputs.suite": option}
    publish = read("action.yml")["runs"]["steps"][-1]
    assert publish["env"]["WITH_OR_WITHOUT_SUITE"] == "${{ steps.asked.outputs.suite }}"
