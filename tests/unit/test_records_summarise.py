"""Aggregates against figures worked out by hand."""

from __future__ import annotations

import pytest

from appliance.records.summarise import summarise
from appliance.records.summary import PassSummary
from appliance.records.trial import CostByWhom, TrialResult
from tests import record_builder as build


def one_pass(
    trials: list[TrialResult], *, tasks: int | None = None, rollouts: int = 1, **planned: object
) -> PassSummary:
    names = [f"t{number}" for number in range(1, 1 + (tasks or len({trial.key.task for trial in trials})))]
    return summarise(build.plan(names, rollouts=rollouts, **planned), trials).passes[0]  # type: ignore[arg-type]


def joules(*figures: float) -> list[TrialResult]:
    """Two resolved, the rest not."""
    return [
        build.trial(
            f"t{number}",
            "resolved" if number <= 2 else "unresolved",
            energy=build.energy(build.counted_figure(round(figure * 1e6))),
        )
        for number, figure in enumerate(figures, start=1)
    ]


def test_the_rate_is_of_the_scored_trials_and_an_excluded_one_changes_nothing() -> None:
    """3 scored tasks of which 2 are resolved are 66.67 %, with or without an invalid fourth (J19, J06)."""
    three = [build.trial("t1"), build.trial("t2"), build.trial("t3", "unresolved")]
    with_invalid = one_pass([*three, build.trial("t4", "excluded")])
    assert one_pass(three).resolution == pytest.approx(2 / 3, abs=0)
    assert with_invalid.resolution == pytest.approx(2 / 3, abs=0)
    assert with_invalid.lower_bound == 0.5
    assert with_invalid.outcomes["excluded"] == 1
    assert with_invalid.reasons["baseline_passed"] == 1
    assert with_invalid.energy is not None
    assert with_invalid.energy.trials == 3


def test_every_outcome_has_a_count_and_what_never_ran_has_its_own() -> None:
    """Zeros are there, cancelled trials and those that the run never came to are told apart (J19, H22)."""
    found = one_pass([build.trial("t1"), build.trial("t2", "cancelled")], tasks=4)
    assert found.outcomes == {
        "resolved": 1,
        "unresolved": 0,
        "unscored": 0,
        "errored": 0,
        "excluded": 0,
        "skipped": 0,
        "cancelled": 1,
    }
    assert (found.planned, found.not_run, found.lower_bound) == (4, 2, 0.25)


def test_joules_per_resolved_charge_failed_attempts_too() -> None:
    """10 + 20 + 30 J for 2 resolved are 30.0 J each (J20)."""
    found = one_pass(joules(10, 20, 30))
    assert found.joules_per_resolved == 30.0
    assert found.energy is not None
    assert found.energy.net_uj == 60_000_000


def test_nothing_resolved_is_infinity() -> None:
    """Never 0, never NaN, also where nothing was scored at all (J21, decisions: No correct/resolved)."""
    assert one_pass([build.trial("t1", "unresolved")]).joules_per_resolved == "Infinity"
    nothing = one_pass([build.trial("t1", "excluded")])
    assert (nothing.joules_per_resolved, nothing.resolution, nothing.energy) == ("Infinity", None, None)


@pytest.mark.parametrize(("walls", "median"), [((1, 3, 2), 2.0), ((1, 2, 3, 4), 2.5), ((7,), 7.0)])
def test_the_median_of_an_even_number_is_the_mean_of_the_middle_two(walls: tuple[float, ...], median: float) -> None:
    """Walls 1, 3, 2 give 2 and 1, 2, 3, 4 give 2.5 (J22)."""
    trials = [build.trial(f"t{number}", wall=wall) for number, wall in enumerate(walls, start=1)]
    assert one_pass(trials).wall_median_seconds == median


def test_a_sum_shows_its_worst_provenance_and_basis() -> None:
    """A counter's figure and an estimate make an estimate (J46, L6)."""
    mixed = [
        build.trial("t1", energy=build.energy(build.counted_figure(1_000_000))),
        build.trial("t2", energy=build.energy(build.figure(2_000_000))),
    ]
    found = one_pass(mixed).energy
    assert found is not None
    assert (found.provenance, found.basis, found.net_uj, found.interval) == ("estimator", "modelled", 3_000_000, None)


def test_a_sum_over_a_missing_figure_is_missing() -> None:
    """One figure that lacks, or one trial without any, makes the sum and joules per resolved None (design 10.3)."""
    lacking = build.trial("t2", energy=build.energy(build.counted_figure(None)))
    found = one_pass([build.trial("t1", energy=build.energy(build.counted_figure(1))), lacking])
    assert found.energy is not None
    assert (found.energy.net_uj, found.energy.missing, found.joules_per_resolved) == (None, 1, None)
    without = one_pass([build.trial("t1"), build.trial("t2", energy=None)])
    assert without.energy is not None
    assert (without.energy.net_uj, without.energy.missing, without.energy.trials) == (None, 1, 2)


def test_intervals_of_estimates_add_up() -> None:
    """The sum of estimates is as wide as all of them."""
    found = one_pass([build.trial("t1", wall=1.0), build.trial("t2", wall=2.0)]).energy
    assert found is not None
    assert found.net_uj == 195_000_000
    assert found.interval == (39_000_000, 390_000_000)


def test_a_figure_below_the_floor_counts_for_resolution_and_is_counted_itself() -> None:
    """`~` never touches the rate; how many carry it stands beside the sum (J42)."""
    flagged = build.trial("t1", energy=build.energy(build.counted_figure(5, below_floor=True)))
    found = one_pass([flagged, build.trial("t2", energy=build.energy(build.counted_figure(5)))])
    assert found.resolution == 1.0
    assert found.energy is not None
    assert found.energy.below_floor == 1


def test_causes_are_those_of_trials_that_the_oracle_judged() -> None:
    """A timeout that resolves and one that does not are both counted; an excluded trial's cause is not (H7)."""
    found = one_pass(
        [
            build.trial("t1", cause="timeout", solver_exit=None),
            build.trial("t2", "unresolved", cause="timeout", solver_exit=None),
            build.trial("t3", "excluded").model_copy(update={"cause": "oom"}),
        ]
    )
    assert found.causes == {"timeout": 2}


def golden_rollouts() -> list[TrialResult]:
    """J28's and J29's table: two tasks, three rollouts."""
    table = {
        "t1": [(False, "0.10", 5, 2), (True, "0.20", 7, 3), (True, "0.10", 5, 2)],
        "t2": [(True, "0.05", 4, 1), (False, "0.10", 6, 2), (False, "0.10", 5, 1)],
    }
    return [
        build.trial(
            task,
            "resolved" if resolved else "unresolved",
            rollout=rollout,
            cost=cost,
            energy=build.energy(
                build.figure((cloud + local) * 1_000_000), local=local * 1_000_000, cloud=cloud * 1_000_000
            ),
        )
        for task, rollouts in table.items()
        for rollout, (resolved, cost, cloud, local) in enumerate(rollouts)
    ]


def test_best_of_k_has_the_published_fractions_and_cumulative_costs() -> None:
    """Fractions 0.5, 1.0, 1.0; $0.15, 0.45, 0.65; cloud 9, 22, 32 J; local 3, 8, 11 J (J28, J29)."""
    found = one_pass(golden_rollouts(), rollouts=3).best_of_k
    assert [entry.k for entry in found] == [1, 2, 3]
    assert [entry.fraction for entry in found] == [0.5, 1.0, 1.0]
    assert [entry.cost_usd for entry in found] == ["0.15", "0.45", "0.65"]
    assert [entry.cloud_uj for entry in found] == [9_000_000, 22_000_000, 32_000_000]
    assert [entry.local_uj for entry in found] == [3_000_000, 8_000_000, 11_000_000]


def test_one_rollout_has_no_curve() -> None:
    """Best-of-k is there where rollouts > 1 (J31)."""
    assert one_pass([build.trial("t1")]).best_of_k == ()


def test_an_unknown_price_makes_the_total_unknown_and_says_so() -> None:
    """Null, "partially priced", never 0; where no model ran, there is nothing to price (J32)."""
    found = one_pass([build.trial("t1", cost="0.10"), build.trial("t2")])
    assert (found.cost_usd, found.partially_priced) == (None, True)
    unpriced_model = one_pass([build.trial("t1")], model="m", kind="command", solver="x")
    assert (unpriced_model.cost_usd, unpriced_model.partially_priced) == (None, True)
    no_model = one_pass([build.trial("t1")])
    assert (no_model.cost_usd, no_model.partially_priced) == (None, False)
    free = one_pass([build.trial("t1", cost="0"), build.trial("t2", cost_usd=CostByWhom(subject="0.00"))])
    assert (free.cost_usd, free.partially_priced) == ("0", False)


def test_cents_add_up_exactly() -> None:
    """0.1 + 0.2 dollars are 0.3, not 0.30000000000000004 (J29)."""
    assert one_pass([build.trial("t1", cost="0.1"), build.trial("t2", cost="0.2")]).cost_usd == "0.3"


def test_aggregates_never_mix_passes() -> None:
    """A cold and a warm pass have an entry each (J30)."""
    of = build.plan(["t1"], passes=2)
    cold, warm = summarise(of, [build.trial("t1", "unresolved"), build.trial("t1", pass_=1, wall=9.0)]).passes
    assert (cold.resolution, warm.resolution) == (0.0, 1.0)
    assert (cold.wall_median_seconds, warm.wall_median_seconds) == (1.0, 9.0)
    assert [cold.pass_, warm.pass_] == [0, 1]
