"""What the formulas of plausibility share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from appliance.audit.plausible_shapes import Plausibility
from appliance.records.record import Record
from appliance.records.trial import TrialResult
from attest.errors import Refused


@dataclass(frozen=True)
class Ran:
    """A trial whose solver ran, with its place and its clock."""

    at: int
    trial: TrialResult
    wall: float
    """Seconds."""
    started: float
    """Seconds since 1970, when the trial began: its workspace and container come before its solver's wall."""

    @property
    def here(self) -> str:
        return f"$.trials[{self.at}]"

    @property
    def ended(self) -> float:
        """The earliest that its solver can have ended."""
        return self.started + self.wall


@dataclass(frozen=True)
class Seen:
    """A record, the policy's numbers, and the two moments that are not the record's own word."""

    record: Record
    rules: Plausibility
    signed_at: datetime
    """By the root's authority; of a record that nobody signed, its receipt."""
    now: datetime
    """By the receiver's clock."""
    issued_at: datetime | None = None
    """When the record's challenge was made, by the receiver's clock; None: it has none, or nobody looked it up."""

    @cached_property
    def ran(self) -> tuple[Ran, ...]:
        """Trials whose solver ran. Raises Refused (policy, implausible) for a start that is no moment."""
        return tuple(
            Ran(at, trial, trial.wall_seconds, moment(trial.started_at, f"$.trials[{at}].startedAt").timestamp())
            for at, trial in enumerate(self.record.trials)
            if trial.wall_seconds is not None
        )

    @cached_property
    def by_host(self) -> dict[int, list[Ran]]:
        """The same by the host they ran on, in the order that they began."""
        found: dict[int, list[Ran]] = {}
        for one in sorted(self.ran, key=lambda one: one.started):
            found.setdefault(one.trial.host, []).append(one)
        return found


@dataclass(frozen=True)
class Fault:
    where: str
    """JSON path."""
    words: str


Formula = Callable[[Seen], Iterator[Fault]]


def moment(text: str, where: str) -> datetime:
    """With its zone. Raises Refused (policy, implausible)."""
    try:
        found = datetime.fromisoformat(text)
        found.timestamp()
    except (ValueError, OverflowError, OSError):
        found = None
    if found is None or found.tzinfo is None:
        raise Refused("policy", f"{text[:60]!r} is no moment", where=where, word="implausible")
    return found
