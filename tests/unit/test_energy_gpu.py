"""GPUs: counters of millijoules, power that was sampled, and who was on the board."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from appliance.energy.counter import CounterZone
from appliance.energy.idle import Idle, rest_of
from appliance.energy.readings import Event, ReadCgroup, unpack
from appliance.energy.windows import Window, window_of
from tests.energy_histories import steady
from tests.readings_builder import at_rest, packed, zone

SECOND_NS = 10**9
OWN = ReadCgroup("c0", "solver", "own")
OTHER = ReadCgroup("c1", "solver", "f00d")


def gpu(key: str = "gpu-a", **changes: Any) -> CounterZone:
    fields: dict[str, Any] = {
        "path": key.upper(),
        "name": "H200",
        "domain": "gpu",
        "unit": "mj",
        "max_range": None,
        "update_period_ns": 100_000_000,
        "shortest_window_ns": SECOND_NS,
        "source": "nvml 13.590.48",
    }
    return zone(key, **{**fields, **changes})


def sampled(key: str = "gpu-a", **changes: Any) -> CounterZone:
    return gpu(key, **{"unit": "mw", **changes})


def on(*cgroups: str, zone_id: str = "z-gpu-a", **more: Any) -> Event:
    return Event("gpu", subject=zone_id, cgroups=cgroups, **{"number": 0, **more})


def idle(zones: Sequence[CounterZone], watts: Sequence[float]) -> Idle:
    return Idle((rest_of(unpack(at_rest(zones, watts))),))


def counted(raws: Sequence[int | None], *events: Event, **more: Any) -> Window:
    history = steady([gpu()], [{"z-gpu-a": raw} for raw in raws], events={0: events}, **{"step_ns": SECOND_NS, **more})
    return window_of(history.readings(), idle([gpu()], [50.0]))


def test_millijoules_are_a_thousand_microjoules() -> None:
    """+75 000 mJ are 75 J (G1)."""
    figure = counted([1_000_000, 1_075_000], on("c0")).zones[0]
    assert (figure.gross_uj, figure.idle_uj, figure.net_uj) == (75_000_000, 50_000_000, 25_000_000)
    assert (figure.basis, figure.summed) == ("counter", True)


def test_a_counter_of_millijoules_that_wraps_loses_none() -> None:
    """999 998, 999 999 and 0 at a range of 999 999 are two counts, at the wrap too (J45)."""
    wall = gpu("wall", domain="wall", max_range=999_999, path="wall")
    raws = [{"z-wall": raw} for raw in (999_998, 999_999, 0)]
    assert window_of(steady([wall], raws).readings(), None).zones[0].gross_uj == 2_000


def test_a_negative_number_is_no_reading() -> None:
    """A library's -1 (ZN10)."""
    figure = counted([0, 75_000, -1, 225_000], on("c0")).zones[0]
    assert figure.gross_uj == 225_000_000
    assert {"gap", "bridged", "implausible"} <= set(figure.flags)


def test_a_counter_that_fell_is_a_gap() -> None:
    """The driver was loaded anew: no energy of -1074.9 J (G2)."""
    figure = counted([1_075_000, 100, 75_100], on("c0")).zones[0]
    assert (figure.gross_uj, figure.missing, figure.bounds_uj) == (None, "reset", None)


def test_power_that_was_sampled_bounds_what_a_fallen_counter_hides() -> None:
    """75 W for 2 s lie between 135 and 165 J: twice 5 % (G2 G4)."""
    zones = [gpu(), sampled("gpu-a-power", path="GPU-A", summed=False)]
    raws = [{"z-gpu-a": raw, "z-gpu-a-power": 75_000} for raw in (1_075_000, 100, 75_100)]
    found = window_of(steady(zones, raws, step_ns=SECOND_NS, events={0: (on("c0"),)}).readings(), None)
    assert found.zones[0].bounds_uj == (135_000_000, 165_000_000)
    assert found.total is not None
    assert (found.total.gross_uj, found.total.bounds_uj) == (None, (135_000_000, 165_000_000))


def test_what_a_counter_adds_at_once_may_fall_between_two_close_readings() -> None:
    """30 J in a millisecond are 100 ms of 300 W that were added beside the edge; 80 J are no board's (W7)."""
    for step, stands in ((30_000, True), (80_000, False)):
        raws = [{"z-gpu-a": raw} for raw in (0, step)]
        history = steady([gpu(most_uw=700_000_000)], raws, step_ns=1_000_000)
        figure = window_of(history.readings(), None).zones[0]
        assert (figure.gross_uj, figure.missing == "implausible") == (step * 1000 if stands else None, not stands)


def test_a_counter_that_was_not_supported_once_is_booked_once() -> None:
    """75 J and 75 J, not 0 and 150, and flagged (G3)."""
    figure = counted([0, 75_000, None, 225_000], on("c0")).zones[0]
    assert (figure.gross_uj, figure.net_uj) == (225_000_000, 75_000_000)
    assert {"gap", "bridged"} <= set(figure.flags)


def test_sampled_power_is_the_trapezoid_with_at_least_five_percent() -> None:
    """100, 200 and 400 W a second apart are 450 J; U (k = 2) is over 45 J (G4)."""
    raws = [{"z-gpu-a": raw} for raw in (100_000, 200_000, 400_000)]
    history = steady([sampled()], raws, step_ns=SECOND_NS, events={0: (on("c0"),)})
    figure = window_of(history.readings(), idle([sampled()], [50.0])).zones[0]
    assert (figure.gross_uj, figure.net_uj, figure.basis) == (450_000_000, 350_000_000, "sampled_power")
    assert figure.uncertainty_uj is not None
    assert figure.uncertainty_uj >= 45_000_000


def test_a_hole_in_sampled_power_is_bridged_only_while_it_is_short() -> None:
    """Nobody counted in between: ten periods, then there is no number (G4)."""

    def hole(length: int) -> Window:
        def edit(rows: list[list[int | None]]) -> None:
            for row in rows[10 : 10 + length]:
                row[0] = None

        return window_of(unpack(packed([sampled()], [100.0], seconds=4.0, edit=edit, events={0: [on("c0")]})), None)

    assert hole(9).zones[0].gross_uj == 400_000_000
    assert (hole(10).zones[0].gross_uj, hole(10).zones[0].missing) == (None, "gap")


@pytest.mark.parametrize("raw", [2**32 - 1, 2**31 - 1, -1, 65_535, 4_294_967_295_000])
def test_a_number_that_stands_for_no_number_is_a_gap(raw: int) -> None:
    """(ZN10)"""
    raws = [{"z-gpu-a": one} for one in (60_000, raw, 60_000)]
    found = window_of(steady([sampled(most_uw=10**16)], raws, events={0: (on("c0"),)}).readings(), None).zones[0]
    assert found.gross_uj == 12_000_000
    assert {"gap", "bridged", "implausible"} <= set(found.flags)


def test_power_beyond_what_is_plausible_is_a_gap() -> None:
    """(W7; report 10 of energy 6: 9 kW on a 35 W machine)"""
    raws = [{"z-gpu-a": one} for one in (60_000, 700_001, 60_000)]
    found = window_of(steady([sampled(most_uw=700_000_000)], raws).readings(), None).zones[0]
    assert found.gross_uj == 12_000_000
    assert {"gap", "bridged", "implausible"} <= set(found.flags)


@pytest.mark.parametrize(("seconds", "below"), [(9.9, True), (10.0, False)])
def test_power_averaged_over_a_second_needs_ten(seconds: float, below: bool) -> None:
    """(G5)"""
    averaged = sampled(flags=("power_averaged",), update_period_ns=SECOND_NS)
    found = window_of(unpack(packed([averaged], [100.0], seconds=seconds, events={0: [on("c0")]})), None)
    assert found.below_floor is below
    assert "power_averaged" in found.zones[0].flags


def test_a_counter_that_did_not_move_is_below_the_limit_and_never_zero() -> None:
    """(G6)"""
    found = counted([5_000, 5_000, 5_000], on("c0"))
    figure = found.zones[0]
    assert (figure.gross_uj, figure.missing) == (None, "below the limit of detection")
    assert figure.lod_uj is not None
    assert found.below_floor


@pytest.mark.parametrize(("seconds", "flagged"), [(4.0, True), (4.1, False)])
def test_a_window_below_41_updates_has_an_edge_error_over_one_percent(seconds: float, flagged: bool) -> None:
    """(G7)"""
    found = window_of(unpack(packed([gpu()], [300.0], seconds=seconds, events={0: [on("c0")]})), None)
    assert ("edge_error" in found.zones[0].flags) is flagged
    edges = next(term for term in found.zones[0].terms if term.name == "edges")
    assert edges.standard_nj == pytest.approx(0.408 * 300 * 0.1 * 1e9, rel=1e-3)


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(on("c0", number=1), id="G8 a foreign process"),
        pytest.param(on("c0", "c1"), id="G8 another trial"),
        pytest.param(on("c0", "c9"), id="G8 a cgroup that the header does not have"),
        pytest.param(on("c0", word="mig"), id="G10"),
        pytest.param(on("c0", word="mps"), id="G11"),
        pytest.param(on("c0", word="unknown"), id="a process list that could not be read"),
    ],
)
@pytest.mark.parametrize("at", [0, 1, 3])
def test_a_board_that_others_were_on_has_its_total_alone(event: Event, at: int) -> None:
    """At whatever moment of the window (G8 G10 G11)."""
    raws = [{"z-gpu-a": at * 75_000} for at in range(4)]
    events = {0: (on("c0"),), at: (event,)}
    history = steady([gpu()], raws, (OWN, OTHER), step_ns=SECOND_NS, events=events)
    figure = window_of(history.readings(), idle([gpu()], [50.0])).zones[0]
    assert (figure.gross_uj, figure.idle_uj) == (225_000_000, 150_000_000)
    assert (figure.net_uj, figure.system_uj, figure.others_uj) == (None, None, None)
    assert "shared" in figure.flags
    assert figure.missing is not None


def test_a_board_that_the_trial_never_touched_is_not_in_its_total() -> None:
    """Whoever else was on it."""
    zones = [zone(max_range=None), gpu()]
    found = window_of(
        unpack(packed(zones, [25.0, 300.0], others={("solver", "f00d"): 0.1}, events={0: [on("c1", number=2)]})),
        idle(zones, [10.0, 50.0]),
    )
    assert found.total is not None
    assert (found.total.key, found.total.gross_uj) == ("package", 50_000_000)
    assert (found.zones[1].summed, found.zones[1].net_uj) == (False, 0)
    assert "shared" not in found.zones[1].flags
    assert found.zones[1].others_uj == 500_000_000


def test_a_board_whose_visitors_could_not_be_read_has_no_share() -> None:
    """Not known is not nobody (house rule 3)."""
    found = counted([0, 75_000], on(word="unknown")).zones[0]
    assert (found.gross_uj, found.net_uj, found.summed) == (75_000_000, None, False)
    assert found.missing == "who was on it could not be read"


def test_a_board_that_the_trial_touched_is_in_its_scope() -> None:
    """`package+gpu`, and its floor is the board's."""
    zones = [zone(max_range=None), gpu()]
    found = window_of(
        unpack(packed(zones, [25.0, 300.0], seconds=0.9, events={0: [on("c0")]})), idle(zones, [10.0, 50.0])
    )
    assert found.total is not None
    assert (found.total.key, found.total.gross_uj) == ("package+gpu", 22_500_000 + 270_000_000)
    assert found.total.source == "powercap+nvml 13.590.48"
    assert found.below_floor


def test_a_board_belongs_to_whoever_was_on_it_in_the_window() -> None:
    """Its counter is slow: the window is one step, and so are its holders; nobody's is the system's."""
    raws = [{"z-gpu-a": at * 75_000} for at in range(6)]
    for events, shares in (
        ({2: (on("c0"),), 3: (on(),)}, (125_000_000, 0)),
        ({2: (on(),)}, (0, 125_000_000)),
    ):
        history = steady([gpu()], raws, step_ns=SECOND_NS, events=events)
        figure = window_of(history.readings(), idle([gpu()], [50.0])).zones[0]
        assert (figure.net_uj, figure.system_uj) == shares


def test_a_fast_board_is_the_systems_while_nobody_is_on_it() -> None:
    """A step belongs to whoever was on at either of its ends."""
    raws = [{"z-gpu-a": at * 75_000} for at in range(6)]
    events = {2: (on("c0"),), 3: (on(),)}
    fast = [gpu(update_period_ns=10_000_000)]
    history = steady(fast, raws, step_ns=SECOND_NS, events=events)
    figure = window_of(history.readings(), idle(fast, [50.0])).zones[0]
    assert (figure.net_uj, figure.system_uj) == (50_000_000, 75_000_000)


def test_a_context_that_stays_idle_belongs_to_its_holder() -> None:
    """The floor was measured with nobody on the board; a look with somebody on it is none (G16)."""
    figure = counted([0, 60_000], on("c0")).zones[0]
    assert (figure.idle_uj, figure.net_uj) == (50_000_000, 10_000_000)
    looked = rest_of(unpack(at_rest([gpu()], [60.0], events={0: [on(number=1)]})))
    assert looked.zones["gpu-a"].unfit == "a program had gpu-a open"
    assert looked.unfit is None


def test_a_lost_board_leaves_the_processors_part_standing() -> None:
    """A total that wanted it lacks; the zone of the package does not (G12)."""

    def lose(rows: list[list[int | None]]) -> None:
        for row in rows[10:]:
            row[1] = None

    zones = [zone(max_range=None), gpu()]
    found = window_of(
        unpack(packed(zones, [25.0, 300.0], edit=lose, events={0: [on("c0")]})), idle(zones, [10.0, 50.0])
    )
    assert (found.zones[0].net_uj, found.zones[1].gross_uj, found.zones[1].missing) == (30_000_000, None, "gap")
    assert found.total is not None
    assert found.total.missing == "gpu-a: gap"


def test_a_zero_that_a_sibling_reports_is_no_measured_zero() -> None:
    """(G14)"""
    zones = [gpu(), gpu("gpu-b")]
    raws = [{"z-gpu-a": 1_000 + at * 75_000, "z-gpu-b": 0} for at in range(3)]
    events = {0: (on("c0"), on("c0", zone_id="z-gpu-b"))}
    found = window_of(steady(zones, raws, step_ns=SECOND_NS, events=events).readings(), None)
    assert (found.zones[1].gross_uj, found.zones[1].missing) == (None, "reported by its sibling")
    assert "reported_by_sibling" in found.zones[1].flags
    assert found.total is not None
    assert found.total.gross_uj == 150_000_000


def test_boards_are_known_by_their_keys_and_not_by_their_order() -> None:
    """(G15)"""
    zones = [gpu(), gpu("gpu-b")]
    events = {0: (on("c0", zone_id="z-gpu-b"),)}
    raws = [{"z-gpu-a": at * 75_000, "z-gpu-b": at * 100_000} for at in range(3)]
    for listed in (zones, zones[::-1]):
        total = window_of(steady(listed, raws, step_ns=SECOND_NS, events=events).readings(), None).total
        assert total is not None
        assert total.gross_uj == 200_000_000


@pytest.mark.parametrize(("watts", "flagged"), [(300.0, False), (271.0, False), (269.0, True), (331.0, True)])
def test_a_counter_and_its_power_that_disagree_by_ten_percent_are_flagged(watts: float, flagged: bool) -> None:
    """And the power is never added (energy 1b)."""
    zones = [gpu(), sampled("gpu-a-power", path="GPU-A")]
    found = window_of(unpack(packed(zones, [300.0, watts], seconds=5.0, events={0: [on("c0")]})), None)
    assert [("counters_disagree" in one.flags) for one in found.zones] == [flagged, flagged]
    assert found.total is not None
    assert found.total.gross_uj == 1_500_000_000
