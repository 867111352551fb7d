"""The frontier of resolution and cost."""

from __future__ import annotations

from appliance.records.frontier import Point, energy_point, frontier, ranking_refusal
from appliance.records.record import Record
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
    point = energy_point("x", flagged.summary.passes[0])
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
