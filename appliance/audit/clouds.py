"""What a provider's machines took, made again from the trial's tokens (row J33).

The part is there where a provider answered, so that nobody's total leaves it out, and nowhere else; it is the model's
figure of the trial's own tokens; and the total is the sum of both sides, under the worse label. The tokens themselves
are the cassette's to bear out.
"""

from __future__ import annotations

from appliance.audit.plans import first_difference, short
from appliance.records.cloud import cloud_figure, with_cloud
from appliance.records.energy import TrialEnergy
from appliance.records.record import Record
from appliance.records.trial import TrialResult
from attest.errors import Refused


def clouds_follow(record: Record) -> None:
    """Raises Refused (energy)."""
    for at, trial in enumerate(record.trials):
        if trial.energy is None:
            continue
        here = f"$.trials[{at}].energy"
        if (trial.energy.cloud is None) != (trial.energy.local is None):
            raise Refused("energy", "local and cloud are there together, or not at all", where=f"{here}.local")
        if _was_far(record, trial) != (trial.energy.cloud is not None):
            why = "no provider answered" if trial.energy.cloud else "a provider answered, and what it took is left out"
            raise Refused("energy", why, where=f"{here}.cloud")
        if trial.energy.cloud is not None:
            _is_redone(trial, trial.energy, here)


def _was_far(record: Record, trial: TrialResult) -> bool:
    upstream = record.plan.upstream
    return bool(upstream is not None and upstream.is_far and trial.exchanges and trial.replay_level is None)


def _is_redone(trial: TrialResult, energy: TrialEnergy, here: str) -> None:
    far = cloud_figure(trial.usage.subject)
    if energy.local is None:
        return
    before = energy.model_copy(update={"total": energy.local, "local": None, "cloud": None})
    for name, stated, again in (
        ("cloud", energy.cloud, far),
        ("total", energy.total, with_cloud(before, far).total),
    ):
        if stated != again:
            where, one, other = first_difference(
                stated.json_value() if stated else None, again.json_value(), f"{here}.{name}"
            )
            raise Refused("energy", f"{short(one)}, and its tokens give {short(other)}", where=where)
