"""Of a board that is shared out by utilisation, not a microjoule is lost or made."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from appliance.energy.readings import Event, ReadCgroup
from appliance.energy.windows import window_of
from tests.energy_histories import any_cuts, steady
from tests.unit.test_energy_gpu import SECOND_NS, gpu, idle

CGROUPS = (
    ReadCgroup("c0", "solver", "own"),
    ReadCgroup("c1", "forwarder", "own"),
    ReadCgroup("c2", "solver", "f00d"),
    ReadCgroup("c3", "model", None),
)
PERCENT = st.integers(0, 100)


@given(
    steps=st.lists(st.integers(1, 400_000), min_size=2, max_size=8),
    used=st.lists(st.tuples(st.sampled_from(["c0", "c1", "c2", "c3", ""]), PERCENT), min_size=1, max_size=12),
    watts=st.floats(0, 300),
    seed=st.integers(0, 2**16),
)
def test_idle_and_all_shares_make_the_boards_total_to_the_microjoule(
    steps: list[int], used: list[tuple[str, int]], watts: float, seed: int
) -> None:
    """And each share is within one microjoule of its percentage's part, wherever blocks begin. Row G8."""
    raws = [{"z-gpu-a": 10**6 + sum(steps[:at])} for at in range(len(steps) + 1)]
    events: dict[int, tuple[Event, ...]] = {
        0: (Event("gpu", subject="z-gpu-a", number=1, cgroups=tuple(one.id for one in CGROUPS)),)
    }
    for at, (whose, percent) in enumerate(used):
        place = 1 + at % len(steps)
        one = Event("sm", subject="z-gpu-a", number=percent, cgroups=(whose,) if whose else ())
        events[place] = (*events.get(place, ()), one)
    history = steady([gpu(most_uw=10**9)], raws, CGROUPS, step_ns=SECOND_NS, events=events)
    readings = history.readings(any_cuts(len(raws), seed), gpu_sharing="sm_utilisation")
    board = window_of(readings, idle([gpu()], [watts])).zones[0]
    whole = sum(percent for _, percent in used)
    assert board.gross_uj == sum(steps) * 1000
    if whole == 0:
        assert (board.net_uj, board.basis) == (None, "counter")
        return
    assert board.basis == "apportioned"
    parts = [board.idle_uj, board.system_uj, board.others_uj, *board.own_uj.values()]
    assert None not in parts
    assert sum(part or 0 for part in parts) == board.gross_uj
    dynamic = board.gross_uj - (board.idle_uj or 0)
    for shares, names in ((board.system_uj, {""}), (board.others_uj, {"c2", "c3"}), (board.net_uj, {"c0", "c1"})):
        exact = Fraction(dynamic * sum(percent for whose, percent in used if whose in names), whole)
        assert abs((shares or 0) - exact) < len(names)
