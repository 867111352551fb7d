"""What an honest record of a fault may say, and what it may not."""

from __future__ import annotations

from typing import Any

import pytest

from appliance.audit import baselines, energy, outcomes, plans
from appliance.records.trial import LimitsInForce, NetworkInForce
from appliance.tasks.model import Limits
from attest.errors import Refused
from tests import record_builder as build

OTHER = LimitsInForce(asked=Limits(), effective=Limits(memory_mib=64))
OPEN = NetworkInForce(asked="none", effective="open")
NEVER_RAN: dict[str, Any] = {"cause": None, "wall_seconds": None, "streams": None, "grade": None, "solver_exit": None}


@pytest.mark.parametrize("seen", [{"limits": OTHER}, {"network": OPEN}])
def test_a_trial_given_up_under_other_limits_does_not_spoil_its_record(seen: dict[str, Any]) -> None:
    """`excluded: engine_error` before the solver ran: the harness found other limits in force and said so (H5, I16)."""
    given_up = build.trial("t1", "excluded", reason="engine_error").model_copy(update=NEVER_RAN | seen)
    record = build.record(build.plan(), [given_up])
    for look in (
        plans.trials_are_planned,
        plans.stamps_agree,
        plans.in_force_as_asked,
        baselines.bear_out,
        outcomes.follow_from_grades,
        plans.summary_recomputes,
        energy.figures_follow,
    ):
        look(record)


@pytest.mark.parametrize(
    ("outcome", "changed"),
    [
        ("excluded", {"reason": "engine_error", "wall_seconds": 1.0}),
        ("excluded", {"reason": "engine_error", "cause": "exit", "solver_exit": 0}),
        ("excluded", {"reason": "grader_error"}),
        ("resolved", {"grade": build.grade("resolved")}),
    ],
)
def test_whatever_ran_under_other_limits_is_refused(outcome: Any, changed: dict[str, Any]) -> None:
    """However it ended (H5)."""
    ran = build.trial("t1", outcome).model_copy(update=NEVER_RAN | {"limits": OTHER} | changed)
    with pytest.raises(Refused) as refusal:
        plans.in_force_as_asked(build.record(build.plan(), [ran]))
    assert refusal.value.where == "$.trials[0].limits.effective"
