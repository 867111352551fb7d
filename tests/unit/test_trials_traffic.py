"""What a trial's traffic and its solver's own words make of it, decided from values."""

from __future__ import annotations

import pytest

from appliance.ports import Traffic
from appliance.records.trial import Usage
from appliance.records.words import Cause
from appliance.solvers.outputs.claimed import Claimed
from appliance.trials.outcomes import FailureWatch, SolverEnd, Verdict, broken_off, cause_of, claim_faults

DONE = Claimed("complete")
CUT = Claimed("incomplete", detail="no result event")
DOWN = Claimed("provider_failed", detail="terminal_reason api_error")
LIMIT = Claimed("complete", limit="error_max_turns")


def traffic(**changes: object) -> Traffic:
    seen: dict[str, object] = {
        "exchanges": 2,
        "usage": usage(100, 10),
        "cost_usd": "0.5",
        "cassette": None,
        "transcript": None,
    }
    return Traffic(**(seen | changes))  # type: ignore[arg-type]


def usage(entering: int, leaving: int) -> Usage:
    return Usage(
        input_tokens=entering, cache_read_tokens=0, cache_write_tokens=0, output_tokens=leaving, reasoning_tokens=0
    )


@pytest.mark.parametrize(
    ("cause", "seen", "claimed", "verdict"),
    [
        ("exit", None, None, None),
        ("exit", traffic(), None, None),
        ("exit", traffic(), DONE, None),
        ("exit", traffic(), LIMIT, None),
        ("exit", traffic(), CUT, Verdict("errored", "protocol_incomplete", "no result event")),
        ("exit", None, CUT, Verdict("errored", "protocol_incomplete", "no result event")),
        ("exit", traffic(), DOWN, None),
        ("exit", traffic(exchanges=0), DOWN, None),
        ("exit", None, DOWN, Verdict("errored", "provider_failed", "terminal_reason api_error")),
        ("timeout", traffic(), CUT, None),
        ("signal", traffic(), CUT, None),
        ("oom", traffic(), CUT, None),
        ("timeout", traffic(), DOWN, None),
        (
            "exit",
            traffic(failed="provider_failed", detail="503"),
            DONE,
            Verdict("errored", "provider_failed", "503"),
        ),
        (
            "timeout",
            traffic(failed="provider_failed", detail="503"),
            None,
            Verdict("errored", "provider_failed", "503"),
        ),
        ("exit", traffic(failed="replay_diverged"), CUT, Verdict("errored", "replay_diverged", None)),
        ("budget", traffic(over_budget="trial"), DOWN, None),
        ("budget", traffic(over_budget="trial"), CUT, None),
        ("budget", traffic(over_budget="run"), DONE, None),
    ],
)
def test_a_trial_is_graded_unless_its_provider_or_its_protocol_failed(
    cause: Cause, seen: Traffic | None, claimed: Claimed | None, verdict: Verdict | None
) -> None:
    """Rows M1, M5, M15, M17: the gateway's word first; a turn limit, a crash, a timeout and a budget are the oracle's
    to judge, the run's as the trial's own; an outage is never `unresolved`, and no agent talks its way out."""
    assert broken_off(cause, seen, claimed) == verdict


def test_a_budget_that_ran_out_is_the_cause_whatever_came_after_it() -> None:
    """Row M15."""
    over = traffic(over_budget="trial")
    for exit_status, timed_out in ((0, False), (1, False), (None, True)):
        end = SolverEnd(exit_status, timed_out, None, 0, 0, disk_full=False)
        assert cause_of(end, over) == "budget"
        assert cause_of(end, traffic()) != "budget"
    assert cause_of(SolverEnd(None, False, "no such file", 0, 0, disk_full=False), over) is None


def test_a_claim_that_differs_by_more_than_a_hundredth_is_named() -> None:
    """Rows M2, M4: input, output and dollars each; what one side does not know is no difference."""
    near = Claimed("complete", usage(101, 10), "0.505")
    assert claim_faults(near, traffic()) == ()
    far = Claimed("complete", usage(102, 9), "0.49")
    assert claim_faults(far, traffic()) == (
        "the solver says 102 input tokens, the gateway counted 100",
        "the solver says 9 output tokens, the gateway counted 10",
        "the solver says 0.49 dollars, the gateway counted 0.5",
    )
    assert claim_faults(Claimed("complete"), traffic()) == ()
    assert claim_faults(LIMIT, None) == ("the solver says that it met a limit of its own: error_max_turns",)
    assert claim_faults(DOWN, traffic()) == ("the solver says that its provider failed: terminal_reason api_error",)
    assert claim_faults(far, traffic(usage=None, cost_usd=None)) == ()


def test_three_outages_in_a_row_end_a_run() -> None:
    """Row H23: a provider that is gone fails the next trial too; a budget that ran out is no failure."""
    watch = FailureWatch()
    assert [watch.saw("errored", "provider_failed") for _ in range(3)] == [False, False, True]
    watch = FailureWatch()
    assert [watch.saw("excluded", "budget") for _ in range(4)] == [False] * 4
