"""What a cascade says of its joules, checked against itself by whoever verifies its record."""

from __future__ import annotations

from typing import Any

import pytest

from appliance.audit.energy import figures_follow
from appliance.records.record import Record
from attest.errors import Refused
from tests import record_builder as build

TIERS: tuple[dict[str, Any], ...] = (
    {"kind": "tier", "stage": "cache", "microjoules": 3, "label": "self_reported", "provenance": None},
    {"kind": "tier", "stage": "kv", "microjoules": 50, "label": "self_reported", "provenance": "estimator"},
)


def told(**changes: Any) -> Record:
    """A record of a cascade whose one trial says so."""
    of = build.plan(solver="cascade", kind="cascade")
    said: dict[str, Any] = {"stage": "kv", "reported_uj": 53, "observations": TIERS}
    trial = build.trial().model_copy(update=said | changes)
    return build.record(of, [trial])


def test_tiers_that_add_up_hold() -> None:
    """And so does a trial that was never answered (row J17)."""
    figures_follow(told())
    figures_follow(told(stage=None, reported_uj=None, observations=()))


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"reported_uj": 54}, "$.trials[0].reportedUj"),
        ({"reported_uj": None}, "$.trials[0].reportedUj"),
        ({"stage": "cache"}, "$.trials[0].stage"),
        ({"observations": ()}, "$.trials[0].reportedUj"),
        ({"observations": (TIERS[0], {**TIERS[1], "label": "measured"})}, "$.trials[0].observations[1].label"),
        ({"observations": (TIERS[0], {**TIERS[1], "microjoules": 50.0})}, "$.trials[0].observations[1]"),
        ({"observations": (TIERS[0], {**TIERS[1], "more": 1})}, "$.trials[0].observations[1]"),
    ],
)
def test_what_does_not_add_up_is_refused_by_its_place(changes: dict[str, Any], where: str) -> None:
    """Class energy (row J17)."""
    with pytest.raises(Refused) as refused:
        figures_follow(told(**changes))
    assert (refused.value.reason, refused.value.where) == ("energy", where)
