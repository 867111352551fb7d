"""The power at rest: how it is measured, when it is no measure, and what a window takes from it."""

from __future__ import annotations

from typing import Any

import pytest

from appliance.energy.idle import Idle, Rest, Unfit, ZoneRest, rest_of
from appliance.energy.readings import Event, unpack
from appliance.energy.windows import window_of
from tests.readings_builder import BOOT, at_rest, packed, zone

SECOND_NS = 10**9
HOUR_NS = 3_600 * SECOND_NS


def look(watts: float, middle_ns: int = 0, **changes: Any) -> Rest:
    rest = ZoneRest(round(watts * 1e6), 0, 0, 20, (round(watts * 1e6),) * 20)
    return Rest(
        **{
            "boot_id": BOOT,
            "middle_boottime_ns": middle_ns,
            "seconds": 20.0,
            "zones": {"package-0": rest},
            "unfit": None,
            **changes,
        }
    )


def plain(**changes: Any) -> Any:
    return zone(**{"max_range": None, **changes})


def test_a_look_is_cut_into_seconds() -> None:
    """Mean, scatter and drift of bins of a second (energy 3.2)."""
    found = rest_of(unpack(at_rest([plain()], [10.0], seconds=20.5)))
    assert found.zones["package-0"] == ZoneRest(10_000_000, 0, 0, 20, (10_000_000,) * 20)
    assert (found.boot_id, found.seconds, found.unfit) == (BOOT, 20.5, None)
    assert found.middle_boottime_ns == 60 * SECOND_NS + 10_250_000_000


def test_a_bin_takes_its_part_of_a_step_that_reaches_over_its_edge() -> None:
    """Samples 0.3 s apart: the bins are the same as at 0.1 s."""
    found = rest_of(unpack(at_rest([plain()], [10.0], seconds=6.0, period_ns=300_000_000)))
    assert found.zones["package-0"].bins_uj == (10_000_000,) * 6


def test_scatter_and_drift_are_those_of_the_bins() -> None:
    """10, 11, 12, 13 W: s = 1.29 W, a line that rises by 4 W over the whole."""

    def rise(rows: list[list[int | None]]) -> None:
        total = 0
        for at, row in enumerate(rows):
            row[0] = total
            total += 1_000_000 + at // 10 * 100_000

    found = rest_of(unpack(at_rest([plain()], [0.0], seconds=4.0, edit=rise))).zones["package-0"]
    assert found.bins_uj == (10_000_000, 11_000_000, 12_000_000, 13_000_000)
    assert (found.mean_uw, found.deviation_uw, found.drift_uw) == (11_500_000, 1_290_994, 4_000_000)
    assert found.unfit == "package-0 varies by 11 %"


@pytest.mark.parametrize(("step", "fit"), [(470_000, True), (520_000, False)])
def test_a_zone_that_scatters_by_more_than_five_percent_spoils_the_look(step: int, fit: bool) -> None:
    """(energy 3.2: s/mean > 5 %)"""

    def sway(rows: list[list[int | None]]) -> None:
        for at, row in enumerate(rows):
            row[0] = at * 1_000_000 + at // 10 % 2 * step + 10_000_000

    found = rest_of(unpack(at_rest([plain()], [0.0], seconds=20.0, edit=sway)))
    assert (found.unfit is None) is fit


def test_a_zone_that_broke_off_is_not_there() -> None:
    """Nor one that could not be read at an edge."""

    def fail(at: int) -> Any:
        def edit(rows: list[list[int | None]]) -> None:
            rows[at][0] = None

        return edit

    def fall(rows: list[list[int | None]]) -> None:
        rows[7][0] = 0

    for edit in (fail(0), fail(-1), fall):
        found = rest_of(unpack(at_rest([plain(), plain(key="package-1")], [10.0, 10.0], edit=edit)))
        assert list(found.zones) == ["package-1"]
    assert rest_of(unpack(at_rest([plain()], [10.0], edit=fall))).unfit == "no counter was read all the time"
    assert list(rest_of(unpack(at_rest([plain()], [10.0], edit=fail(7)))).zones) == ["package-0"]


def test_a_look_in_which_something_ran_is_none() -> None:
    """A container, a grader; not the meter itself (energy 3.2, quiesced)."""
    for role, trial, share, reason in (
        ("container", None, 0.12, "a container used 12 % of a CPU"),
        ("harness", None, 0.30, "the harness's cgroup used 30 % of a CPU"),
        ("container", None, 0.05, None),
        ("meter", None, 0.30, None),
    ):
        content = packed([plain()], [10.0], seconds=5.0, trial=None, cpu={}, others={(role, trial): share})
        assert rest_of(unpack(content)).unfit == reason


def test_a_look_that_is_too_short_or_slept_is_none() -> None:
    """(W14)"""
    assert rest_of(unpack(at_rest([plain()], [10.0], seconds=1.9))).unfit is not None
    slept = at_rest([plain()], [10.0], events={3: [Event("suspend", number=SECOND_NS)]})
    assert rest_of(unpack(slept)).unfit == "the machine slept"


def test_idle_power_lies_on_the_line_between_two_looks() -> None:
    """Before the first and after the last it is level (energy 3.2: linear interpolation in time)."""
    idle = Idle((look(10.4, 2 * HOUR_NS), look(10.0)))
    powers = [idle.power_uw("package-0", BOOT, at * HOUR_NS // 2) for at in (-1, 0, 1, 2, 3, 4, 9)]
    assert powers == [10_000_000, 10_000_000, 10_100_000, 10_200_000, 10_300_000, 10_400_000, 10_400_000]


def test_each_step_takes_the_power_of_its_own_middle() -> None:
    """10.0 W at 50 s, 10.4 W at 150 s: 10.0, 10.1, 10.3 and 10.4 W over four steps of 50 s (energy 3.2)."""
    idle = Idle((look(10.0, HOUR_NS + 50 * SECOND_NS), look(10.4, HOUR_NS + 150 * SECOND_NS)))
    content = packed([plain()], [25.0], seconds=200.0, period_ns=50 * SECOND_NS)
    assert window_of(unpack(content), idle).zones[0].idle_uj == 50 * (10_000_000 + 10_100_000 + 10_300_000 + 10_400_000)


def test_of_many_looks_the_two_around_a_window_count() -> None:
    """One far away that differs does not spoil it."""
    idle = Idle((look(10.0), look(10.2, HOUR_NS), look(20.0, 2 * HOUR_NS)))
    assert idle.power_uw("package-0", BOOT, HOUR_NS // 2) == 10_100_000
    assert idle.unfit("package-0", BOOT, HOUR_NS * 3 // 2) is not None


@pytest.mark.parametrize(("after", "fit"), [(10.5, True), (10.51, False), (9.5, True), (9.49, False)])
def test_looks_that_differ_by_more_than_five_percent_measure_no_rest(after: float, fit: bool) -> None:
    """Flag `idle_drift` (energy 3.2: |pre - post| > 5 %)."""
    found = Idle((look(10.0), look(after, HOUR_NS))).line("package-0", BOOT, HOUR_NS // 2)
    assert isinstance(found, Unfit) is not fit
    if isinstance(found, Unfit):
        assert found.drift
        assert found.reason == f"package-0 at rest took {min(10.0, after):.2f} W and {max(10.0, after):.2f} W"


def test_a_drifted_idle_leaves_gross_and_a_flag() -> None:
    """(energy 3.2)"""
    idle = Idle((look(10.0), look(12.0, 2 * HOUR_NS)))
    figure = window_of(unpack(packed([plain()], [25.0])), idle).zones[0]
    assert (figure.gross_uj, figure.net_uj) == (50_000_000, None)
    assert figure.flags == ("idle_drift", "no_idle")
    assert figure.missing == "package-0 at rest took 10.00 W and 12.00 W"


def test_a_stored_calibration_gives_the_power_and_the_look_checks_it() -> None:
    """(J38: a check of 5 s)"""
    idle = Idle((look(10.3, HOUR_NS),), stored=look(10.0))
    assert idle.power_uw("package-0", BOOT, HOUR_NS) == 10_000_000
    assert Idle((look(10.6, HOUR_NS),), stored=look(10.0)).unfit("package-0", BOOT, HOUR_NS) is not None
    assert Idle((), stored=look(10.0)).power_uw("package-0", BOOT, HOUR_NS) == 10_000_000


def test_another_boots_idle_is_none() -> None:
    """Nor is a stored one of another boot."""
    other = look(10.0, boot_id="other")
    for idle in (Idle((other,)), Idle((), stored=other)):
        assert idle.unfit("package-0", BOOT, 0) == "idle power was measured in another boot"
        assert idle.power_uw("package-0", BOOT, 0) is None
    assert Idle((look(11.0),), stored=other).power_uw("package-0", BOOT, 0) == 11_000_000


def test_what_makes_a_look_unfit_is_said() -> None:
    """(house rule 3)"""
    assert Idle(()).unfit("package-0", BOOT, 0) == "no idle power was measured"
    assert Idle((look(10.0, unfit="the machine slept"),)).unfit("package-0", BOOT, 0) == "the machine slept"
    assert Idle((look(10.0),)).unfit("gpu-a", BOOT, 0) == "gpu-a was not read at rest"
    own = ZoneRest(1, 1, 0, 20, unfit="gpu-a varies by 90 %")
    assert Idle((look(10.0, zones={"gpu-a": own}),)).unfit("gpu-a", BOOT, 0) == "gpu-a varies by 90 %"
