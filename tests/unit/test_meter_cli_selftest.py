"""The figures of `meter selftest`, from windows that are known by construction (rows T3, 3.2)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from appliance.energy.idle import Idle, rest_of
from appliance.energy.readings import unpack
from appliance.energy.windows import window_of
from appliance.errors import HostRefused, MeterRefused
from appliance.meter.faces.burning import PROGRAM, Burnt, burnt_of
from appliance.meter.faces.quiet import mend_of, unquiet
from appliance.meter.faces.selftest import Findings, Piece, additivity, selftest
from appliance.records.record import Check
from tests.readings_builder import at_rest, packed, zone

PACKAGE = zone("package-0", max_range=None)
IDLE = Idle((rest_of(unpack(at_rest([PACKAGE], [10.0]))),))
BURNT = Burnt(1_000_000_000, 1_000_000_000)


def _piece(name: str, watts: float, cpu: float = 1.0, others: float = 0.0, idle: Idle | None = IDLE) -> Piece:
    shared = {("solver", "f00d"): others} if others else {}
    readings = unpack(packed([PACKAGE], [watts], seconds=1.0, cpu={"solver": cpu}, others=shared))
    window = window_of(readings, idle)
    return Piece(name, BURNT, window, window if idle else None)


def test_energies_that_add_up_are_apart_by_nothing() -> None:
    """A alone 20 W above rest, B alone 10, both together 30: each gets its own by CPU time (3.2)."""
    found = (
        _piece("a alone", 30.0),
        _piece("b alone", 20.0, cpu=0.5),
        _piece("a together", 40.0, cpu=1.0, others=0.5),
        _piece("b together", 40.0, cpu=0.5, others=1.0),
    )
    (one,) = additivity(found)
    assert one.alone_uj == pytest.approx(30_000_000, rel=1e-3)
    assert one.difference_uj is not None
    assert one.difference_uj < 30_000
    assert one.uncertainty_uj is not None


def test_what_does_not_add_up_is_told() -> None:
    """Together 24 W above rest instead of 30: 6 J apart, a fifth (3.2)."""
    found = (
        _piece("a alone", 30.0),
        _piece("b alone", 20.0, cpu=0.5),
        _piece("a together", 34.0, cpu=1.0, others=0.5),
        _piece("b together", 34.0, cpu=0.5, others=1.0),
    )
    (one,) = additivity(found)
    assert one.percent == pytest.approx(20.0, abs=0.1)


def test_without_an_idle_power_nothing_is_told() -> None:
    """Gross energies of windows of different lengths add up to nothing that means anything."""
    names = ("a alone", "b alone", "a together", "b together")
    (one,) = additivity([_piece(name, 30.0, idle=None) for name in names])
    assert one.difference_uj is None
    assert one.missing is not None


def test_one_microjoule_astray_is_no_conservation() -> None:
    """The verdict is exact: a zone whose parts are one off its gross is found (3.1)."""
    good = _piece("a alone", 30.0)
    assert good.conservation_error_uj() == 0
    assert Findings((good,), (), {}).conserves is True
    assert good.split is not None
    zones = tuple(replace(one, system_uj=(one.system_uj or 0) + 1) for one in good.split.zones)
    bad = replace(good, split=replace(good.split, zones=zones))
    assert bad.conservation_error_uj() == 1
    assert Findings((good, bad), (), {}).conserves is False


def test_nothing_measured_is_neither_conserved_nor_lost() -> None:
    """No verdict where there was nothing to judge (missing is not zero)."""
    assert Findings((_piece("a alone", 30.0, idle=None),), (), {}).conserves is None


def test_the_error_of_cpu_time_is_what_was_counted_beyond_the_burn() -> None:
    """A cgroup that counted 1.005 s for a burn of 1 s is 5 ms over; both together are summed."""
    pieces = (_piece("a together", 30.0, cpu=1.005), _piece("b together", 30.0, cpu=0.995))
    assert [piece.cpu_error_ns for piece in pieces] == [5_000_000, -5_000_000]
    assert Findings(pieces, (), {}).cpu_together_error_ns == 0


class _Meter:
    """Answers as the daemon does; `fails` is the op that it refuses."""

    def __init__(self, fails: str = "") -> None:
        self.fails = fails
        self.asked: list[str] = []

    def _answer(self, op: str, what: Any) -> Any:
        self.asked.append(f"{op} {what}")
        if op == self.fails:
            raise MeterRefused("too many", reason="too_many")
        readings = packed([PACKAGE], [30.0], seconds=3.0, cpu={"solver": 0.5})
        fields = {"handle": f"h{what}", "window": f"w{what}", "readings": readings, "cgroups": {"solver": "/c"}}
        return type("Answer", (), fields)()

    def prepare(self, run: str, trial: int | None, roles: Any, *, driver: str = "cgroupfs") -> Any:
        return self._answer("prepare", trial)

    def open(self, handle: str) -> Any:
        return self._answer("open", handle)

    def close(self, window: str) -> Any:
        return self._answer("close", window)

    def release(self, handle: str) -> Any:
        return self._answer("release", handle)


class _Load:
    closed: list[str] = []  # noqa: RUF012 - one list for all of a test's loads

    def __init__(self, cgroup: str, cpu_seconds: float):
        self.cgroup = cgroup

    def burn(self) -> Burnt:
        return BURNT

    def close(self) -> None:
        self.closed.append(self.cgroup)


def _tested(meter: _Meter, counted: str | None = "none here") -> Findings:
    return selftest(
        meter, _Load, run="t", driver="cgroupfs", counted=counted, cpu_seconds=(1.0, 0.5), rest_seconds=2.0,
        pause=lambda _: None, say=lambda _: None,
    )  # fmt: skip


def test_every_window_has_a_trial_of_its_own() -> None:
    """Alone, alone, together: four trials, each released (T3)."""
    meter = _Meter()
    found = _tested(meter)
    assert [one for one in meter.asked if one.startswith("prepare")] == [f"prepare {trial}" for trial in range(4)]
    assert len([one for one in meter.asked if one.startswith("release")]) == 4
    assert set(found.untested) == {"additivity", "conservation"}


def test_with_a_counter_the_machine_at_rest_is_looked_at_before_and_after() -> None:
    """Two windows without a trial around all of it (J38's law)."""
    meter = _Meter()
    _tested(meter, counted=None)
    rests = [place for place, one in enumerate(meter.asked) if one == "prepare None"]
    assert len(rests) == 2
    assert rests[0] == 0


def test_a_refusal_in_the_middle_leaves_nothing_prepared() -> None:
    """What was prepared is released, what was started is closed, and the refusal is the one that is told."""
    _Load.closed.clear()
    meter = _Meter(fails="open")
    with pytest.raises(MeterRefused, match="too many"):
        _tested(meter)
    assert "release h0" in meter.asked
    assert _Load.closed == ["/c"]


def test_a_load_that_was_killed_is_a_refusal() -> None:
    """With what it said, and where to look."""
    assert burnt_of(b'{"cpuNs": 5, "wallNs": 6}\n', 0) == Burnt(5, 6)
    with pytest.raises(HostRefused, match="ended with -9"):
        burnt_of(b"", -9)
    assert "cpuNs" in PROGRAM


def test_foreign_work_is_told_and_conditions_are_not() -> None:
    """Load, containers, stolen time and sleep make a host unquiet; a governor does not (3.2)."""
    checks = (
        Check(name="cpu_load", level="warn", message="31% of the CPUs are busy", mend="top"),
        Check(name="governor", level="warn", message="powersave", mend="cpupower"),
        Check(name="containers", level="info", message="no other container"),
    )
    assert unquiet(checks) == "cpu_load: 31% of the CPUs are busy"
    assert mend_of(checks) == "top"
    assert unquiet(checks[1:]) is None
