"""From a journal to records on disk, a trial at a time: the bytes are those of a record that is held whole."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from appliance.audit.trust import sign_written
from appliance.errors import InputRefused
from appliance.records import journal
from appliance.records.fold import Stamps, fold
from appliance.records.journal_file import read_journal
from appliance.records.outline import RecordOutline
from appliance.records.plan import TrialPlan, trial_keys
from appliance.records.record import Record
from appliance.report.render import render
from appliance.trials import folding
from appliance.trials.folder import RunFolder
from appliance.trials.folding import Folding, Written, write_records
from appliance.trials.stamps import Subject
from attest.trust.local import open_or_init
from tests import record_builder as build
from tests.trials_suites import small_suite

UNKNOWN = Subject(None, None, "unknown")


def begun(folder: RunFolder, *plans: TrialPlan) -> None:
    folder.root.mkdir(parents=True)
    header = journal.HeaderLine(
        run_id="run-1",
        plan_digests=tuple(plan.digest for plan in plans),
        harness=build.harness_stamp(),
        started_at="2026-01-02T03:04:05Z",
    )
    host = journal.HostLine(host=build.host_stamp(), at="2026-01-02T03:04:05Z")
    folder.journal.write_bytes(journal.encode(header) + journal.encode(host))


def tell(folder: RunFolder, lines: Iterable[journal.Line]) -> None:
    with folder.journal.open("ab") as stream:
        stream.writelines(map(journal.encode, lines))


def shared(tmp_path: Path) -> Folding:
    return Folding(small_suite(tmp_path / "suite", "t1"), None, build.record().meter, None)


def written(folder: RunFolder, tmp_path: Path, *plans: TrialPlan) -> tuple[Written, ...]:
    return write_records(folder, plans, {plan.solver.name: UNKNOWN for plan in plans}, shared(tmp_path))


def all_of(plan: TrialPlan, first: int = 0) -> list[journal.Line]:
    return [
        journal.TrialLine(plan_digest=plan.digest, trial=first + at, result=build.trial(key))
        for at, key in enumerate(trial_keys(plan))
    ]


def test_a_record_written_trial_by_trial_is_the_record_folded_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retried, interrupted and missing trials, two plans, and half a line at the end (H22, J25)."""
    stamped: list[Stamps] = []
    told = folding._stamps_of

    def stamping(*parts: Any, **more: Any) -> Stamps:
        stamped.append(told(*parts, **more))
        return stamped[-1]

    monkeypatch.setattr(folding, "_stamps_of", stamping)
    plans = (build.plan(["t1"], rollouts=4), build.plan(["t1"], solver="other"))
    folder = RunFolder(tmp_path / "run")
    begun(folder, *plans)
    broken_off = journal.InterruptedLine(
        plan_digest=plans[0].digest, trial=2, result=build.trial(trial_keys(plans[0])[2], "cancelled")
    )
    ended = all_of(plans[0])
    retried = journal.TrialLine(
        plan_digest=plans[0].digest, trial=0, result=build.trial(trial_keys(plans[0])[0], "unresolved")
    )
    baseline = journal.BaselineLine(baseline=build.baseline("t1"))
    tell(folder, [baseline, *reversed(ended[:2]), *all_of(plans[1], first=4), broken_off, retried])
    whole = folder.journal.read_bytes()
    folder.journal.write_bytes(whole + journal.encode(ended[3])[:-9])
    records = written(folder, tmp_path, *plans)
    kept = journal.decode(whole, "journal")
    for plan, stamps, record in zip(plans, stamped, records, strict=True):
        wanted = fold(plan, stamps, kept.baselines(), kept.results(plan.digest))
        assert folder.record(plan.solver.name).read_bytes() == wanted.canonical()
        assert record.outline == RecordOutline.of(Record.from_canonical(wanted.canonical(), "record"))
        assert folder.blob(wanted.journal) == whole
    assert [trial.outcome for trial in records[0].outline.trials] == ["unresolved", "resolved", "cancelled"]


def test_a_journal_on_the_disk_tells_what_one_in_memory_does(tmp_path: Path) -> None:
    plan = build.plan(["t1"], rollouts=3)
    folder = RunFolder(tmp_path / "run")
    begun(folder, plan)
    tell(folder, all_of(plan))
    content = folder.journal.read_bytes()
    whole, placed = journal.decode(content, "journal"), read_journal(folder.journal)
    assert placed is not None
    assert tuple(placed.results(plan.digest)) == whole.results(plan.digest)
    assert (placed.header, placed.hosts(), placed.kept_bytes) == (whole.header, whole.hosts(), whole.kept_bytes)
    assert placed.finished().keys() == whole.finished().keys()
    folder.journal.write_bytes(content.replace(b'"resolved"', b'"solved"', 1))
    with pytest.raises(InputRefused, match=r"journal\.jsonl:3"):
        read_journal(folder.journal)


def test_a_record_that_was_changed_after_the_run_wrote_it_is_not_signed(tmp_path: Path) -> None:
    """What the statement says is known from the run: it must be about the bytes that the run wrote."""
    plan = build.plan(["t1"])
    folder = RunFolder(tmp_path / "run")
    begun(folder, plan)
    tell(folder, all_of(plan))
    (record,) = written(folder, tmp_path, plan)
    path = folder.record(plan.solver.name)
    trust = open_or_init(tmp_path / "trust")
    assert sign_written(path, record.sha256, record.outline, trust).is_file()
    path.write_bytes(path.read_bytes().replace(b'"resolved"', b'"unresolved"', 1))
    with pytest.raises(InputRefused, match="changed since"):
        sign_written(path, record.sha256, record.outline, trust)


def test_what_a_trial_costs_in_memory_is_a_few_times_its_outline(tmp_path: Path) -> None:
    """Folded, signed and reported: a record that is parsed whole takes 50 KiB a trial and more."""
    trust = open_or_init(tmp_path / "trust")

    def end(many: int) -> Callable[[], object]:
        plan = build.plan(["t1"], rollouts=many)
        folder = RunFolder(tmp_path / f"run-{many}")
        begun(folder, plan)
        tell(folder, all_of(plan))

        def ended() -> None:
            (record,) = written(folder, tmp_path, plan)
            sign_written(folder.record(plan.solver.name), record.sha256, record.outline, trust)
            assert render((record.outline,), "text")

        return ended

    end(2)()
    few, many = _peak(end(50)), _peak(end(350))
    assert (many - few) / 300 < 4 * 1024
    # A whole document is read into room for the largest there may be, which hides how it grows.
    assert many < 8 * 1024 * 1024


def test_an_outline_is_reported_as_its_record_is(tmp_path: Path) -> None:
    """In each form, as read again from the file (J25)."""
    plan = build.plan(["t1"], rollouts=3)
    folder = RunFolder(tmp_path / "run")
    begun(folder, plan)
    tell(folder, all_of(plan))
    (record,) = written(folder, tmp_path, plan)
    again = Record.read(folder.record(plan.solver.name))
    assert render((record.outline,), "text") == render((again,), "text")
    assert render((record.outline,), "json") == render((again,), "json")
    assert render((record.outline,), "csv") == render((again,), "csv")


def _peak(act: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
