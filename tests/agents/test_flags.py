"""What `--mode` and `--self-correct` come to, as each agent's model is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from appliance.records.record import Record
from tests.agents_bench import GIVEN, texts, tried
from tests.scripted_model import Say

pytestmark = pytest.mark.agents
TESTS = "run the tests that cover what you changed"
SUBMIT = Say("I am done.\n\n```mswea_bash_command\necho COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n```\n")
LOOPS: dict[str, Any] = {"self_correct": True}


@pytest.mark.parametrize(
    ("agent", "asked", "told"),
    [
        pytest.param("claude", LOOPS | {"mode": "low"}, ('"effort": "low"', TESTS), id="claude"),
        pytest.param("codex", LOOPS | {"mode": "high"}, ('"effort": "high"', TESTS), id="codex"),
        pytest.param("qwen", LOOPS, (TESTS,), id="qwen"),
        pytest.param("opencode", {"mode": "plan"}, ("READ-ONLY",), id="opencode"),
        pytest.param("mini-swe-agent", {"mode": "text"}, ("mswea_bash_command",), id="mini-swe-agent"),
        pytest.param("aider", {"mode": "udiff"}, ("diff -U0",), id="aider"),
    ],
)
def test_a_flag_of_the_run_reaches_the_agents_model(
    agent: str, asked: dict[str, Any], told: tuple[str, ...], tmp_path: Path
) -> None:
    """Its program takes the words that its TOML has for them (formats 3)."""
    given = GIVEN[agent]
    turns = (SUBMIT,) if agent == "mini-swe-agent" else (Say("Nothing to do."),)
    seen = tried(given, tmp_path, given.model(turns=turns), **asked)
    (trial,) = Record.read(seen.record).trials
    assert trial.outcome == "unresolved", trial.detail
    request = json.dumps(seen.asked[0].json)
    assert [word for word in told if word not in request] == []


def test_aider_that_corrects_itself_is_told_what_its_edit_broke(tmp_path: Path) -> None:
    """The workspace's own build is run after an edit, and what it says is sent to the model."""
    given = GIVEN["aider"]

    def edit(old: str, new: str) -> Say:
        return Say(f"{given.file}\n```\n<<<<<<< SEARCH\n{old}=======\n{new}>>>>>>> REPLACE\n```\n")

    include = "#include <ctype.h>\n"
    turns = (edit(include, f"{include}this_is_no_c\n"), edit("this_is_no_c\n", ""), Say("Mended."))
    seen = tried(given, tmp_path, given.model(turns=turns), self_correct=True)
    assert len(seen.asked) == 2
    assert any("this_is_no_c" in text and "error" in text for text in texts(seen.asked[1].json["messages"][-1]))
