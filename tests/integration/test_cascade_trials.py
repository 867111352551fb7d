"""Trials of a cascade over a real control socket, in real containers: what is recorded, and what errors."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from appliance.audit.energy import figures_follow
from appliance.audit.outcomes import follow_from_grades
from appliance.audit.plans import trials_are_planned
from appliance.errors import InputRefused
from appliance.records.record import Record
from appliance.records.trial import TrialResult
from appliance.solvers.definition import SolverDefinition
from appliance.solvers.finding import find_solver
from appliance.trials.session import RunEnded
from appliance.trials.stamps import Subject
from tests.cascade_stub import ANSWER, FENCED, PATCH, TIERS, WHO, Answer, endless, silent, stub_socket
from tests.trials_bench import blob, records, run_suite, trial
from tests.trials_suites import small_suite

pytestmark = pytest.mark.docker


def cascade() -> SolverDefinition:
    return find_solver("cascade")


def ran(folder: Path, control: Path, **words: Any) -> RunEnded:
    more = {"cascade_socket": control, **words.pop("run_options", {})}
    return run_suite(folder / "run", small_suite(folder / "suite"), cascade(), run_options=more, **words)


def answered(folder: Path, answer: Answer, **words: Any) -> tuple[RunEnded, TrialResult]:
    """A run against a stub that answers so."""
    control = folder / "control.sock"
    with stub_socket(control, answer):
        ended = ran(folder, control, **words)
    return ended, trial(ended)


def errored(folder: Path, one: TrialResult, reason: str, *words: str) -> None:
    assert (one.outcome, one.reason, one.grade) == ("errored", reason, None)
    assert one.detail is not None
    assert one.detail.startswith(f"{folder / 'control.sock'}: "), one.detail
    assert all(word in one.detail for word in words), one.detail
    assert (one.response, one.stage, one.reported_uj, one.observations) == (None, None, None, ())


def test_a_cascades_diff_resolves_the_task_and_its_tiers_are_stored(tmp_path: Path) -> None:
    """Response, stage, microjoules a tier, latency, tokens, and who answered; nothing of it in the energy (row J17)."""
    control = tmp_path / "control.sock"
    with stub_socket(control) as stub:
        ended = ran(tmp_path, control)
    (record,) = records(ended)
    (one,) = record.trials
    assert (one.outcome, one.solver_exit, one.cause, one.faults) == ("resolved", 0, "exit", ())
    assert stub.asked == [{}, {"id": "fix", "prompt": "mend fix"}]
    assert (one.response, one.stage, one.reported_uj) == (FENCED, "neural", 753)
    assert [(seen["stage"], seen["microjoules"], seen["label"]) for seen in one.observations] == [
        (tier["stage"], tier["microjoules"], "self_reported") for tier in TIERS
    ]
    assert one.latency_ms is not None
    assert one.usage.subject is None
    assert one.usage.claimed is not None
    assert (one.usage.claimed.input_tokens, one.usage.claimed.output_tokens) == (11, 22)
    assert one.harvest is not None
    assert one.harvest.changed == ("program.sh",)
    (kept,) = [seen for seen in one.artifacts if seen.name == "response"]
    assert blob(ended, kept.blob.sha256).decode() == FENCED
    assert (record.solver.version, record.solver.commit, record.solver.source) == (
        "stub 1.2.3",
        WHO["commit"],
        "release",
    )
    assert [warning.split(":")[0] for warning in record.warnings if ":" in warning][:1] == ["self_reported"]
    assert not any("unpinned" in warning for warning in record.warnings)


def test_what_a_cascade_says_of_its_joules_enters_no_ranking_and_no_total(tmp_path: Path) -> None:
    """The total is what the meter gives, below the floor by kind; the checks of a verification hold (rows J17, J43)."""
    ended, one = answered(tmp_path, {**ANSWER, "microjoules": 10**12, "tiers": []})
    assert one.energy is not None
    assert one.energy.total.below_floor
    assert (one.energy.parts, one.reported_uj) == ((), 10**12)
    assert one.observations[0]["microjoules"] == 10**12
    assert one.energy.total.net_uj is not None
    assert one.energy.total.net_uj < 10**12
    (record,) = records(ended)
    for check in (figures_follow, follow_from_grades, trials_are_planned):
        check(record)
    assert record.summary.passes[0].energy is not None
    assert record.summary.passes[0].energy.below_floor == 1


def test_the_socket_is_no_part_of_the_plan(tmp_path: Path) -> None:
    """Two places of one cascade, one plan; the record names its place nowhere but in what went wrong (row J17)."""
    digests = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        ended, _ = answered(tmp_path / name, ANSWER)
        (record,) = records(ended)
        digests.append(record.plan_digest)
        assert str(tmp_path).encode() not in record.canonical()
    assert digests[0] == digests[1]


def test_a_bare_diff_is_taken_too(tmp_path: Path) -> None:
    """Without a fence (row J17)."""
    _, one = answered(tmp_path, {"response": PATCH, "stage": "kv", "microjoules": 50})
    assert (one.outcome, one.stage, one.observations[0]["stage"]) == ("resolved", "kv", "kv")


def test_a_response_that_is_no_diff_leaves_the_workspace_alone_and_the_oracle_decides(tmp_path: Path) -> None:
    """An attempt at the task, and a failed one (row J17)."""
    _, one = answered(tmp_path, {"response": "I cannot.", "stage": "neural", "microjoules": 9})
    assert (one.outcome, one.reason, one.response) == ("unresolved", "tests_failed", "I cannot.")
    assert one.harvest is not None
    assert one.harvest.changed == ()


def test_a_diff_that_does_not_fit_changes_nothing_and_is_told(tmp_path: Path) -> None:
    """Whole or not at all; git's words among the faults (row J17)."""
    wrong = PATCH.replace("exit 1", "exit 7")
    _, one = answered(tmp_path, {**ANSWER, "response": f"```\n{wrong}```"})
    assert (one.outcome, one.reason) == ("unresolved", "tests_failed")
    assert one.harvest is not None
    assert one.harvest.changed == ()
    (fault,) = one.faults
    assert "patch does not apply" in fault


def test_a_diff_reaches_nothing_outside_of_the_workspace(tmp_path: Path) -> None:
    """Paths that leave it are git's to refuse (row J17)."""
    leaving = "--- /dev/null\n+++ b/../../tmp/left\n@@ -0,0 +1 @@\n+here\n"
    _, one = answered(tmp_path, {**ANSWER, "response": leaving})
    assert one.outcome == "unresolved"
    assert "invalid path" in one.faults[0]


def test_a_socket_that_is_not_there_errors_the_trial(tmp_path: Path) -> None:
    """Never unresolved; the record is written, its cascade unpinned (row J17)."""
    ended = ran(tmp_path, tmp_path / "control.sock")
    errored(tmp_path, trial(ended), "start_failed", "no socket")
    assert (trial(ended).cause, trial(ended).solver_exit) == (None, None)
    (record,) = records(ended)
    assert record.summary.passes[0].resolution is None
    assert any(warning.startswith("unpinned: ") for warning in record.warnings)


def test_a_socket_that_nobody_listens_at_errors_the_trial(tmp_path: Path) -> None:
    """What a killed cascade leaves behind (row J17)."""
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(tmp_path / "control.sock"))
    left.close()
    (tmp_path / "control.sock").chmod(0o666)
    errored(tmp_path, trial(ran(tmp_path, tmp_path / "control.sock")), "start_failed", "nobody listens")


def test_a_socket_that_user_1000_may_not_use_errors_the_trial(tmp_path: Path) -> None:
    """With the permission that it needs (row J17)."""
    control = tmp_path / "control.sock"
    with stub_socket(control):
        control.chmod(0o600)
        errored(tmp_path, trial(ran(tmp_path, control)), "start_failed", "user 1000")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"not json\n", "no JSON"),
        (b"[1]\n", "no object"),
        (b'{"response": "x", "stage": "Neural!", "microjoules": 1}\n', "$.stage"),
        (b'{"response": "x", "stage": "kv", "microjoules": 1.5}\n', "$.microjoules"),
        (b'{"response": "x", "stage": "kv", "stage": "kv", "microjoules": 1}\n', "twice"),
        (b'{"response": "\\ud800", "stage": "kv", "microjoules": 1}\n', "cascade-v1"),
        (b'{"response": "x", "stage": "kv", "microjoules": 1, "more": 1}\n', "more"),
        (b"[" * 100_000 + b"\n", "no JSON"),
        (json.dumps({**ANSWER, "microjoules": 752}).encode() + b"\n", "its tiers make 753"),
        (json.dumps(ANSWER).encode(), "before its answer's line ended"),
        (b"", "before its answer's line ended"),
        (json.dumps(ANSWER).encode() + b"\n" + json.dumps(ANSWER).encode() + b"\n", "more than one line"),
        (endless, "longer than 1048576 bytes"),
    ],
    ids=lambda value: value[:40].replace("/", " ") if isinstance(value, str) else "answer",
)
def test_an_answer_that_is_none_errors_the_trial(tmp_path: Path, answer: Answer, words: str) -> None:
    """Garbage, half of it, too much of it: its protocol never ended (row J17)."""
    _, one = answered(tmp_path, answer)
    errored(tmp_path, one, "protocol_incomplete", words)


def test_a_silent_cascade_errors_its_trial_at_the_limit(tmp_path: Path) -> None:
    """The cause is the timeout; there is nothing to grade (row J17)."""
    _, one = answered(tmp_path, silent, limits={"wall_seconds": 2.0})
    errored(tmp_path, one, "protocol_incomplete", "within the trial's 2 s")
    assert one.cause == "timeout"


def test_a_cascade_that_says_that_it_failed_errors_its_trial(tmp_path: Path) -> None:
    """What stands behind it let it down, in its own words (row J17)."""
    _, one = answered(tmp_path, {"error": {"code": "failed", "message": "the model is gone"}})
    errored(tmp_path, one, "provider_failed", "failed: the model is gone")


def test_another_version_than_was_asked_for_is_refused_before_anything_runs(tmp_path: Path) -> None:
    """As a program that says another version than its lock (row J17)."""
    control = tmp_path / "control.sock"
    subjects = {"cascade": Subject("1.2.4", None, "flag")}
    with stub_socket(control) as stub, pytest.raises(InputRefused, match=r"stub 1\.2\.3 answers, and 1\.2\.4 is under"):
        ran(tmp_path, control, run_options={"subjects": subjects})
    assert stub.asked == [{}]
    assert not (tmp_path / "run/journal.jsonl").exists()


@pytest.mark.parametrize(
    ("who", "labels"),
    [
        (None, {"self_reported", "unpinned"}),
        ({"protocol": "cascade-v1", "name": "nobody"}, {"self_reported", "unpinned"}),
        ({**WHO, "synthetic": True}, {"self_reported", "synthetic"}),
        ({"protocol": "cascade-v2", "name": "later"}, {"self_reported", "unpinned"}),
    ],
    ids=["hangs up", "no version", "synthetic", "another protocol"],
)
def test_the_record_says_what_is_not_known_of_a_cascade(
    tmp_path: Path, who: dict[str, Any] | None, labels: set[str]
) -> None:
    """The labels of formats 6, in the record's warnings (row J17)."""
    control = tmp_path / "control.sock"
    with stub_socket(control, ANSWER, who):
        (record,) = records(ran(tmp_path, control))
    assert record.trials[0].outcome == "resolved"
    assert {warning.split(":")[0] for warning in record.warnings} & {
        "self_reported", "unpinned", "synthetic", "degenerate"
    } == labels  # fmt: skip


def test_a_pass_from_the_cache_alone_is_degenerate(tmp_path: Path) -> None:
    """It says nothing of what stands behind the cache (rows J17, J30)."""
    ended, _ = answered(tmp_path, {**ANSWER, "stage": "cache", "tiers": []}, passes=2)
    (record,) = records(ended)
    assert sum(warning.startswith("degenerate: pass ") for warning in record.warnings) == 2


def test_a_long_response_is_kept_whole_beside_the_record(tmp_path: Path) -> None:
    """16 Ki characters of it in the record, all of it as an artifact (row J17)."""
    long = "é" * 100_000
    ended, one = answered(tmp_path, {**ANSWER, "response": long})
    assert one.response == long[: 16 * 1024]
    assert "100000 characters" in one.faults[0]
    (kept,) = [seen for seen in one.artifacts if seen.name == "response"]
    assert blob(ended, kept.blob.sha256).decode() == long
    assert Record.read(ended.records[0]).trials[0].response == one.response
