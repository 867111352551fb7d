"""Records whose joules come from counters: real readings, kept as blobs, and the record made of them as `run` does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from appliance.energy.counter import CounterZone
from appliance.energy.idle import rest_of
from appliance.energy.readings import unpack
from appliance.energy.windows import window_of
from appliance.records import metered
from appliance.records.plan import PlannedEnergy, TrialPlan, trial_keys
from appliance.records.record import IdleStamp, MeterStamp, Record
from appliance.records.trial import TrialResult
from appliance.records.words import Cause
from tests import record_builder as build
from tests.readings_builder import RUN, at_rest, packed, zone

HOUR_NS: Final = 3_600 * 10**9


@dataclass(frozen=True)
class Measured:
    record: Record
    blobs: dict[str, bytes]
    """By digest: everything that the record names."""


def zones() -> tuple[CounterZone, ...]:
    return (zone("package-0"), zone("package-0/dram", path="intel-rapl:0:0"), zone("psys", path="intel-rapl:1"))


WATTS: Final = (25.0, 5.0, 40.0)
REST_WATTS: Final = (10.0, 3.0, 18.0)


def plan(tasks: Sequence[str] = ("t1", "t2"), **changes: Any) -> TrialPlan:
    energy = PlannedEnergy(mode="measured", active_watts=None, scheduling="exclusive")
    return build.plan(tasks, **{"solver": "agent", "kind": "command", "energy": energy, **changes})


def meter(*looks: tuple[Literal["before", "after", "check"], bytes], **changes: Any) -> MeterStamp:
    """`looks`: (when, readings)."""
    stamps = []
    for when, content in looks:
        read = unpack(content)
        fields = metered.rest_fields(rest_of(read), read.header.opened_at, build.blob(content))
        stamps.append(IdleStamp(when=when, **fields))
    fields = {
        "name": "bench-appliance",
        "version": "0.1.0",
        "counters": ("package-0", "package-0/dram"),
        "idle": tuple(stamps),
        "calibration": None,
        "mode": "measured",
        "reason": None,
    }
    return MeterStamp(**{**fields, **changes})


def trial(
    key: Any, readings: bytes, stamp: MeterStamp, blobs: dict[str, bytes], *, kind: str = "command", **changes: Any
) -> TrialResult:
    """A resolved trial that is charged what these readings say; `wall` a little less than the window."""
    cause: Cause = changes.get("cause", "exit")
    read = unpack(readings)
    window = window_of(read, metered.idle_of(stamp, lambda ref: blobs[ref.sha256]))
    energy = metered.trial_energy(
        window, by_kind=kind in ("reference", "noop"), ran_on=metered.ran_on(read.header, cause)
    ).model_copy(update={"readings": build.blob(readings)})
    fields: dict[str, Any] = {
        "wall": read.header.length_ns / 1e9 - 0.02,
        "energy": energy,
        "cpu_seconds": metered.cpu_seconds(window),
        "cpu_source": "cgroup_parent",
    }
    return build.trial(key, **{**fields, **changes})


def measured(
    of: TrialPlan | None = None,
    *,
    readings: Callable[[int], bytes] | None = None,
    counters: Sequence[CounterZone] | None = None,
    **stamped: Any,
) -> Measured:
    """One window a trial of the plan, a minute apart, of two seconds each, between two looks at rest."""
    of = of or plan()
    there = tuple(counters or zones())
    before, after = (
        at_rest(there, REST_WATTS[: len(there)], seconds=20.0, after_ns=offset) for offset in (0, 2 * HOUR_NS)
    )
    stamp = meter(("before", before), ("after", after), mode=of.energy.mode)
    contents = [before, after]
    trials = []
    for number, key in enumerate(trial_keys(of)):
        content = readings(number) if readings else window(number, there)
        contents.append(content)
        blobs = {build.blob(one).sha256: one for one in contents}
        trials.append(trial(key, content, stamp, blobs, kind=of.solver.kind))
    stamped = {"meter": stamp, "record_id": f"{RUN}.{of.solver.name}", **stamped}
    record = build.record(of, trials, **stamped)
    blobs = {build.blob(one).sha256: one for one in contents} | build.blobs(record)
    return Measured(record, blobs)


def window(number: int, there: Sequence[CounterZone] | None = None, **changes: Any) -> bytes:
    """Of the trial of this number: more CPU each, beside a meter and a machine that do a little."""
    found = tuple(there or zones())
    fields: dict[str, Any] = {
        "cpu": {"solver": 0.5 + number / 10},
        "others": {("meter", None): 0.001},
        "system": 0.004,
        "trial": number,
        "opened_boottime_ns": str(HOUR_NS + number * 60 * 10**9),
    }
    return packed(found, WATTS[: len(found)], **{**fields, **changes})
