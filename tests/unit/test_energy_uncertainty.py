"""The budget of uncertainty and the limit of detection, against the figures of the acceptance page."""

from __future__ import annotations

import math

import pytest

from appliance.energy.idle import Idle, ZoneRest, rest_of
from appliance.energy.readings import unpack
from appliance.energy.uncertainty import (
    REFERENCE,
    Budget,
    Reading,
    Sharing,
    Term,
    detection_limit_uj,
    edge_error,
    measured,
    of_idle,
    of_sharing,
    together,
)
from appliance.energy.windows import window_of
from tests.readings_builder import at_rest, packed, zone

SECOND_NS = 10**9


def terms(**changes: object) -> dict[str, int]:
    fields: dict[str, object] = {
        "unit_nj": 61_035,
        "update_period_ns": 1_000_000,
        "sampled": False,
        "gross_uj": 100_000_000,
        "wall_ns": SECOND_NS,
        "skews_ns": (100_000, 100_000),
    }
    return {term.name: term.standard_nj for term in measured(Reading(**{**fields, **changes}))}  # type: ignore[arg-type]


def test_resolution_is_the_count_by_0_408() -> None:
    """61 uJ give 25 uJ, a millijoule 0.41 mJ (energy 3.4)."""
    assert terms()["resolution"] == pytest.approx(25_000, rel=0.01)
    assert terms(unit_nj=1_000_000)["resolution"] == pytest.approx(410_000, rel=0.01)


def test_edges_are_power_by_period_by_0_408() -> None:
    """100 W and 1 ms: 41 mJ; 300 W and 100 ms: 12.2 J (energy 3.4)."""
    assert terms()["edges"] == pytest.approx(41e6, rel=0.01)
    assert terms(gross_uj=300_000_000, update_period_ns=100_000_000)["edges"] == pytest.approx(12.2e9, rel=0.01)


def test_skew_is_power_by_time_by_the_root_of_twelve_at_each_edge() -> None:
    """(energy 3.4)"""
    assert terms()["skew"] == pytest.approx(math.sqrt(2) * 100 * 100e-6 / 3.46 * 1e9, rel=0.01)
    assert terms(skews_ns=(100_000, 0))["skew"] == pytest.approx(100 * 100e-6 / 3.46 * 1e9, rel=0.01)


def test_sampled_power_is_off_by_five_percent() -> None:
    """(G4)"""
    assert terms(sampled=True)["sampled_power"] == 5 * 10**9
    assert "sampled_power" not in terms()


def test_the_idle_term_is_that_of_mean_and_drift() -> None:
    """T sqrt(s^2/n + drift^2/12) (energy 3.4)."""
    rest = ZoneRest(10_000_000, 200_000, 0, 20)
    expected = 100 * math.sqrt(0.2**2 / 20 + 0.3**2 / 12) * 1e9
    assert of_idle(rest, 300_000, 100 * SECOND_NS) == Term("idle", pytest.approx(expected, rel=1e-6))
    assert of_idle(rest, 300_000, 100 * SECOND_NS).of_net


def test_cpu_time_is_stale_by_a_tick_on_every_busy_cpu() -> None:
    """30 J over 2 CPUs for 10 s, ticks of 4 ms: 30 x 2 x 4 ms / 20 s / sqrt(6) (energy 3.4)."""
    sharing = Sharing(30_000_000, 20 * SECOND_NS, 20 * SECOND_NS, 4_000_000, 4)
    expected = 30 * 2 * 0.004 / 20 / math.sqrt(6) * 1e9
    assert of_sharing(sharing, 10 * SECOND_NS).standard_nj == pytest.approx(expected, rel=1e-6)
    assert of_sharing(Sharing(30_000_000, 0, 0, 4_000_000, 4), 10 * SECOND_NS).standard_nj == 0


def test_a_budget_is_expanded_by_two_and_rounded_up() -> None:
    """Gross has no term of the trial's share."""
    budget = Budget((Term("resolution", 3_000), Term("edges", 4_000), Term("idle", 12_000)))
    assert (budget.gross_uj, budget.net_uj) == (10, 26)
    assert Budget((Term("edges", 1),)).gross_uj == 1


def test_what_is_common_to_all_zones_adds_up_and_the_rest_in_quadrature() -> None:
    """One reading of an edge serves all of them."""
    several = [Budget((Term("edges", 3_000), Term("skew", 3_000))), Budget((Term("edges", 4_000), Term("skew", 4_000)))]
    assert together(several).terms == (Term("edges", 5_000), Term("skew", 7_000))


@pytest.mark.parametrize(
    ("wall_ns", "update_ns", "flagged"),
    [
        (40_999_999, 1_000_000, True),
        (41_000_000, 1_000_000, False),
        (4_099_999_999, 100_000_000, True),
        (4_100_000_000, 100_000_000, False),
    ],
)
def test_one_percent_needs_41_update_periods(wall_ns: int, update_ns: int, flagged: bool) -> None:
    """41 ms of RAPL, 4.1 s of NVML (G7, energy 3.4)."""
    assert edge_error(wall_ns, update_ns) is flagged
    edges = terms(wall_ns=wall_ns, update_period_ns=update_ns)["edges"]
    assert (edges > 0.00995 * 100e9) is flagged or abs(edges - 1e9) < 5e6


def test_the_limit_of_detection_is_three_deviations_of_pieces_at_rest() -> None:
    """Pieces of the window's own length, cut from the idle record (energy 3.4)."""
    rest = ZoneRest(10, 0, 0, 6, (10, 12, 14, 10, 12, 14))
    assert detection_limit_uj(rest, SECOND_NS) == 3
    assert detection_limit_uj(rest, 1) == 3
    assert detection_limit_uj(rest, 2 * SECOND_NS) == 6
    assert detection_limit_uj(ZoneRest(10, 0, 0, 9, (1, 2, 3, 11, 12, 13, 21, 22, 23)), 3 * SECOND_NS) == 90


def test_a_window_longer_than_a_third_of_the_record_takes_its_longest_pieces() -> None:
    """Scaled by the time, as a drift grows."""
    rest = ZoneRest(10, 0, 0, 6, (10, 12, 14, 10, 12, 14))
    assert detection_limit_uj(rest, 20 * SECOND_NS) == 60
    assert detection_limit_uj(ZoneRest(10, 0, 0, 2, (10, 10)), SECOND_NS) is None


def test_a_figure_carries_its_budget_term_by_term() -> None:
    """Expanded uncertainty of net where there is one, else of gross; the reference is not traceable (energy 3.4)."""
    counter = zone(max_range=None)
    idle = Idle((rest_of(unpack(at_rest([counter], [10.0]))),))
    with_net = window_of(unpack(packed([counter], [25.0])), idle).zones[0]
    assert [term.name for term in with_net.terms] == ["resolution", "edges", "skew", "idle", "cpu_staleness"]
    assert with_net.uncertainty_uj == Budget(with_net.terms).net_uj
    assert with_net.lod_uj == 0
    without = window_of(unpack(packed([counter], [25.0])), None).zones[0]
    assert [term.name for term in without.terms] == ["resolution", "edges", "skew"]
    assert without.uncertainty_uj == Budget(without.terms).gross_uj
    assert REFERENCE == "vendor counter, not traceable"
