"""What a report says of records whose model was not asked, and of dollars that no trial has."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

from appliance.errors import InputRefused
from appliance.records.record import Record
from appliance.records.trial import CostByWhom, Usage, UsageByWhom
from appliance.report.render import render
from appliance.submissions.publishable import refuse_unpublishable
from tests import record_builder as build

USAGE = Usage(input_tokens=10, cache_read_tokens=0, cache_write_tokens=0, output_tokens=1, reasoning_tokens=0)
WORDS = "a replay of recorded answers: no model was asked"


def record(*costs: str | None, solver: str = "agent", usage: Usage = USAGE, **changes: Any) -> Record:
    names = [f"t{number}" for number in range(len(costs))]
    trials = [
        build.trial(
            name,
            exchanges=1,
            usage=UsageByWhom(subject=usage),
            cost_usd=CostByWhom(subject=cost),
            energy=build.energy(build.counted_figure(5_000_000)),
            **changes,
        )
        for name, cost in zip(names, costs, strict=True)
    ]
    return build.record(build.plan(names, solver=solver, kind="command"), trials)


def test_a_replay_is_called_one_in_every_form_and_ranked_in_none() -> None:
    """Rows M14, J23: its dollars and tokens are those of another run."""
    live, replay = record("0.2", solver="live"), record("0.1", replay_level="exact")
    text = render([live, replay], "text")
    assert f"  {WORDS}; its tokens and dollars are those of the run that it replays" in text
    assert "agent [replayed]  " in text
    for line in ("not ranked: agent [replayed], 100.0 %, 5.0 J", "not ranked: agent [replayed], 100.0 %, $0.1"):
        assert line in text
    assert WORDS in render([replay], "html") and WORDS not in render([live], "text")
    told = json.loads(render([live, replay], "json"))["cohorts"][0]["records"]
    assert [one["replay"] for one in told] == [False, True]
    rows = csv.DictReader(io.StringIO(render([live, replay], "csv")))
    assert [row["replay"] for row in rows] == ["false", "true"]


def test_a_replay_is_not_published() -> None:
    """Row M14: what is published is the record that it replays, with a verdict beside it."""
    known = {"version": "1", "commit": "0" * 40}
    for level in (None, "masked"):
        one = record("0.1", replay_level=level)
        solver = one.solver.model_copy(update={"source": "program"})
        found = one.model_copy(update={**known, "solver": solver})
        if level is None:
            refuse_unpublishable(found, "r.json")
        else:
            with pytest.raises(InputRefused, match=WORDS):
                refuse_unpublishable(found, "r.json")


def test_dollars_of_which_no_trial_has_one_are_not_partially_priced() -> None:
    """Row M4: a trial that asked nothing cost nothing, which is no part of a price."""
    nothing = Usage(**dict.fromkeys(Usage.model_fields, 0))
    asked, idle = record(None, None), record("0", "0", usage=nothing)
    trials = (asked.trials[0], idle.trials[1])
    assert " partially priced" in render([record("0.1", None)], "text")
    text = render([build.record(asked.plan, list(trials))], "text")
    assert " not priced" in text and "partially" not in text
