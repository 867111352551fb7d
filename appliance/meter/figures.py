"""From an estimate to the figures of a record."""

from __future__ import annotations

from collections.abc import Mapping

from appliance.energy.estimators import Estimate
from appliance.energy.split import apportion
from appliance.records.energy import EnergyFigure, TrialEnergy

_NAMES = {"wall/1": ("wall", "host"), "teads-curve/1": ("curve", "cgroup")}


def trial_energy(
    estimate: Estimate,
    cpu_ns: Mapping[str, int | None],
    *,
    below_floor: bool,
    flags: tuple[str, ...],
    missing: str | None,
) -> TrialEnergy:
    """`cpu_ns` by role; `missing`: why `net_uj` is None. A lone role's figure is the total itself.

    Several roles share the net by their CPU time, to the microjoule; idle and system belong to none of them.
    """
    source, scope = _NAMES[estimate.model]

    def figure(gross: int | None, idle: int | None, net: int | None, interval: tuple[int, int]) -> EnergyFigure:
        return EnergyFigure(
            provenance="estimator",
            basis="modelled",
            source=source,
            scope=scope,
            gross_uj=gross,
            idle_uj=idle,
            system_uj=None,
            net_uj=net,
            # With an idle, the seed's marginal is gross less idle: a model of one trial alone knows no system's share.
            marginal_uj=None if idle is None or gross is None else gross - idle,
            interval=interval,
            model=estimate.model,
            inputs=dict(estimate.inputs),
            comparable=False,
            missing=missing if net is None else None,
            below_floor=below_floor,
            flags=flags,
        )

    total = figure(estimate.gross_uj, estimate.idle_uj, estimate.net_uj, estimate.interval)
    if len(cpu_ns) == 1:
        return TrialEnergy(total=total, by_role=dict.fromkeys(cpu_ns, total))
    roles = sorted(cpu_ns)
    weights = [cpu_ns[role] for role in roles]
    known = [weight for weight in weights if weight is not None]
    shares = apportion(estimate.net_uj, known) if estimate.net_uj is not None and len(known) == len(roles) else None
    if shares is None:
        return TrialEnergy(total=total, by_role={})
    # A role's bounds are the total's: how the CPU time of one drives the power of all is what no model here knows.
    by_role = {
        role: figure(None, None, share, (0, estimate.interval[1])) for role, share in zip(roles, shares, strict=True)
    }
    return TrialEnergy(total=total, by_role=by_role)
