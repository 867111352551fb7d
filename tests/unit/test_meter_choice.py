"""Which source the joules come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.errors import MeterRefused
from appliance.meter.choice import Choice, choose
from appliance.meter.counters import CounterSearch, look_for_counters
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


def test_a_counter_that_this_version_does_not_read_is_said_so() -> None:
    """`auto` never claims that there was none where one is there (J36)."""
    found = CounterSearch(("intel-rapl:0",), None, None)
    assert choose("auto", watts_set=False, counters=found, cpu_readable=True).reason == (
        "no counter: this version does not read intel-rapl:0 yet"
    )


def test_counters_are_looked_for_and_their_lack_has_a_reason(tmp_path: Path) -> None:
    """(J34 J36)"""
    root = tmp_path / "powercap"
    assert look_for_counters(root) == CounterSearch((), "NoCounter", f"no counter: {root} absent")
    root.mkdir()
    assert look_for_counters(root).reason == f"no counter: {root} has no intel-rapl zone"
    for name in ("intel-rapl:0", "intel-rapl:a"):
        (root / name).mkdir()
        (root / name / "energy_uj").write_text("12\n")
    assert look_for_counters(root).found == ("intel-rapl:0", "intel-rapl:a")
    for name in ("intel-rapl:0", "intel-rapl:a"):
        (root / name / "energy_uj").unlink()
        # A folder stands for a file that the kernel refuses to read.
        (root / name / "energy_uj").mkdir()
    assert look_for_counters(root) == CounterSearch((), "NoCounter", "EISDIR intel-rapl:0")
