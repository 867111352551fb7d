"""How joules are worded: a label, a limit or a reason wherever one is due."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from appliance.cli.main import run
from appliance.files import store_blob
from appliance.records.energy import BELOW_DETECTION, EnergyFigure
from appliance.report import joules
from appliance.report.detail import trial_list
from appliance.report.render import render
from tests import record_builder as build
from tests.measured_builder import measured, plan
from tests.readings_builder import simulated

COUNTED: dict[str, Any] = {"gross_uj": 60_000_000, "uncertainty_uj": 112_005}


@pytest.mark.parametrize(
    ("figure", "net", "gross"),
    [
        (build.counted_figure(33_663_386, **COUNTED), "33.7 J ± 0.112 (k=2)", "60.0 J"),
        (build.counted_figure(33_663_386, **COUNTED, below_floor=True), "~33.7 J ± 0.112 (k=2)", "~60.0 J"),
        (build.counted_figure(0, **COUNTED, lod_uj=20_000), "< 0.020 J", "60.0 J"),
        (build.counted_figure(5, **COUNTED, lod_uj=20_000, below_floor=True), "~< 0.020 J", "~60.0 J"),
        (
            build.counted_figure(None, gross_uj=None, lod_uj=500_000, missing=BELOW_DETECTION, below_floor=True),
            "~< 0.500 J",
            "-",
        ),
        (build.counted_figure(None, missing="EACCES intel-rapl:0"), "missing: EACCES intel-rapl:0", "-"),
        (build.counted_figure(None, gross_uj=7_000_000, missing="idle varies"), "missing: idle varies", "7.0 J"),
        (
            build.counted_figure(10_000_000, **COUNTED, provenance="simulated", claimed="hw_shunt"),
            "10.0 J (simulated) ± 0.112 (k=2)",
            "60.0 J (simulated)",
        ),
        (build.figure(60_000_000), "60.0 J (estimated) [12.0, 120.0]", "60.0 J (estimated)"),
        (None, "-", "-"),
    ],
)
def test_a_figure_is_worded_with_its_label_limit_or_reason(figure: EnergyFigure | None, net: str, gross: str) -> None:
    """Uncertainty, `~`, `< LOD`, (estimated) with its interval, (simulated), the reason: never a bare 0 (L2)."""
    assert joules.of_trial(figure) == net
    assert joules.of_trial(figure, "gross") == gross


def test_what_each_resolved_one_took_is_the_sum_over_them_with_its_own_uncertainty() -> None:
    """Failed attempts count; nothing resolved is no number; a sum that lacks one figure is no number (J42)."""
    of = build.plan(["a", "b"])
    spent = build.energy(build.counted_figure(3_000_000, uncertainty_uj=100_000))
    found = build.record(of, [build.trial("a", energy=spent), build.trial("b", "unresolved", energy=spent)])
    assert joules.per_resolved(found.summary.passes[0]) == "6.0 J ± 0.200 (k=2)"
    none = build.record(of, [build.trial(task, "unresolved", energy=spent) for task in ("a", "b")])
    assert joules.per_resolved(none.summary.passes[0]) == "- (none resolved)"
    lacks = build.energy(build.counted_figure(None))
    part = build.record(of, [build.trial("a", energy=spent), build.trial("b", energy=lacks)])
    assert joules.per_resolved(part.summary.passes[0]) == "-"
    assert joules.of_pass(part.summary.passes[0].energy) == "missing in 1 of 2"


def test_flags_are_counted_in_words_under_the_table() -> None:
    """ "3 of them contended" (issue 4: report)."""
    contended = build.energy(build.counted_figure(3_000_000, flags=("contended",)))
    of = build.plan(["a", "b", "c", "d"])
    late = build.energy(build.counted_figure(3_000_000, flags=("late",)))
    trials = [build.trial(task, energy=contended) for task in ("a", "b", "c")] + [build.trial("d", energy=late)]
    assert "energy: 3 of them contended, 1 of them late" in render([build.record(of, trials)], "text")


def test_the_report_fits_a_hundred_and_ten_columns_with_every_label() -> None:
    """A terminal of that width shows every table whole: estimates with intervals, simulated with uncertainty."""
    fake = measured(plan(["t1", "t2"]), counters=[simulated()])
    for record in (build.record(), fake.record):
        text = render([record], "text") + trial_list(record)
        assert max(map(len, text.splitlines())) <= 110


def test_ratio_is_shown_where_it_is_asked_for_and_stands_in_json_and_csv_anyway(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kepler's figure beside ours, on request (issue 4: ratio)."""
    found = measured(plan(["t1"]))
    path = tmp_path / "agent.json"
    path.write_bytes(found.record.canonical())
    assert run(["report", str(path)]) == 0
    assert "ratio" not in capsys.readouterr().out
    assert run(["report", str(path), "--ratio"]) == 0
    assert "ratio" in capsys.readouterr().out
    energy = found.record.summary.passes[0].energy
    assert energy is not None
    assert energy.ratio_uj is not None
    assert run(["report", str(path), "--json"]) == 0
    passes = json.loads(capsys.readouterr().out)["cohorts"][0]["records"][0]["passes"]
    assert passes[0]["energy"]["ratioUj"] == energy.ratio_uj
    assert f",{energy.ratio_uj}," in render([found.record], "csv")


def test_show_prints_a_trial_s_joules_by_zone_and_role_and_its_readings(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Where the joules of one trial went, with the budget of their uncertainty; readings are an artifact (3.4)."""
    found = measured(plan(["t1"]))
    path = tmp_path / "records" / "agent.json"
    path.parent.mkdir()
    path.write_bytes(found.record.canonical())
    for digest, content in found.blobs.items():
        store_blob(tmp_path / "blobs", content, digest)
    assert run(["show", str(path), "--trial", "0"]) == 0
    lines = capfdbinary.readouterr().out.decode().splitlines()
    assert [line.split()[0:2] for line in lines if line.startswith(("total", "role", "zone"))][:4] == [
        ["total", "33.7"],
        ["role", "solver"],
        ["zone", "package-0"],
        ["zone", "package-0/dram"],
    ]
    assert any(line.startswith("zone psys (not summed)") for line in lines)
    assert any(line.startswith("uncertainty (k=1): ") and line.endswith("not traceable") for line in lines)
    readings = next(content for digest, content in found.blobs.items() if digest == _readings_of(found.record))
    assert run(["show", str(path), "--trial", "0", "--artifact", "readings"]) == 0
    assert capfdbinary.readouterr().out == readings
    assert run(["show", str(path), "--artifact", "idle:0"]) == 0
    assert capfdbinary.readouterr().out[:2] == b"\x1f\x8b"


def _readings_of(record: Any) -> str:
    return str(record.trials[0].energy.readings.sha256)
