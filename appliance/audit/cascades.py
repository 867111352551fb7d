"""What a cascade says of its own joules, against itself: tiers that add up, and a label on each."""

from __future__ import annotations

from typing import Final

from appliance.records.record import Record
from appliance.records.trial import TrialResult
from attest.errors import Refused

_TIER: Final = frozenset({"kind", "stage", "microjoules", "label", "provenance"})


def reports_add_up(record: Record) -> None:
    """Of a cascade's record: `reportedUj` is the sum of its tiers, each self-reported, the last the stage that
    answered."""
    if record.plan.solver.kind != "cascade":
        return
    for at, trial in enumerate(record.trials):
        _adds_up(trial, f"$.trials[{at}]")


def _adds_up(trial: TrialResult, here: str) -> None:
    if (trial.reported_uj is None) != (trial.stage is None):
        raise Refused("energy", "a stage and its joules come together", where=f"{here}.reportedUj")
    if trial.reported_uj is None:
        return
    whole = 0
    for at, tier in enumerate(trial.observations):
        where = f"{here}.observations[{at}]"
        if tier.keys() != _TIER or tier["kind"] != "tier" or type(tier["microjoules"]) is not int:
            raise Refused("energy", "no tier of a cascade", where=where)
        if tier["label"] != "self_reported":
            raise Refused("energy", "a cascade's own word, and not labelled so", where=f"{where}.label")
        whole += tier["microjoules"]
    if whole != trial.reported_uj:
        raise Refused("energy", f"its tiers make {whole}", where=f"{here}.reportedUj")
    if trial.observations and trial.observations[-1]["stage"] != trial.stage:
        raise Refused("energy", f"its last tier is not the stage {trial.stage}", where=f"{here}.stage")
