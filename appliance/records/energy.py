"""The energy of a trial as it stands in a record: every figure with how it was obtained."""

from __future__ import annotations

from typing import Annotated, Any, Self

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
    """What the figure is of: `host`, `package+dram`, `cgroup`."""
    gross_uj: Annotated[Uj | None, ENERGY_BAND]
    idle_uj: Annotated[Uj | None, INFORMATIVE]
    system_uj: Annotated[Uj | None, INFORMATIVE]
    net_uj: Annotated[Uj | None, ENERGY_BAND]
    marginal_uj: Annotated[Uj | None, INFORMATIVE]
    uncertainty_uj: Annotated[Uj | None, INFORMATIVE] = None
    """Expanded, k = 2."""
    lod_uj: Annotated[Uj | None, INFORMATIVE] = None
    interval: Annotated[tuple[Uj, Uj] | None, INFORMATIVE] = None
    model: Annotated[str | None, INFORMATIVE] = None
    inputs: Annotated[dict[str, Any] | None, INFORMATIVE] = None
    comparable: Annotated[bool, INFORMATIVE]
    """False for every modelled figure: it enters no ranking against others."""
    missing: Annotated[str | None, INFORMATIVE] = None
    """Why a figure is None, as `EACCES intel-rapl:0`."""
    bounds: Annotated[tuple[Uj, Uj] | None, INFORMATIVE] = None
    below_floor: Annotated[bool, INFORMATIVE]
    """Shown as `~`; enters no energy ranking."""
    flags: Annotated[tuple[Flag, ...], INFORMATIVE] = ()

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


class TrialEnergy(Wire):
    total: Annotated[EnergyFigure, INFORMATIVE]
    by_role: Annotated[dict[str, EnergyFigure], INFORMATIVE]
    zones: Annotated[dict[str, EnergyFigure], INFORMATIVE] = Field(default_factory=dict)
    parts: Annotated[tuple[EnergyPart, ...], INFORMATIVE] = ()
    readings: Annotated[BlobRef | None, INFORMATIVE] = None
    """The blob of raw readings, where there is one."""
    local: Annotated[EnergyFigure | None, INFORMATIVE] = None
    cloud: Annotated[EnergyFigure | None, INFORMATIVE] = None
    """Always modelled."""
