"""Reports on golden records: every character is meant."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any, Literal

import pytest

from appliance.cli.main import run
from appliance.records.energy import EnergyFigure
from appliance.records.record import (
    ForgeableTask,
    IdleStamp,
    MeterStamp,
    QuarantinedTask,
    Record,
    RestZone,
    SuiteChecks,
    SuiteStamp,
)
from appliance.records.trial import TrialResult
from appliance.report.joules import of_pass
from appliance.report.render import render
from tests import record_builder as build

GOLDEN = Path(__file__).parent / "reports"


def smoke() -> tuple[Record, Record]:
    """reference and noop on three tasks: the floor mark by kind, a timeout, an invalid task, a quarantined one."""
    tasks = ["add", "sort", "trim"]
    checks = SuiteChecks(
        digest="c" * 64,
        quarantined=(QuarantinedTask(task="flaky", reason="reference resolved 2 of 3"),),
        forgeable=(ForgeableTask(task="sort", forgers=("exit_zero", "always_equal")),),
    )
    of = build.plan(tasks, quarantined=("flaky",))
    suite = SuiteStamp(
        name="smoke", version="1", digest=of.suite.digest, weight=1.0, archive=None, license=None, checks=checks
    )
    floor = build.energy(build.figure(6_500_000, below_floor=True))
    reference = build.record(of, [build.trial(task, wall=0.1, energy=floor) for task in tasks], suite=suite)
    trials = [
        build.trial("add", "unresolved", wall=0.1, energy=floor),
        build.trial("sort", "unresolved", wall=0.2, cause="timeout", solver_exit=None, energy=floor),
        build.trial("trim", "excluded"),
    ]
    noop_plan = build.plan(tasks, solver="noop", kind="noop", quarantined=("flaky",))
    return reference, build.record(noop_plan, trials, suite=suite)


def rollouts() -> Record:
    """J28's and J29's table: T1 = no, yes, yes; T2 = yes, no, no."""
    table = {
        "T1": [(False, "0.10", 5, 2), (True, "0.20", 7, 3), (True, "0.10", 5, 2)],
        "T2": [(True, "0.05", 4, 1), (False, "0.10", 6, 2), (False, "0.10", 5, 1)],
    }
    trials: list[TrialResult] = [
        build.trial(
            task,
            "resolved" if resolved else "unresolved",
            rollout=rollout,
            cost=cost,
            energy=build.energy(
                build.figure((cloud + local) * 1_000_000), local=local * 1_000_000, cloud=cloud * 1_000_000
            ),
        )
        for task, several in table.items()
        for rollout, (resolved, cost, cloud, local) in enumerate(several)
    ]
    of = build.plan(["T1", "T2"], solver="agent", kind="command", model="example-1", rollouts=3)
    return build.record(of, trials)


def two_passes() -> Record:
    """A cold pass by a counter with a gap in it, and a warm one."""
    of = build.plan(["T1", "T2"], solver="cascade", kind="cascade", passes=2)
    cold = [
        build.trial("T1", energy=build.energy(build.counted_figure(20_000_000))),
        build.trial("T2", "unresolved", energy=build.energy(build.counted_figure(None))),
    ]
    warm = [
        build.trial("T1", pass_=1, energy=build.energy(build.counted_figure(1_500_000))),
        build.trial("T2", "errored", pass_=1),
    ]
    return build.record(of, [*cold, *warm], warnings=("a remark of the run",))


def rest_zone(watts: float) -> RestZone:
    return RestZone(mean_uw=round(watts * 1e6), deviation_uw=110_000, drift_uw=4_000, bins=20)


def idle(when: Literal["before", "after"], watts: float) -> IdleStamp:
    return IdleStamp(
        when=when,
        at="2026-01-02T03:00:00.000Z",
        readings=build.blob(when.encode()),
        boot_id="b" * 64,
        middle_boottime_ns="1000000000",
        seconds=20.0,
        zones={"package-0": rest_zone(watts), "package-0/dram": rest_zone(watts / 4)},
        unfit=None,
    )


def metered() -> tuple[Record, Record]:
    """Counters: uncertainty, flags, a figure below detection, idle before and after; and simulated ones beside them."""
    stamp = MeterStamp(
        name="bench-appliance",
        version="0.1.0",
        counters=("package-0", "package-0/dram"),
        idle=(idle("before", 10.02), idle("after", 10.05)),
        calibration=None,
        mode="measured",
        reason=None,
    )

    def figure(net_uj: int, **changes: Any) -> EnergyFigure:
        split = {"gross_uj": net_uj + 20_100_000, "idle_uj": 20_000_000, "system_uj": 90_000, "others_uj": 10_000}
        fields = {**split, "marginal_uj": net_uj + 100_000, "ratio_uj": net_uj // 4, "uncertainty_uj": 350_000}
        return build.counted_figure(net_uj, **{"lod_uj": 20_000, **fields, **changes})

    flagged = figure(31_000_000, basis="apportioned", flags=("contended", "late"))
    trials = [
        build.trial("t1", wall=2.0, energy=build.energy(figure(125_300_000))),
        build.trial("t2", "unresolved", wall=2.0, energy=build.energy(flagged)),
        build.trial("t3", wall=2.0, energy=build.energy(figure(12_000, below_floor=True, flags=("no_samples",)))),
    ]
    of = build.plan(["t1", "t2", "t3"], solver="agent", kind="command")
    counted = build.record(of, trials, meter=stamp)
    posed = figure(10_000_000, provenance="simulated", claimed="hw_shunt", comparable=False)
    fake = build.plan(["t1", "t2", "t3"], solver="other", kind="command")
    return counted, build.record(
        fake, [build.trial(task, energy=build.energy(posed)) for task in ("t1", "t2", "t3")], meter=stamp
    )


CASES = {"metered": metered(), "smoke": smoke(), "rollouts": (rollouts(),), "two-passes": (two_passes(),)}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("form", ["text", "json", "csv", "html"])
def test_a_report_is_the_golden_one_to_the_last_character(name: str, form: str) -> None:
    """Text, JSON, CSV and HTML of golden records (J19-J22, J28, J29, J31, J35, J43, H7, H8)."""
    ending = {"text": "txt"}.get(form, form)
    assert render(CASES[name], form) == (GOLDEN / f"{name}.{ending}").read_text()  # type: ignore[arg-type]


def test_every_line_with_estimated_joules_says_so_and_every_reference_or_noop_line_carries_the_floor_mark() -> None:
    """The label, the interval and `~` stand beside the number wherever it is shown (J35, J43, L2)."""
    lines = render(smoke(), "text").splitlines()
    figures = [line for line in lines if " J" in line and "joules" not in line]
    assert figures
    for line in figures:
        assert line.count(" J (estimated)") == line.count("~") == line.count(" J")
        assert " J (estimated) [" in line
        assert "~" in line


@pytest.mark.parametrize(
    ("net_uj", "shown"),
    [
        (0, "0.0 J"),
        (7, "0.000007 J"),
        (70, "0.00007 J"),
        (493_000, "0.493 J"),
        (1_000_000, "1.0 J"),
        (10**12, "1000000.0 J"),
    ],
)
def test_joules_are_shown_down_to_a_microjoule_without_exponents(net_uj: int, shown: str) -> None:
    """What was measured is never rounded to nothing."""
    figure = build.counted_figure(net_uj)
    record = build.record(None, [build.trial(energy=build.energy(figure))])
    assert of_pass(record.summary.passes[0].energy) == shown


def test_the_curve_has_a_line_for_each_k_and_one_rollout_has_none() -> None:
    """One line per k with resolved %, $, cloud J, local J (J31, J28, J29)."""
    text = render((rollouts(),), "text")
    curve = [line.split() for line in text[text.index("best of k") :].splitlines()[2:5]]
    assert [(row[0], row[1], " ".join(row[3:6]), *row[6:]) for row in curve] == [
        ("1", "50.0", "2 of 2", "$0.15", "9.0", "3.0"),
        ("2", "100.0", "4 of 4", "$0.45", "22.0", "8.0"),
        ("3", "100.0", "6 of 6", "$0.65", "32.0", "11.0"),
    ]
    assert "best of k" not in render(smoke(), "text")


def test_joules_of_unlike_origin_are_shown_and_not_ranked() -> None:
    """The table has both, the ranking is refused and the field named (L3)."""
    counted = build.record(
        build.plan(solver="other", kind="command"),
        [build.trial(energy=build.energy(build.counted_figure(5_000_000)))],
    )
    text = render((build.record(), counted), "text")
    assert "no ranking by joules, pass 0: provenance differs: estimator, hw_shunt" in text
    assert "5.0 J  " in text
    refused = json.loads(render((build.record(), counted), "json"))["cohorts"][0]["energyFrontiers"][0]
    assert refused["refused"] == ["provenance differs: estimator, hw_shunt", "basis differs: counter, modelled"]
    assert "best" not in refused


def test_records_under_other_limits_or_of_other_tasks_share_no_table() -> None:
    """No comparison mixes them; what differs is named (formats 6; decisions: Comparability)."""
    other = build.record(build.plan([build.task_spec("t1", digest="d" * 64)], solver="other", kind="command"))
    text = render((build.record(), other), "text")
    assert text.count("smoke 1 (sha256") == 2
    assert "not compared with each other: tasks differ" in text


def test_csv_and_json_have_full_precision() -> None:
    """A rate of 2/3 is not rounded where a program reads it (Z10, decisions: Percent or fraction)."""
    record = build.record(
        build.plan(["a", "b", "c"]), [build.trial("a"), build.trial("b"), build.trial("c", "unresolved")]
    )
    row = next(csv.DictReader(io.StringIO(render((record,), "csv"))))
    assert float(row["resolution"]) == 2 / 3
    found = json.loads(render((record,), "json"))["cohorts"][0]["records"][0]["passes"][0]
    assert found["resolution"] == 2 / 3


def test_a_stranger_s_text_drives_neither_terminal_nor_spreadsheet() -> None:
    """Control characters, line breaks and bidi overrides are shown as escapes; a formula gets a quote."""
    of = build.plan(solver="=HYPERLINK(1)", kind="command", model="m\x1b]0;x\x07\n\u202eevil")
    record = build.record(of, warnings=("\x1b[2J\rgone",))
    text = render((record,), "text")
    assert all(char.isprintable() or char == "\n" for char in text)
    assert "m\\x1b]0;x\\x07\\n\\u202eevil" in text
    row = next(csv.DictReader(io.StringIO(render((record,), "csv"))))
    assert row["solver"] == "'=HYPERLINK(1)"


def run_folder(folder: Path, *records: Record) -> Path:
    for record in records:
        path = folder / "records" / f"{record.solver.name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(record.canonical())
        path.with_name(f"{record.solver.name}.sigstore.json").write_text("{}")
        for digest, content in build.blobs(record).items():
            blob = folder / "blobs" / "sha256" / digest
            blob.parent.mkdir(parents=True, exist_ok=True)
            blob.write_bytes(content)
    return folder


def test_a_run_folder_renders_as_its_records_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`report FOLDER`, `report --results FILE...` and what `run` prints are the same bytes (J25)."""
    noop_and_reference = tuple(reversed(smoke()))
    folder = run_folder(tmp_path / "run", *noop_and_reference)
    assert run(["report", str(folder)]) == 0
    shown = capsys.readouterr()
    assert shown.out == render(noop_and_reference, "text")
    assert "unverified" in shown.err
    files = [str(folder / "records" / f"{name}.json") for name in ("noop", "reference")]
    assert run(["report", "--results", files[0], "--results", files[1]]) == 0
    assert capsys.readouterr().out == shown.out
    target = tmp_path / "deep" / "er" / "report.csv"
    assert run(["report", str(folder), "--format", "csv", "--out", str(target)]) == 0
    assert target.read_text() == render(noop_and_reference, "csv")
    assert run(["report", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["checked"] == "unverified"


@pytest.mark.parametrize("content", [b"", b"{}", b'{"schema":"zero-v1"}', b"\x00\x01"])
def test_a_corrupt_or_foreign_file_is_refused_with_status_3(
    tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, naming the file; nothing is printed of it (J25)."""
    path = tmp_path / "x.json"
    path.write_bytes(content)
    assert run(["report", str(path)]) == 3
    shown = capsys.readouterr()
    assert shown.out == ""
    assert str(path) in shown.err
    assert shown.err.count("\n") == 1


def test_a_trial_and_its_artifacts_are_shown_by_number_and_name(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """`show`: the list, one trial, one blob after its digest is checked; a changed blob ends with 7 (formats 6)."""
    folder = run_folder(tmp_path / "run", build.record())
    path = folder / "records" / "reference.json"
    assert run(["show", str(path)]) == 0
    assert b"0  t1" in capfdbinary.readouterr().out
    assert run(["show", str(path), "--trial", "0"]) == 0
    shown = capfdbinary.readouterr().out
    assert b"grade.ids[0].status: passed" in shown
    assert b"diff" in shown
    assert run(["show", str(path), "--trial", "0", "--artifact", "diff"]) == 0
    assert capfdbinary.readouterr().out == build.PATCH
    assert run(["show", str(path), "--trial", "7"]) == 2
    assert run(["show", str(path), "--trial", "0", "--artifact", "nothing"]) == 2
    capfdbinary.readouterr()
    blob = folder / "blobs" / "sha256" / build.blob(build.PATCH).sha256
    blob.write_bytes(build.PATCH.replace(b"2", b"3"))
    assert run(["show", str(path), "--trial", "0", "--artifact", "diff"]) == 7
    assert capfdbinary.readouterr().out == b""
    blob.unlink()
    assert run(["show", str(path), "--trial", "0", "--artifact", "diff"]) == 3
