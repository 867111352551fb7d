"""A trial's energy where a provider answered: what this machine took, and a model's word for the provider's."""

from __future__ import annotations

from typing import Final

from appliance.energy import cloud
from appliance.records.energy import EnergyFigure, TrialEnergy
from appliance.records.trial import Usage

SUM: Final = "local-plus-cloud/1"
_UNKNOWN: Final = "tokens of an answer are not known"


def cloud_figure(usage: Usage | None) -> EnergyFigure:
    """Of all answers of a trial. Without a usage it is missing, and its interval is open only downward: [0, 0]."""
    known = cloud.cloud(usage.input_tokens, usage.cache_read_tokens, usage.output_tokens) if usage else None
    return EnergyFigure(
        provenance="estimator",
        basis="modelled",
        source="cloud",
        scope="provider",
        gross_uj=known.net_uj if known else None,
        idle_uj=None,
        system_uj=None,
        net_uj=known.net_uj if known else None,
        marginal_uj=None,
        interval=known.interval if known else (0, 0),
        model=cloud.MODEL,
        inputs=dict(known.inputs) if known else {},
        comparable=False,
        missing=None if known else _UNKNOWN,
        below_floor=False,
    )


def with_cloud(energy: TrialEnergy, far: EnergyFigure) -> TrialEnergy:
    """`local` is what stood as the total; the total is the sum of both and carries the worse label of the two."""
    near = energy.total
    net = None if near.net_uj is None or far.net_uj is None else near.net_uj + far.net_uj
    low, high = _span(near)
    missing = None if net is not None else next(one.missing for one in (near, far) if one.net_uj is None)
    total = EnergyFigure(
        # A counter that is none of the kernel's taints a sum as it does elsewhere.
        provenance="simulated" if near.provenance == "simulated" else "estimator",
        claimed=near.claimed,
        basis="modelled",
        source=f"{near.source}+{far.source}",
        scope=f"{near.scope}+{far.scope}",
        gross_uj=None,
        idle_uj=None,
        system_uj=None,
        net_uj=net,
        marginal_uj=None,
        interval=(low + (far.interval or (0, 0))[0], high + (far.interval or (0, 0))[1]),
        model=SUM,
        inputs={"localUj": near.net_uj, "cloudUj": far.net_uj},
        comparable=False,
        missing=missing,
        below_floor=near.below_floor,
        flags=near.flags,
    )
    return energy.model_copy(update={"total": total, "local": near, "cloud": far})


def _span(figure: EnergyFigure) -> tuple[int, int]:
    """Its interval, or its point with its expanded uncertainty; nothing where it is missing."""
    if figure.interval is not None:
        return figure.interval
    point, around = figure.net_uj or 0, figure.uncertainty_uj or 0
    return max(0, point - around), point + around
