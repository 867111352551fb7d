"""Which records may stand in one table: same tasks, same images, same limits, same judge, same harness generation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from appliance.records.outline import AnyRecord


@dataclass(frozen=True)
class Cohort:
    key: tuple[tuple[str, str], ...]
    """`(field, value)`: what has to be equal."""
    records: tuple[AnyRecord, ...]


def cohorts(records: Sequence[AnyRecord]) -> tuple[Cohort, ...]:
    """In the order of their first record. Energy provenance is no part: it refuses a ranking, not a table (row L3)."""
    groups: dict[tuple[tuple[str, str], ...], list[AnyRecord]] = {}
    for record in records:
        groups.setdefault(_key(record), []).append(record)
    return tuple(Cohort(key, tuple(group)) for key, group in groups.items())


def differing_fields(groups: Sequence[Cohort]) -> tuple[str, ...]:
    """The fields that keep these cohorts apart."""
    values: dict[str, set[str]] = {}
    for group in groups:
        for field, value in group.key:
            values.setdefault(field, set()).add(value)
    return tuple(field for field, several in values.items() if len(several) > 1)


def _key(record: AnyRecord) -> tuple[tuple[str, str], ...]:
    plan = record.plan
    judge = record.judge.canonical().decode() if record.judge else "none"
    return (
        ("suite.digest", plan.suite.digest),
        ("measures.digest", record.measures.digest if record.measures else "none"),
        ("tasks", "\n".join(f"{task.spec.name} {task.spec.digest}" for task in plan.tasks)),
        ("task images", "\n".join(task.images.task.config for task in plan.tasks)),
        ("limits", "\n".join(task.spec.limits.canonical().decode() for task in plan.tasks)),
        ("judge", judge),
        ("harness major version", record.harness.version.partition(".")[0]),
    )
