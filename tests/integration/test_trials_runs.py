"""Runs as a whole: repeated trials, resumed and retried ones, and what is on disk when."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from appliance.errors import HostRefused, InputRefused, UsageRefused
from appliance.records.journal import BaselineLine, InterruptedLine, TrialLine
from appliance.records.plan import TrialPlan
from appliance.solvers.definition import read_definition
from appliance.solvers.finding import find_solver
from appliance.tasks.model import Suite
from appliance.trials.adapters import this_machine
from appliance.trials.folder import RunFolder
from appliance.trials.planning import plan_trials
from appliance.trials.session import Adapters, RunEnded, RunOptions, run_plans
from appliance.trials.stamps import Subject
from tests.trials_bench import Watched, blob, left_of, lines, plans_for, records, run_suite, trial
from tests.trials_suites import command, images, options, small_suite, write_solver

pytestmark = pytest.mark.docker
FIX = "printf '#!/bin/sh\\nexit 0\\n' > program.sh"


def test_every_rollout_runs_from_a_fresh_workspace(tmp_path: Path) -> None:
    """N rollouts a task and pass, none stopped early by an earlier success, none seeing another's files (J05, J26,
    J27, J30); the baseline ran once for all of them.
    """
    solver = command(tmp_path, "tool", f"[ -e marker ] && exit 9; touch marker; {FIX}")
    ended = run_suite(
        tmp_path / "run",
        small_suite(tmp_path / "suite"),
        solver,
        run_options={"jobs": 2},
        passes=2,
        rollouts=2,
    )
    found = records(ended)[0]
    assert [(one.key.pass_, one.key.rollout) for one in found.trials] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert [(one.outcome, one.solver_exit) for one in found.trials] == [("resolved", 0)] * 4
    assert [entry.planned for entry in found.summary.passes] == [2, 2]
    assert [entry.k for entry in found.summary.passes[0].best_of_k] == [1, 2]
    assert sum(isinstance(line, BaselineLine) for line in lines(tmp_path / "run")) == 1
    assert left_of(ended.run) == []


@pytest.mark.parametrize("scheduling", ["exclusive", "shared"])
def test_two_jobs_give_the_same_trials_in_either_scheduling(tmp_path: Path, scheduling: str) -> None:
    """The plan holds the mode; outcomes do not depend on it (design 8)."""
    from appliance.records.plan import PlannedEnergy

    energy = PlannedEnergy(mode="auto", active_watts=None, scheduling=scheduling)  # type: ignore[arg-type]
    ended = run_suite(
        tmp_path / "run",
        small_suite(tmp_path / "suite", "a", "b", "c"),
        find_solver("reference"),
        run_options={"jobs": 2},
        energy=energy,
    )
    assert [one.outcome for one in records(ended)[0].trials] == ["resolved"] * 3


def test_a_finished_run_is_left_alone(tmp_path: Path) -> None:
    """Unchanged inputs run no container on resume, and no byte changes (H21)."""
    suite = small_suite(tmp_path / "suite")
    first = run_suite(tmp_path / "run", suite, find_solver("reference"))
    before = {path: path.read_bytes() for path in first.folder.rglob("*") if path.is_file()}
    watched = Watched()
    again = run_suite(tmp_path / "run", suite, find_solver("reference"), run_options={"resume": True}, watched=watched)
    assert again.started == 0
    assert again.run == first.run
    assert watched.seen == []
    assert {path: path.read_bytes() for path in first.folder.rglob("*") if path.is_file()} == before


def test_a_run_cut_off_anywhere_ends_with_the_same_trials(tmp_path: Path) -> None:
    """For every prefix of its journal, torn lines included: no finished trial runs twice, none is lost (H22)."""
    suite = small_suite(tmp_path / "suite", "a", "b")
    solver = find_solver("reference")
    whole = run_suite(tmp_path / "run", suite, solver)
    folder = RunFolder(tmp_path / "run")
    content = folder.journal.read_bytes()
    ends = [at + 1 for at, byte in enumerate(content) if byte == 0x0A]
    for cut in (0, ends[0] + 7, ends[2], ends[3] + 100, ends[-2]):
        folder.journal.write_bytes(content[:cut])
        folder.record("reference").unlink(missing_ok=True)
        finished = sum(line.count(b'"kind":"trial"') for line in content[:cut].split(b"\n")[:-1])
        watched = Watched()
        again = run_suite(tmp_path / "run", suite, solver, run_options={"resume": True}, watched=watched)
        assert len(watched.seen) == 2 - finished
        assert [one.outcome for one in records(again)[0].trials] == ["resolved", "resolved"]
        assert records(again)[0].plan_digest == records(whole)[0].plan_digest if finished == 2 else True
        kept = [line.trial for line in lines(tmp_path / "run") if isinstance(line, TrialLine)]
        assert sorted(kept) == [0, 1]


def test_a_trial_in_flight_when_its_harness_was_killed_is_kept_as_interrupted(tmp_path: Path) -> None:
    """And runs again (H22)."""
    suite = small_suite(tmp_path / "suite", "a", "b")
    run_suite(tmp_path / "run", suite, find_solver("noop"))
    folder = RunFolder(tmp_path / "run")
    content = folder.journal.read_bytes()
    folder.journal.write_bytes(b"".join(content.splitlines(keepends=True)[:-1]))
    folder.in_flight.mkdir()
    (folder.in_flight / "00001").touch()
    again = run_suite(tmp_path / "run", suite, find_solver("noop"), run_options={"resume": True})
    cut = [line for line in lines(tmp_path / "run") if isinstance(line, InterruptedLine)]
    assert [(line.trial, line.result.reason) for line in cut] == [(1, "interrupted")]
    assert [one.outcome for one in records(again)[0].trials] == ["unresolved", "unresolved"]
    assert not folder.in_flight.exists()


@pytest.mark.parametrize("changed", [b'"trial":1', b'"trial":7'])
def test_a_line_about_another_trial_than_its_number_says_is_refused(tmp_path: Path, changed: bytes) -> None:
    """A journal changed by hand is not folded into a record: its line is named (H22)."""
    suite = small_suite(tmp_path / "suite", "a", "b")
    run_suite(tmp_path / "run", suite, find_solver("noop"))
    folder = RunFolder(tmp_path / "run")
    folder.journal.write_bytes(folder.journal.read_bytes().replace(b'"trial":0', changed))
    with pytest.raises(InputRefused, match=r"journal\.jsonl:\d+: \$\.trial"):
        run_suite(tmp_path / "run", suite, find_solver("noop"), run_options={"resume": True})


def test_only_what_errored_is_retried(tmp_path: Path) -> None:
    """--retry errored: scored trials stand; the later line stands in for the earlier one."""
    suite = small_suite(tmp_path / "suite", "a", "b")
    absent = read_definition(write_solver(tmp_path, "absent", 'model = "none"\nargv = ["no-such-program"]\n'))
    first = run_suite(tmp_path / "run", suite, absent)
    assert first.incomplete == 2
    watched = Watched()
    again = run_suite(
        tmp_path / "run", suite, absent, run_options={"resume": True, "retry_errored": True}, watched=watched
    )
    assert [one.trial.index for one in watched.seen] == [0, 1]
    assert again.incomplete == 2
    assert len(records(again)[0].trials) == 2
    fresh = Watched()
    run_suite(tmp_path / "fresh", suite, absent, run_options={"retry_errored": True}, watched=fresh)
    assert [one.trial.index for one in fresh.seen] == [0, 1, 0, 1]


def test_a_failure_of_the_engine_is_never_a_score(tmp_path: Path) -> None:
    """An image that is not there: excluded, traceback kept; three in a row stop the run (H13, H23)."""
    suite = small_suite(tmp_path / "suite", "a", "b", "c", "d", "e")
    noop = find_solver("noop")
    plans = plans_for(suite, noop)

    class Images:
        def pin(self, name: str) -> object:
            raise AssertionError

        composed = pin

        def ensure(self, pins: object, planned: object) -> dict[str, str]:
            return {planned.images.task.config: "sha256:" + "0" * 64 for planned in plans[0].tasks}

    adapters = replace(this_machine(plans, lambda _words: None), images=Images())  # type: ignore[arg-type]
    ended = run_planned(tmp_path / "run", suite, plans[0], adapters)
    assert ended.failing is not None
    found = records(ended)[0]
    assert not found.complete
    assert [(one.outcome, one.reason) for one in found.trials] == [("excluded", "engine_error")] * 3
    assert b"EngineFailed" in blob(ended, found.trials[0].artifacts[0].blob.sha256)
    assert left_of(ended.run) == []


def test_any_name_that_a_task_may_have_runs(tmp_path: Path) -> None:
    """Containers, cgroups and labels are named by numbers: spaces, dashes, 200 characters, other scripts (H25)."""
    names = ("reward-_1", "two words", "naïve ☃ задача", "x" * 200)
    suite = small_suite(tmp_path / "suite", *names)
    ended = run_suite(tmp_path / "run", suite, find_solver("reference"))
    assert [(one.key.task, one.outcome) for one in records(ended)[0].trials] == [
        (name, "resolved") for name in sorted(names)
    ]


def test_images_that_cannot_be_had_end_a_run_before_its_first_trial(tmp_path: Path) -> None:
    """With their digests, status 4, and no folder begun (H17)."""
    suite = small_suite(tmp_path / "suite")
    noop = find_solver("noop")
    plan = plan_trials(suite, noop, images(7), options())
    with pytest.raises(HostRefused, match=f"{7:064x}") as refused:
        run_planned(tmp_path / "run", suite, plan)
    assert refused.value.status == 4
    assert not (tmp_path / "run").exists()


def test_another_suite_or_solver_than_the_planned_one_is_refused(tmp_path: Path) -> None:
    """Before anything starts, naming both digests (H21)."""
    suite = small_suite(tmp_path / "suite")
    (plan,) = plans_for(suite, find_solver("noop"))
    with pytest.raises(InputRefused, match="suite digest"):
        run_planned(tmp_path / "run", replace(suite, digest="0" * 64), plan)
    assert not (tmp_path / "run").exists()


def test_a_run_with_other_rollouts_does_not_go_on_in_the_same_folder(tmp_path: Path) -> None:
    """formats 6: refused, naming the flag; nothing is touched."""
    suite = small_suite(tmp_path / "suite")
    run_suite(tmp_path / "run", suite, find_solver("noop"))
    before = (tmp_path / "run" / "journal.jsonl").read_bytes()
    with pytest.raises(UsageRefused, match="rollouts: 1, now 2"):
        run_suite(tmp_path / "run", suite, find_solver("noop"), run_options={"resume": True}, rollouts=2)
    assert (tmp_path / "run" / "journal.jsonl").read_bytes() == before


def test_a_program_says_its_version_and_it_is_stamped(tmp_path: Path) -> None:
    """version_argv is asked once, in the image (formats 3)."""
    solver = command(tmp_path, "tool", FIX, 'version_argv = ["python3", "--version"]\n')
    ended = run_suite(tmp_path / "run", small_suite(tmp_path / "suite"), solver)
    assert records(ended)[0].solver.version is not None
    assert trial(ended).outcome == "resolved"
    odd = command(tmp_path, "odd", FIX, 'version_argv = ["true"]\n')
    with pytest.raises(InputRefused, match="version_argv"):
        run_suite(tmp_path / "other", small_suite(tmp_path / "suite"), odd)


def run_planned(out: Path, suite: Suite, plan: TrialPlan, adapters: Adapters | None = None) -> RunEnded:
    return run_plans(
        (plan,),
        suite,
        solvers={"noop": find_solver("noop")},
        adapters=adapters or this_machine((plan,), lambda _words: None),
        out=out,
        options=RunOptions(subjects={"noop": Subject(None, None, "unknown")}),
        watcher=Watched(),
    )
