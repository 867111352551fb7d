"""Which source the joules come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.errors import MeterRefused
from appliance.meter.choice import Choice, choose, refuse_other_source
from appliance.meter.counters.search import CounterSearch, counters_of, look_for_counters
from appliance.records.words import EnergyMode

ABSENT = CounterSearch((), "NoCounter", "no counter: /sys/class/powercap absent")
DENIED = CounterSearch((), "PrivilegeRequired", "EACCES intel-rapl:0")


@pytest.mark.parametrize(
    ("mode", "watts_set", "cpu_readable", "choice"),
    [
        ("auto", False, True, Choice("curve", "no counter: /sys/class/powercap absent")),
        ("auto", True, True, Choice("wall", "no counter: /sys/class/powercap absent")),
        ("auto", False, False, Choice("wall", "no counter: /sys/class/powercap absent")),
        ("estimator", False, True, Choice("wall", None)),
        ("estimator:curve", True, True, Choice("curve", None)),
    ],
)
def test_auto_takes_wall_with_watts_else_curve_where_cgroup_time_is_readable(
    mode: EnergyMode, watts_set: bool, cpu_readable: bool, choice: Choice
) -> None:
    """And keeps the reason for which no counter was taken (J36, decisions: Estimator)."""
    assert choose(mode, watts_set=watts_set, counters=ABSENT, cpu_readable=cpu_readable) == choice


@pytest.mark.parametrize(("counters", "word"), [(ABSENT, "NoCounter"), (DENIED, "PrivilegeRequired")])
def test_measured_without_a_counter_is_refused_with_status_6(counters: CounterSearch, word: str) -> None:
    """With the reason, before any trial, and without a silent fallback (J34 L5)."""
    with pytest.raises(MeterRefused) as refusal:
        choose("measured", watts_set=True, counters=counters, cpu_readable=True)
    assert refusal.value.status == 6
    assert refusal.value.reason == word
    assert word in str(refusal.value)
    assert refusal.value.mend


def test_the_curve_without_cgroup_time_is_refused() -> None:
    """It is not replaced by the other estimator (L4)."""
    with pytest.raises(MeterRefused, match="CPU time"):
        choose("estimator:curve", watts_set=False, counters=ABSENT, cpu_readable=False)


FOUND = CounterSearch(("package-0",), None, None)


@pytest.mark.parametrize("mode", ["auto", "measured"])
def test_a_readable_counter_is_taken(mode: EnergyMode) -> None:
    """Whether or not watts are set for an estimator (J34 J36 J37)."""
    assert choose(mode, watts_set=True, counters=FOUND, cpu_readable=True) == Choice("counters", None)


def test_a_run_that_began_with_a_model_stays_with_it_and_says_so() -> None:
    """One record, one source (L4); `measured` is never a model."""
    choice = choose("auto", watts_set=False, counters=FOUND, cpu_readable=True, began_with_model=True)
    assert choice == Choice("curve", "the run began without a counter")
    measured = choose("measured", watts_set=False, counters=FOUND, cpu_readable=True, began_with_model=True)
    assert measured.source == "counters"


def test_a_run_that_began_with_counters_does_not_end_with_a_model() -> None:
    """Refused with status 6 before any trial (L4 L5)."""
    estimated = choose("auto", watts_set=False, counters=ABSENT, cpu_readable=True)
    with pytest.raises(MeterRefused, match="began with counters") as refusal:
        refuse_other_source(estimated, "counters")
    assert refusal.value.status == 6
    assert "none can be read now: " in str(refusal.value)
    with pytest.raises(MeterRefused, match="a model is asked for") as asked:
        refuse_other_source(choose("estimator", watts_set=False, counters=FOUND, cpu_readable=True), "counters")
    assert (asked.value.status, asked.value.mend) == (6, "leave out --energy, or start a new run")
    refuse_other_source(estimated, "model")
    refuse_other_source(estimated, None)
    refuse_other_source(Choice("counters", None), "counters")


def test_what_a_meter_says_of_its_zones_is_what_a_run_may_take() -> None:
    """Of the absent ones, the one that a permission opens is named before one that is broken (J34, W11)."""
    zone = {"key": "package-0", "source": "powercap", "summed": True}
    assert counters_of({"counters": [zone]}).found == ("package-0",)
    assert counters_of({"counters": [zone | {"summed": False}]}).lack == "NoCounter"
    absent = [
        {"path": "intel-rapl:0", "reason": "EIO", "mend": None},
        {"path": "intel-rapl:1", "reason": "EACCES", "mend": "run it as root"},
    ]
    denied = counters_of({"counters": [], "absent": absent})
    assert denied == CounterSearch((), "PrivilegeRequired", "EACCES intel-rapl:1", "run it as root")
    assert counters_of({"counters": [], "absent": []}).reason


def test_counters_are_looked_for_and_their_lack_has_a_reason(tmp_path: Path) -> None:
    """(J34 J36)"""
    root = tmp_path / "powercap"
    assert look_for_counters(root) == CounterSearch((), "NoCounter", f"no counter: {root} absent")
    root.mkdir()
    assert look_for_counters(root).reason == f"no counter: {root} has no intel-rapl zone"
    for name in ("intel-rapl:0", "intel-rapl:a"):
        (root / name).mkdir()
        (root / name / "name").write_text(f"package-{name[-1]}\n")
        (root / name / "energy_uj").write_text("12\n")
    assert look_for_counters(root).found == ("intel-rapl:0", "intel-rapl:a")
    for name in ("intel-rapl:0", "intel-rapl:a"):
        (root / name / "energy_uj").unlink()
        # A folder stands for a file that the kernel refuses to read.
        (root / name / "energy_uj").mkdir()
    assert look_for_counters(root) == CounterSearch((), "NoCounter", "EISDIR intel-rapl:0")
