"""The frontier of resolution and cost."""

from __future__ import annotations

from typing import Any

import pytest

from appliance.records.energy import EnergyFigure
from appliance.records.frontier import Point, energy_point, frontier, money_point, ranking_refusal
from appliance.records.record import Record
from appliance.records.trial import CostByWhom
from appliance.records.words import Provenance
from tests import record_builder as build

A, B = Point("A", 0.80, 10.0), Point("B", 0.80, 12.0)
C, D = Point("C", 0.60, 5.0), Point("D", 0.50, 6.0)


def test_the_frontier_keeps_what_nothing_beats() -> None:
    """A(80 %, 10 J) B(80 %, 12 J) C(60 %, 5 J) D(50 %, 6 J) -> A and C (J23)."""
    found = frontier([D, B, A, C])
    assert found.best == (A, C)
    assert found.beaten == (B, D)


def test_exact_ties_are_both_kept() -> None:
    """Neither of two equal points beats the other (J23)."""
    twin = Point("A2", 0.80, 10.0)
    assert frontier([A, twin, B]).best == (A, twin)


def test_a_point_whose_joules_cannot_be_ranked_stands_apart() -> None:
    """Below the floor or missing: listed apart, on no frontier (J23, J42)."""
    unknown = Point("E", 1.0, None)
    found = frontier([A, unknown])
    assert (found.best, found.apart) == ((A,), (unknown,))
    flagged = build.record(trials=[build.trial(energy=build.energy(build.counted_figure(5, below_floor=True)))])
    point = energy_point("x", flagged, 0)
    assert point is not None
    assert point.cost is None


def counted(provenance: Provenance = "hw_shunt") -> Record:
    figure = build.counted_figure(5_000_000, provenance=provenance)
    return build.record(trials=[build.trial(energy=build.energy(figure))])


def test_joules_of_unlike_origin_are_not_ranked() -> None:
    """Counter against estimate, or estimates of two machines: refused, naming the field (L3)."""
    estimated = build.record()
    elsewhere = build.record(hosts=(build.host_stamp(id="other"),))
    assert ranking_refusal([counted(), counted()], 0) == ()
    assert ranking_refusal([counted(), counted("model_based")], 0) == ("provenance differs: hw_shunt, model_based",)
    assert ranking_refusal([counted(), estimated], 0)[0] == "provenance differs: estimator, hw_shunt"
    assert ranking_refusal([estimated, elsewhere], 0) == ("hosts differ (2), and the figures are modelled",)
    assert ranking_refusal([estimated, estimated], 0) == ()


def of_totals(*totals: EnergyFigure, **stamped: Any) -> Record:
    tasks = [f"t{number}" for number in range(len(totals))]
    trials = [build.trial(task, energy=build.energy(total)) for task, total in zip(tasks, totals, strict=True)]
    return build.record(build.plan(tasks), trials, **stamped)


def test_counters_are_ranked_apportioned_or_not_and_a_model_s_word_among_them_is_not() -> None:
    """A contended trial is still a counter's; an estimate beside counters spoils the pass, by name (L3, L6)."""
    alone = of_totals(build.counted_figure(5_000_000))
    contended = of_totals(build.counted_figure(5_000_000, basis="apportioned", flags=("contended",)))
    assert ranking_refusal([alone, contended], 0) == ()
    mixed = of_totals(build.counted_figure(5_000_000), build.figure(5_000_000))
    assert ranking_refusal([mixed, mixed], 0) == ("basis differs: counter, modelled",)
    energy = mixed.summary.passes[0].energy
    assert energy is not None
    assert (energy.provenance, energy.basis, energy.modelled, energy.net_uj) == ("estimator", "modelled", 1, 10_000_000)
    point = energy_point("mixed", mixed, 0)
    assert point is not None
    assert point.cost is None


def test_counters_of_unlike_machines_or_of_other_scopes_are_not_ranked() -> None:
    """A joule of one processor is no joule of another's: refused, naming the field (L3; decisions: Comparability)."""
    here = of_totals(build.counted_figure(5_000_000, scope="package+dram"))
    twin = of_totals(
        build.counted_figure(6_000_000, scope="package+dram"), hosts=(build.host_stamp(id="its twin", noisy=True),)
    )
    assert ranking_refusal([here, twin], 0) == ()
    other = of_totals(
        build.counted_figure(5_000_000, scope="package+dram"), hosts=(build.host_stamp(cpu="Other CPU", cores=64),)
    )
    assert ranking_refusal([here, other], 0) == (
        "hosts[].cpu differs: Example CPU, Other CPU",
        "hosts[].cores differs: 2, 64",
    )
    whole = of_totals(build.counted_figure(5_000_000, scope="psys"))
    assert ranking_refusal([here, whole], 0) == ("scope differs: package+dram, psys",)


@pytest.mark.parametrize("changes", [{"lod_uj": 20}, {"flags": ("below_idle",)}, {"below_floor": True}])
def test_what_is_not_told_from_nothing_stands_apart(changes: dict[str, Any]) -> None:
    """One trial below detection, rest or floor is enough: the pass enters no ranking (G6, J39, J42)."""
    record = of_totals(build.counted_figure(5, **changes), build.counted_figure(5_000_000))
    point = energy_point("x", record, 0)
    assert point is not None
    assert point.cost is None
    fine = energy_point("x", of_totals(build.counted_figure(5)), 0)
    assert fine is not None
    assert fine.cost == 5e-6


def test_a_replay_is_ranked_beside_nothing_and_stands_in_no_ranking_of_others() -> None:
    """Rows J23, M14: no model was asked, so it spent neither joules nor dollars on one."""
    trial = {"energy": build.energy(build.counted_figure(5_000_000)), "cost_usd": CostByWhom(subject="0.1")}
    live = build.record(trials=[build.trial(**trial)])
    for marks in ({"replay_level": "exact"}, {"outcome": "errored", "reason": "replay_diverged"}):
        trials = [build.trial(**trial), build.trial("t2", **{**trial, **marks})]
        replay = build.record(build.plan(["t1", "t2"]), trials)
        for point in (energy_point, money_point):
            found, ranked = point("x", replay, 0), point("x", live, 0)
            assert found is not None and ranked is not None
            assert (found.cost, ranked.cost is None) == (None, False)
    estimated = build.record(trials=[build.trial(replay_level="exact")])
    assert ranking_refusal([live, live, estimated], 0) == ()
