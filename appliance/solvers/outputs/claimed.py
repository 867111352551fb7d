"""What an agent's own output says of itself; the gateway's count is the truth, this is kept beside it (row M4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from appliance.records.trial import Usage


@dataclass(frozen=True)
class Claimed:
    ended: Literal["complete", "provider_failed", "incomplete"]
    """`provider_failed`: the agent says that its model's server let it down. `incomplete`: its protocol never ended."""
    usage: Usage | None = None
    cost_usd: str | None = None
    """None also where the agent made it up."""
    detail: str | None = None
    """In words, where `ended` is not `complete`."""
    limit: str | None = None
    """A limit of the agent's own that ended it (turns, its own cost limit): the oracle decides all the same."""
