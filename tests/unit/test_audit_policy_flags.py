"""Flags of joules that a receiver does not take."""

from __future__ import annotations

import pytest

from appliance.audit.policy_rules import joules_come_from
from appliance.records.energy import ZoneFigure
from appliance.records.record import Record
from attest.errors import Refused
from tests.policy_builder import believable, policy


def flagged(*, total: tuple[str, ...] = (), zone: tuple[str, ...] = ()) -> Record:
    """A record whose second trial's joules carry flags."""
    record = believable().record
    trial = record.trials[1]
    assert trial.energy is not None
    whole = trial.energy.total.model_copy(update={"flags": total})
    board = ZoneFigure.model_construct(**dict(whole) | {"flags": zone, "summed": True, "by_role_uj": {}})
    energy = trial.energy.model_copy(update={"total": whole, "zones": {"gpu:0": board}})
    changed = trial.model_copy(update={"energy": energy})
    return record.model_copy(update={"trials": (record.trials[0], changed, *record.trials[2:])})


@pytest.mark.parametrize(
    ("record", "where"),
    [
        (flagged(total=("shared",)), "$.trials[1].energy.total.flags"),
        (flagged(zone=("late", "shared")), "$.trials[1].energy.zones.gpu:0.flags"),
    ],
)
def test_joules_of_a_shared_board_are_refused_where_the_policy_says_so(record: Record, where: str) -> None:
    """Row G8: refused by policy; the device's total with its flag otherwise."""
    with pytest.raises(Refused, match="wanted joules that are not shared") as refused:
        joules_come_from(policy(provenance={"refused_flags": ["contended", "shared"]}), record)
    assert (refused.value.where, refused.value.word) == (where, "policy")


@pytest.mark.parametrize("flags", [[], ["contended"]])
def test_a_flag_that_no_policy_names_is_told_and_not_refused(flags: list[str]) -> None:
    """Row G8."""
    joules_come_from(policy(provenance={"refused_flags": flags}), flagged(total=("shared",), zone=("shared",)))


def test_a_flag_that_does_not_exist_is_no_rule() -> None:
    with pytest.raises(Exception, match="no flag of an energy figure is called 'sharde'"):
        policy(provenance={"refused_flags": ["sharde"]})
