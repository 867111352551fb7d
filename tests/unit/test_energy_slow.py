"""Counters slower than the sampling: a wall plug that steps every quarter of a second, read ten times a second.

The power is constant and known, so that a trial which took nothing above rest must be said to have taken nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from statistics import mean

import pytest

from appliance.energy.counter import CounterZone
from appliance.energy.idle import Idle, Rest, ZoneRest, rest_of
from appliance.energy.readings import InnerWindow, ReadCgroup, unpack
from appliance.energy.series import is_slow
from appliance.energy.windows import Window, window_of
from appliance.records.metered import trial_energy
from tests.energy_histories import History, Moment
from tests.readings_builder import BOOT, PERIOD_NS, Rows, at_rest, packed, zone

SECOND_NS = 10**9
WATTS = 30
MS = 1_000_000


def plug(update_ms: int, **changes: object) -> CounterZone:
    fields = {"domain": "wall", "path": "wall", "max_range": None, "shortest_window_ns": SECOND_NS}
    return zone("wall", **{**fields, "update_period_ns": update_ms * MS, **changes})


def stepping(steps_ns: Sequence[int], seconds: float) -> Callable[[Rows], None]:
    """At each of these moments it adds what was used since the one before; the opening lies between two of them."""

    def edit(rows: Rows) -> None:
        for at, row in enumerate(rows):
            now = min(at * PERIOD_NS, round(seconds * SECOND_NS))
            row[0] = WATTS * max(moment for moment in steps_ns if moment <= now) // 1000 + 10**9

    return edit


def every(update_ms: int, phase_ns: int, seconds: float) -> list[int]:
    period = update_ms * MS
    return list(range(phase_ns - period, round(seconds * SECOND_NS) + period, period))


def at_rest_with(one: CounterZone, phase_ns: int, seconds: float = 20.0) -> Rest:
    edit = stepping(every(one.update_period_ns // MS, phase_ns, seconds), seconds)
    return rest_of(unpack(at_rest([one], [0.0], seconds=seconds, edit=edit)))


def exact_idle(watts: float = WATTS) -> Idle:
    power = round(watts * 1e6)
    return Idle((Rest(BOOT, 0, 20.0, {"wall": ZoneRest(power, 0, 0, 20, (power,) * 20)}, None),))


def window(one: CounterZone, steps_ns: Sequence[int], seconds: float, idle: Idle | None, **more: object) -> Window:
    return window_of(unpack(packed([one], [0.0], seconds=seconds, edit=stepping(steps_ns, seconds), **more)), idle)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("update_ms", "period_ms", "slow"), [(1, 100, False), (10, 100, False), (11, 100, True), (100, 100, True)]
)
def test_a_counter_is_slow_where_its_step_is_no_small_part_of_a_sample(
    update_ms: int, period_ms: int, slow: bool
) -> None:
    """RAPL's millisecond at 10 Hz is not, NVML's 100 ms is."""
    assert is_slow(plug(update_ms), period_ms * MS) is slow


def test_a_plug_that_steps_now_and_then_charges_nobody_for_rest() -> None:
    """30 W all the time, a step every 250 to 500 ms, 13.9 s: of 417 J gross, 139 J once were the trial's."""
    chance = random.Random(14)
    moments = [-400 * MS]
    while moments[-1] < 14 * SECOND_NS:
        moments.append(moments[-1] + chance.randint(250, 500) * MS)
    figure = window(plug(500), moments, 13.9, exact_idle(), cpu={"solver": 0.9}).zones[0]
    assert figure.gross_uj is not None
    assert figure.net_uj is not None
    assert figure.uncertainty_uj is not None
    assert abs(figure.gross_uj - 417_000_000) <= WATTS * 500_000
    assert figure.net_uj <= figure.uncertainty_uj
    assert figure.net_uj + (figure.idle_uj or 0) == figure.gross_uj


@pytest.mark.parametrize("update_ms", [100, 130, 250, 400, 500])
def test_whatever_the_phase_of_a_slow_counter_rest_is_no_ones(update_ms: int) -> None:
    """Looked at and measured at any phase: net within k = 2, and gross over all phases is the power by time.

    Both edges at their worst are a whole update, which no more than one window in thirty has.
    """
    chance = random.Random(update_ms)
    seconds, period = 12.3, update_ms * MS
    phases = [at * period // 40 for at in range(40)]
    gross: list[int] = []
    beyond = 0
    for phase in phases:
        rest = at_rest_with(plug(update_ms), chance.randrange(period))
        assert rest.unfit is None
        assert abs(rest.zones["wall"].mean_uw - WATTS * 10**6) <= WATTS * 10**6 // 100
        # 30 W over the tenth of a second in which a step is seen, at both ends of a bin.
        assert rest.zones["wall"].deviation_uw >= 1_200_000
        steps = every(update_ms, phase, seconds)
        figure = window(plug(update_ms), steps, seconds, Idle((rest,)), cpu={"solver": 0.9}).zones[0]
        assert figure.gross_uj is not None
        assert figure.net_uj is not None
        assert figure.uncertainty_uj is not None
        assert figure.net_uj <= WATTS * (update_ms * 1000 + round(seconds * 10_000))
        beyond += figure.net_uj > figure.uncertainty_uj
        gross.append(figure.gross_uj)
    assert beyond <= 2
    # What is left in the mean is the forty phases' own step.
    assert abs(mean(gross) - WATTS * seconds * 1e6) <= WATTS * update_ms * 1000 / 20


def test_a_slow_counter_is_shared_by_the_cpu_time_of_the_whole_window() -> None:
    """The one that worked while its clock did not tick pays like the one that worked while it did."""
    one = plug(1000)
    columns = (
        ReadCgroup("c0", "solver", "own"),
        ReadCgroup("c1", "solver", "f00d"),
        ReadCgroup("c2", "solver", "beef"),
    )

    def used(at: int, tenths: set[int]) -> int:
        return sum(PERIOD_NS for moment in range(at) if moment % 10 in tenths)

    moments = tuple(
        Moment(
            at * PERIOD_NS,
            {"z-wall": at // 10 * 50_000_000},
            10**12 + at * PERIOD_NS,
            # The second trial works in the tenth of a second in which the counter steps; the third one leaves early.
            {"c0": used(at, set(range(9))), "c1": used(at, {9})} | ({"c2": at * PERIOD_NS} if at <= 50 else {}),
        )
        for at in range(101)
    )
    figure = window_of(History((one,), columns, moments).readings(), exact_idle()).zones[0]
    assert (figure.gross_uj, figure.idle_uj) == (500_000_000, 300_000_000)
    # 9, 1 and 5 seconds of CPU.
    assert (figure.net_uj, figure.others_uj, figure.system_uj) == (120_000_000, 80_000_000, 0)


def test_the_utilisation_ratio_of_a_slow_counter_is_of_the_whole_window() -> None:
    """Half a CPU of four is an eighth of all, whenever the counter stepped."""
    figure = window(plug(300), every(300, 0, 9.0), 9.0, None, cpu={"solver": 0.5}).zones[0]
    assert figure.gross_uj == WATTS * 9 * 10**6
    assert figure.ratio_uj == figure.gross_uj // 8


def test_a_part_of_a_window_has_no_net_by_a_slow_counter() -> None:
    """Split by itself it could take more than the whole is split into; its gross is what was counted in it (D5)."""
    parts = (InnerWindow("case", 2 * SECOND_NS, 7 * SECOND_NS), InnerWindow("short", 8 * SECOND_NS, 9 * SECOND_NS))
    found = window(plug(200), every(200, 0, 10.0), 10.0, exact_idle(20.0), cpu={"solver": 0.5}, inner=parts)
    assert [(one.net_uj, one.missing) for one in found.inner] == [(None, "the counter is too slow for a part")] * 2
    assert [(one.gross_uj, one.below_floor) for one in found.inner] == [(150_000_000, False), (30_000_000, True)]
    lacking = window(plug(200), every(200, 0, 10.0), 10.0, None, inner=parts)
    assert {one.missing for one in lacking.inner} == {"no idle power was measured"}


def test_a_window_of_a_slow_counter_below_rest_says_so() -> None:
    """(J39)"""
    figure = window(plug(200), every(200, 0, 10.0), 10.0, exact_idle(40.0), cpu={"solver": 0.5}).zones[0]
    assert (figure.idle_uj, figure.net_uj, figure.marginal_uj) == (300_000_000, 0, 0)
    assert "below_idle" in figure.flags


@pytest.mark.parametrize(("update_ms", "seconds"), [(3000, 20.0), (30_000, 20.0)])
def test_a_look_too_short_for_its_counter_is_no_measure_of_rest(update_ms: int, seconds: float) -> None:
    """Ten updates at the least: else it is phase that is measured."""
    rest = at_rest_with(plug(update_ms), MS, seconds)
    assert rest.unfit == "wall counts too slowly for 20.0 s"


def test_a_look_that_saw_one_step_of_a_counter_is_no_measure_of_rest() -> None:
    """It claims 500 ms and steps twice in 20 s: between its steps lies no second look (house rule 3)."""
    edit = stepping([0, 5 * SECOND_NS, 6 * SECOND_NS], 20.0)
    rest = rest_of(unpack(at_rest([plug(500)], [0.0], seconds=20.0, edit=edit)))
    assert rest.unfit == "wall counts too slowly for 20.0 s"
    assert rest.zones["wall"].bins == 1


def test_each_zone_is_held_to_its_own_floor_and_a_sum_to_the_worst() -> None:
    """Two seconds suffice RAPL and not a plug of 500 ms (J41)."""
    zones = [zone(max_range=None), zone("package-1", max_range=None, update_period_ns=500 * MS)]
    found = window_of(unpack(packed(zones, [25.0, 25.0], cpu={"solver": 0.5})), None)
    assert [one.below_floor for one in found.zones] == [False, True]
    assert found.total is not None
    assert (found.total.below_floor, found.below_floor) == (True, True)
    aside = [zones[0], plug(500)]
    found = window_of(unpack(packed(aside, [25.0, 25.0], cpu={"solver": 0.5})), None)
    assert [(one.summed, one.below_floor) for one in found.zones] == [(True, False), (False, True)]
    assert not found.below_floor


@pytest.mark.parametrize("by_kind", [False, True])
def test_a_zone_below_its_own_floor_carries_its_own_tilde(by_kind: bool) -> None:
    """Beside RAPL a plug of 500 ms is `~` in a window of two seconds, and the total is not (J41 J43)."""
    aside = [zone(max_range=None), plug(500)]
    found = window_of(unpack(packed(aside, [25.0, 25.0], cpu={"solver": 0.5})), None)
    energy = trial_energy(found, by_kind=by_kind, ran_on=False)
    assert {key: one.below_floor for key, one in energy.zones.items()} == {"package-0": by_kind, "wall": True}
    assert (energy.total.below_floor, energy.by_role["solver"].below_floor) == (by_kind, by_kind)
