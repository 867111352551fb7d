"""The energy of a trial as it stands in a record: every figure with how it was obtained."""

from __future__ import annotations

from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, ConfigDict, Field, WithJsonSchema, model_validator

from appliance.records.blob import BlobRef
from appliance.records.words import ENERGY_FLAGS, Basis, Provenance
from appliance.wire import ENERGY_BAND, EXACT, INFORMATIVE, Wire


def _known(flag: str) -> str:
    if flag not in ENERGY_FLAGS:
        raise ValueError(f"no flag of an energy figure is called {flag!r}")
    return flag


# Words come from several adapters as plain strings; the list of them stands in the schema (formats 6, Words).
Flag = Annotated[str, AfterValidator(_known), WithJsonSchema({"type": "string", "enum": sorted(ENERGY_FLAGS)})]
Uj = Annotated[int, Field(ge=0)]
BELOW_DETECTION: Final = "below the limit of detection"
"""Why a counter that did not move has no figure."""


class EnergyFigure(Wire):
    """Integer microjoules. A figure of basis `modelled` has its model, inputs and interval (energy row L1)."""

    # The schema says what the validator below says, for readers in other languages.
    model_config = ConfigDict(
        json_schema_extra={
            "if": {"properties": {"basis": {"const": "modelled"}}},
            "then": {
                "properties": {
                    "model": {"type": "string"},
                    "inputs": {"type": "object"},
                    "interval": {"type": "array"},
                    "comparable": {"const": False},
                }
            },
            "anyOf": [{"properties": {"netUj": {"type": "integer"}}}, {"properties": {"missing": {"type": "string"}}}],
        }
    )

    provenance: Annotated[Provenance, EXACT]
    claimed: Annotated[Provenance | None, INFORMATIVE] = None
    """What a simulated counter posed as."""
    basis: Annotated[Basis, EXACT]
    source: Annotated[str, INFORMATIVE]
    """The counter or estimator by name."""
    scope: Annotated[str, INFORMATIVE]
    """What the figure is of: `host`, `package+dram`, `cgroup`; of a zone its key."""
    gross_uj: Annotated[Uj | None, ENERGY_BAND]
    idle_uj: Annotated[Uj | None, INFORMATIVE]
    system_uj: Annotated[Uj | None, INFORMATIVE]
    others_uj: Annotated[Uj | None, INFORMATIVE] = None
    """What went to other trials, harness, model server and meter: gross = idle + system + others + net, exactly."""
    net_uj: Annotated[Uj | None, ENERGY_BAND]
    marginal_uj: Annotated[Uj | None, INFORMATIVE]
    """Gross less idle, 0 where that is negative: what the whole machine took above its rest (rows J38, J39)."""
    ratio_uj: Annotated[Uj | None, INFORMATIVE] = None
    """Gross by the trial's share of the machine's CPU capacity, as Kepler's utilisation ratio gives it."""
    uncertainty_uj: Annotated[Uj | None, INFORMATIVE] = None
    """Expanded, k = 2: of net, or of gross where there is no net."""
    budget_uj: Annotated[dict[str, Uj] | None, INFORMATIVE] = None
    """Its terms by name, each a standard uncertainty (k = 1) rounded up."""
    lod_uj: Annotated[Uj | None, INFORMATIVE] = None
    interval: Annotated[tuple[Uj, Uj] | None, INFORMATIVE] = None
    model: Annotated[str | None, INFORMATIVE] = None
    inputs: Annotated[dict[str, Any] | None, INFORMATIVE] = None
    comparable: Annotated[bool, INFORMATIVE]
    """False for a figure that is modelled, simulated, missing or unreliable: it enters no ranking against others."""
    missing: Annotated[str | None, INFORMATIVE] = None
    """Why a figure is None, as `EACCES intel-rapl:0`."""
    bounds: Annotated[tuple[Uj, Uj] | None, INFORMATIVE] = None
    """Of gross, where the counter may have turned more than once."""
    below_floor: Annotated[bool, INFORMATIVE]
    """Shown as `~`; enters no energy ranking."""
    flags: Annotated[tuple[Flag, ...], INFORMATIVE] = ()

    @property
    def below_lod(self) -> bool:
        """Shown as `< LOD`: what was read is not told from nothing (row G6)."""
        if self.lod_uj is None:
            return False
        return self.missing == BELOW_DETECTION if self.net_uj is None else self.net_uj < self.lod_uj

    @model_validator(mode="after")
    def _modelled_carries_its_label(self) -> Self:
        if self.basis == "modelled":
            if self.model is None or self.inputs is None or self.interval is None:
                raise ValueError("a modelled figure needs model, inputs and interval")
            if self.comparable:
                raise ValueError("a modelled figure is not comparable")
        if self.net_uj is None and self.missing is None:
            raise ValueError("a missing figure needs the reason in `missing`")
        return self


class EnergyPart(EnergyFigure):
    label: Annotated[str, INFORMATIVE]
    stage: Annotated[str | None, INFORMATIVE] = None
    """What stands before the first slash of the label; all of it where there is none."""
    pooled: Annotated[int | None, INFORMATIVE] = None
    """How many of a stage this is the sum of, each too short to stand alone; None for one that stands alone."""


class ZoneFigure(EnergyFigure):
    """One counter's figure; its key is that of `TrialEnergy.zones`."""

    summed: Annotated[bool, INFORMATIVE]
    """Part of the total; else a cross-check, or a part of another zone (rows ZN2, ZN6, J45)."""
    by_role_uj: Annotated[dict[str, Uj], INFORMATIVE]
    """The trial's net by role; empty where it is not known."""


class TrialEnergy(Wire):
    total: Annotated[EnergyFigure, INFORMATIVE]
    by_role: Annotated[dict[str, EnergyFigure], INFORMATIVE]
    """Net by role; what is idle, the system's or others' belongs to none of them."""
    zones: Annotated[dict[str, ZoneFigure], INFORMATIVE] = Field(default_factory=dict)
    parts: Annotated[tuple[EnergyPart, ...], INFORMATIVE] = ()
    readings: Annotated[BlobRef | None, INFORMATIVE] = None
    """The blob of raw readings, where there is one: every figure here but `cloud` is recomputed from it."""
    samples: Annotated[int | None, INFORMATIVE] = None
    """Readings between the window's two edges; None where nothing was sampled."""
    local: Annotated[EnergyFigure | None, INFORMATIVE] = None
    cloud: Annotated[EnergyFigure | None, INFORMATIVE] = None
    """Always modelled."""

    @property
    def metered(self) -> bool:
        """Of counters: there are raw readings of it."""
        return self.readings is not None
