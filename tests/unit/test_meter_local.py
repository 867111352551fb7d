"""The meter over planted trees: what it says where cgroups or time are missing, and its labels."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

from appliance.errors import HostRefused, MeterRefused, UsageRefused
from appliance.meter.local import HostCgroups, LocalMeter
from appliance.meter.plugins import GROUP, MeterRequest, meter_names, open_meter
from appliance.ports import Meter
from appliance.records.plan import PlannedEnergy
from appliance.records.words import EnergyMode


def planned(mode: EnergyMode = "auto", watts: float | None = None) -> PlannedEnergy:
    return PlannedEnergy(mode=mode, active_watts=watts, scheduling="shared")


UNREACHABLE = HostCgroups(reachable=False)


def test_wall_gives_sixty_joules_with_its_label() -> None:
    """3.0 s at 20 W (J35 J37 L1)."""
    meter = LocalMeter(planned("estimator", 20.0), UNREACHABLE)
    trial = meter.prepare("r1", 0, planned("estimator", 20.0), 1.0, by_kind=False)
    trial.open()
    trial.close()
    total = trial.release(3.0, at_limit=False).energy.total
    assert (total.gross_uj, total.net_uj) == (60_000_000, 60_000_000)
    assert (total.idle_uj, total.system_uj, total.marginal_uj) == (None, None, None)
    assert (total.provenance, total.basis, total.model, total.source) == ("estimator", "modelled", "wall/1", "wall")
    assert total.interval == (12_000_000, 120_000_000)
    assert not total.comparable
    assert not total.below_floor


def test_where_no_cgroup_is_reachable_none_is_named_and_no_time_is_claimed() -> None:
    """Rootless and remote engines (formats 9, I19)."""
    meter = LocalMeter(planned(), UNREACHABLE)
    trial = meter.prepare("r1", 0, planned(), 1.0, by_kind=False)
    assert trial.cgroups == {}
    assert meter.harness_cgroup("r1") is None
    found = trial.release(1.0, at_limit=False)
    assert found.cpu_source is None
    assert found.cpu_seconds == {"solver": None}
    assert found.energy.total.model == "wall/1"
    meter.close_run("r1")


def test_the_engines_one_shot_statistics_stand_in_and_are_labelled() -> None:
    """Around the exec (I19)."""
    ticking = iter([1_000_000_000, 3_500_000_000])
    meter = LocalMeter(planned("estimator:curve"), UNREACHABLE, stats=lambda run, trial, role: next(ticking))
    trial = meter.prepare("r1", 0, planned("estimator:curve"), 1.0, by_kind=False)
    trial.open()
    trial.close()
    found = trial.release(10.0, at_limit=False)
    assert (found.cpu_source, found.cpu_seconds) == ("stats_one_shot", {"solver": 2.5})
    assert found.energy.total.inputs is not None
    assert found.energy.total.inputs["cpuNs"] == 2_500_000_000


def test_a_curve_without_a_reading_has_no_number_and_says_why() -> None:
    """Missing is not zero; the model does not change inside a window (L4)."""
    meter = LocalMeter(planned("estimator:curve"), UNREACHABLE, stats=lambda run, trial, role: None)
    trial = meter.prepare("r1", 0, planned("estimator:curve"), 1.0, by_kind=False)
    trial.open()
    trial.close()
    total = trial.release(10.0, at_limit=False).energy.total
    assert total.net_uj is None
    assert total.missing is not None
    assert "CPU time" in total.missing
    assert total.interval is not None


@pytest.mark.parametrize(("wall", "by_kind", "below"), [(0.0999, False, True), (0.1, False, False), (50.0, True, True)])
def test_the_tilde_is_for_the_floor_and_for_reference_and_noop(wall: float, by_kind: bool, below: bool) -> None:
    """Estimator floor 100 ms; by kind whatever the wall (J41 J43)."""
    meter = LocalMeter(planned("estimator"), UNREACHABLE)
    trial = meter.prepare("r1", 0, planned("estimator"), 1.0, by_kind=by_kind)
    assert trial.release(wall, at_limit=False).energy.total.below_floor is below


def test_the_stamp_says_what_was_asked_and_why_no_counter_was_taken(tmp_path: Path) -> None:
    """(J36 J44)"""
    stamp = LocalMeter(planned(), UNREACHABLE, powercap=tmp_path / "none").stamp()
    assert (stamp.name, stamp.mode, stamp.counters) == ("local", "auto", ())
    assert stamp.reason == f"no counter: {tmp_path / 'none'} absent"
    assert LocalMeter(planned("estimator"), UNREACHABLE).stamp().reason is None


def test_measured_is_refused_before_any_trial(tmp_path: Path) -> None:
    """(J34 L5)"""
    with pytest.raises(MeterRefused, match="NoCounter"):
        LocalMeter(planned("measured", 20.0), UNREACHABLE, powercap=tmp_path / "none")


class Others:
    """A third party's meter, registered by entry point below."""

    def __init__(self, request: MeterRequest):
        self.request = request


def broken(request: MeterRequest) -> Meter:
    raise KeyError("no wall plug answers")


@pytest.fixture
def third_party(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An installed distribution, as pip would leave it, on the path."""
    folder = tmp_path / "others-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(
        f"[{GROUP}]\nwall-plug = {__name__}:Others\nbroken = {__name__}:broken\nabsent = no_such_module:x\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()


@pytest.mark.usefixtures("third_party")
def test_a_third_partys_meter_is_selectable_by_name() -> None:
    """(J47)"""
    assert {"local", "wall-plug"} <= set(meter_names())
    request = MeterRequest(planned("measured"))
    found = open_meter(request, "wall-plug")
    assert isinstance(found, Others)
    assert found.request is request


@pytest.mark.usefixtures("third_party")
@pytest.mark.parametrize("name", ["broken", "absent"])
def test_a_plug_in_that_fails_is_named(name: str) -> None:
    """(J47)"""
    with pytest.raises(HostRefused, match=f"meter plug-in {name}"):
        open_meter(MeterRequest(planned()), name)


def test_a_meter_that_is_not_there_is_refused_with_the_known_ones() -> None:
    """(J47)"""
    with pytest.raises(UsageRefused, match="local"):
        open_meter(MeterRequest(planned()), "sundial")
