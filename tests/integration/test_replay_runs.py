"""`reproduce` of an agent's record: from its cassettes, and with the model again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from appliance.audit import cassettes
from appliance.cli.main import run
from appliance.records.record import Record
from appliance.records.replays import is_replay
from appliance.trials.session import RunEnded
from attest.checks import Noted
from tests.gateway_bench import AGENT, DONE, FIX, MODEL, agent, upstream
from tests.scripted_model import Run, ScriptedModel, Status
from tests.trials_bench import run_suite
from tests.trials_suites import small_suite

pytestmark = pytest.mark.docker

DATED = Run("date +%s.%N; uname -a; echo PID $$; ls -la")
"""What differs from run to run, and is masked."""
UNSURE = Run("head -c 8 /dev/urandom | od -An -tx1")
"""What differs from run to run, and is not."""


def recorded(folder: Path, *turns: Any, script: str = AGENT, tasks: tuple[str, ...] = ("fix",), **words: Any) -> Path:
    """A run of an agent against a scripted model that is gone when this returns; its record."""
    with ScriptedModel(*turns, faults=words.pop("faults", None) or []) as model:
        ended: RunEnded = run_suite(
            folder / "run",
            small_suite(folder / "suite", *tasks),
            agent(folder / "solvers", script=script, words=words.pop("words", "")),
            model=MODEL,
            upstream=upstream(model.url),
            run_options={"keep_suite": True},
            **words,
        )
    return ended.records[0]


def borne_out(record: Path) -> None:
    """What `verify` makes again of its cassettes; raises where it does not hold."""
    found = Record.read(record)
    if is_replay(found):
        with pytest.raises(Noted, match="a replay of recorded answers: no model was asked"):
            cassettes.bear_out(found, record.parents[1] / "blobs", False)
    else:
        cassettes.bear_out(found, record.parents[1] / "blobs", False)


def reproduced(record: Path, out: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any, str]:
    """Exit status, the verdict, and what was said beside it."""
    solver = record.parents[2] / "solvers/toy.toml"
    capsys.readouterr()
    status = run(["reproduce", str(record), "--solver", str(solver), "--out", str(out), "--json", *words])
    said = capsys.readouterr()
    # A refusal is told once in a process, and these tests share one.
    told = json.loads(said.out) if said.out else {"error": said.err}
    return status, None if "error" in told else told, said.err


def test_an_agents_trial_is_replayed_with_no_model_to_the_same_diff_and_grade(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By default, for the record has cassettes; dates, kernels, PIDs and listings differ and are masked (M14, R3)."""
    record = recorded(tmp_path, DATED, FIX, DONE)
    status, verdict, said = reproduced(record, tmp_path / "again", capsys)
    assert status == 0, (verdict, said)
    assert (verdict["outcome"]["verdict"], verdict["live"]) == ("reproduced", False)
    assert verdict["replay"]["level"] == "masked"
    assert (verdict["replay"]["unused"], verdict["replay"]["divergences"]) == (0, 0)
    (trial,) = verdict["replay"]["trials"]
    assert (trial["recorded"], trial["unused"], trial["level"]) == (3, 0, "masked")
    old, new = Record.read(record).trials[0], Record.read(tmp_path / "again/records/toy.json").trials[0]
    assert old.harvest is not None
    assert new.harvest is not None
    assert (old.harvest.diff, old.outcome) == (new.harvest.diff, "resolved")
    borne_out(record)
    borne_out(tmp_path / "again/records/toy.json")
    assert (new.usage.subject, new.exchanges, new.replay_level) == (old.usage.subject, 3, "masked")


def test_a_record_of_a_replay_says_in_words_that_it_is_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On its row and beside it, and no server of a model is warned of that was never asked (M14, T3)."""
    record, again = recorded(tmp_path, FIX, DONE), tmp_path / "again/records/toy.json"
    assert reproduced(record, tmp_path / "again", capsys)[0] == 0
    beside = "the model's server runs on this host beside the run"
    told = [" ".join(Record.read(one).warnings) for one in (record, again)]
    assert [beside in one for one in told] == [True, False]
    assert run(["report", str(record), str(again)]) == 0
    said = capsys.readouterr().out
    assert "toy [replayed]  " in said
    assert "a replay of recorded answers: no model was asked" in said
    assert run(["publish", str(again), "--to", str(tmp_path / "site"), "--dry-run"]) != 0
    assert not (tmp_path / "site").exists()


def test_what_tools_gave_differs_and_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The lowest level is in the verdict, with every difference; the outcome holds (M14)."""
    record = recorded(tmp_path, UNSURE, FIX, DONE)
    status, verdict, _ = reproduced(record, tmp_path / "again", capsys, "--replay")
    assert (status, verdict["replay"]["level"]) == (0, "structural")
    (difference,) = verdict["replay"]["trials"][0]["differences"]
    assert difference.startswith("$.messages[2]: result of ")


def test_a_replay_that_diverges_is_not_reproduced_and_shows_the_diff(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 8; errored: replay_diverged; the first divergence as a diff in verdict, on screen and as an artifact
    (M14, R3)."""
    script = AGENT.replace(
        '"content": "mend it"', '"content": "mend it " + open("/proc/sys/kernel/random/uuid").read()[:8]'
    )
    record = recorded(tmp_path, FIX, DONE, script=script)
    status, verdict, _ = reproduced(record, tmp_path / "again", capsys)
    assert (status, verdict["outcome"]["verdict"]) == (8, "diverged")
    assert (verdict["replay"]["divergences"], verdict["replay"]["unused"]) == (1, 2)
    assert verdict["replay"]["firstDivergence"].startswith("--- recorded 00000\n+++ asked now\n")
    trial = Record.read(tmp_path / "again/records/toy.json").trials[0]
    assert (trial.outcome, trial.reason) == ("errored", "replay_diverged")
    (artifact,) = [one for one in trial.artifacts if one.name == "divergence"]
    borne_out(tmp_path / "again/records/toy.json")
    kept = (tmp_path / "again/blobs/sha256" / artifact.blob.sha256).read_text()
    assert kept == verdict["replay"]["firstDivergence"]
    capsys.readouterr()
    solver = str(record.parents[2] / "solvers/toy.toml")
    assert run(["reproduce", str(record), "--solver", solver, "--out", str(tmp_path / "said")]) == 8
    said = capsys.readouterr().out
    assert "\n+++ asked now\n" in said
    assert "2 recorded exchanges were not asked for again" in said


def test_refusals_and_failures_are_replayed_as_they_were(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A patient agent whose provider failed twice is given the same statuses again, without a retry (M14, M17)."""
    record = recorded(tmp_path, FIX, DONE, faults=[Status(400), None], words=', "--patient"')
    status, verdict, said = reproduced(record, tmp_path / "again", capsys)
    assert status == 0, (verdict, said)
    assert verdict["replay"]["level"] == "exact"
    assert verdict["replay"]["trials"][0]["recorded"] == 3
    borne_out(record)
    borne_out(tmp_path / "again/records/toy.json")


def test_a_cassette_that_is_missing_or_another_is_named_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 3 with the trial's path; a sample of those that are there still runs (R3)."""
    record = recorded(tmp_path, FIX, DONE, tasks=("one", "two"))
    first, second = (trial.cassette for trial in Record.read(record).trials)
    assert first is not None
    assert second is not None
    blobs = record.parents[1] / "blobs/sha256"
    moved = shutil.move(blobs / first.sha256, tmp_path / "away")
    status, verdict, said = reproduced(record, tmp_path / "a", capsys)
    assert (status, verdict) == (3, None)
    assert "$.trials[0].cassette" in said
    assert "--blobs DIR" in said
    assert not (tmp_path / "a").exists()
    status, verdict, _ = reproduced(record, tmp_path / "b", capsys, "--task", "two")
    assert (status, verdict["comparedTrials"]) == (0, 1)
    content = bytearray(Path(moved).read_bytes())
    content[len(content) // 2] ^= 1
    (blobs / first.sha256).write_bytes(content)
    status, verdict, said = reproduced(record, tmp_path / "c", capsys)
    assert (status, verdict) == (3, None)
    assert "not what its name says" in said


def test_live_asks_the_model_again_and_compares_rates_flips_and_cost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wilson's interval, flips by task with an exact test, energy and cost side by side; the record's own URL has to be
    confirmed before a key goes there (R3, R5)."""
    record = recorded(tmp_path, FIX, DONE, tasks=("one", "two"))
    url = Record.read(record).plan.upstream.base_url  # type: ignore[union-attr]
    status, verdict, said = reproduced(record, tmp_path / "a", capsys, "--live")
    assert (status, verdict) == (4, None)
    assert "--model-url" in said
    status, verdict, said = reproduced(record, tmp_path / "a", capsys, "--model-url", str(url))
    assert (status, verdict) == (2, None)
    assert "--model-url: a replay asks no model (add --live, or leave it away)" in said
    with ScriptedModel(DONE, port=int(url.rsplit(":", 1)[1])):  # type: ignore[union-attr]
        status, verdict, said = reproduced(record, tmp_path / "b", capsys, "--live", "--model-url", str(url))
    assert (status, verdict["live"], verdict["outcome"]["verdict"]) == (8, True, "diverged"), said
    assert verdict["rates"][0]["recorded"] == 1.0
    assert verdict["paired"]["tasks"] == [
        {"task": name, "both": 0, "onlyRecorded": 1, "onlyAgain": 0, "neither": 0} for name in ("one", "two")
    ]
    assert verdict["paired"]["pValue"] == 0.5
    assert "replay" not in verdict
