"""Readings that a cheat forged whole, figures and all: what no machine would say is refused; the rest is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal

import pytest

from appliance.audit.checks import record_checks
from appliance.energy.counter import CounterZone
from appliance.files import store_blob
from appliance.records.frontier import energy_point
from appliance.records.plan import trial_keys
from attest import canonical
from attest.checks import NotRun, Verified
from attest.errors import Refused
from tests import measured_builder as made
from tests import record_builder as build
from tests.measured_builder import HOUR_NS, REST_WATTS, WATTS, Measured
from tests.readings_builder import RUN, at_rest, packed, zone

Look = tuple[Literal["before", "after", "check"], bytes]
ZONES: Final = made.zones()
SECOND_NS: Final = 10**9
READINGS: Final = "$.trials[{}].energy.readings"


def otherwise(key: str, **changes: Any) -> tuple[CounterZone, ...]:
    return tuple(replace(one, **changes) if one.key == key else one for one in ZONES)


def look(
    when: Literal["before", "after", "check"],
    *,
    at_ns: int = 0,
    watts: Sequence[float] = REST_WATTS,
    there: Sequence[CounterZone] = ZONES,
    **head: Any,
) -> Look:
    return when, at_rest(there, watts, seconds=20.0, after_ns=at_ns, **head)


BEFORE: Final = look("before")
AFTER: Final = look("after", at_ns=2 * HOUR_NS)


def forged(*contents: bytes, looks: Sequence[Look] = (BEFORE, AFTER)) -> Measured:
    """A record of two trials, of which everything is computed again from what was forged."""
    of = made.plan()
    stamp = made.meter(*looks, mode=of.energy.mode)
    windows = contents or (made.window(0), made.window(1))
    blobs = {build.blob(one).sha256: one for one in (*windows, *(content for _, content in looks))}
    trials = [made.trial(key, one, stamp, blobs) for key, one in zip(trial_keys(of), windows, strict=True)]
    record = build.record(of, trials, meter=stamp, record_id=f"{RUN}.{of.solver.name}")
    return Measured(record, blobs | build.blobs(record))


def refused(of: Measured, folder: Path) -> Refused | None:
    """By the check of its joules; every other one holds."""
    for digest, content in of.blobs.items():
        store_blob(folder, content, digest)
    content = of.record.canonical()
    verified = Verified(content, canonical.loads(content), {}, "who", "issuer", build.SIGNED_AT, "local")
    found: list[tuple[str, Refused]] = []
    for check in record_checks(folder, allow_missing=False):
        try:
            check.run(verified)
        except Refused as caught:
            found.append((check.name, caught))
        except NotRun as lack:
            raise AssertionError(str(lack)) from lack
    assert len(found) < 2, found
    if not found:
        return None
    ((name, refusal),) = found
    assert (name, refusal.reason) == ("its joules are those of its readings", "energy")
    return refusal


def both(**changes: Any) -> tuple[bytes, bytes]:
    return made.window(0, **changes), made.window(1, **changes)


def test_what_is_forged_here_is_else_in_order(tmp_path: Path) -> None:
    """The premise: the same, with nothing odd in it, is refused nowhere."""
    assert refused(forged(), tmp_path) is None


CASES: dict[str, tuple[Callable[[], Measured], str, str]] = {
    "a package left out of the sum": (
        lambda: forged(*both(there=otherwise("package-0", summed=False))),
        READINGS.format(0),
        "package-0 is not summed",
    ),
    "memory left out of one trial's sum": (
        lambda: forged(made.window(0), made.window(1, otherwise("package-0/dram", summed=False))),
        READINGS.format(1),
        "package-0/dram is not summed",
    ),
    "a platform that is summed beside its package": (
        lambda: forged(*both(there=otherwise("psys", summed=True))),
        READINGS.format(0),
        "psys is summed",
    ),
    "a package that poses as a core": (
        lambda: forged(*both(there=otherwise("package-0", domain="core", summed=False))),
        READINGS.format(0),
        "package-0 is no core",
    ),
    "a zone that the kernel has no name for": (
        lambda: forged(*both(there=otherwise("package-0", path="../elsewhere"))),
        READINGS.format(0),
        "is no zone of powercap",
    ),
    "rest by a simulated counter, work by the machine's": (
        lambda: forged(
            looks=(
                look("before", there=[replace(one, provenance="simulated", claimed="hw_shunt") for one in ZONES]),
                look("after", at_ns=2 * HOUR_NS),
            )
        ),
        "$.meter.idle[1].readings",
        "intel-rapl:0 is hw_shunt by its provenance",
    ),
    "another range in one window": (
        lambda: forged(made.window(0), made.window(1, otherwise("package-0", max_range=2**40))),
        READINGS.format(1),
        "by its max_range",
    ),
    "a solver among the others": (
        lambda: forged(*both(cpu={}, others={("meter", None): 0.001, ("solver", "ab"): 0.5})),
        READINGS.format(0),
        "without its solver's cgroup",
    ),
    "a solver that poses as the forwarder": (
        lambda: forged(*both(cpu={"forwarder": 0.5})),
        READINGS.format(0),
        "without its solver's cgroup",
    ),
    "a look over a window": (
        lambda: forged(looks=(look("before", at_ns=HOUR_NS - 61 * SECOND_NS), AFTER)),
        READINGS.format(0),
        "its window lies over $.meter.idle[0].readings",
    ),
    "looks in another order": (
        lambda: forged(looks=(look("before", at_ns=HOUR_NS), look("before"), AFTER)),
        "$.meter.idle[1].readings",
        "it began before $.meter.idle[0].readings had ended",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_no_machine_says_is_refused_although_every_joule_follows_from_it(name: str, tmp_path: Path) -> None:
    """Readings, figures, sums and journal agree; the place is named (J44, ZN1 to ZN6, J38)."""
    make, where, words = CASES[name]
    refusal = refused(make(), tmp_path)
    assert refusal is not None
    assert refusal.where == where, str(refusal)
    assert words in refusal.message


def test_a_run_whose_meter_was_away_at_first_has_a_look_after_it_alone(tmp_path: Path) -> None:
    """An honest one: a look that no meter took is none, and the power at rest is that of the other (J38)."""
    assert refused(forged(looks=(AFTER,)), tmp_path) is None


def test_rest_at_a_machine_at_work_is_flagged_and_enters_no_ranking(tmp_path: Path) -> None:
    """Whoever burns CPU during both looks only makes net small: no bin scatters, no look drifts. It is said, of every
    figure that rests on it, and none is ranked (energy 3.2)."""
    watts = (24.0, 4.8, 39.0)
    busy = (look("before", watts=watts, system=1.0), look("after", at_ns=2 * HOUR_NS, watts=watts, system=1.0))
    found = forged(looks=busy)
    assert refused(found, tmp_path) is None
    for result in found.record.trials:
        assert result.energy is not None
        assert "idle_busy" in result.energy.total.flags
        assert result.energy.total.net_uj is not None
        assert not result.energy.total.comparable
    point = energy_point("x", found.record, 0)
    assert point is not None
    assert point.cost is None
    quiet = forged(looks=(look("before", system=0.1), AFTER))
    assert all(one.energy and "idle_busy" not in one.energy.total.flags for one in quiet.record.trials)


def test_a_counter_that_stands_still_all_along_enters_no_ranking() -> None:
    """A frozen package reads 0 J of half a CPU for two seconds: kept as read, and below what it resolves (W5)."""
    still = [
        packed([zone()], [0.0], trial=number, opened_boottime_ns=str(HOUR_NS + number * 60 * SECOND_NS))
        for number in (0, 1)
    ]
    found = forged(*still, looks=(look("before", watts=[0.0], there=[zone()]),))
    for result in found.record.trials:
        assert result.energy is not None
        assert (result.energy.total.gross_uj, result.energy.total.flags) == (0, ("stale",))
        assert result.energy.total.below_floor
    point = energy_point("x", found.record, 0)
    assert point is not None
    assert point.cost is None
    moving = packed([zone()], WATTS[:1], trial=0, opened_boottime_ns=str(HOUR_NS))
    other = forged(moving, still[1], looks=(look("before", watts=[10.0], there=[zone()]),)).record.trials[0].energy
    assert other is not None
    assert not other.total.below_floor
