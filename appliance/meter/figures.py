"""From an estimate to the figures of a record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from appliance.energy import estimators, floors
from appliance.energy.cpus import Processor, design_power
from appliance.energy.estimators import Estimate
from appliance.energy.split import apportion
from appliance.meter.choice import Estimator
from appliance.records.energy import EnergyFigure, TrialEnergy

_NAMES = {"wall/1": ("wall", "host"), "teads-curve/1": ("curve", "cgroup")}


@dataclass(frozen=True)
class Estimating:
    """One of the named estimators on this machine's processor."""

    source: Estimator
    processor: Processor
    watts: float | None

    def energy(
        self, wall_seconds: float, cpu_ns: Mapping[str, int | None], *, by_kind: bool, flags: tuple[str, ...]
    ) -> TrialEnergy:
        """`cpu_ns`: charged, by role."""
        wall_ns = round(wall_seconds * 1e9)
        estimate = self._estimate(wall_ns, cpu_ns)
        return trial_energy(
            estimate,
            cpu_ns,
            below_floor=by_kind or floors.below(floors.ESTIMATOR, wall_ns, cpu_ns.get("solver")),
            flags=flags,
            missing=None if estimate.net_uj is not None else "no CPU time: the trial's cgroup could not be read",
        )

    def _estimate(self, wall_ns: int, charged: Mapping[str, int | None]) -> Estimate:
        if self.source == "wall":
            return estimators.wall(wall_ns, self.watts)
        known = [value for value in charged.values() if value is not None]
        cpu_ns = sum(known) if len(known) == len(charged) else None
        return estimators.curve(wall_ns, cpu_ns, self.processor.threads, design_power(self.processor))


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
