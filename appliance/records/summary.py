"""Everything of a record that can be recomputed from its trials, and is, by `verify`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from appliance.records.energy import Flag
from appliance.records.money import Usd
from appliance.records.trial import Usage
from appliance.records.words import Basis, Cause, Outcome, Provenance, Reason
from appliance.wire import COST_BAND, ENERGY_BAND, INFORMATIVE, OUTCOME, Wire, compared

NumberOrInfinity = float | Literal["Infinity"]
"""`"Infinity"` where nothing was resolved: never 0, never NaN."""


def _absent(value: object) -> bool:
    """A field that came later stands in no record that has nothing to say by it: the older ones keep their bytes."""
    return value is None


class EnergySum(Wire):
    """A sum over trials; None as soon as one part is None. Provenance and basis are the worst of the parts."""

    provenance: Annotated[Provenance, INFORMATIVE]
    basis: Annotated[Basis, INFORMATIVE]
    net_uj: Annotated[int | None, ENERGY_BAND]
    gross_uj: Annotated[int | None, ENERGY_BAND]
    """Of every window whole: where trials ran at the same time, the machine's joules stand in it more than once."""
    ratio_uj: Annotated[int | None, INFORMATIVE]
    interval: Annotated[tuple[int, int] | None, INFORMATIVE]
    """Sum of the parts' intervals, where all have one."""
    uncertainty_uj: Annotated[int | None, INFORMATIVE]
    """Sum of the parts' own (k = 2), where all have one: what they share, idle above all, does not average out."""
    lod_uj: Annotated[int | None, INFORMATIVE] = None
    """Sum of the parts' limits of detection, where all have one: they do not average out either."""
    trials: Annotated[int, INFORMATIVE]
    below_floor: Annotated[int, INFORMATIVE]
    """How many of them are below the floor: with any, the sum enters no energy ranking."""
    below_lod: Annotated[int, INFORMATIVE]
    """How many have a net below their limit of detection."""
    missing: Annotated[int, INFORMATIVE]
    """How many have no net: then the sum has none."""
    modelled: Annotated[int, INFORMATIVE]
    """How many are a model's word; neither 0 nor all: the sum enters no energy ranking (row L3)."""
    flags: Annotated[dict[Flag, int], INFORMATIVE]
    """How many carry each flag; one that none carries has no entry."""

    @property
    def undetected(self) -> bool:
        """Shown as `< LOD`: a net that is less than what its parts could tell from nothing, or that all of them lack
        for that very reason (row G6)."""
        if self.lod_uj is None:
            return False
        return self.below_lod == self.trials if self.net_uj is None else self.net_uj < self.lod_uj


class BestOfK(Wire):
    """The first k rollouts of every task (decision J28, J29): cumulative, in the order of the rollouts."""

    k: Annotated[int, INFORMATIVE] = Field(ge=1)
    fraction: Annotated[float, OUTCOME]
    """Tasks with a resolved rollout among the first k, over tasks with a scored one among all: never falls with k."""
    cost_usd: Annotated[Usd | None, COST_BAND]
    cloud_uj: Annotated[int | None, ENERGY_BAND]
    local_uj: Annotated[int | None, ENERGY_BAND]


class PassSummary(Wire):
    """One sweep; aggregates never mix passes.

    *Scored* is resolved + unresolved: what rates are of. *Counted* is scored + unscored: what joules, dollars and wall
    time are of, failed attempts included.
    """

    pass_: Annotated[int, INFORMATIVE] = Field(alias="pass", ge=0)
    planned: Annotated[int, INFORMATIVE]
    outcomes: Annotated[dict[Outcome, int], OUTCOME]
    """Every outcome with its count, zeros included."""
    not_run: Annotated[int, OUTCOME]
    """Planned trials that the record does not hold, because the run was interrupted before them."""
    reasons: Annotated[dict[Reason, int], OUTCOME]
    """Of all trials; a reason that never occurred has no entry."""
    causes: Annotated[dict[Cause, int], OUTCOME]
    """What ended the solvers of the counted trials; a cause that never occurred has no entry."""
    after_subject: Annotated[int, OUTCOME]
    resolution: Annotated[float | None, OUTCOME]
    """resolved / (resolved + unresolved); None where nothing was scored."""
    lower_bound: Annotated[float, OUTCOME]
    """resolved / planned."""
    energy: Annotated[EnergySum | None, INFORMATIVE]
    """Of the counted trials; None where none of them has a figure."""
    local: Annotated[EnergySum | None, INFORMATIVE] = Field(default=None, exclude_if=_absent)
    """Of `energy`, what this host took; None where no counted trial has a cloud part: then `energy` is all local."""
    cloud: Annotated[EnergySum | None, INFORMATIVE] = Field(default=None, exclude_if=_absent)
    """Of `energy`, a model's word for what a provider took (row J33); of a trial without a cloud part, nothing."""
    usage: Annotated[Usage | None, INFORMATIVE] = Field(default=None, exclude_if=_absent)
    """Tokens of the subjects of the counted trials; None as soon as one has none."""
    joules_per_resolved: Annotated[NumberOrInfinity | None, ENERGY_BAND]
    """Net energy of the counted trials over the resolved ones; "Infinity" where none is; None where a figure lacks."""
    wall_median_seconds: Annotated[float | None, compared("informative", "wall_band")]
    """Mean of the middle two where their number is even; None where a counted trial has none."""
    cost_usd: Annotated[Usd | None, COST_BAND]
    """Of the subjects of the counted trials; None as soon as one has no price."""
    partially_priced: Annotated[bool, INFORMATIVE]
    """A price lacks where there should be one: cost_usd is None for that reason."""
    best_of_k: Annotated[tuple[BestOfK, ...], OUTCOME]
    """Empty where the plan has one rollout."""


class Summary(Wire):
    passes: Annotated[tuple[PassSummary, ...], OUTCOME]
