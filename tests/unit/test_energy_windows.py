"""A window's joules from its readings, set against ones computed by hand."""

from __future__ import annotations

from typing import Any

import pytest

from appliance.energy.counter import CounterZone
from appliance.energy.idle import Idle, rest_of
from appliance.energy.readings import Event, InnerWindow, ReadCgroup, unpack
from appliance.energy.windows import Window, window_of
from tests.energy_histories import History, Moment, steady
from tests.readings_builder import at_rest, packed, simulated, zone
from tests.sysfs_tree import AMD_RANGE_UJ, INTEL_RANGE_UJ

SECOND_NS = 10**9
OWN = ReadCgroup("c0", "solver", "own")


def plain(key: str = "package-0", **changes: Any) -> CounterZone:
    """Counts microjoules and does not wrap: figures by hand are round."""
    return zone(key, **{"max_range": None, **changes})


def idle(*watts: float, keys: tuple[str, ...] = ("package-0", "package-0/dram")) -> Idle:
    zones = [plain(key) for key in keys[: len(watts)]]
    return Idle((rest_of(unpack(at_rest(zones, watts))),))


def window(zones: list[CounterZone], watts: list[float], at_rest_uw: Idle | None = None, **more: Any) -> Window:
    return window_of(unpack(packed(zones, watts, **more)), at_rest_uw)


def test_gross_idle_net_and_marginal_of_one_trial_alone() -> None:
    """25 W for 2 s over 10 W at rest: 50 J, of which 20 J idle and 30 J the trial's (J38; energy 3.1)."""
    found = window([plain()], [25.0], idle(10.0), cpu={"solver": 0.5})
    (zone_energy,) = found.zones
    assert zone_energy == found.total or found.total is not None
    assert found.total is not None
    for figure in (zone_energy, found.total):
        assert (figure.gross_uj, figure.idle_uj, figure.system_uj, figure.others_uj) == (50_000_000, 20_000_000, 0, 0)
        assert figure.own_uj == {"solver": 30_000_000}
        assert (figure.net_uj, figure.marginal_uj) == (30_000_000, 30_000_000)
        assert (figure.basis, figure.provenance, figure.missing) == ("counter", "hw_shunt", None)
    assert found.total.key == "package"
    assert found.cpu_ns == {"solver": SECOND_NS}
    assert (found.wall_ns, found.samples, found.below_floor, found.flags) == (2 * SECOND_NS, 19, False, ())


def test_the_utilisation_ratio_is_half_a_cpu_of_four() -> None:
    """50 J by 0.5 of 4 CPUs: 6.25 J, as Kepler's ratio gives it (energy 0, 2)."""
    for unit in ("ns", "us"):
        assert window([plain()], [25.0], None, cpu={"solver": 0.5}, cpu_unit=unit).zones[0].ratio_uj == 6_250_000


def test_one_busy_core_of_64_is_credited_with_what_it_cost() -> None:
    """100 W at rest, 120 W with one core busy: net 20 W, where the ratio says 1.9 W (energy 0, 2)."""
    found = window([plain()], [120.0], idle(100.0), seconds=1.0, cpu={"solver": 1.0}, cpus=64).zones[0]
    assert (found.net_uj, found.ratio_uj) == (20_000_000, 1_875_000)


def test_roles_other_trials_and_the_system_share_by_cpu_time() -> None:
    """0.5, 0.1, 0.3 and 0.1 CPUs share 30 J; the sum is what was measured (T3, energy 3.2)."""
    found = window(
        [plain()],
        [25.0],
        idle(10.0),
        cpu={"solver": 0.5, "forwarder": 0.1},
        others={("solver", "f00d"): 0.2, ("meter", None): 0.1},
        system=0.1,
    )
    figure = found.zones[0]
    assert figure.own_uj == {"solver": 15_000_000, "forwarder": 3_000_000}
    assert (figure.others_uj, figure.system_uj, figure.idle_uj) == (9_000_000, 3_000_000, 20_000_000)
    assert figure.basis == "apportioned"
    assert found.flags == ("contended",)
    assert found.cpu_ns == {"solver": SECOND_NS, "forwarder": 200_000_000}


@pytest.mark.parametrize(
    ("others", "system", "basis", "flags"),
    [
        pytest.param({}, 0.02, "counter", (), id="two percent is alone"),
        pytest.param({}, 0.021, "apportioned", ("contended",), id="more of the system's is contended"),
        pytest.param({("solver", "f00d"): 1.0}, 0.0, "apportioned", (), id="another trial is not contention"),
        pytest.param({("meter", None): 0.02}, 0.0, "counter", (), id="the meter counts like the system"),
    ],
)
def test_a_trial_is_alone_up_to_two_percent_of_its_cpu_time(
    others: dict[tuple[str, str | None], float], system: float, basis: str, flags: tuple[str, ...]
) -> None:
    """(energy 3.2, contention guard)"""
    found = window([plain()], [25.0], idle(10.0), cpu={"solver": 1.0}, others=others, system=system)
    assert (found.zones[0].basis, found.flags) == (basis, flags)


def test_without_cpu_time_what_is_above_idle_is_the_systems() -> None:
    """No division by zero, and no share for who used nothing (T4 S3)."""
    found = window([plain()], [25.0], idle(10.0), cpu={"solver": 0.0}).zones[0]
    assert (found.system_uj, found.net_uj) == (30_000_000, 0)


def test_less_than_idle_is_all_idle_and_flagged() -> None:
    """7.5 W under 10 W at rest: idle 15 J, dynamic 0, never negative (T7 S2 J39)."""
    found = window([plain()], [7.5], idle(10.0), cpu={"solver": 0.5}).zones[0]
    assert (found.gross_uj, found.idle_uj, found.net_uj, found.system_uj) == (15_000_000, 15_000_000, 0, 0)
    assert (found.marginal_uj, found.flags) == (0, ("below_idle",))


def test_a_sample_below_the_mean_of_rest_is_no_finding_of_the_window() -> None:
    """5 J and 40 J over 2 s at 10 W: idle takes no more of a step than there was, marginal is of the whole (J38 T7)."""

    def uneven(rows: list[list[int | None]]) -> None:
        for at, row in enumerate(rows):
            row[0] = 500_000 * min(at, 10) + 4_000_000 * max(0, at - 10)

    figure = window([plain()], [0.0], idle(10.0), cpu={"solver": 0.5}, edit=uneven).zones[0]
    assert (figure.gross_uj, figure.idle_uj, figure.net_uj, figure.marginal_uj) == (
        45_000_000,
        15_000_000,
        30_000_000,
        25_000_000,
    )
    assert figure.flags == ()


def test_without_an_idle_gross_stands_alone_and_says_why() -> None:
    """Missing is not zero (house rule 3)."""
    found = window([plain()], [25.0], None)
    assert found.total is not None
    for figure in (found.zones[0], found.total):
        assert (figure.gross_uj, figure.ratio_uj) == (50_000_000, 6_250_000)
        assert (figure.idle_uj, figure.system_uj, figure.others_uj, figure.net_uj) == (None, None, None, None)
        assert figure.missing == "no idle power was measured"
        assert figure.flags == ("no_idle",)


def test_a_sum_lacks_what_one_of_its_zones_lacks() -> None:
    """Memory was not there at rest: the total has gross and no net, and names the zone (design 10.3)."""
    found = window([plain(), plain("package-0/dram")], [25.0, 5.0], idle(10.0))
    assert found.total is not None
    assert (found.total.gross_uj, found.total.net_uj) == (60_000_000, None)
    assert found.total.missing == "package-0/dram was not read at rest"
    assert (found.total.idle_uj, found.total.system_uj, found.total.others_uj) == (None, None, None)
    assert (found.total.marginal_uj, found.total.lod_uj) == (None, None)
    assert found.zones[0].net_uj == 30_000_000
    assert not any(term.of_net for term in found.total.terms)


def test_packages_and_memory_are_summed_and_parts_are_not() -> None:
    """core, uncore and psys have figures of their own, and are in no sum (ZN2 ZN3 ZN6 J45)."""
    zones = [
        plain(),
        plain("package-0/core", domain="core", summed=False),
        plain("package-0/dram"),
        plain("package-1"),
        plain("psys"),
    ]
    found = window(zones, [25.0, 15.0, 3.0, 20.0, 80.0], None)
    assert found.total is not None
    assert (found.total.key, found.total.gross_uj) == ("package+dram", 96_000_000)
    assert [one.key for one in found.zones if one.summed] == ["package-0", "package-0/dram", "package-1"]
    assert {one.key: one.gross_uj for one in found.zones}["psys"] == 160_000_000


def test_a_zone_that_only_ever_reads_zero_is_dropped_and_its_package_kept() -> None:
    """The scope says that memory is not in it (ZN9)."""
    dead = [plain("package-0/core", domain="core", summed=False), plain("package-0/dram")]
    raws = [{"z-package-0": at * 2_500_000, **{one.id: 0 for one in dead}} for at in range(6)]
    found = window_of(steady([plain(), *dead], raws).readings(), None)
    assert [one.key for one in found.zones] == ["package-0"]
    assert found.total is not None
    assert (found.total.key, found.total.gross_uj) == ("package", 12_500_000)


def test_a_part_that_could_never_be_read_is_not_taken_for_one_that_reads_zero() -> None:
    """Its sum lacks (ZN9, house rule 3)."""

    def fail(rows: list[list[int | None]]) -> None:
        for row in rows:
            row[1] = None

    found = window([plain(), plain("package-0/dram")], [25.0, 3.0], None, edit=fail)
    assert found.total is not None
    assert (found.total.key, found.total.gross_uj, found.total.missing) == (
        "package+dram",
        None,
        "package-0/dram: gap",
    )


def test_only_a_platform_or_a_wall_is_a_scope_of_its_own() -> None:
    """(ZN7)"""
    for key, domain in (("psys", "psys"), ("wall", "wall"), ("module-0", "module"), ("soc", "soc")):
        found = window([plain(key, domain=domain, summed=True)], [25.0], None)
        assert found.total is not None
        assert (found.total.key, found.total.gross_uj) == (domain, 50_000_000)


def test_a_module_or_a_wall_is_never_added_to_the_processor() -> None:
    """Grace-Hopper's module holds the processor, a wall meter holds everything (G13)."""
    zones = [plain(), plain("module-0", domain="module"), plain("wall", domain="wall")]
    found = window(zones, [25.0, 300.0, 400.0], None)
    assert found.total is not None
    assert (found.total.key, found.total.gross_uj) == ("package", 50_000_000)
    assert [one.summed for one in found.zones] == [True, False, False]


def dies(second: list[int]) -> Window:
    zones = [plain(f"package-0-die-{number}", name=f"package-0-die-{number}") for number in (0, 1)]
    raws = [
        {"z-package-0-die-0": 5_000_000 + at * 2_500_000, "z-package-0-die-1": raw} for at, raw in enumerate(second)
    ]
    return window_of(steady(zones, raws).readings(), None)


def test_two_dies_that_show_one_counter_are_counted_once() -> None:
    """Within a joule of one another and moving alike, the whole window (ZN5)."""
    found = dies([5_900_000 + at * 2_500_000 for at in range(21)])
    assert found.total is not None
    assert found.total.gross_uj == 50_000_000
    assert [(one.summed, "mirrored_dies" in one.flags) for one in found.zones] == [(True, False), (False, True)]


def test_two_dies_that_stand_apart_are_two_however_they_move() -> None:
    """More than a joule (ZN5)."""
    found = dies([6_000_001 + at * 2_500_000 for at in range(21)])
    assert found.total is not None
    assert found.total.gross_uj == 100_000_000


@pytest.mark.parametrize("step", [2_500_001, 1_000_000])
def test_two_dies_that_move_differently_are_both_counted(step: int) -> None:
    """(ZN5, CLX-AP)"""
    found = dies([5_900_000 + at * step for at in range(21)])
    assert found.total is not None
    assert found.total.gross_uj == 50_000_000 + 20 * step


@pytest.mark.parametrize(
    ("watts", "flagged"), [(5.0, True), (24.0, True), (26.0, False), (500.0, False), (501.0, True)]
)
def test_a_platform_below_its_packages_or_twenty_times_above_is_not_believed(watts: float, flagged: bool) -> None:
    """(ZN8)"""
    found = window([plain(), plain("psys")], [25.0, watts], None)
    assert ("psys_implausible" in found.zones[1].flags) is flagged
    assert found.total is not None
    assert found.total.gross_uj == 50_000_000


# ---------------------------------------------------------------------------------------------- gaps


def test_a_reading_that_failed_once_is_bridged_by_the_next() -> None:
    """The counter ran on: the joules are those of no gap, flagged (W12)."""

    def fail(rows: list[list[int | None]]) -> None:
        rows[7][0] = None

    whole = window([zone()], [25.0], idle(10.0))
    found = window([zone()], [25.0], idle(10.0), edit=fail)
    assert found.zones[0].gross_uj == whole.zones[0].gross_uj
    assert found.zones[0].net_uj == whole.zones[0].net_uj
    assert found.zones[0].flags == ("bridged", "gap")


@pytest.mark.parametrize("at", [0, -1])
def test_a_counter_that_was_not_read_at_an_edge_has_no_number(at: int) -> None:
    """A window is from reading to reading (house rule 3)."""

    def fail(rows: list[list[int | None]]) -> None:
        rows[at][0] = None

    found = window([zone()], [25.0], idle(10.0), edit=fail)
    assert found.total is not None
    assert (found.zones[0].gross_uj, found.total.gross_uj, found.total.net_uj) == (None, None, None)
    assert (found.zones[0].missing, found.total.missing) == ("gap", "package-0: gap")
    said = {at % 21: [Event("gap", subject="z-package-0", word="EIO")]}
    found = window([zone()], [25.0], idle(10.0), edit=fail, events=said)
    assert found.zones[0].missing == "gap: EIO"


@pytest.mark.parametrize(
    ("later", "reason"),
    [
        pytest.param(lambda raw, at: raw - 100_000_000 * (at > 5), "reset", id="W6"),
        pytest.param(lambda raw, at: raw + 100_000_000_000 * (at > 5), "implausible", id="W7"),
    ],
)
def test_a_reset_or_a_jump_leaves_no_number(later: Any, reason: str) -> None:
    """No gap is a number (W6 W7)."""
    raws = [{"z-package-0": later(100_000_000_000 + at * 2_500_000, at)} for at in range(11)]
    found = window_of(steady([zone()], raws).readings(), idle(10.0)).zones[0]
    assert (found.gross_uj, found.net_uj, found.missing, found.bounds_uj) == (None, None, reason, None)
    assert set(found.flags) == {"gap", reason}


def test_a_decrease_without_a_range_leaves_no_number() -> None:
    """(W10 G2)"""
    raws = [{"z-package-0": raw} for raw in (5_000_000, 7_500_000, 100_000, 2_600_000)]
    found = window_of(steady([plain()], raws).readings(), None).zones[0]
    assert (found.gross_uj, found.missing) == (None, "reset")


def test_a_gap_in_which_it_may_have_wrapped_twice_gives_bounds() -> None:
    """3000 s between two readings at up to 1 kW: turns of 262.1 kJ, and what was measured beside them (W8)."""
    moments = [0, SECOND_NS, 3_001 * SECOND_NS]
    history = History(
        (zone(),),
        (OWN,),
        tuple(
            Moment(at, {"z-package-0": raw}, 10**12 + at, {"c0": at})
            for at, raw in zip(moments, (0, 61_035_000, 122_070_000), strict=True)
        ),
    )
    found = window_of(history.readings(), None)
    figure = found.zones[0]
    assert (figure.gross_uj, figure.missing) == (None, "gap_longer_than_wrap")
    turn = 2**32 * 61_035 // 1000
    assert figure.bounds_uj is not None
    low, high = figure.bounds_uj
    assert low == 122_070_000
    assert abs(high - low - 11 * turn) <= 12
    assert found.total is not None
    assert found.total.bounds_uj == figure.bounds_uj


def test_a_reading_beyond_the_range_is_no_reading() -> None:
    """The next one spans it (W9)."""
    raws = [{"z-package-0": raw} for raw in (0, 2_500_000, INTEL_RANGE_UJ + 1, 7_500_000)]
    found = window_of(steady([zone()], raws).readings(), None).zones[0]
    assert found.gross_uj is not None
    assert abs(found.gross_uj - 7_500_000) < 122
    assert found.flags == ("bridged", "gap", "no_idle", "out_of_range")


def test_a_zone_that_went_and_came_back_is_another_counter() -> None:
    """Its package has no number for this window, and no total decreases (W13 L4)."""
    old, new = zone(id="z0"), zone(id="z1")
    zones = [{"z0": 10_000_000 + at * 2_500_000} for at in range(4)]
    zones += [{"z0": 17_500_000 + 2_500_000}, {}, {"z1": 0}, {"z1": 2_500_000}]
    history = steady([old, new], zones, events={5: (Event("zone_gone", subject="z0"),)})
    found = window_of(history.readings(), idle(10.0))
    (figure,) = found.zones
    assert (figure.key, figure.gross_uj, figure.missing) == ("package-0", None, "source_changed")
    assert "source_changed" in figure.flags
    assert found.flags == ("zone_gone",)


def test_two_counters_of_one_key_are_not_told_apart() -> None:
    """Neither is the package's (W13 L4)."""
    raws = [{"z0": at * 2_500_000, "z1": at * 2_000_000} for at in range(4)]
    found = window_of(steady([plain(id="z0"), plain(id="z1")], raws).readings(), None)
    assert [(one.key, one.gross_uj, one.missing) for one in found.zones] == [("package-0", None, "source_changed")]


@pytest.mark.parametrize("there", [range(2, 6), range(4)])
def test_a_zone_that_was_not_there_all_the_time_has_no_number(there: range) -> None:
    """It came late, or left early: a part of the window is no window (W13 L4)."""
    zones = [plain(), plain("package-1")]
    raws = [
        {"z-package-0": at * 2_500_000} | ({"z-package-1": at * 2_000_000} if at in there else {}) for at in range(6)
    ]
    found = window_of(steady(zones, raws).readings(), None)
    assert (found.zones[0].gross_uj, found.zones[1].gross_uj) == (12_500_000, None)
    assert found.total is not None
    assert (found.total.gross_uj, found.total.missing) == (None, "package-1: source_changed")


def test_a_machine_that_slept_leaves_no_number() -> None:
    """The series is broken, whatever the counter did meanwhile (W14)."""
    found = window([zone()], [25.0], idle(10.0), events={7: [Event("suspend", number=60_000_000)]})
    assert (found.zones[0].gross_uj, found.zones[0].missing, found.flags) == (None, "suspended", ("suspended",))


def test_the_wall_clock_changes_no_joule() -> None:
    """Stepped by an hour: the same window (W15)."""
    one, other = (window([zone()], [25.0], idle(10.0), opened_at=f"2026-01-02T0{hour}:00:00.000Z") for hour in (3, 4))
    assert one == other


def test_two_readings_at_one_moment_are_merged_with_the_next() -> None:
    """No division by no time, no joule lost (W16)."""
    raws = [{"z-package-0": raw} for raw in (0, 2_500_000, 2_600_000, 7_500_000)]
    history = steady([plain()], raws)
    squeezed = tuple(
        Moment(at, one.zones, one.machine, one.cgroups)
        for at, one in zip((0, 100_000_000, 100_000_000, 300_000_000), history.moments, strict=True)
    )
    found = window_of(History(history.zones, history.cgroups, squeezed).readings(), idle(10.0))
    assert (found.zones[0].gross_uj, found.zones[0].net_uj) == (7_500_000, 4_500_000)
    assert found.samples == 1


def test_the_first_reading_is_a_baseline() -> None:
    """However large the counter (W17)."""
    assert window([zone()], [0.0], None, start_uj=200_000_000_000).zones[0].gross_uj == 0


def test_an_unchanged_counter_is_zero_and_stale() -> None:
    """(W5)"""
    found = window([zone()], [0.0], None).zones[0]
    assert (found.gross_uj, "stale" in found.flags) == (0, True)


def test_a_wrap_in_the_middle_costs_nothing() -> None:
    """(W1)"""
    found = window([zone()], [25.0], idle(10.0), start_uj=INTEL_RANGE_UJ - 20_000_000).zones[0]
    assert found.gross_uj is not None
    assert abs(found.gross_uj - 50_000_000) <= 122
    assert found.missing is None


# ---------------------------------------------------------------------------------------------- samples, CPU time


def test_a_window_shorter_than_a_period_has_its_energy_from_its_edges() -> None:
    """No sample between them, and not zero (T1)."""
    found = window([plain()], [25.0], idle(10.0), seconds=0.05, cpu={"solver": 1.0})
    assert (found.samples, found.zones[0].net_uj, found.below_floor) == (0, 750_000, False)
    assert "edge_error" not in found.zones[0].flags


def test_the_floor_is_that_of_the_worst_counter() -> None:
    """9.9 ms against 10 ms, and a trial of less than five ticks (J41 T1)."""
    assert window([plain()], [25.0], None, seconds=0.0099, cpu={"solver": 3.0}).below_floor
    assert not window([plain()], [25.0], None, seconds=0.0100, cpu={"solver": 3.0}).below_floor
    assert window([plain()], [25.0], None, seconds=2.0, cpu={"solver": 0.009}).below_floor


def test_what_a_cgroup_used_while_it_could_not_be_read_is_in_its_next_reading() -> None:
    """(T2)"""

    def fail(rows: list[list[int | None]]) -> None:
        rows[4][2] = rows[5][2] = None

    found = window([plain()], [25.0], idle(10.0), cpu={"solver": 0.5}, edit=fail)
    assert found.cpu_ns == {"solver": SECOND_NS}
    assert found.zones[0].gross_uj == 50_000_000


def test_the_step_over_a_gap_is_shared_by_the_cpu_time_of_all_of_it() -> None:
    """The trial worked before the reading that failed, another one after it (T2 W12)."""
    columns = (OWN, ReadCgroup("c1", "solver", "f00d"))
    moments = tuple(
        Moment(
            at * 100_000_000,
            {"z-package-0": None if at == 1 else at * 2_500_000},
            10**12 + at * 100_000_000,
            {"c0": min(at, 1) * 100_000_000, "c1": max(0, at - 1) * 100_000_000},
        )
        for at in range(3)
    )
    figure = window_of(History((plain(),), columns, moments).readings(), idle(10.0)).zones[0]
    assert (figure.net_uj, figure.others_uj) == (1_500_000, 1_500_000)


def test_a_role_of_two_cgroups_has_the_joules_and_the_cpu_time_of_both() -> None:
    """A container that was started again is another cgroup (C7)."""
    columns = (OWN, ReadCgroup("c1", "solver", "own"))
    raws = [{"z-package-0": at * 5_000_000} for at in range(3)]
    found = window_of(steady([plain()], raws, columns).readings(), idle(10.0))
    assert found.cpu_ns == {"solver": 400_000_000}
    assert found.zones[0].own_uj == {"solver": 8_000_000}


def test_who_left_while_a_counter_could_not_be_read_has_its_share() -> None:
    """The step over the gap is shared by all who were there in it (T2 T3)."""
    columns = (OWN, ReadCgroup("c1", "solver", "f00d"))
    moments = tuple(
        Moment(
            at * 100_000_000,
            {"z-package-0": None if at == 2 else at * 2_500_000},
            10**12 + at * 200_000_000,
            {"c0": at * 100_000_000} | ({"c1": at * 100_000_000} if at < 3 else {}),
        )
        for at in range(5)
    )
    figure = window_of(History((plain(),), columns, moments).readings(), idle(10.0)).zones[0]
    assert (figure.gross_uj, figure.others_uj) == (10_000_000, 1_500_000)


def test_a_decrease_of_cpu_time_is_a_new_baseline() -> None:
    """v1's counter is writable; v2's never decreases (T5 C9)."""

    def fall(rows: list[list[int | None]]) -> None:
        for row in rows[10:]:
            row[2] = (row[2] or 0) - 10**9

    for unit, flag in (("ns", "v1_reset"), ("us", "negative_cpu")):
        found = window([plain()], [25.0], idle(10.0), cpu={"solver": 0.5}, edit=fall, cpu_unit=unit)
        assert flag in found.flags
        assert found.zones[0].gross_uj == 50_000_000
        assert found.cpu_ns == {"solver": 950_000_000}


def test_members_above_the_machines_busy_time_leave_the_system_nothing() -> None:
    """Flagged where it is over 2 % (T6 S4)."""

    def slow(percent: int) -> Any:
        def edit(rows: list[list[int | None]]) -> None:
            for at, row in enumerate(rows):
                row[1] = 10**12 + at * (100 - percent) * 500_000

        return edit

    for percent, flagged in ((1, False), (3, True)):
        found = window([plain()], [25.0], idle(10.0), cpu={"solver": 0.5}, edit=slow(percent), tick_ns=0)
        assert (found.zones[0].system_uj, found.zones[0].net_uj) == (0, 30_000_000)
        assert ("cpu_excess" in found.flags + found.zones[0].flags) is flagged


def test_a_machine_counted_by_ticks_gives_the_system_no_share_by_rounding() -> None:
    """What one sample lacks, up to a tick a CPU, is taken from the next (C12)."""

    def ticks(rows: list[list[int | None]]) -> None:
        for at, row in enumerate(rows):
            row[1] = 10**12 + at * 50_000_000 - (4_000_000 if at % 2 else 0)

    found = window([plain()], [25.0], idle(10.0), cpu={"solver": 0.5}, edit=ticks)
    assert found.zones[0].system_uj == 0
    assert found.flags == ()


def test_without_the_machines_cpu_time_gross_stands_and_nothing_is_shared_out() -> None:
    """(house rule 3)"""

    def fail(rows: list[list[int | None]]) -> None:
        for row in rows:
            row[1] = None

    found = window([plain()], [25.0], idle(10.0), edit=fail).zones[0]
    assert (found.gross_uj, found.net_uj, found.system_uj) == (50_000_000, None, None)
    assert found.missing == "the machine's CPU time was not read"


def test_one_reading_without_the_machines_cpu_time_is_merged_with_the_next() -> None:
    """Or, at an edge, leaves the window without shares."""

    def fail(at: int) -> Any:
        def edit(rows: list[list[int | None]]) -> None:
            rows[at][1] = None

        return edit

    found = window([plain()], [25.0], idle(10.0), edit=fail(7)).zones[0]
    assert (found.gross_uj, found.net_uj) == (50_000_000, 30_000_000)
    for at in (0, -1):
        found = window([plain()], [25.0], idle(10.0), edit=fail(at)).zones[0]
        assert (found.gross_uj, found.idle_uj, found.net_uj) == (50_000_000, 20_000_000, None)


def test_a_role_whose_cpu_time_was_never_read_has_no_joules() -> None:
    """And its CPU time is None, not 0."""

    def fail(rows: list[list[int | None]]) -> None:
        for row in rows:
            row[3] = None

    found = window([plain()], [25.0], idle(10.0), cpu={"solver": 0.5, "forwarder": 0.1}, edit=fail)
    assert found.cpu_ns == {"solver": SECOND_NS, "forwarder": None}
    assert found.zones[0].net_uj is None
    assert found.zones[0].missing == "the CPU time of forwarder was not read"


def test_a_processor_that_went_offline_is_flagged() -> None:
    """(T8)"""
    found = window([plain()], [25.0], idle(10.0), events={10: [Event("cpus", number=2)]})
    assert found.flags == ("cpus_changed",)
    assert found.zones[0].ratio_uj == 9 * 312_500 + 11 * 625_000


def test_a_late_sample_is_exact_until_the_longest_allowed_period() -> None:
    """A stopped daemon: one long sample; beyond T_safe no number (T10)."""
    for seconds, stands in ((2, True), (17, False)):
        moments = (0, SECOND_NS, (1 + seconds) * SECOND_NS, (2 + seconds) * SECOND_NS)
        history = History(
            (zone(max_range=AMD_RANGE_UJ),),
            (OWN,),
            tuple(
                Moment(
                    at,
                    {"z-package-0": at // 40},
                    10**12 + at,
                    {"c0": at},
                    (Event("late", number=seconds * SECOND_NS),) if number == 2 else (),
                )
                for number, at in enumerate(moments)
            ),
        )
        found = window_of(history.readings(), None)
        assert found.flags == ("late",)
        assert (found.zones[0].missing == "late") is not stands
        assert (found.zones[0].gross_uj is not None) is stands


def test_the_daemons_own_cgroup_is_never_inside_a_trial() -> None:
    """(T11)"""
    found = window([plain()], [25.0], idle(10.0), cpu={"solver": 0.9}, others={("meter", None): 0.1})
    assert (found.zones[0].net_uj, found.zones[0].others_uj) == (27_000_000, 3_000_000)


# ---------------------------------------------------------------------------------------------- inner windows


def inner(*windows: tuple[str, float, float], **more: Any) -> Window:
    made = tuple(
        InnerWindow(label, round(opened * SECOND_NS), round(closed * SECOND_NS)) for label, opened, closed in windows
    )
    return window([plain()], [25.0], idle(10.0), inner=made, **more)


def test_a_case_inside_a_window_has_its_own_joules() -> None:
    """(D5)"""
    found = inner(("case 1", 0.5, 1.0), ("case 2", 1.0, 1.1))
    assert [(one.label, one.gross_uj, one.net_uj, one.below_floor) for one in found.inner] == [
        ("case 1", 12_500_000, 7_500_000, False),
        ("case 2", 2_500_000, 1_500_000, False),
    ]


def test_an_exchange_inside_a_case_is_taken_out_of_it() -> None:
    """The parts never sum to more than the whole (D5)."""
    found = inner(("case", 0.5, 1.5), ("exchange", 0.7, 0.9))
    assert [one.net_uj for one in found.inner] == [12_000_000, 3_000_000]
    found = inner(("case", 0.5, 1.5), ("at its end", 1.0, 1.5), ("at its beginning", 0.5, 0.6))
    assert [one.net_uj for one in found.inner] == [6_000_000, 7_500_000, 1_500_000]


def test_cases_at_the_same_time_share_evenly() -> None:
    """(D5)"""
    found = inner(("a", 0.5, 1.5), ("b", 1.0, 2.0))
    assert [one.net_uj for one in found.inner] == [11_250_000, 11_250_000]
    found = inner(("a", 0.0, 2.0), ("b", 0.0, 2.0))
    assert [one.net_uj for one in found.inner] == [15_000_000, 15_000_000]


def test_a_step_over_an_inner_edge_is_nobodys() -> None:
    """Less than the whole, never more (D5)."""
    found = inner(("case", 0.55, 1.0))
    assert found.inner[0].net_uj == 6_000_000

    def fail(rows: list[list[int | None]]) -> None:
        rows[5][0] = rows[10][0] = None

    assert inner(("case", 0.5, 1.0), edit=fail).inner[0].net_uj == 4_500_000

    def fail_second(rows: list[list[int | None]]) -> None:
        rows[5][1] = None

    case = (InnerWindow("case", 500_000_000, SECOND_NS),)
    found = window([plain(), plain("package-1")], [20.0, 10.0], None, inner=case, edit=fail_second)
    assert found.inner[0].gross_uj == 10_000_000 + 4_000_000


def test_an_inner_window_below_the_floor_says_so() -> None:
    """(D5)"""
    found = inner(("short", 0.5, 0.505), ("case", 1.0, 2.0))
    assert [one.below_floor for one in found.inner] == [True, False]
    assert (found.inner[0].net_uj, found.inner[0].gross_uj) == (0, 0)
    found = inner(("19 ms of CPU", 0.0, 1.0), ("as much later", 1.0, 2.0), cpu={"solver": 0.019})
    assert [one.below_floor for one in found.inner] == [True, True]
    assert not found.below_floor


def test_inner_windows_lack_what_the_whole_lacks() -> None:
    """(house rule 3)"""
    found = window([plain()], [25.0], None, inner=(InnerWindow("case", 0, SECOND_NS),)).inner[0]
    assert (found.gross_uj, found.net_uj, found.missing) == (25_000_000, None, "no idle power was measured")


# ---------------------------------------------------------------------------------------------- sums and idle windows


def test_a_sum_has_the_worst_provenance_and_names_every_source() -> None:
    """(J46 L6)"""
    found = window([plain(), simulated("package-1", max_range=None, source="sim 1")], [25.0, 25.0], None).total
    assert found is not None
    assert (found.provenance, found.claimed, found.source) == ("simulated", "hw_shunt", "powercap+sim 1")


def test_a_window_without_a_zone_has_no_total_and_its_cpu_time() -> None:
    """(docker and bench users: cgroups alone)"""
    found = window([], [], None, cpu={"solver": 0.5})
    assert (found.total, found.zones, found.cpu_ns) == (None, (), {"solver": SECOND_NS})


def test_a_window_of_no_trial_has_gross_and_no_net() -> None:
    """(calibration, harness)"""
    found = window_of(unpack(at_rest([plain()], [25.0])), idle(10.0)).zones[0]
    assert (found.gross_uj, found.system_uj, found.others_uj) == (125_000_000, 0, 75_000_000)
    assert (found.net_uj, found.ratio_uj, found.missing) == (None, None, "no trial in this window")


def test_what_the_reading_itself_says_is_passed_on() -> None:
    """(flags of the header)"""
    assert window([plain()], [25.0], idle(10.0), flags=("cgroup_left",)).flags == ("cgroup_left",)
    assert window([plain(flags=("sgx_energy_filtering_possible",))], [25.0], idle(10.0)).zones[0].flags == (
        "sgx_energy_filtering_possible",
    )
