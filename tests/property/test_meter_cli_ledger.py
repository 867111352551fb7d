"""The live table keeps the law of conservation over whatever the daemon's lines say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from appliance.energy.idle import Idle, rest_of
from appliance.energy.readings import unpack
from appliance.meter.faces.ledger import Ledger
from tests.readings_builder import at_rest, zone
from tests.watch_lines import line

_IDLE = Idle((), rest_of(unpack(at_rest([zone("package-0"), zone("package-0/dram")], [15.0, 2.0]))))
_PATHS = tuple(f"/docker/{place:064x}" for place in range(4))
_SECOND = st.fixed_dictionaries(
    {
        "joules": st.tuples(*[st.one_of(st.none(), st.integers(0, 400_000_000))] * 2),
        "cpu": st.dictionaries(st.sampled_from(_PATHS), st.one_of(st.none(), st.integers(-1000, 2_000_000))),
        "system": st.integers(-5_000, 2_000_000),
        "seconds": st.sampled_from([0.5, 1.0, 1.1, 30.0]),
        "restart": st.booleans(),
    }
)


@given(st.lists(_SECOND, min_size=1, max_size=30), st.booleans())
def test_nothing_is_lost_and_nothing_is_negative(history: list[dict[str, object]], calibrated: bool) -> None:
    """Measured = idle + system + containers in every picture, through gaps, restarts, resets and odd CPU times (D1, D2,
    3.1); no part is ever negative and no total ever falls."""
    ledger = Ledger(_IDLE if calibrated else None)
    raw, used, machine, at = [10**9, 10**9], dict.fromkeys(_PATHS, 10**6), 10**7, 0.0
    before = 0
    for second in history:
        at += second["seconds"]  # type: ignore[operator]
        zones = {}
        for place, joules in enumerate(second["joules"]):  # type: ignore[arg-type, var-annotated]
            one = zone(("package-0", "package-0/dram")[place])
            raw[place] = (raw[place] + (joules or 0)) % (one.max_range or 1)
            zones[one] = None if joules is None else raw[place]
        columns = {}
        for path, grown in second["cpu"].items():  # type: ignore[attr-defined]
            used[path] += grown or 0
            columns[path] = None if grown is None else used[path]
            machine += max(0, grown or 0)
        machine += second["system"]  # type: ignore[operator]
        if second["restart"]:
            ledger.interrupt()
        picture = ledger.take(line(at, zones, machine, columns))
        assert picture.error_uj == 0
        parts = sum(picture.of(view).uj for view in picture.cgroups) + picture.system.uj
        parts += picture.idle.uj if picture.idle is not None else 0
        assert parts <= picture.measured.uj
        assert all(amount.uj >= 0 for view in picture.cgroups for amount in view.zones.values())
        assert picture.measured.uj >= before
        before = picture.measured.uj
