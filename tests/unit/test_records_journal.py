"""The journal: what a crash may leave, and what it may not."""

from __future__ import annotations

import pytest

from appliance.errors import InputRefused
from appliance.records.journal import BaselineLine, HeaderLine, InterruptedLine, Line, TrialLine, decode, encode
from tests import record_builder as build

PLAN = build.plan(["t1", "t2"])
HEADER = HeaderLine(
    run_id="run-1", plan_digests=(PLAN.digest,), harness=build.harness_stamp(), started_at="2026-01-02T03:04:05Z"
)


def told(*lines: Line) -> bytes:
    return b"".join(encode(line) for line in (HEADER, *lines))


def ended(task: str, at: int, *, outcome: str = "resolved") -> TrialLine:
    return TrialLine(plan_digest=PLAN.digest, trial=at, result=build.trial(task, outcome))  # type: ignore[arg-type]


def broken_off(task: str, at: int) -> InterruptedLine:
    return InterruptedLine(plan_digest=PLAN.digest, trial=at, result=build.trial(task, "cancelled"))


def test_a_half_written_last_line_is_dropped_and_measured() -> None:
    """kill -9 while a line is written loses that line alone; the next start cuts the file there (H22)."""
    whole = told(ended("t1", 0))
    found = decode(whole + encode(ended("t2", 1))[:-20], "journal.jsonl")
    assert len(found.lines) == 1
    assert found.kept_bytes == len(whole)
    assert found.dropped_bytes > 0


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b"", "journal.jsonl:1"),
        (told(ended("t1", 0)).replace(b'"resolved"', b'"solved"', 1), "journal.jsonl:2"),
        (told() + b"not json\n", "journal.jsonl:2"),
        (told() + b"\n", "journal.jsonl:2"),
        (told() + told(), "journal.jsonl:2"),
        (encode(ended("t1", 0)), "journal.jsonl:1"),
        (told() + b'{"kind":"note"}\n', "journal.jsonl:2"),
        (told() + encode(ended("t1", 0)).replace(b",", b", ", 1), "journal.jsonl:2"),
        (told(TrialLine(plan_digest="0" * 64, trial=0, result=build.trial())), "journal.jsonl:2"),
    ],
)
def test_any_other_damage_is_refused_with_its_line(content: bytes, place: str) -> None:
    """No crash of ours explains it: status 3, file and line (issue: Bad input)."""
    with pytest.raises(InputRefused) as refused:
        decode(content, "journal.jsonl")
    assert str(refused.value).startswith(place)


def test_a_retried_trial_has_the_last_word() -> None:
    """`--retry errored` appends; the record has the later result, once."""
    found = decode(told(ended("t1", 0, outcome="errored"), ended("t2", 1), ended("t1", 0)), "j")
    assert [trial.outcome for trial in found.results(PLAN.digest)] == ["resolved", "resolved"]
    assert found.finished().keys() == {0, 1}


def test_an_interrupted_trial_is_kept_until_it_is_run_to_its_end() -> None:
    """It is not finished, so resume runs it; a retry that is broken off leaves the first result standing (H22)."""
    cut = decode(told(broken_off("t1", 0)), "j")
    assert [trial.outcome for trial in cut.results(PLAN.digest)] == ["cancelled"]
    assert cut.finished() == {}
    resumed = decode(told(broken_off("t1", 0), ended("t1", 0)), "j")
    assert [trial.outcome for trial in resumed.results(PLAN.digest)] == ["resolved"]
    retried = decode(told(ended("t1", 0, outcome="errored"), broken_off("t1", 0)), "j")
    assert [trial.outcome for trial in retried.results(PLAN.digest)] == ["errored"]


def test_results_come_in_the_order_of_the_plans_however_they_ended() -> None:
    """Two trials that ran side by side end in any order."""
    found = decode(told(ended("t2", 1), ended("t1", 0)), "j")
    assert [trial.key.task for trial in found.results(PLAN.digest)] == ["t1", "t2"]


def test_a_baseline_that_was_run_again_replaces_the_first() -> None:
    """One a task and image, the last one."""
    found = decode(told(BaselineLine(baseline=build.baseline(exit=2)), BaselineLine(baseline=build.baseline())), "j")
    assert [baseline.exit for baseline in found.baselines()] == [1]


def test_results_of_another_plan_are_left_out() -> None:
    """A journal holds the trials of every solver of its run; a record is of one."""
    other = build.plan(["t1"], solver="noop", kind="noop")
    header = HEADER.model_copy(update={"plan_digests": (PLAN.digest, other.digest)})
    theirs = TrialLine(plan_digest=other.digest, trial=2, result=build.trial("t1", "unresolved"))
    found = decode(encode(header) + encode(ended("t1", 0)) + encode(theirs), "j")
    assert [trial.outcome for trial in found.results(other.digest)] == ["unresolved"]
    assert len(found.results(PLAN.digest)) == 1
