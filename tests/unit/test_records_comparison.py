"""Verdicts on two records, worked out by hand."""

from __future__ import annotations

import pytest

from appliance.records.bands import wilson
from appliance.records.comparison import compare
from appliance.records.energy import EnergyFigure
from appliance.records.plan import TrialPlan
from appliance.records.record import Record
from appliance.records.trial import TrialResult, Usage, UsageByWhom
from appliance.records.verdict import Verdict
from tests import record_builder as build


def test_the_same_trials_on_another_day_are_reproduced() -> None:
    """Clocks and ids are listed where they differ, and decide nothing (R5)."""
    again = build.record(date="2026-02-03T00:00:00Z", record_id="0192f0c4-2222-7000-8000-000000000002")
    verdict = compare(build.record(), again)
    assert (verdict.outcome.verdict, verdict.outcome.reasons, verdict.first_difference) == ("reproduced", (), None)
    differing = {field.path: field.compare for field in verdict.fields if not field.equal}
    assert differing == {"$.recordId": "informative", "$.date": "informative"}
    paths = {field.path for field in verdict.fields}
    assert {"$.planDigest", "$.trials[0].outcome", "$.trials[0].grade.ids[0].status", "$.suite.digest"} <= paths
    assert verdict.checked == "unverified"
    assert Verdict.from_canonical(verdict.canonical(), "x") == verdict


def test_another_outcome_of_a_deterministic_solver_is_a_divergence_with_its_first_difference() -> None:
    """Exact per trial; the first difference and the flip are named (decisions: Reproduce tolerance; R5)."""
    verdict = compare(build.record(), build.record(trials=[build.trial("t1", "unresolved")]))
    assert verdict.outcome.verdict == "diverged"
    assert verdict.first_difference is not None
    assert verdict.first_difference.path == "$.trials[0].outcome"
    assert (verdict.first_difference.recorded, verdict.first_difference.again) == ("resolved", "unresolved")
    assert [(flip.key.task, flip.recorded, flip.again) for flip in verdict.flips] == [("t1", "resolved", "unresolved")]


@pytest.mark.parametrize(
    ("again", "path"),
    [
        (build.record(build.plan([build.task_spec("t1", prompt="another")])), "$.plan.tasks[0].spec.prompt"),
        (build.record(build.plan(harness_version="1.0.0")), "$.plan.harnessVersion"),
        (build.record(harness=build.harness_stamp(version="1.0.0")), "$.harness.version"),
        (build.record(commit="f" * 40), "$.commit"),
        (build.record(baselines=[build.baseline(exit=2)]), "$.baselines[0].exit"),
    ],
)
def test_another_task_harness_or_commit_is_incomparable_and_named(again: Record, path: str) -> None:
    """What was asked differs: no verdict on what came out, and the field is named (issue: Reproduce; H9)."""
    verdict = compare(build.record(), again)
    assert verdict.outcome.verdict == "incomparable"
    assert any(reason.startswith(f"{path}: ") for reason in verdict.outcome.reasons), verdict.outcome.reasons


def test_another_image_is_incomparable_and_named() -> None:
    """The pin of what the solver ran in is part of what was asked (H9, H11)."""
    before = build.plan()
    task = before.tasks[0]
    other = build.pin("other")
    images = task.images.model_copy(update={"task": other, "composed": other})
    after = before.model_copy(update={"tasks": (task.model_copy(update={"images": images}),)})
    verdict = compare(build.record(before), build.record(after, baselines=[build.baseline(image=other.config)]))
    assert verdict.outcome.verdict == "incomparable"
    assert any("images.task.config" in reason for reason in verdict.outcome.reasons)


def test_another_harness_that_reproduces_is_named_and_one_that_does_not_is_no_divergence() -> None:
    """What another release of the same major version reproduces holds; what it does not is incomparable (H9)."""
    other = build.harness_stamp(version="0.2.0", digest="0" * 64)
    held = compare(build.record(), build.record(harness=other))
    assert held.outcome.verdict == "reproduced"
    assert [field.path for field in held.harness_differences] == ["$.harness.version", "$.harness.digest"]
    lost = compare(build.record(), build.record(trials=[build.trial("t1", "unresolved")], harness=other))
    assert lost.outcome.verdict == "incomparable"
    assert any("another harness" in reason for reason in lost.outcome.reasons)
    assert any("$.trials[0].outcome" in reason for reason in lost.outcome.reasons)


def test_another_commit_of_the_same_sources_is_named_and_decides_nothing() -> None:
    """Equal digests of the sources are the same harness; every differing field is still listed (H9)."""
    verdict = compare(build.record(), build.record(harness=build.harness_stamp(commit="f" * 40)))
    assert verdict.outcome.verdict == "reproduced"
    assert [field.path for field in verdict.fields if not field.equal] == ["$.harness.commit"]


def test_a_trial_that_our_side_could_not_run_says_nothing_about_the_record() -> None:
    """An engine error now is no divergence then."""
    again = build.record(trials=[build.trial("t1", "excluded", reason="engine_error")])
    verdict = compare(build.record(), again)
    assert verdict.outcome.verdict == "incomparable"
    assert any("engine_error" in reason for reason in verdict.outcome.reasons)


def test_a_sample_is_compared_alone_and_says_what_share_it_is() -> None:
    """--trials and --task: an incomplete new record is no difference, the share is stated (R6)."""
    of = build.plan(["t1", "t2", "t3"])
    whole = build.record(of)
    key = whole.trials[1].key
    verdict = compare(whole, build.record(of, [build.trial(key)]), keys=[key])
    assert verdict.outcome.verdict == "reproduced"
    assert (verdict.compared_trials, verdict.recorded_trials) == (1, 3)
    missing = compare(whole, build.record(of, [build.trial(key)]))
    assert missing.outcome.verdict == "incomparable"
    assert "t1 pass 0 rollout 0 was not run again" in missing.outcome.reasons


LIVE = build.plan([f"t{n}" for n in range(10)], solver="agent", kind="command", model="m")


def answered(resolved: int, *, plan: TrialPlan = LIVE) -> Record:
    trials = [
        build.trial(task.spec.name, "resolved" if n < resolved else "unresolved") for n, task in enumerate(plan.tasks)
    ]
    return build.record(plan, trials)


def test_a_live_model_is_compared_as_a_rate_with_wilsons_interval() -> None:
    """8 of 10 now covers 7 of 10 then and not 1 of 10; the flips are listed (decisions: Reproduce tolerance)."""
    near, far = compare(answered(7), answered(8)), compare(answered(1), answered(8))
    assert (near.outcome.verdict, far.outcome.verdict) == ("reproduced", "diverged")
    assert len(near.flips) == 1
    assert near.rates[0].interval == pytest.approx((0.4901625, 0.9433178), abs=1e-6)
    assert near.live


def test_a_tolerance_takes_the_place_of_the_interval_and_stands_in_the_verdict() -> None:
    """`--tolerance 0.05`: 0.7 is not 0.8 give or take 0.05."""
    verdict = compare(answered(7), answered(8), tolerance=0.05)
    assert (verdict.outcome.verdict, verdict.tolerance) == ("diverged", 0.05)


def test_a_replay_of_a_model_is_compared_exactly() -> None:
    """Recorded responses are deterministic: one flip is a divergence."""
    assert compare(answered(7), answered(8), live=False).outcome.verdict == "diverged"


def test_tokens_are_those_of_the_recorded_answers_and_a_live_models_own() -> None:
    """Whoever writes fewer tokens into a record that nobody vouches for is found out by its replay (R5, M14)."""

    def took(output_tokens: int) -> Record:
        used = Usage(
            input_tokens=9, cache_read_tokens=0, cache_write_tokens=0, output_tokens=output_tokens, reasoning_tokens=0
        )
        of = build.plan(solver="agent", kind="command", model="m")
        return build.record(of, [build.trial("t1", usage=UsageByWhom(subject=used))])

    replayed = compare(took(9), took(3600), live=False)
    assert replayed.outcome.verdict == "diverged"
    assert replayed.first_difference is not None
    assert replayed.first_difference.path == "$.trials[0].usage.subject.outputTokens"
    assert compare(took(9), took(3600)).outcome.verdict == "reproduced"


@pytest.mark.parametrize(
    ("resolved", "of", "interval"),
    [(0, 10, (0.0, 0.2775328)), (10, 10, (0.7224672, 1.0)), (1, 2, (0.0945312, 0.9054688))],
)
def test_wilsons_interval_has_its_published_values(resolved: int, of: int, interval: tuple[float, float]) -> None:
    """Against values computed from Wilson's formula by hand."""
    assert wilson(resolved, of) == pytest.approx(interval, abs=1e-6)


def spent(figure: EnergyFigure, **stamped: object) -> Record:
    trials: list[TrialResult] = [build.trial(energy=build.energy(figure))]
    return build.record(None, trials, None, **stamped)


@pytest.mark.parametrize(
    ("provenance", "now", "verdict"),
    [
        ("hw_shunt", 120, "reproduced"),
        ("hw_shunt", 121, "diverged"),
        ("model_based", 150, "reproduced"),
        ("model_based", 66, "diverged"),
        ("simulated", 100, "incomparable"),
    ],
)
def test_joules_are_held_to_the_band_of_their_provenance(provenance: str, now: int, verdict: str) -> None:
    """1.2 for a shunt, 1.5 for a model on the chip, none for a simulation; the outcome stands apart (decisions)."""
    before = spent(build.counted_figure(100, provenance=provenance))  # type: ignore[arg-type]
    after = spent(build.counted_figure(now, provenance=provenance))  # type: ignore[arg-type]
    found = compare(before, after)
    assert (found.energy.verdict, found.outcome.verdict) == (verdict, "reproduced")


def test_an_estimate_has_a_band_of_three() -> None:
    """3.0 for estimators."""
    assert compare(spent(build.figure(100)), spent(build.figure(300))).energy.verdict == "reproduced"
    assert compare(spent(build.figure(100)), spent(build.figure(301))).energy.verdict == "diverged"


def test_an_unlike_host_makes_only_energy_incomparable() -> None:
    """The outcome is reproduced all the same (decisions: Verdict)."""
    found = compare(build.record(), build.record(hosts=(build.host_stamp(cpu="Another CPU"),)))
    assert (found.outcome.verdict, found.energy.verdict) == ("reproduced", "incomparable")
    assert "$.hosts[0].cpu" in found.energy.reasons[0]


def test_a_machine_that_a_resumed_run_came_back_to_is_one_host() -> None:
    """A start stamps its host anew; whether it is the same one its id says (decisions: Verdict)."""
    twice = (build.host_stamp(), build.host_stamp(kernel="6.1.1"))
    for before, after in (((twice[0],), twice), (twice, (twice[0],)), (twice, twice)):
        assert compare(build.record(hosts=before), build.record(hosts=after)).energy.verdict == "reproduced"
    other = (twice[0], build.host_stamp(id="f" * 16))
    assert compare(build.record(hosts=other), build.record()).energy.reasons == ("more than one host",)
    changed = (twice[0], build.host_stamp(cpu="Another CPU"))
    assert "$.hosts[0].cpu" in compare(build.record(hosts=changed), build.record()).energy.reasons[0]


def test_another_way_of_measuring_makes_only_energy_incomparable() -> None:
    """Energy never decides resolution: other watts are no other outcome (decisions: Reproduce tolerance)."""
    before = build.plan()
    after = before.model_copy(update={"energy": before.energy.model_copy(update={"active_watts": 20.0})})
    found = compare(build.record(before), build.record(after))
    assert (found.outcome.verdict, found.energy.verdict) == ("reproduced", "incomparable")
    assert "$.plan.energy.activeWatts" in [field.path for field in found.fields if not field.equal]


def test_joules_below_the_floor_are_not_compared() -> None:
    """`~` enters no comparison (J42)."""
    flagged = spent(build.counted_figure(100, below_floor=True))
    assert compare(flagged, flagged).energy.verdict == "incomparable"


def test_joules_below_detection_or_without_a_number_are_not_compared() -> None:
    """What is not told from nothing, or is not there, has no band (G6)."""
    unseen = spent(build.counted_figure(100, lod_uj=200))
    assert compare(unseen, unseen).energy.reasons == ("pass 0: below the limit of detection: 1 recorded, 1 now",)
    lacking = spent(build.counted_figure(None))
    assert compare(lacking, spent(build.counted_figure(100))).energy.reasons == ("pass 0: a figure is missing",)


def test_a_contended_run_is_compared_with_a_quiet_one_and_an_estimate_with_neither() -> None:
    """Joules of counters are of one kind, apportioned or not; the band is that of their provenance (decisions)."""
    quiet = spent(build.counted_figure(100))
    contended = spent(build.counted_figure(110, basis="apportioned", flags=("contended",)))
    assert compare(quiet, contended).energy.verdict == "reproduced"
    guessed = spent(
        build.counted_figure(100, basis="modelled", model="m/1", inputs={}, interval=(1, 200), comparable=False)
    )
    assert compare(quiet, guessed).energy.verdict == "incomparable"


def test_costs_are_equal_or_there_is_nothing_to_compare() -> None:
    """No price: incomparable. Priced and deterministic: to the last digit."""
    assert compare(build.record(), build.record()).cost.verdict == "incomparable"
    priced = build.record(trials=[build.trial(cost="0.10")])
    assert compare(priced, priced).cost.verdict == "reproduced"
    assert compare(priced, build.record(trials=[build.trial(cost="0.11")])).cost.verdict == "diverged"
