"""What a provider took can be neither left out, nor made up, nor made smaller."""

from __future__ import annotations

from typing import Any

import pytest

from appliance.audit.energy import figures_follow
from appliance.records.cloud import cloud_figure, with_cloud
from appliance.records.energy import TrialEnergy
from appliance.records.plan import PlannedBudget, PlannedUpstream
from appliance.records.record import Record
from appliance.records.trial import Usage, UsageByWhom
from attest.errors import Refused
from tests import record_builder as build

USAGE = Usage(input_tokens=1_000, cache_read_tokens=400, cache_write_tokens=0, output_tokens=100, reasoning_tokens=0)
HERE = "$.trials[0].energy"


def upstream(provider: str = "anthropic", url: str | None = None) -> PlannedUpstream:
    return PlannedUpstream(
        provider=provider,  # type: ignore[arg-type]
        base_url=url,
        forwarder=build.pin(),
        server=None,
        budget=PlannedBudget(),
        run_budget=PlannedBudget(),
    )


def record(energy: TrialEnergy, by: PlannedUpstream | None = None, **trial: Any) -> Record:
    of = build.plan(["t1"], solver="agent", kind="command", model="m", upstream=by or upstream())
    told = {"exchanges": 2, "usage": UsageByWhom(subject=USAGE), **trial}
    return build.record(of, [build.trial("t1", wall=2.0, energy=energy).model_copy(update=told)])


def near() -> TrialEnergy:
    return build.estimated_energy(2.0)


def whole(usage: Usage | None = USAGE) -> TrialEnergy:
    return with_cloud(near(), cloud_figure(usage))


def refused(energy: TrialEnergy, by: PlannedUpstream | None = None, **trial: Any) -> str:
    with pytest.raises(Refused) as told:
        figures_follow(record(energy, by, **trial))
    assert told.value.reason == "energy"
    return str(told.value.where)


def test_a_genuine_one_follows() -> None:
    """Local by its estimator, cloud by its tokens, the total by both (J32, J33)."""
    figures_follow(record(whole()))
    figures_follow(record(whole(None), usage=UsageByWhom()))


def test_a_provider_that_answered_stands_in_the_total() -> None:
    """A total without it would be prettier than it is."""
    assert refused(near()) == f"{HERE}.cloud"


@pytest.mark.parametrize(
    ("by", "trial"),
    [
        (upstream("compatible", "http://127.0.0.1:9"), {}),
        (None, {"exchanges": 0}),
        (None, {"replay_level": "exact"}),
    ],
    ids=["on this host", "nothing was asked", "a replay"],
)
def test_where_no_provider_answered_there_is_no_such_part(by: PlannedUpstream | None, trial: dict[str, Any]) -> None:
    figures_follow(record(near(), by, **trial))
    assert refused(whole(), by, **trial) == f"{HERE}.cloud"


def test_another_place_than_this_host_is_a_provider() -> None:
    by = upstream("compatible", "https://models.example")
    figures_follow(record(whole(), by))
    assert refused(near(), by) == f"{HERE}.cloud"


def test_one_microjoule_less_is_seen_on_either_side_and_in_the_sum() -> None:
    """The coefficients and their source are ours, the tokens the trial's (J33)."""
    one = whole()
    assert one.cloud is not None
    assert one.local is not None
    less = one.cloud.model_copy(update={"net_uj": (one.cloud.net_uj or 0) - 1})
    assert refused(with_cloud(near(), less)) == f"{HERE}.cloud.netUj"
    total = one.total.model_copy(update={"net_uj": (one.total.net_uj or 0) - 1})
    assert refused(one.model_copy(update={"total": total})) == f"{HERE}.total.netUj"
    local = one.local.model_copy(update={"net_uj": (one.local.net_uj or 0) - 1, "gross_uj": one.local.gross_uj})
    assert refused(one.model_copy(update={"local": local})).startswith(HERE)
    gentle = one.cloud.model_copy(update={"inputs": {**(one.cloud.inputs or {}), "source": "ourselves"}})
    assert refused(with_cloud(near(), gentle)).startswith(f"{HERE}.cloud.inputs")


def test_tokens_of_another_trial_are_seen() -> None:
    fewer = USAGE.model_copy(update={"output_tokens": 99})
    assert refused(whole(fewer)).startswith(f"{HERE}.cloud")


def test_one_side_without_the_other_is_none() -> None:
    one = whole()
    assert refused(one.model_copy(update={"local": None})).startswith(HERE)
    assert refused(one.model_copy(update={"cloud": None})).startswith(HERE)


def test_an_estimate_of_this_host_is_redone_beside_a_cloud_too() -> None:
    """It was the total's own check that a cloud part switched off."""
    grown = build.estimated_energy(1.0)
    assert refused(with_cloud(grown, cloud_figure(USAGE))).startswith(f"{HERE}.local")
