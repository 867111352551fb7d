"""Joules without a counter: two named models, each with its inputs and an interval, so that anyone can redo them.

`wall/1`        watts x wall; interval [idle share x watts, 2 x watts] x wall; nothing is known of idle or system.
`teads-curve/1` design power x curve(utilisation); idle is the curve at 0, net what lies above it; the interval is
                the envelope of that net over three published curves and the range of the design power.

Every figure is integer microjoules: points are rounded to the nearest (half up), intervals outward. Curves are kept in
units of 1e-9 of the design power, so that one input gives one output on every machine.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from appliance.energy.cpus import DesignPower
from appliance.errors import UsageRefused

ACTIVE_WATTS: Final = "JOULE_BENCH_ACTIVE_WATTS"
DEFAULT_WATTS: Final = 65.0
IDLE_SHARE_PERCENT: Final = 20
Model = Literal["wall/1", "teads-curve/1"]

_UNIT: Final = 10**9
_NS: Final = 10**9
# Teads engineering's shape of an Intel server: (utilisation, share of the design power), linear between the points.
_TEADS: Final = (
    (0, 120_000_000),
    (100_000_000, 320_000_000),
    (500_000_000, 750_000_000),
    (_UNIT, 1_020_000_000),
)
_FLOOR: Final = 100_000_000
"""Share of the design power that the cubic and the linear curve have at rest."""


@dataclass(frozen=True)
class Estimate:
    """Microjoules of one window. `net_uj` None: the utilisation was not readable; `interval` then spans all of it."""

    model: Model
    inputs: Mapping[str, Any]
    gross_uj: int | None
    idle_uj: int | None
    net_uj: int | None
    interval: tuple[int, int]
    """Of `net_uj`."""


def active_watts(environment: Mapping[str, str]) -> float | None:
    """JOULE_BENCH_ACTIVE_WATTS, None where unset; what is no positive finite number raises UsageRefused."""
    text = environment.get(ACTIVE_WATTS)
    if text is None:
        return None
    try:
        watts = float(text)
    except ValueError:
        watts = math.nan
    if not math.isfinite(watts) or watts <= 0:
        raise UsageRefused(
            f"{text!r} is no number of watts above 0",
            where=ACTIVE_WATTS,
            mend=f"set it as {ACTIVE_WATTS}=20, or unset it",
        )
    return watts


def wall(wall_ns: int, watts: float | None) -> Estimate:
    """`watts` None takes the default; gross and net are the same, idle is not known."""
    power_uw = round((DEFAULT_WATTS if watts is None else watts) * 1e6)
    point = _nearest(power_uw * wall_ns, _NS)
    return Estimate(
        model="wall/1",
        inputs={
            "watts": power_uw / 1e6,
            "wattsSource": "default" if watts is None else ACTIVE_WATTS,
            "idleShare": IDLE_SHARE_PERCENT / 100,
            "wallNs": wall_ns,
        },
        gross_uj=point,
        idle_uj=None,
        net_uj=point,
        interval=(power_uw * IDLE_SHARE_PERCENT * wall_ns // (100 * _NS), _up(2 * power_uw * wall_ns, _NS)),
    )


def curve(wall_ns: int, cpu_ns: int | None, threads: int, power: DesignPower) -> Estimate:
    """`cpu_ns`: CPU time of the trial's cgroup; `threads`: of the machine, whose design power this is."""
    inputs: dict[str, Any] = {
        "tdp": power.point_uw / 1e6,
        "tdpRange": [power.low_uw / 1e6, power.high_uw / 1e6],
        "tdpSource": power.source,
        "threads": threads,
        "wallNs": wall_ns,
        "cpuNs": cpu_ns,
    }
    span = _NS * _UNIT
    if cpu_ns is None:
        inputs["utilisation"] = None
        most = max(_dynamic_shares(_UNIT)) * power.high_uw * wall_ns
        return Estimate("teads-curve/1", inputs, None, None, None, (0, _up(most, span)))
    used = utilisation(wall_ns, cpu_ns, threads)
    inputs["utilisation"] = used / _UNIT
    shares = _dynamic_shares(used)
    idle = _nearest(_teads(0) * power.point_uw * wall_ns, span)
    net = _nearest((_teads(used) - _teads(0)) * power.point_uw * wall_ns, span)
    low = min(shares) * power.low_uw * wall_ns // span
    high = _up(max(shares) * power.high_uw * wall_ns, span)
    return Estimate("teads-curve/1", inputs, idle + net, idle, net, (low, high))


def again(model: str, inputs: Mapping[str, Any]) -> Estimate:
    """The estimate that these recorded inputs give; what a verifier compares with. Raises ValueError on odd inputs."""
    try:
        if model == "wall/1":
            default = inputs["wattsSource"] == "default"
            return wall(inputs["wallNs"], None if default else inputs["watts"])
        if model == "teads-curve/1":
            point, low, high = (round(watts * 1e6) for watts in (inputs["tdp"], *inputs["tdpRange"]))
            power = DesignPower(point, low, high, inputs["tdpSource"])
            return curve(inputs["wallNs"], inputs["cpuNs"], inputs["threads"], power)
    except (KeyError, TypeError, ZeroDivisionError) as error:
        raise ValueError(f"inputs of {model} do not hold what it needs: {error}") from error
    raise ValueError(f"no estimator is called {model!r}")


def utilisation(wall_ns: int, cpu_ns: int, threads: int) -> int:
    """Of the whole machine, in 1e-9; clamped to 1 (CPU time may run some ticks ahead of the wall)."""
    return 0 if wall_ns <= 0 else min(_UNIT, max(0, cpu_ns) * _UNIT // (wall_ns * threads))


def _teads(used: int) -> int:
    for (left, low), (right, high) in itertools.pairwise(_TEADS):
        if used <= right:
            return low + (used - left) * (high - low) // (right - left)
    return _TEADS[-1][1]


def _dynamic_shares(used: int) -> tuple[int, int, int]:
    """What lies above rest at this utilisation, in 1e-9 of the design power: cubic, linear, Teads."""
    above = _UNIT - _FLOOR
    return above * used**3 // _UNIT**3, above * used // _UNIT, _teads(used) - _teads(0)


def _nearest(numerator: int, denominator: int) -> int:
    return (2 * numerator + denominator) // (2 * denominator)


def _up(numerator: int, denominator: int) -> int:
    return -(-numerator // denominator)
