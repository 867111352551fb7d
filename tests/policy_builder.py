"""Policies for tests, and records that a policy with every default takes: each figure settable."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from appliance.audit.policy import Policy, policy_of
from appliance.files import store_blob
from appliance.records.plan import TrialPlan, trial_keys
from appliance.records.record import MeterStamp, Record
from appliance.records.trial import TrialResult
from attest.trust.local import ISSUER, LocalTrust
from tests import measured_builder, readings_builder
from tests import record_builder as build

BEGAN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
LIMITS = {
    "wall_seconds": 600.0,
    "cpus": 1.0,
    "memory_mib": 2048,
    "pids": 256,
    "disk_mib": 1024,
    "test_seconds": 120.0,
}
Tables = Mapping[str, Any]
Changes = Callable[[int], dict[str, Any]]


def toml(values: Tables) -> str:
    """Top-level values, then tables, then arrays of tables; what lies deeper is inline."""
    plain = [f"{key} = {_inline(value)}" for key, value in values.items() if not _is_table(value)]
    tables = [
        line
        for key, value in values.items()
        if _is_table(value)
        for entry in (value if isinstance(value, list) else [value])
        for line in (
            f"[[{key}]]" if isinstance(value, list) else f"[{key}]",
            *(f"{name} = {_inline(inner)}" for name, inner in entry.items()),
        )
    ]
    return "\n".join([*plain, *tables]) + "\n"


def _is_table(value: object) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and bool(value) and isinstance(value[0], dict))


def _inline(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_inline(inner)}" for key, inner in value.items()) + "}"
    return json.dumps(value)


def tables(trust: LocalTrust | None = None, **changes: Any) -> dict[str, Any]:
    """A policy that takes `believable()`; of each table the named keys are changed, a list or text is replaced."""
    signer = {
        "root_sha256": trust.root.sha256 if trust else "a" * 64,
        "identity": trust.identity if trust else "https://appliance.local.invalid/somebody",
        "issuer": ISSUER,
    }
    plan = build.plan()
    values: dict[str, Any] = {
        "schema": "policy-v1",
        "name": "example",
        "version": 1,
        "signers": [signer],
        "suites": [
            {
                "name": plan.suite.name,
                "digest": plan.suite.digest,
                "network": "none",
                "images": [build.pin().config],
                "limits": dict(LIMITS),
            }
        ],
    }
    for key, change in changes.items():
        if isinstance(change, dict) and isinstance(values.get(key), list):
            values[key] = [{**values[key][0], **change}]
        elif isinstance(change, dict):
            values[key] = {**values.get(key, {}), **change}
        else:
            values[key] = change
    required = values.get("blobs", {}).get("required", ())
    for suite in values["suites"]:
        named = suite.get("tasks", {}).values()
        if "suite" not in required and not (named and all("digest" in task for task in named)):
            suite.setdefault("any_tasks", True)
    return values


def policy(trust: LocalTrust | None = None, **changes: Any) -> Policy:
    return policy_of(toml(tables(trust, **changes)).encode(), "policy.toml")


@dataclass(frozen=True)
class Made:
    record: Record
    blobs: dict[str, bytes]

    def store(self, folder: Path) -> Path:
        for digest, content in self.blobs.items():
            store_blob(folder, content, digest)
        return folder


def plan(**changes: Any) -> TrialPlan:
    return build.plan(["t1", "t2"], **{"passes": 4, **changes})


def believable(change: Changes | None = None, of: TrialPlan | None = None, **stamped: Any) -> Made:
    """Two tasks, four passes, one trial after another, every fourth one unresolved; `change` by the trial's number:
    fields of `build.trial`, and `gap`, the seconds from its solver's exit to the next trial."""
    of = of or plan()
    trials: list[TrialResult] = []
    start = BEGAN + timedelta(seconds=3)
    for number, key in enumerate(trial_keys(of)):
        fields: dict[str, Any] = {
            "outcome": "unresolved" if number % 4 == 3 else "resolved",
            "wall": 1.234567891 + number * 0.0135791,
            "started_at": shown(start),
            **(change(number) if change else {}),
        }
        gap = fields.pop("gap", 2.5)
        trials.append(build.trial(key, **fields))
        start += timedelta(seconds=max(0.0, trials[-1].wall_seconds or 0.0) + gap)
    record = build.record(of, trials, **stamped)
    return Made(record, build.blobs(record))


def of_one(number: int, **fields: Any) -> Changes:
    """Fields of this trial alone."""
    return lambda at: fields if at == number else {}


def shown(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def metered(watts: Callable[[int], float], rest_watts: float = 10.0, trials: int = 4) -> Made:
    """One package; `watts` by the trial's number; walls of about two seconds, between two looks at rest."""
    there = (readings_builder.zone(),)
    of = measured_builder.plan([f"t{number}" for number in range(trials)])
    before, after = (
        readings_builder.at_rest(there, (rest_watts,), seconds=20.0, after_ns=offset)
        for offset in (0, 2 * measured_builder.HOUR_NS)
    )
    stamp: MeterStamp = measured_builder.meter(("before", before), ("after", after))
    contents, results = [before, after], []
    for number, key in enumerate(trial_keys(of)):
        content = readings_builder.packed(
            there,
            (watts(number),),
            cpu={"solver": 0.5},
            others={("meter", None): 0.001},
            system=0.004,
            trial=number,
            opened_boottime_ns=str(measured_builder.HOUR_NS + number * 60 * 10**9),
        )
        contents.append(content)
        blobs = {build.blob(one).sha256: one for one in contents}
        results.append(
            measured_builder.trial(
                key,
                content,
                stamp,
                blobs,
                wall=1.980123457 - number * 0.0012345,
                started_at=shown(BEGAN + timedelta(seconds=60 * number)),
            )
        )
    record = build.record(
        of,
        results,
        meter=stamp,
        record_id=f"{readings_builder.RUN}.{of.solver.name}",
        solver=build.stamps(of).solver.model_copy(update={"source": "release", "version": "1.0"}),
        version="1.0",
    )
    return Made(record, {build.blob(one).sha256: one for one in contents} | build.blobs(record))
