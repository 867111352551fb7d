"""A shared board's joules by the utilisation of its SMs: asked for, labelled, recomputed from the readings."""

from __future__ import annotations

from typing import Any

import pytest

from appliance.energy.readings import Event, Readings, header_line, unpack
from appliance.energy.windows import Window, window_of
from appliance.records.plan import PlannedEnergy
from tests.energy_histories import steady
from tests.unit.test_energy_gpu import OTHER, OWN, SECOND_NS, gpu, idle, on

SHARED = "others were on it, and no counter tells them apart"


def sm(percent: int | None, *cgroups: str, **more: Any) -> Event:
    return Event("sm", subject="z-gpu-a", number=percent, cgroups=cgroups, **more)


def readings(*events: Event, first: Event | None = None, **head: Any) -> Readings:
    """Three seconds at 150 W, of which 50 W are the board's at rest: 300 J to be shared out."""
    raws = [{"z-gpu-a": raw} for raw in (0, 150_000, 300_000, 450_000)]
    told = {0: (first or on("c0", "c1", number=1),), 2: events}
    history = steady([gpu()], raws, (OWN, OTHER), step_ns=SECOND_NS, events=told)
    return history.readings(**{"gpu_sharing": "sm_utilisation", **head})


def window(*events: Event, **more: Any) -> Window:
    return window_of(readings(*events, **more), idle([gpu()], [50.0]))


def test_a_shared_boards_joules_are_shared_out_by_the_percentages_where_that_was_asked_for() -> None:
    """60, 20 and 20 percent of 300 J above rest; apportioned, shared and as uncertain as can be. Row G8."""
    found = window(sm(60, "c0"), sm(20, "c1"), sm(20))
    board = found.zones[0]
    assert (board.gross_uj, board.idle_uj) == (450_000_000, 150_000_000)
    assert (board.net_uj, board.others_uj, board.system_uj) == (180_000_000, 60_000_000, 60_000_000)
    assert (board.basis, board.provenance, board.missing) == ("apportioned", "hw_shunt", None)
    assert "shared" in board.flags
    assert board.uncertainty_uj is not None
    assert board.uncertainty_uj >= 2 * 300_000_000 / 12**0.5
    assert found.total is not None
    assert (found.total.basis, found.total.net_uj) == ("apportioned", 180_000_000)


def test_percentages_of_several_moments_add_up() -> None:
    """Twice 30 percent beside once 20 are three quarters. Row G8."""
    assert window(sm(30, "c0"), sm(20), sm(30, "c0")).zones[0].net_uj == 225_000_000


@pytest.mark.parametrize(
    ("events", "more"),
    [
        ((sm(60, "c0"), sm(40)), {"gpu_sharing": "device_total"}),
        ((), {}),
        ((sm(60, "c0"), sm(None, word="NO_PERMISSION")), {}),
        ((sm(60, "c0"), sm(40)), {"first": on("c0", number=1, word="mps")}),
        ((sm(60, "c0"), sm(40)), {"first": on("c0", number=1, word="mig")}),
    ],
    ids=["not asked for", "no sample", "not told once", "MPS", "MIG"],
)
def test_it_stays_the_boards_total_with_the_flag(events: tuple[Event, ...], more: dict[str, Any]) -> None:
    """Rows G8, G10, G11."""
    board = window(*events, **more).zones[0]
    assert (board.gross_uj, board.net_uj, board.missing, board.basis) == (450_000_000, None, SHARED, "counter")
    assert "shared" in board.flags


def test_a_board_that_the_trial_had_for_itself_is_counted_and_not_apportioned() -> None:
    """Asked for or not: what it used is the counter's. Row G8."""
    board = window(sm(60, "c0"), first=on("c0")).zones[0]
    assert (board.net_uj, board.basis, "shared" in board.flags) == (300_000_000, "counter", False)


def test_a_trial_that_no_sample_saw_has_none_of_it() -> None:
    """0 is what the driver said of it; the flag and the interval stand beside it. Row G9."""
    board = window(sm(70)).zones[0]
    assert (board.net_uj, board.system_uj, "shared" in board.flags) == (0, 300_000_000, True)


def test_readings_of_before_are_written_to_the_same_bytes() -> None:
    """A header without the choice says nothing of it, and is read as the board's total. Row G8."""
    plain, asked = readings(gpu_sharing="device_total").header, readings().header
    assert b"gpuSharing" not in header_line(plain)
    assert b'"gpuSharing":"sm_utilisation"' in header_line(asked)
    assert unpack(readings(gpu_sharing="device_total").content).header.gpu_sharing == "device_total"


def test_a_plan_says_how_a_shared_board_is_told_of_only_where_it_is_not_the_boards_total() -> None:
    """Plans of before keep their bytes, and so their digests. Row G8."""
    plain = PlannedEnergy(mode="auto", active_watts=None, scheduling="exclusive")
    asked = plain.model_copy(update={"gpu_sharing": "sm_utilisation"})
    assert plain.canonical() == b'{"activeWatts":null,"mode":"auto","scheduling":"exclusive"}'
    assert PlannedEnergy.from_canonical(plain.canonical(), "plan").gpu_sharing == "device_total"
    assert PlannedEnergy.from_canonical(asked.canonical(), "plan") == asked
