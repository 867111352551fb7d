"""Joules while they are used: what `watch` and `export` reckon from the daemon's raw lines (row D1)."""

from __future__ import annotations

import pytest

from appliance.energy.counter import AbsentZone
from appliance.energy.idle import Idle, rest_of
from appliance.energy.readings import unpack
from appliance.errors import MeterRefused
from appliance.meter.daemon.messages import WatchedEvent
from appliance.meter.faces.following import Seen
from appliance.meter.faces.ledger import MOST_GONE, Ledger
from appliance.meter.faces.naming import Known, name_of
from appliance.meter.faces.picture import Amount, Picture
from appliance.meter.faces.showing import json_value, plain_line, remarks, rows
from appliance.meter.faces.watching import watched
from tests.readings_builder import at_rest, zone
from tests.watch_lines import CONTAINER, line

# Microjoule by microjoule, so that figures are round; RAPL's own unit is 61 of them.
PACKAGE = zone("package-0", max_range=None)
DRAM = zone("package-0/dram", max_range=None)
RAPL = zone("package-0")
SOLVER = "/bench-appliance/r1/00003/solver"


def _of(picture: Picture, path: str) -> Amount:
    return next(picture.of(view) for view in picture.cgroups if view.path == path)


def test_the_first_line_is_a_baseline() -> None:
    """Nothing has been used when we begin to watch, whatever the counters stand at (W17)."""
    picture = Ledger().take(line(0, {PACKAGE: 5_000_000}, 100, {CONTAINER: 50}))
    assert picture.seconds == 0
    assert picture.measured == Amount(0, 0)


def test_a_container_gets_its_share_and_the_parts_are_the_whole() -> None:
    """60 of 80 ms of CPU time get three quarters of 2 J, by hand; system the rest; nothing is lost (D1, T3)."""
    ledger = Ledger()
    ledger.take(line(0, {PACKAGE: 1_000_000}, 0, {CONTAINER: 0}))
    picture = ledger.take(line(1, {PACKAGE: 3_000_000}, 80_000, {CONTAINER: 60_000}))
    assert _of(picture, CONTAINER) == Amount(1_500_000, 1_500_000)
    assert picture.system == Amount(500_000, 500_000)
    assert picture.measured == Amount(2_000_000, 2_000_000)
    assert picture.idle is None
    assert picture.error_uj == 0


def test_idle_comes_first_where_it_is_calibrated() -> None:
    """1.5 W at rest leave 0.5 J of 2 to be shared (S1's law, 3.1)."""
    rest = rest_of(unpack(at_rest([PACKAGE], [1.5])))
    ledger = Ledger(Idle((), rest))
    ledger.take(line(0, {PACKAGE: 0}, 0, {CONTAINER: 0}))
    picture = ledger.take(line(1, {PACKAGE: 2_000_000}, 100_000, {CONTAINER: 100_000}))
    assert picture.idle == Amount(1_500_000, 1_500_000)
    assert _of(picture, CONTAINER).uj == 500_000
    assert picture.error_uj == 0


def test_a_sum_over_a_zone_without_idle_has_no_idle() -> None:
    """Idle of the package alone is not the machine's (missing is not zero)."""
    rest = rest_of(unpack(at_rest([PACKAGE], [1.5])))
    ledger = Ledger(Idle((), rest))
    ledger.take(line(0, {PACKAGE: 0, DRAM: 0}))
    picture = ledger.take(line(1, {PACKAGE: 2_000_000, DRAM: 100_000}))
    assert picture.zones[0].idle is not None
    assert picture.idle is None


def test_a_wrap_costs_no_count() -> None:
    """W1's pair of readings, a second apart, is 9 155 uJ here too (W1)."""
    ledger = Ledger()
    ledger.take(line(0, {RAPL: 262143322807}))
    assert ledger.take(line(1, {RAPL: 3051})).measured.uj == 9155


def test_a_reset_is_a_gap_and_no_energy() -> None:
    """A counter that somebody reset adds nothing, and is counted by its reason (W6)."""
    ledger = Ledger()
    ledger.take(line(0, {RAPL: 100_000_000_000}))
    picture = ledger.take(line(1, {RAPL: 5_000_000}))
    assert picture.measured.uj == 0
    assert picture.gaps == {"reset": 1}
    # A million less what no whole count of 61 uJ holds.
    assert ledger.take(line(2, {RAPL: 6_000_000})).measured.uj == 999_997


def test_a_reading_that_fails_is_bridged_by_the_next() -> None:
    """The counter ran on meanwhile: both seconds' energy is shared by both seconds' CPU time (W12)."""
    ledger = Ledger()
    ledger.take(line(0, {PACKAGE: 0}, 0, {CONTAINER: 0}))
    ledger.take(line(1, {PACKAGE: None}, 100_000, {CONTAINER: 100_000}))
    picture = ledger.take(line(2, {PACKAGE: 4_000_000}, 200_000, {CONTAINER: 100_000}))
    assert _of(picture, CONTAINER).uj == 2_000_000
    assert picture.system.uj == 2_000_000


def test_a_daemon_that_was_restarted_counts_on() -> None:
    """Joules go on from where they were; what was used meanwhile is nobody's (D1)."""
    ledger = Ledger()
    ledger.take(line(0, {PACKAGE: 0}, 0, {CONTAINER: 0}))
    ledger.take(line(1, {PACKAGE: 1_000_000}, 100_000, {CONTAINER: 100_000}))
    ledger.interrupt()
    again = zone("package-0", id="z-other", max_range=None)
    ledger.take(line(5, {again: 9_000_000}, 900_000, {CONTAINER: 900_000}))
    picture = ledger.take(line(6, {again: 10_000_000}, 1_000_000, {CONTAINER: 1_000_000}))
    assert _of(picture, CONTAINER).uj == 2_000_000
    assert picture.error_uj == 0


def test_a_zone_that_came_back_is_another_one() -> None:
    """The new counter's first reading is a baseline, and the total never decreases (W13)."""
    ledger = Ledger()
    ledger.take(line(0, {PACKAGE: 50_000_000}))
    ledger.take(line(1, {PACKAGE: 51_000_000}))
    # Higher than the old one stood: taken for the same counter, it would be half a joule.
    picture = ledger.take(line(2, {zone("package-0", id="z-new", max_range=None): 51_500_000}))
    assert picture.measured.uj == 1_000_000
    assert picture.gaps == {}


def test_a_restarted_container_keeps_its_sum() -> None:
    """The same path with another inode begins its CPU time anew; no negative share (C7)."""
    ledger = Ledger()
    ledger.take(line(0, {PACKAGE: 0}, 0, {CONTAINER: 500_000}))
    ledger.take(line(1, {PACKAGE: 1_000_000}, 100_000, {CONTAINER: 600_000}))
    # Further than the old one was: taken for the same, its past would count.
    ledger.take(line(2, {PACKAGE: 2_000_000}, 100_000, {f"{CONTAINER}#2": 650_000}))
    picture = ledger.take(line(3, {PACKAGE: 3_000_000}, 200_000, {f"{CONTAINER}#2": 750_000}))
    assert _of(picture, CONTAINER).uj == 2_000_000
    assert [view.cpu_seconds for view in picture.cgroups] == [0.2]


def test_a_container_that_ended_keeps_its_joules_and_has_no_watts() -> None:
    """It stands behind those that run (D2's state)."""
    ledger = Ledger()
    ledger.take(line(0, {PACKAGE: 0}, 0, {CONTAINER: 0}))
    ledger.take(line(1, {PACKAGE: 1_000_000}, 100_000, {CONTAINER: 100_000}))
    picture = ledger.take(line(2, {PACKAGE: 2_000_000}, 200_000, {}))
    (view,) = picture.cgroups
    assert not view.running
    assert picture.of(view) == Amount(1_000_000, 0)


def test_of_endless_containers_the_oldest_are_forgotten_and_nothing_is_lost() -> None:
    """An exporter that runs for months holds a bounded number; conservation still is exact."""
    ledger = Ledger()
    picture = ledger.take(line(0, {PACKAGE: 0}, 0, {}))
    for second in range(MOST_GONE + 20):
        path = f"/docker/{second:064x}"
        ledger.take(line(2 * second + 1, {PACKAGE: 2_000_000 * second}, 0, {path: 0}))
        picture = ledger.take(line(2 * second + 2, {PACKAGE: 2_000_000 * second + 1_000_000}, 100_000, {path: 100_000}))
    assert len(picture.cgroups) <= MOST_GONE + 1
    assert picture.error_uj == 0


def test_a_gpu_is_charged_to_the_sole_cgroup_that_is_on_it() -> None:
    """A second one, or a foreign process, makes it shared: its joules stand under system (G8)."""
    gpu = zone("gpu-1", id="g", domain="gpu", unit="mj", max_range=None)
    other = "/docker/" + "cd" * 32
    ledger = Ledger()
    alone = WatchedEvent("gpu", subject="g", number=0, cgroups=(f"c-{CONTAINER}",))
    ledger.take(line(0, {gpu: 0}, 0, {CONTAINER: 0, other: 0}, events=[alone]))
    picture = ledger.take(line(1, {gpu: 75_000}, 0, {CONTAINER: 0, other: 0}))
    assert _of(picture, CONTAINER).uj == 75_000_000
    both = WatchedEvent("gpu", subject="g", number=0, cgroups=(f"c-{CONTAINER}", f"c-{other}"))
    picture = ledger.take(line(2, {gpu: 150_000}, 0, {CONTAINER: 0, other: 0}, events=[both]))
    assert _of(picture, CONTAINER).uj == 75_000_000
    assert picture.system.uj == 75_000_000
    assert picture.zones[0].shared


def test_a_line_of_another_make_is_refused_with_the_mend() -> None:
    """A daemon of another version ends the table with a sentence, never a traceback."""
    for wrong in ({}, {"zones": [], "cgroups": [], "raw": []}, {"zones": [{"id": "z"}]}):
        with pytest.raises(MeterRefused, match="one version"):
            watched(wrong)


# ---------------------------------------------------------------------------------------------- shown


def _seen() -> Seen:
    ledger = Ledger()
    ledger.take(line(0, {PACKAGE: 0}, 0, {CONTAINER: 0, SOLVER: 0}))
    picture = ledger.take(line(1, {PACKAGE: 2_000_000}, 100_000, {CONTAINER: 20_000, SOLVER: 60_000}))
    return Seen(picture, {"ab" * 32: Known("web", "docker")})


def test_rows_are_sorted_by_watts_and_carry_names() -> None:
    """The busiest first; a trial's cgroup by run, trial and role; then system, idle, total."""
    found = list(rows(_seen()))
    assert [row.name for row in found] == ["r1/00003/solver", "web", "system", "idle", "total"]
    assert [row.watts for row in found] == ["1.20", "0.40", "0.40", "-", "2.00"]


def test_where_there_is_no_room_the_others_are_one_row() -> None:
    """A table that is higher than the terminal would hide its total."""
    found = list(rows(_seen(), most=1))
    assert [row.name for row in found] == ["2 more", "system", "idle", "total"]
    assert found[0].watts == "1.60"


def test_a_simulated_counter_is_said() -> None:
    """Whoever reads the table knows what the figures are of (L2's law)."""
    ledger = Ledger()
    fake = zone("package-0", provenance="simulated", claimed="hw_shunt")
    ledger.take(line(0, {fake: 0}))
    seen = Seen(ledger.take(line(1, {fake: 1_000})), {})
    assert any("(simulated)" in remark for remark in remarks(seen, "idle is not known"))
    assert json_value(seen, {})["provenance"] == "simulated"


def test_what_is_counted_beside_the_sum_is_shown_in_watts_and_added_to_nothing() -> None:
    """A wall meter's or the platform's watts below the total, labelled; no joules, and none in a plain line (D1)."""
    ledger = Ledger()
    package, wall = zone("package-0"), zone("wall-meter/outlet", summed=False)
    ledger.take(line(0, {package: 0, wall: 0}))
    seen = Seen(ledger.take(line(1, {package: 2_000_000, wall: 5_000_000})), {})
    total, beside = list(rows(seen))[-2:]
    assert (total.name, total.watts) == ("total", "2.00")
    assert (beside.name, beside.watts, beside.joules, beside.kind) == (
        "wall-meter/outlet, not summed",
        "5.00",
        "",
        "beside",
    )
    assert "wall-meter" not in plain_line(seen, "2026-01-02T03:04:05Z")


def test_without_a_counter_there_are_no_joules_and_the_reason_is_said() -> None:
    """CPU time stands alone; joules are missing, never zero."""
    ledger = Ledger()
    absent = (AbsentZone("intel-rapl:0", "EACCES", "sudo appliance meter serve"),)
    ledger.take(line(0, {}, 0, {CONTAINER: 0}))
    seen = Seen(ledger.take(line(1, {}, 100_000, {CONTAINER: 60_000}, absent=absent)), {})
    assert next((row.watts, row.cpu) for row in rows(seen)) == ("-", "6%")
    assert json_value(seen, {})["total"] is None
    assert "EACCES" in next(remarks(seen, ""))


def test_a_plain_line_has_all_of_a_second() -> None:
    """For a pipe: total first, then containers, the error last."""
    text = plain_line(_seen(), "2026-01-02T03:04:05Z")
    assert text.startswith("2026-01-02T03:04:05Z  total 2.00 W 2.0 J")
    assert "web 0.40 W" in text
    assert text.endswith("error 0 uJ")


@pytest.mark.parametrize(
    ("path", "runtime"),
    [
        ("/docker/" + "ab" * 32, "docker"),
        ("/system.slice/docker-" + "ab" * 32 + ".scope", "docker"),
        ("/machine.slice/libpod-" + "ab" * 32 + ".scope/container", "podman"),
        ("/kubepods/besteffort/podx/cri-containerd-" + "ab" * 32 + ".scope", "containerd"),
        ("/kubepods/pody/crio-" + "ab" * 32, "cri-o"),
    ],
)
def test_a_path_tells_the_container_and_its_runtime(path: str, runtime: str) -> None:
    """Where no engine tells names, the first twelve digits stand for one (2.3's templates)."""
    view = Ledger().take(line(0, {}, 0, {path: 0})).cgroups[0]
    name = name_of(view, {})
    assert (name.id, name.shown, name.runtime) == ("ab" * 32, "ab" * 6, runtime)
