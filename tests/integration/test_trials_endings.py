"""How trials end on a real engine: whatever a solver does, its trial ends with its own outcome and cause."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.digests import sha256_hex, tree_digest
from appliance.records.words import Cause
from appliance.solvers.finding import find_solver
from tests.trials_bench import blob, left_of, records, run_suite, stdout_of, trial
from tests.trials_suites import command, small_suite

pytestmark = pytest.mark.docker
SMALL = "[limits]\nmemory_mib = 64\npids = 32\ndisk_mib = 16\nwall_seconds = 20\n"
FIX = "printf '#!/bin/sh\\nexit 0\\n' > program.sh"


def test_reference_is_the_ceiling_and_noop_the_floor(tmp_path: Path) -> None:
    """Two solvers on two tasks are four trials, the suite is as before, nothing stays (J04, J05, J13, J14, H14)."""
    suite = small_suite(tmp_path / "suite", "a", "b")
    before = tree_digest(suite.folder)
    ended = run_suite(tmp_path / "run", suite, find_solver("reference"), find_solver("noop"))
    reference, noop = records(ended)
    assert [(one.key.task, one.outcome) for one in reference.trials] == [("a", "resolved"), ("b", "resolved")]
    assert [(one.outcome, one.reason) for one in noop.trials] == [("unresolved", "tests_failed")] * 2
    for one in noop.trials:
        assert one.harvest is not None
        assert one.harvest.changed == ()
    assert reference.summary.passes[0].resolution == 1.0
    assert noop.summary.passes[0].resolution == 0.0
    assert [one.verdict for one in reference.baselines] == ["failed", "failed"]
    assert tree_digest(suite.folder) == before
    assert left_of(ended.run) == []


def test_every_figure_of_reference_and_noop_is_below_the_floor(tmp_path: Path) -> None:
    """By kind (J43); CPU time is read from the trial's parent cgroup, limits from the runtime (I16, H5)."""
    ended = run_suite(tmp_path / "run", small_suite(tmp_path / "suite", more=SMALL), find_solver("reference"))
    one = trial(ended)
    assert one.energy is not None
    assert one.energy.total.below_floor
    assert one.cpu_source == "cgroup_parent"
    assert one.limits.effective == one.limits.asked
    assert one.limits.effective.memory_mib == 64
    assert one.network.effective == "none"


@pytest.mark.parametrize(
    ("script", "outcome", "cause", "status"),
    [
        (f"{FIX}; exit 3", "resolved", "exit", 3),
        ("exit 3", "unresolved", "exit", 3),
        (f"{FIX}; exit 127", "resolved", "exit", 127),
        (f"{FIX}; kill -9 $$", "resolved", "signal", 137),
        ("python3 -c 'x = bytearray(1 << 30)'", "unresolved", "oom", 137),
        ("head -c 64M /dev/zero > big; exit 9", "unresolved", "disk", 9),
        ("i=0; while [ $i -lt 64 ]; do sleep 60 & i=$((i+1)); done; exit 2", "unresolved", "pids", 2),
    ],
)
def test_whatever_ends_the_solver_the_oracle_decides(
    tmp_path: Path, script: str, outcome: str, cause: Cause, status: int
) -> None:
    """A crash, an out-of-memory kill, a full disk are the solver's doing (J12, I17); energy is there all the same."""
    suite = small_suite(tmp_path / "suite", more=SMALL)
    ended = run_suite(tmp_path / "run", suite, command(tmp_path, "tool", script))
    one = trial(ended)
    assert (one.outcome, one.cause, one.solver_exit) == (outcome, cause, status)
    assert one.energy is not None
    assert ended.incomplete == 0
    assert left_of(ended.run) == []


@pytest.mark.parametrize(("resolves", "outcome"), [("true", "resolved"), ("false", "unresolved")])
def test_a_trial_at_its_limit_is_graded_as_it_stands(tmp_path: Path, resolves: str, outcome: str) -> None:
    """With the cause on it; what it printed is kept; a suite may say that a timeout resolves nothing (H7, H18)."""
    suite = small_suite(
        tmp_path / "suite",
        suite_toml=f"timeout_resolves = {resolves}\n",
        more="[limits]\nwall_seconds = 1\n",
    )
    ended = run_suite(tmp_path / "run", suite, command(tmp_path, "tool", f"{FIX}; echo so far; sleep 600"))
    one = trial(ended)
    assert (one.outcome, one.cause, one.solver_exit) == (outcome, "timeout", None)
    assert one.reason == (None if outcome == "resolved" else "timeout")
    assert stdout_of(ended, one) == b"so far\n"


def test_no_program_of_the_solver_lives_when_grading_starts(tmp_path: Path) -> None:
    """A loop that it leaves behind ends with its container: it never reaches the grader (H1, H2, H6)."""
    forge = "(setsid sh -c 'while :; do echo exit 0 > /workspace/check.sh; echo 1 > /grade/result; done' &) 2>/dev/null"
    ended = run_suite(tmp_path / "run", small_suite(tmp_path / "suite"), command(tmp_path, "tool", f"{forge}; exit 0"))
    one = trial(ended)
    assert (one.outcome, one.reason) == ("unresolved", "tests_failed")
    assert one.grade is not None
    assert one.grade.tests_digest_before == one.grade.tests_digest_after


def test_tests_that_a_solver_overwrites_are_graded_pristine(tmp_path: Path) -> None:
    """A file, and a link planted at the test's path (J09)."""
    suite = small_suite(tmp_path / "suite")
    for name, script in (
        ("writer", "echo 'exit 0' > check.sh"),
        ("linker", "rm -f check.sh; ln -s program.sh check.sh"),
    ):
        ended = run_suite(tmp_path / name, suite, command(tmp_path, name, script))
        assert trial(ended).outcome == "unresolved"


def test_a_program_that_is_not_there_errors_and_is_named(tmp_path: Path) -> None:
    """Not `unresolved`: the solver never ran (J15's rule); the run says that it is incomplete."""
    from appliance.solvers.definition import read_definition
    from tests.trials_suites import write_solver

    absent = read_definition(write_solver(tmp_path, "absent", 'model = "none"\nargv = ["no-such-program"]\n'))
    ended = run_suite(tmp_path / "run", small_suite(tmp_path / "suite"), absent)
    one = trial(ended)
    assert (one.outcome, one.reason, one.cause) == ("errored", "start_failed", None)
    assert "no-such-program" in (one.detail or "")
    assert ended.incomplete == 1


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"before": {"program.sh": "exit 0\n"}}, "baseline_passed"),
        ({"test_cmd": '["no-such-oracle"]'}, "baseline_error"),
        ({"check": "kill -9 $$\n"}, "baseline_error"),
        ({"check": "sleep 60\n", "more": "[limits]\ntest_seconds = 1\n"}, "baseline_error"),
    ],
)
def test_a_baseline_that_does_not_fail_excludes_its_trials(
    tmp_path: Path, changes: dict[str, object], reason: str
) -> None:
    """The solver is not run, and nothing of it enters an aggregate (J06, J07)."""
    suite = small_suite(tmp_path / "suite", **changes)
    ended = run_suite(tmp_path / "run", suite, command(tmp_path, "tool", "touch ran"))
    one = trial(ended)
    assert (one.outcome, one.reason) == ("excluded", reason)
    assert one.streams is None
    assert one.energy is None
    assert records(ended)[0].summary.passes[0].resolution is None
    assert ended.incomplete == 1


def test_an_oracle_at_its_limit_is_unresolved(tmp_path: Path) -> None:
    """J11: reason oracle_timeout, where the solution makes the tests hang."""
    suite = small_suite(tmp_path / "suite", more="[limits]\ntest_seconds = 2\n")
    ended = run_suite(tmp_path / "run", suite, command(tmp_path, "tool", "echo 'sleep 600' > program.sh"))
    one = trial(ended)
    assert (one.outcome, one.reason) == ("unresolved", "oracle_timeout")


def test_output_and_names_that_are_no_text_end_normally(tmp_path: Path) -> None:
    """Raw bytes are kept; the record stays valid JSON (H19)."""
    script = f"printf '\\377\\000x'; printf '' > \"$(printf 'a\\377b')\"; {FIX}"
    ended = run_suite(tmp_path / "run", small_suite(tmp_path / "suite"), command(tmp_path, "tool", script))
    one = trial(ended)
    assert one.outcome == "resolved"
    assert stdout_of(ended, one) == b"\xff\x00x"
    assert one.harvest is not None
    assert "a\\xffb" in one.harvest.changed


def test_output_beyond_the_cap_is_counted_whole_and_kept_in_part(tmp_path: Path) -> None:
    """True size and digest, head and tail, and `truncated` (H18)."""
    script = "head -c 30000000 /dev/zero | tr '\\0' x"
    ended = run_suite(tmp_path / "run", small_suite(tmp_path / "suite"), command(tmp_path, "tool", script))
    one = trial(ended)
    assert one.streams is not None
    stream = one.streams.stdout
    assert (stream.bytes, stream.sha256, stream.truncated) == (30_000_000, sha256_hex(b"x" * 30_000_000), True)
    assert stream.blob is not None
    assert stream.blob.bytes < 11_000_000


def test_the_diff_is_a_patch_and_a_solver_gets_budget_prompt_and_home(tmp_path: Path) -> None:
    """What it changed is kept as a patch (harvest); budget as variable and file (H7), HOME outside of the diff."""
    script = (
        f"{FIX}; echo x > $HOME/outside; echo $APPLIANCE_BUDGET_SECONDS; cat /run/appliance/budget.json; id -u; pwd;"
        " cat $HOME/.deep/t; ls /run/appliance"
    )
    (tmp_path / "t.txt").write_text("from {workspace}\n")
    solver = command(tmp_path, "tool", script, '[files]\n"{home}/.deep/t" = "t.txt"\n')
    ended = run_suite(tmp_path / "run", small_suite(tmp_path / "suite"), solver)
    one = trial(ended)
    assert one.outcome == "resolved"
    assert stdout_of(ended, one).decode().split() == [
        "600", '{"wallSeconds":', "600.0}", "1000", "/workspace", "from", "/workspace",
        "budget.json", "prompt.txt", "subject",
    ]  # fmt: skip
    assert one.harvest is not None
    assert one.harvest.changed == ("program.sh",)
    assert one.harvest.diff is not None
    assert b"+exit 0" in blob(ended, one.harvest.diff.sha256)
