"""The run folder: what is said to be finished is whole, and a run goes on only as the same run."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from appliance.errors import UsageRefused
from appliance.records import journal
from appliance.solvers.finding import find_solver
from appliance.trials.folder import JournalWriter, RunFolder, refuse_taken, resume_folder, start_folder
from appliance.trials.planning import plan_trials
from appliance.trials.stamps import harness_stamp
from tests.record_builder import host_stamp
from tests.trials_suites import images, options, small_suite


def header(plan_digest: str) -> journal.HeaderLine:
    return journal.HeaderLine(
        run_id="r1", plan_digests=(plan_digest,), harness=harness_stamp(), started_at="2026-01-02T03:04:05Z"
    )


def host_line() -> journal.HostLine:
    return journal.HostLine(host=host_stamp(), at="2026-01-02T03:04:05Z")


def test_lines_of_many_threads_are_whole(tmp_path: Path) -> None:
    """One fsync may serve many lines; none is torn or lost (H22)."""
    path = tmp_path / "journal.jsonl"
    writer = JournalWriter(path)
    writer.append(header("0" * 64))

    def append() -> None:
        for _ in range(20):
            writer.append(host_line())

    threads = [threading.Thread(target=append) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    assert len(journal.decode(path.read_bytes(), "j").lines) == 160


def test_a_half_written_line_is_cut_off_before_the_next_is_added(tmp_path: Path) -> None:
    """Killed while writing: the whole lines stay, the torn one goes (H22)."""
    path = tmp_path / "journal.jsonl"
    writer = JournalWriter(path)
    writer.append(header("0" * 64))
    writer.append(host_line())
    writer.close()
    with path.open("ab") as stream:
        # Longer than the line that comes next, which must not leave a rest of it.
        stream.write(b'{"kind":"host","at":"' + b"2" * 20000)
    kept = journal.decode(path.read_bytes(), "j")
    assert kept.dropped_bytes == 20021
    again = JournalWriter(path, kept.kept_bytes)
    again.append(host_line())
    again.close()
    found = journal.decode(path.read_bytes(), "j")
    assert found.dropped_bytes == 0
    assert len(found.lines) == 2


def test_a_folder_that_holds_a_run_is_not_begun_again(tmp_path: Path) -> None:
    """Status 2, with the mend."""
    plan = plan_trials(small_suite(tmp_path / "suite"), find_solver("noop"), images(), options())
    folder = RunFolder(tmp_path / "run")
    refuse_taken(folder)
    start_folder(folder, (plan,))
    with pytest.raises(UsageRefused, match="--resume"):
        refuse_taken(folder)


def test_a_run_is_resumed_only_with_its_own_plan_flags_and_harness(tmp_path: Path) -> None:
    """formats 6: refused, naming what differs (H21)."""
    suite = small_suite(tmp_path / "suite")
    plan = plan_trials(suite, find_solver("noop"), images(), options())
    folder = RunFolder(tmp_path / "run")
    start_folder(folder, (plan,))
    harness = harness_stamp()
    assert resume_folder(folder, (plan,), harness) is None
    writer = JournalWriter(folder.journal)
    writer.append(header(plan.digest))
    writer.close()
    found = resume_folder(folder, (plan,), harness)
    assert found is not None
    assert found.header.run_id == "r1"
    more = plan_trials(suite, find_solver("noop"), images(), options(rollouts=3))
    with pytest.raises(UsageRefused, match="rollouts: 1, now 3"):
        resume_folder(folder, (more,), harness)
    other = plan_trials(suite, find_solver("reference"), images(), options())
    with pytest.raises(UsageRefused, match=r"solver\.name: noop, now reference"):
        resume_folder(folder, (other,), harness)
    with pytest.raises(UsageRefused, match="solvers: noop, now noop, reference"):
        resume_folder(folder, (plan, other), harness)
    with pytest.raises(UsageRefused, match=r"it was 0\.1\.0 .*, this is 9\.9"):
        resume_folder(folder, (plan,), harness.model_copy(update={"version": "9.9"}))
    with pytest.raises(UsageRefused, match="holds no run"):
        resume_folder(RunFolder(tmp_path / "nowhere"), (plan,), harness)
