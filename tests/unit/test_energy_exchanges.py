"""A run's model server: the trial's own while one of its exchanges is in flight, by hand and for every history."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.energy.counter import CounterZone
from appliance.energy.idle import Idle, rest_of
from appliance.energy.readings import InnerWindow, unpack
from appliance.energy.windows import Window, window_of
from appliance.records.metered import cpu_seconds, trial_energy
from tests.readings_builder import at_rest, packed, zone

SERVER = ("model", "run")


def plain(**changes: Any) -> CounterZone:
    """Its counter steps in whole microjoules: what is split is what was said."""
    return zone(max_range=10**12 - 1, **changes)


def idle(watts: float) -> Idle:
    return Idle((rest_of(unpack(at_rest([plain()], [watts]))),), None)


def spans(*windows: tuple[str, float, float]) -> tuple[InnerWindow, ...]:
    return tuple(InnerWindow(label, round(since * 1e9), round(until * 1e9)) for label, since, until in windows)


def window(*windows: tuple[str, float, float], **more: Any) -> Window:
    """Two seconds of 25 W, of which 10 are idle; solver and server use half a CPU each, all the while."""
    asked: dict[str, Any] = {"zones": [plain()], "others": {SERVER: 0.5}, "inner": spans(*windows)} | more
    zones = asked.pop("zones")
    return window_of(unpack(packed(zones, [25.0] * len(zones), **asked)), idle(10.0))


def test_the_server_is_the_trials_in_its_exchanges_and_a_strangers_elsewhere() -> None:
    """Half of the dynamic 15 W, for the half second that its exchange took (D5, issue 3)."""
    found = window(("exchange/0", 0.5, 1.0))
    total = found.total
    assert total is not None
    assert total.own_uj == {"solver": 15_000_000, "model": 3_750_000}
    assert (total.gross_uj, total.idle_uj, total.system_uj, total.others_uj) == (50_000_000, 20_000_000, 0, 11_250_000)
    assert cpu_seconds(found) == {"solver": 1.0, "model": 0.25}
    # The part is the whole trial's in that time, its solver's too.
    assert [(one.label, one.net_uj) for one in found.inner] == [("exchange/0", 7_500_000)]
    energy = trial_energy(found, by_kind=False, ran_on=False)
    assert energy.by_role["model"].net_uj == 3_750_000


def test_a_slow_counter_shares_by_the_same_time() -> None:
    """Split once over the window, by the CPU time of solver, server within exchanges, and server beside them (D5)."""
    found = window(("exchange/0", 0.5, 1.0), zones=[plain(update_period_ns=1_000_000_000)])
    assert found.total is not None
    assert found.total.own_uj == {"solver": 15_000_000, "model": 3_750_000}


@pytest.mark.parametrize(
    ("windows", "model_uj"),
    [
        ((), 0),
        ((("case/1", 0.5, 1.0),), 0),
        ((("exchange/0", 0.0, 2.0),), 15_000_000),
        ((("exchange/0", 0.5, 1.0), ("exchange/1", 1.0, 1.5)), 7_500_000),
        ((("exchange/0", 0.5, 1.0), ("exchange/1", 0.5, 1.5)), 7_500_000),
        ((("exchange/0", 0.5, 1.0), ("case/1", 0.0, 2.0)), 3_750_000),
        ((("exchange/0", 0.55, 1.0),), 3_000_000),
    ],
)
def test_only_exchanges_count_and_each_moment_once(windows: tuple[Any, ...], model_uj: int) -> None:
    """Those that overlap are no double charge; a step over an edge is nobody's (D5)."""
    found = window(*windows)
    assert found.total is not None
    assert found.total.own_uj["model"] == model_uj
    assert found.total.own_uj["solver"] == 15_000_000


def test_another_runs_server_is_a_stranger() -> None:
    """Its readings say so: it belongs to no trial (D5)."""
    found = window(("exchange/0", 0.0, 2.0), others={("model", None): 0.5})
    assert found.total is not None
    assert found.total.own_uj == {"solver": 15_000_000}
    assert found.total.others_uj == 15_000_000


def test_a_server_that_was_never_read_has_no_figure() -> None:
    """Missing is not zero."""

    def blind(rows: list[list[int | None]]) -> None:
        for row in rows:
            row[3] = None

    found = window(("exchange/0", 0.5, 1.0), edit=blind)
    assert cpu_seconds(found) == {"solver": 1.0, "model": None}
    assert found.total is not None
    assert found.total.net_uj is None
    assert "model" in str(found.total.missing)


EDGES = st.lists(st.integers(0, 20), min_size=4, max_size=4, unique=True).map(sorted)


@given(
    edges=EDGES,
    watts=st.floats(5.0, 200.0),
    first=st.floats(0.0, 1.5),
    second=st.floats(0.0, 1.5),
    server=st.floats(0.0, 2.0),
    slow=st.booleans(),
)
def test_what_two_trials_and_nobody_take_of_a_server_is_all_of_it(
    *, edges: list[int], watts: float, first: float, second: float, server: float, slow: bool
) -> None:
    """Exact to the microjoule: idle, system, both solvers, the server for each and for neither (issue 3, D5)."""
    zones = [plain(update_period_ns=1_000_000_000 if slow else 1_000_000)]
    at = [edge / 10 for edge in edges]
    windows = {"own": ("exchange/0", at[0], at[1]), "other": ("exchange/0", at[2], at[3])}

    def seen_by(who: str) -> dict[str, int]:
        rates = {"own": {("a", "own"): first, ("b", "aa"): second}, "other": {("a", "bb"): first, ("b", "own"): second}}
        columns = tuple(rates[who])
        content = packed(
            zones,
            [watts],
            cpu={},
            others={("solver", trial): rate for (_, trial), rate in rates[who].items()} | {SERVER: server},
            inner=spans(windows[who]),
        )
        assert len(columns) == 2
        total = window_of(unpack(content), idle(10.0)).total
        assert total is not None
        assert None not in (total.gross_uj, total.idle_uj, total.system_uj, total.others_uj)
        assert total.gross_uj == sum(total.own_uj.values()) + sum(
            part or 0 for part in (total.idle_uj, total.system_uj, total.others_uj)
        )
        return {"solver": total.own_uj["solver"], "model": total.own_uj["model"], "others": total.others_uj or 0}

    one, other = seen_by("own"), seen_by("other")
    whole = one["others"] - other["solver"] + one["model"]
    assert whole == other["others"] - one["solver"] + other["model"]
    assert whole >= one["model"] + other["model"]
