"""From a window to the figures of a record, on windows made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from appliance.energy.uncertainty import Term
from appliance.energy.windows import InnerEnergy, Window, ZoneEnergy
from appliance.records.frontier import energy_point
from appliance.records.metered import cpu_seconds, idle_of, lost, ran_on, trial_energy
from appliance.records.summarise import energy_sum
from appliance.records.words import Cause
from appliance.report.render import render
from tests import record_builder as build
from tests.measured_builder import REST_WATTS, WATTS, measured, meter, plan, zones
from tests.readings_builder import at_rest, header, packed, zone


def of_zone(key: str = "package-0", **changes: Any) -> ZoneEnergy:
    """100 J gross: 40 idle, 5 system, 5 others, 30 and 20 of the trial's."""
    fields: dict[str, Any] = {
        "key": key,
        "source": "powercap",
        "provenance": "hw_shunt",
        "claimed": None,
        "basis": "counter",
        "summed": True,
        "gross_uj": 100,
        "idle_uj": 40,
        "system_uj": 5,
        "others_uj": 5,
        "own_uj": {"solver": 30, "forwarder": 20},
        "ratio_uj": 25,
        "uncertainty_uj": 3,
        "lod_uj": 2,
        "missing": None,
        "bounds_uj": None,
        "flags": (),
        "marginal_uj": 60,
    }
    return ZoneEnergy(**{**fields, **changes})


def of_window(total: ZoneEnergy | None, **changes: Any) -> Window:
    fields: dict[str, Any] = {
        "wall_ns": 2_000_000_000,
        "cpu_ns": {"solver": 1_500_000_000, "forwarder": None},
        "zones": (),
        "total": total,
        "inner": (),
        "samples": 19,
        "below_floor": False,
        "flags": (),
    }
    return Window(**{**fields, **changes})


def test_a_window_becomes_figures_by_total_zone_and_role() -> None:
    """Net is the trial's alone, by role; gross = idle + system + others + net (issue 4: attribution; 3.1)."""
    whole = of_zone("package+dram")
    package = of_zone(own_uj={"solver": 50})
    psys = of_zone("psys", summed=False)
    found = trial_energy(of_window(whole, zones=(package, psys)), by_kind=False, ran_on=False)
    assert (found.total.scope, found.total.net_uj, found.total.gross_uj) == ("package+dram", 50, 100)
    assert (found.total.idle_uj, found.total.system_uj, found.total.others_uj) == (40, 5, 5)
    assert (found.total.marginal_uj, found.total.ratio_uj) == (60, 25)
    assert {role: figure.net_uj for role, figure in found.by_role.items()} == {"forwarder": 20, "solver": 30}
    assert {key: (figure.summed, figure.by_role_uj) for key, figure in found.zones.items()} == {
        "package-0": (True, {"solver": 50}),
        "psys": (False, {"solver": 30, "forwarder": 20}),
    }
    assert found.readings is None
    assert found.samples == 19


def test_cpu_time_that_was_not_read_is_none_not_zero() -> None:
    """Missing is not zero (design 10)."""
    assert cpu_seconds(of_window(None)) == {"solver": 1.5, "forwarder": None}


def test_a_figure_that_broke_keeps_its_reason_and_bounds_everywhere() -> None:
    """`missing` goes from the zone to the total, the roles and the sum of trials, none of which has a number (W8)."""
    lacks: dict[str, Any] = {
        "gross_uj": None,
        "idle_uj": None,
        "system_uj": None,
        "others_uj": None,
        "own_uj": {},
        "ratio_uj": None,
    }
    reason = "package-0: gap_longer_than_wrap"
    broken = of_zone("package", **lacks, missing=reason, bounds_uj=(5, 500), flags=("gap_longer_than_wrap",))
    found = trial_energy(of_window(broken, zones=(replace(broken, key="package-0"),)), by_kind=False, ran_on=False)
    assert (found.total.net_uj, found.total.missing, found.total.bounds) == (None, reason, (5, 500))
    assert {figure.missing for figure in found.by_role.values()} == {reason}
    assert set(found.by_role) == {"solver", "forwarder"}
    assert not found.total.comparable
    summed = energy_sum([found.total, build.counted_figure(7)])
    assert summed is not None
    assert (summed.net_uj, summed.gross_uj, summed.missing) == (None, None, 1)


def test_without_a_valid_idle_gross_stands_and_net_says_why() -> None:
    """Idle is none of ours to guess (meter: attribution)."""
    lacks: dict[str, Any] = {"idle_uj": None, "system_uj": None, "others_uj": None, "own_uj": {}, "marginal_uj": None}
    unfit = of_zone("package", **lacks, missing="package-0 varies")
    total = trial_energy(of_window(unfit), by_kind=False, ran_on=False).total
    assert (total.gross_uj, total.net_uj, total.marginal_uj, total.missing) == (100, None, None, "package-0 varies")


def test_a_window_without_any_counter_has_no_figure_and_says_so() -> None:
    """Nothing is invented, and the worst of a sum is that of the figures it has (J46)."""
    found = trial_energy(of_window(None), by_kind=False, ran_on=False)
    assert (found.total.net_uj, found.total.missing) == (None, "no counter in this window")
    gone = lost("the meter went away", ("solver",), by_kind=True)
    assert (gone.total.missing, gone.total.below_floor, gone.readings) == ("the meter went away", True, None)
    summed = energy_sum([gone.total, build.figure(5)])
    assert summed is not None
    assert (summed.provenance, summed.basis) == ("estimator", "modelled")


def test_reference_and_noop_are_below_the_floor_by_kind_and_all_else_by_its_window() -> None:
    """`~` by kind, or by what the counter resolves; it touches no number (J41, J42, J43)."""
    plain = trial_energy(of_window(of_zone()), by_kind=False, ran_on=False)
    by_kind = trial_energy(of_window(of_zone()), by_kind=True, ran_on=False)
    short = trial_energy(of_window(of_zone(), below_floor=True), by_kind=False, ran_on=False)
    assert [found.total.below_floor for found in (plain, by_kind, short)] == [False, True, True]
    assert {found.total.net_uj for found in (plain, by_kind, short)} == {50}


def test_a_window_between_two_samples_says_so_and_keeps_its_joules() -> None:
    """Edge reads alone give energy above 0 (T1)."""
    found = trial_energy(of_window(of_zone(), samples=0), by_kind=False, ran_on=False)
    assert found.total.flags == ("no_samples",)
    assert found.total.net_uj == 50


def test_every_figure_carries_the_flags_of_window_zone_and_run_on_once() -> None:
    """One list, sorted, no word twice (formats 6: flags)."""
    flagged = of_zone(flags=("late", "bridged"))
    found = trial_energy(of_window(flagged, zones=(flagged,), flags=("late",)), by_kind=False, ran_on=True)
    words = ("bridged", "late", "ran_on")
    assert found.total.flags == found.zones["package-0"].flags == found.by_role["solver"].flags == words


def test_a_window_that_took_less_than_rest_has_no_marginal_and_no_rank() -> None:
    """Raw 15 J at an idle of 10 W for 2 s: raw is kept, marginal is 0 with its flag, no ranking (J39, T7)."""
    short = packed([zone()], [7.5], trial=0, opened_boottime_ns="3600000000000")
    found = measured(plan(["t1"]), readings=lambda _: short, counters=[zone()])
    energy = found.record.trials[0].energy
    assert energy is not None
    total = energy.total
    assert total.flags == ("below_idle",)
    assert abs((total.gross_uj or 0) - 15_000_000) <= 200
    assert (total.marginal_uj, total.net_uj, total.comparable) == (0, 0, False)
    point = energy_point("x", found.record, 0)
    assert point is not None
    assert point.cost is None
    assert "1 of 1 took less than rest: unreliable, no ranking by joules" in render([found.record], "text")


@pytest.mark.parametrize(
    ("changes", "comparable"),
    [
        ({}, True),
        ({"basis": "apportioned"}, True),
        ({"basis": "sampled_power"}, True),
        ({"provenance": "simulated", "claimed": "hw_shunt"}, False),
        ({"own_uj": {}, "missing": "shared"}, False),
    ],
)
def test_what_enters_a_comparison_is_a_machine_s_own_figure_that_stands(
    changes: dict[str, Any], comparable: bool
) -> None:
    """Simulated or missing: not comparable (formats 6, L3)."""
    assert trial_energy(of_window(of_zone(**changes)), by_kind=False, ran_on=False).total.comparable == comparable


def test_the_uncertainty_s_budget_is_recorded_by_name_and_rounded_up() -> None:
    """Every term stands in the record (3.4)."""
    budget = (Term("edges", 41_000_001), Term("idle", 12))
    total = trial_energy(of_window(of_zone(terms=budget)), by_kind=False, ran_on=False).total
    assert (total.uncertainty_uj, total.budget_uj) == (3, {"edges": 41_001, "idle": 1})


def test_cases_inside_a_window_are_parts_with_their_own_floor() -> None:
    """A case or exchange, labelled, from the same counters (D5)."""
    inner = (
        InnerEnergy("case 1", net_uj=20, gross_uj=30, below_floor=False, missing=None),
        InnerEnergy("case 2", net_uj=None, gross_uj=None, below_floor=False, missing="gap"),
    )
    first, second = trial_energy(of_window(of_zone(), inner=inner), by_kind=False, ran_on=False).parts
    assert (first.label, first.net_uj, first.gross_uj, first.comparable) == ("case 1", 20, 30, True)
    assert (first.stage, first.pooled) == ("case 1", None)
    assert (second.net_uj, second.missing, second.below_floor) == (None, "gap", False)


def test_cases_too_short_to_stand_alone_are_one_figure_a_stage() -> None:
    """Summed and counted, by what stands before the slash; still below the floor, and never ranked (D5)."""

    def case(label: str, net: int | None, *, short: bool = True) -> InnerEnergy:
        return InnerEnergy(label, net, None if net is None else 2 * net, short, None if net is not None else "gap")

    inner = (case("route/1", 3), case("solve/1", 50, short=False), case("route/2", 4), case("judge/1", None))
    inner = (*inner, case("judge/2", 5), case("solve/2", 1))
    parts = trial_energy(of_window(of_zone(), inner=inner), by_kind=False, ran_on=False).parts
    assert [(part.label, part.stage, part.pooled, part.net_uj, part.gross_uj) for part in parts] == [
        ("solve/1", "solve", None, 50, 100),
        ("judge", "judge", 2, None, None),
        ("route", "route", 2, 7, 14),
        ("solve", "solve", 1, 1, 2),
    ]
    assert [(part.missing, part.below_floor, part.comparable) for part in parts] == [
        (None, False, True),
        ("gap", True, False),
        (None, True, False),
        (None, True, False),
    ]


@pytest.mark.parametrize(
    ("strangers", "after_ns", "cause", "said"),
    [
        (True, 5_000_001, "exit", True),
        (True, 5_000_000, "exit", False),
        (True, 10**9, "timeout", False),
        (True, 10**9, "budget", False),
        (True, 10**9, "oom", True),
        (False, 10**9, "exit", False),
        (True, None, "exit", False),
    ],
)
def test_run_on_needs_a_stranger_and_its_cpu_time_and_no_limit(
    strangers: bool, after_ns: int | None, cause: Cause, said: bool
) -> None:
    """Over 5 ms of CPU by what was not there at the opening; what our kill ended is no run-on (formats 5)."""
    head = header([zone()], (), 10**9, strangers_at_close=strangers, cpu_after_close_ns=after_ns)
    assert ran_on(head, cause) is said


def test_the_idle_of_a_record_is_made_of_its_looks_and_its_stored_calibration() -> None:
    """What fold and verify take alike (J38)."""
    contents = {build.blob(one).sha256: one for one in [at_rest(zones(), REST_WATTS, after_ns=n) for n in (0, 10**12)]}
    looks = list(contents.values())
    stamp = meter(("before", looks[0]), ("after", looks[1]))
    idle = idle_of(stamp, lambda ref: contents[ref.sha256])
    assert idle is not None
    assert [look.seconds for look in idle.looks] == [5.0, 5.0]
    assert idle.stored is None
    assert idle_of(stamp.model_copy(update={"idle": ()}), lambda ref: contents[ref.sha256]) is None


def test_a_second_at_known_power_costs_what_it_must() -> None:
    """25 + 5 W for 2 s between looks of 10 + 3 W: 60 J gross, 26 J idle; the rest by CPU time (J38, J45, S1)."""
    alone = measured(plan(["t1"]), readings=lambda _: packed(zones(), WATTS, opened_boottime_ns="3600000000000"))
    energy = alone.record.trials[0].energy
    assert energy is not None
    assert energy.total.scope == "package+dram"
    assert abs((energy.total.gross_uj or 0) - 60_000_000) <= 200
    assert abs((energy.total.idle_uj or 0) - 26_000_000) <= 200
    assert energy.total.net_uj == energy.by_role["solver"].net_uj
    assert energy.total.system_uj == energy.total.others_uj == 0
    assert energy.zones["psys"].summed is False
