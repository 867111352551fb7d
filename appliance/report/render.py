"""One report, three forms: words for people, JSON for programs, CSV for spreadsheets. Full precision in the latter."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

from appliance.printing import json_text
from appliance.records.frontier import Frontier, Point, energy_point, frontier, ranking_refusal
from appliance.records.outline import AnyRecord
from appliance.records.replays import is_replay
from appliance.records.words import OUTCOMES
from appliance.report.cohorts import cohorts, differing_fields
from appliance.report.html import render_html
from appliance.report.text import render_text
from appliance.report.words import cell

Form = Literal["text", "json", "csv", "html"]
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
_SEVERAL: Final = 2


def render(records: Sequence[AnyRecord], form: Form, *, ratio: bool = False) -> str:
    """Ends with a line feed; depends on the records alone. `ratio`: a column more in the text (the others have it)."""
    match form:
        case "text":
            return render_text(records, ratio=ratio)
        case "json":
            return json_text(report_value(records)) + "\n"
        case "csv":
            return _csv(records)
        case "html":
            return render_html(records)


def report_value(records: Sequence[AnyRecord]) -> dict[str, Any]:
    """Not verified: whoever needs to know who says so runs `verify`."""
    groups = cohorts(records)
    return {
        "checked": "unverified",
        "cohorts": [
            {
                "suite": _suite(group.records[0]),
                "records": [_record(record) for record in group.records],
                "energyFrontiers": list(_energy_frontiers(group.records)),
            }
            for group in groups
        ],
        "notCompared": list(differing_fields(groups)),
    }


def _suite(record: AnyRecord) -> dict[str, Any]:
    suite = record.plan.suite
    return {"name": suite.name, "version": suite.version, "digest": suite.digest, "tasks": len(record.plan.tasks)}


def _record(record: AnyRecord) -> dict[str, Any]:
    checks = record.suite.checks.json_value() if record.suite.checks else {}
    return {
        "recordId": record.record_id,
        "planDigest": record.plan_digest,
        "solver": record.solver.name,
        "model": record.model.name if record.model else "none",
        "version": record.version,
        "commit": record.commit,
        "date": record.date,
        "complete": record.complete,
        "dryRun": record.dry_run,
        "replay": is_replay(record),
        "noisy": any(host.noisy for host in record.hosts),
        "quarantined": list(record.plan.quarantined),
        "forgeable": checks.get("forgeable", []),
        "filtered": list(record.plan.filtered),
        "limitOverrides": record.plan.limit_overrides,
        "scheduling": record.plan.energy.scheduling,
        "meter": record.meter.json_value(),
        "warnings": list(record.warnings),
        "passes": record.summary.json_value()["passes"],
    }


def _energy_frontiers(records: Sequence[AnyRecord]) -> Iterator[dict[str, Any]]:
    if len(records) < _SEVERAL:
        return
    for sweep in range(min(len(record.summary.passes) for record in records)):
        refused = ranking_refusal(records, sweep)
        points = [point for record in records if (point := energy_point(record.record_id, record, sweep)) is not None]
        found = None if refused else frontier(points)
        yield {"pass": sweep, "refused": list(refused), **({} if found is None else _frontier(found))}


def _frontier(found: Frontier) -> dict[str, Any]:
    return {
        name: [_point(point) for point in points]
        for name, points in (("best", found.best), ("beaten", found.beaten), ("apart", found.apart))
    }


def _point(point: Point) -> dict[str, Any]:
    return {"recordId": point.label, "resolution": point.resolution, "joules": point.cost}


def _csv(records: Sequence[AnyRecord]) -> str:
    """One line a record and pass, in the order given."""
    rows = [row for record in records for row in _csv_rows(record)]
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(rows[0].keys() if rows else ())
    writer.writerows([_plain(value) for value in row.values()] for row in rows)
    return stream.getvalue()


def _csv_rows(record: AnyRecord) -> Iterator[dict[str, Any]]:
    for found in record.summary.passes:
        energy = found.energy
        low, high = energy.interval if energy and energy.interval else (None, None)
        yield {
            "recordId": record.record_id,
            "suite": record.plan.suite.name,
            "suiteVersion": record.plan.suite.version,
            "suiteDigest": record.plan.suite.digest,
            "solver": record.solver.name,
            "model": record.model.name if record.model else "none",
            "scheduling": record.plan.energy.scheduling,
            "pass": found.pass_,
            "planned": found.planned,
            **{outcome: found.outcomes[outcome] for outcome in OUTCOMES},
            "notRun": found.not_run,
            "timedOut": found.causes.get("timeout", 0),
            "resolution": found.resolution,
            "lowerBound": found.lower_bound,
            "netUj": energy.net_uj if energy else None,
            "grossUj": energy.gross_uj if energy else None,
            "ratioUj": energy.ratio_uj if energy else None,
            "uncertaintyUj": energy.uncertainty_uj if energy else None,
            "lodUj": energy.lod_uj if energy else None,
            "lowUj": low,
            "highUj": high,
            "provenance": energy.provenance if energy else None,
            "basis": energy.basis if energy else None,
            "belowFloor": energy.below_floor if energy else None,
            "belowLod": energy.below_lod if energy else None,
            "energyMissing": energy.missing if energy else None,
            "modelled": energy.modelled if energy else None,
            "energyFlags": ";".join(f"{flag}={count}" for flag, count in energy.flags.items()) if energy else None,
            "localUj": found.local.net_uj if found.local else None,
            "cloudUj": found.cloud.net_uj if found.cloud else None,
            "joulesPerResolved": found.joules_per_resolved,
            "wallMedianSeconds": found.wall_median_seconds,
            "costUsd": found.cost_usd,
            "partiallyPriced": found.partially_priced,
            "inputTokens": found.usage.input_tokens if found.usage else None,
            "cacheReadTokens": found.usage.cache_read_tokens if found.usage else None,
            "outputTokens": found.usage.output_tokens if found.usage else None,
            "replay": is_replay(record),
        }


def _plain(value: Any) -> Any:
    """A stranger's text that a spreadsheet would take for a formula gets a quote before it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"'{cell(value)}" if value.startswith(_FORMULA) else cell(value)
    return "" if value is None else value
