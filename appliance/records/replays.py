"""Records of replays: their answers were recorded in another run, so their dollars, tokens and joules rank nowhere."""

from __future__ import annotations

from typing import Final

from appliance.records.outline import AnyRecord, TrialOutline
from appliance.records.trial import TrialResult

REPLAY_WORDS: Final = "a replay of recorded answers: no model was asked"


def is_replay(record: AnyRecord) -> bool:
    return any(map(replays, record.trials))


def replays(trial: TrialResult | TrialOutline) -> bool:
    """Also one that went another way at its first request."""
    return trial.replay_level is not None or trial.reason == "replay_diverged"


def asked_its_model(trial: TrialResult | TrialOutline) -> bool:
    """As far as its tokens say; None, where an answer did not say its own, is no 0."""
    usage = trial.usage.subject
    if usage is None:
        return bool(trial.exchanges)
    return any(count for count in usage.model_dump().values())
