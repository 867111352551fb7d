"""What a model that was asked again is compared by: flips, an exact test, dollars; worked out by hand."""

from __future__ import annotations

from math import comb
from pathlib import Path

import pytest

from appliance.cli.reproducing_words import say_verdict
from appliance.records.bands import paired, sign_test
from appliance.records.comparison import compare
from appliance.records.plan import TrialKey, trial_keys
from appliance.records.record import PricesStamp, Record
from appliance.records.trial import TrialResult
from appliance.records.verdict import Replay, ReplayedTrial, Verdict
from appliance.records.words import Outcome
from tests import record_builder as build

PRICES = PricesStamp(source="list", version="1")


def by_key(outcomes: str) -> dict[TrialKey, TrialResult]:
    """`r` resolved, `u` unresolved, `e` errored: rollouts of one task."""
    words: dict[str, Outcome] = {"r": "resolved", "u": "unresolved", "e": "errored"}
    trials = [build.trial("t1", words[letter], rollout=at) for at, letter in enumerate(outcomes)]
    return {trial.key: trial for trial in trials}


@pytest.mark.parametrize(
    ("lost", "won", "p"),
    [(0, 0, 1.0), (1, 0, 1.0), (1, 1, 1.0), (5, 0, 2 / 32), (0, 5, 2 / 32), (6, 1, 2 * (1 + 7) / 128), (3, 2, 1.0)],
)
def test_the_sign_test_is_exact_and_two_sided(lost: int, won: int, p: float) -> None:
    """Twice the binomial tail at one half, at most 1 (R3; issue: paired flips)."""
    assert sign_test(lost, won) == pytest.approx(p, abs=1e-12)


def test_the_sign_test_takes_any_number_of_flips() -> None:
    """No float overflows: 20,000 flips are fewer than a record may hold."""
    assert sign_test(10_000, 10_000) == 1.0
    assert 0.0 <= sign_test(9_000, 11_000) < 1e-40
    assert sign_test(600, 700) == pytest.approx(2 * sum(comb(1300, k) for k in range(601)) / 2**1300)


def test_flips_are_paired_by_trial_and_told_by_task() -> None:
    """Only trials that were scored both times are a pair (R3)."""
    found = paired(by_key("rrrruue"), by_key("ruurrur"))
    assert found is not None
    (task,) = found.tasks
    assert (task.both, task.only_recorded, task.only_again, task.neither) == (2, 2, 1, 1)
    assert found.p_value == 1.0
    assert paired(by_key("e"), by_key("r")) is None


def agents(outcomes: str, costs: list[str | None], prices: PricesStamp | None = PRICES) -> Record:
    of = build.plan(solver="agent", kind="command", model="m1", rollouts=len(outcomes))
    words: dict[str, Outcome] = {"r": "resolved", "u": "unresolved"}
    trials = [
        build.trial(key, words[letter], cost=cost)
        for key, letter, cost in zip(trial_keys(of), outcomes, costs, strict=True)
    ]
    return build.record(of, trials, prices=prices)


def test_dollars_of_both_runs_stand_side_by_side() -> None:
    """Within 1.5 times where a model answered anew, equal where it was replayed; unknown is not zero (R3, R5)."""
    old, new = agents("rr", ["0.10", "0.20"]), agents("ru", ["0.20", "0.20"])
    live = compare(old, new)
    assert live.costs is not None
    assert (live.costs.recorded_usd, live.costs.again_usd, live.costs.band, live.costs.holds) == (
        "0.3",
        "0.4",
        1.5,
        True,
    )
    assert (live.cost.verdict, live.paired is not None) == ("reproduced", True)
    replayed = compare(old, new, live=False)
    assert (replayed.cost.verdict, replayed.paired) == ("diverged", None)
    unknown = compare(old, agents("rr", ["0.1", None]))
    assert unknown.costs is not None
    assert (unknown.costs.again_usd, unknown.costs.holds, unknown.cost.verdict) == (None, None, "incomparable")
    assert compare(agents("r", [None]), agents("r", [None])).costs is None
    assert Verdict.from_canonical(live.canonical(), "x") == live


def test_a_trial_that_diverged_is_not_reproduced_whatever_it_ended_as() -> None:
    """Row M14: errored: replay_diverged in both records is no reproduction either."""
    key = TrialKey(task="t1", pass_=0, rollout=0)

    def ended() -> Record:
        of = build.plan(solver="agent", kind="command", model="m1")
        return build.record(of, [build.trial(key, "errored", reason="replay_diverged")])

    told = ReplayedTrial(key=key, level=None, recorded=2, unused=2, diverged=True, differences=())
    replay = Replay(level=None, unused=2, divergences=1, first_divergence="--- a\n", trials=(told,))
    assert compare(ended(), ended(), live=False).outcome.verdict == "reproduced"
    verdict = compare(ended(), ended(), live=False, replay=replay)
    assert verdict.outcome.verdict == "diverged"
    assert verdict.outcome.reasons == ("t1 pass 0 rollout 0 asked what its cassette does not hold",)
    assert Verdict.from_canonical(verdict.canonical(), "x") == verdict


def test_a_verdict_without_a_replay_is_written_as_before() -> None:
    """The fields that came later are left out where there is nothing to say."""
    value = compare(build.record(), build.record()).json_value()
    assert not {"replay", "paired", "costs"} & value.keys()


def test_both_runs_are_told_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Row R3: interval, flips by task, the test's p and dollars of both runs on the terminal."""
    verdict = compare(agents("rrr", ["0.10", "0.20", "0.1"]), agents("ruu", ["0.20", "0.20", "0.1"]))
    say_verdict(verdict, tmp_path / "verdict.json", as_json=False)
    said = capsys.readouterr().out.splitlines()
    assert "rate      pass 0: recorded 1.000, now 0.333 [0.061, 0.792]" in said
    assert "flips     t1: 2 resolved then alone, 0 now alone, 1 both times" in said
    assert any(line.startswith("flips     p = 0.5 by an exact sign test") for line in said)
    assert "dollars   recorded 0.4, now 0.5" in said


def test_what_else_differs_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """R5: also where it decides nothing, and a trial's own fields by their names."""
    again = build.record(trials=[build.trial("t1", wall=2.0, peak_memory_mib=3.0)], date="2026-02-03T00:00:00Z")
    say_verdict(compare(build.record(), again), tmp_path / "v.json", as_json=False)
    (told,) = (words for words in capsys.readouterr().out.splitlines() if words.startswith("else "))
    assert " informative fields differ: date, journal, wallSeconds, peakMemoryMib, energy, wallMedianSeconds; " in told


def test_a_replay_is_told_with_its_level_its_differences_and_its_diff(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Row M14: the first divergence as a diff, cut off on the terminal and whole in verdict.json."""
    key = TrialKey(task="t1", pass_=0, rollout=0)
    told = ReplayedTrial(
        key=key, level="structural", recorded=3, unused=1, diverged=True, differences=("$.a: \x1b[2J",)
    )
    diff = "--- recorded 00001\n+++ asked now\n" + "".join(f"-line {at}\n" for at in range(100))
    replay = Replay(level="structural", unused=1, divergences=1, first_divergence=diff, trials=(told,))
    say_verdict(compare(build.record(), build.record(), replay=replay), tmp_path / "v.json", as_json=False)
    said = capsys.readouterr().out
    assert "replay    structural, 2 of 3 exchanges\n" in said
    assert "1 recorded exchanges were not asked for again" in said
    assert "diverged  1 of 1 trials; the first asked:\n--- recorded 00001\n+++ asked now\n-line 0\n" in said
    assert "and 42 lines more" in said
    assert "\x1b" not in said


def test_joules_of_a_replay_are_held_to_nothing() -> None:
    """No model was asked: what it took then and now are two things (row R3)."""
    plan = build.plan(solver="agent", kind="command", model="m")
    live = build.record(plan, [build.trial(energy=build.energy())])
    replay = build.record(plan, [build.trial(energy=build.energy()).model_copy(update={"replay_level": "exact"})])
    assert compare(live, live, live=False).energy.verdict == "reproduced"
    found = compare(live, replay, live=False).energy
    assert (found.verdict, found.reasons) == ("incomparable", ("one of both asked no model: it is a replay",))
