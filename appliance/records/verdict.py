"""verdict-v1: whether a run that was done again holds, in three parts, with every field that was compared."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from appliance.pins import Sha256
from appliance.records.money import Usd
from appliance.records.plan import TrialKey
from appliance.records.words import Outcome
from appliance.wire import Comparison, Wire

ReplayLevel = Literal["exact", "masked", "structural"]
Judgement = Literal["reproduced", "diverged", "incomparable"]


class ComparedField(Wire):
    """One field of both records. Informative ones are listed where they differ, and decide nothing."""

    path: str
    """JSON path in the recorded one."""
    compare: Comparison
    recorded: Any
    again: Any
    equal: bool


class VerdictPart(Wire):
    verdict: Judgement
    reasons: tuple[str, ...]
    """Why it is not `reproduced`; empty where it is."""


class ComparedRate(Wire):
    """A pass's resolution where a live model answered: it holds where the recorded rate lies in the interval."""

    pass_: int = Field(alias="pass", ge=0)
    recorded: float
    again: float
    interval: tuple[float, float]
    """Wilson, 95 %, of the new run; or the new rate give or take `tolerance`."""
    holds: bool


class ComparedEnergy(Wire):
    """A pass's net energy over the compared trials."""

    pass_: int = Field(alias="pass", ge=0)
    recorded_uj: int
    again_uj: int
    band: float
    """The larger may be this many times the smaller (by provenance: 1.2, 1.5, 3.0)."""
    holds: bool


class ComparedCost(Wire):
    """What the counted trials cost, both times; None where one of them has no price."""

    recorded_usd: Usd | None
    again_usd: Usd | None
    band: float
    """The larger may be this many times the smaller; 1: equal."""
    holds: bool | None
    """None where there is nothing to compare."""


class Flip(Wire):
    key: TrialKey
    recorded: Outcome
    again: Outcome


class TaskFlips(Wire):
    """A task's trials that were scored both times."""

    task: str
    both: int = Field(ge=0)
    """Resolved both times."""
    only_recorded: int = Field(ge=0)
    only_again: int = Field(ge=0)
    neither: int = Field(ge=0)


class PairedFlips(Wire):
    """Trial by trial, where a live model answered."""

    tasks: tuple[TaskFlips, ...]
    p_value: float = Field(ge=0, le=1)
    """Exact two-sided sign test over what flipped (McNemar's): how often chance alone flips as unevenly. It is told,
    and decides nothing."""


class ReplayedTrial(Wire):
    key: TrialKey
    level: ReplayLevel | None
    """The lowest that one of its requests needed; None where none was answered."""
    recorded: int = Field(ge=0)
    """Exchanges with the model in its cassette."""
    unused: int = Field(ge=0)
    """Of these, those that were not asked for again."""
    diverged: bool
    differences: tuple[str, ...]
    """What the masks covered and was not as recorded; between tools' results, where the level is structural."""


class Replay(Wire):
    """The model's recorded answers were given again."""

    level: ReplayLevel | None
    """The lowest of all trials."""
    unused: int = Field(ge=0)
    divergences: int = Field(ge=0)
    """Trials that asked what their cassette does not hold."""
    first_divergence: str | None
    """A unified diff of that request and the closest recorded one."""
    trials: tuple[ReplayedTrial, ...]


class Verdict(Wire):
    """The exit status follows `outcome` alone."""

    schema_: Annotated[Literal["verdict-v1"], Field(alias="schema")] = "verdict-v1"
    recorded: Sha256
    """Digest of the record's bytes."""
    again: Sha256
    """Digest of the new record's bytes."""
    checked: Literal["verified", "unverified"]
    """Whether the record's signature was checked before anything of it was run."""
    live: bool
    """A model answered anew: outcomes are compared as rates."""
    tolerance: float | None
    compared_trials: int
    recorded_trials: int
    """What the record holds; fewer compared ones are a sample, drawn as rows R6 says."""
    outcome: VerdictPart
    energy: VerdictPart
    cost: VerdictPart
    first_difference: ComparedField | None
    """Of the fields that `outcome` follows from."""
    harness_differences: tuple[ComparedField, ...]
    """Version, commit or sources of the harness that ran again, where they are not the recorded ones."""
    flips: tuple[Flip, ...]
    rates: tuple[ComparedRate, ...]
    energies: tuple[ComparedEnergy, ...]
    fields: tuple[ComparedField, ...]
    costs: ComparedCost | None = Field(default=None, exclude_if=lambda one: one is None)
    paired: PairedFlips | None = Field(default=None, exclude_if=lambda one: one is None)
    """Where `live`."""
    replay: Replay | None = Field(default=None, exclude_if=lambda one: one is None)
    """None: no cassette answered."""
