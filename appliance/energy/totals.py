"""From what was summed of a zone to its figure, and from the figures of zones to that of the machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from appliance.energy import floors
from appliance.energy.charge import Charge
from appliance.energy.figures import ZoneEnergy
from appliance.energy.grades import Basis, worst_basis, worst_provenance
from appliance.energy.idle import Line, Unfit
from appliance.energy.judging import Judged, scope_of
from appliance.energy.occupancy import Occupancy
from appliance.energy.readings import Header
from appliance.energy.tracks import own_by_role
from appliance.energy.uncertainty import (
    Budget,
    Reading,
    Sharing,
    detection_limit_uj,
    edge_error,
    measured,
    of_idle,
    of_sharing,
    of_utilisation,
    together,
)


def energy_of(judged: Judged, header: Header, charge: Charge, gpus: Occupancy) -> ZoneEnergy:
    track, zone = judged.track, judged.track.zone
    idle = track.idle
    no_gross = _no_gross(judged)
    no_split = no_gross or _no_split(judged, charge, gpus)
    no_net = no_split or ("" if charge.by_role else "no trial in this window")
    flags = {*zone.flags, *track.flags, *track.series.flags, *judged.flags}
    if isinstance(idle, Unfit) and no_gross is None:
        flags |= {"no_idle"} | ({"idle_drift"} if idle.drift else set())
    if _shared(judged, gpus):
        flags.add("shared")
    if no_gross is None and isinstance(idle, Line):
        if track.gross_uj < track.rest_uj:
            flags.add("below_idle")
        if idle.at_work and zone.domain != "gpu":
            flags.add("idle_busy")
    if edge_error(header.length_ns, zone.update_period_ns):
        flags.add("edge_error")
    own = {} if no_net else own_by_role(track.own_uj, header)
    budget = None if no_gross else _budget(judged, header, charge, net=not no_net)
    limit = detection_limit_uj(idle.rest, header.length_ns) if isinstance(idle, Line) else None
    return ZoneEnergy(
        key=zone.key,
        source=zone.source,
        provenance=zone.provenance,
        claimed=zone.claimed,
        basis=_basis(judged, charge),
        summed=judged.summed,
        gross_uj=None if no_gross else track.gross_uj,
        idle_uj=None if no_gross or isinstance(idle, Unfit) else track.idle_uj,
        system_uj=None if no_split else track.system_uj,
        others_uj=None if no_split else track.others_uj,
        own_uj=own,
        ratio_uj=None if no_gross or not charge.by_role else track.ratio_uj,
        uncertainty_uj=_expanded(budget, net=not no_net),
        lod_uj=limit,
        missing=no_gross or no_net or None,
        bounds_uj=judged.bounds_uj or track.bounds_uj,
        flags=tuple(sorted(flags)),
        marginal_uj=None if no_gross or isinstance(idle, Unfit) else max(0, track.gross_uj - track.rest_uj),
        terms=budget.terms if budget else (),
        below_floor=judged.unmoved
        or judged.still
        or floors.below(floors.of_zone(zone), header.length_ns, charge.read_ns),
    )


def sum_of(summed: Sequence[tuple[ZoneEnergy, Judged]]) -> ZoneEnergy | None:
    """Worst provenance and basis of all; a sum over a figure that is not there is not there."""
    zones = [zone for zone, _ in summed]
    if not zones:
        return None
    own: dict[str, int] = {}
    known = all(zone.net_uj is not None for zone in zones)
    for zone in zones if known else ():
        for role, energy_uj in zone.own_uj.items():
            own[role] = own.get(role, 0) + energy_uj
    claims = [zone.claimed for zone in zones if zone.claimed is not None]
    gross = _sum(zones, lambda zone: zone.gross_uj)
    budget = together([Budget(zone.terms) for zone in zones]) if gross is not None else None
    return ZoneEnergy(
        key=scope_of([one for _, one in summed]),
        source="+".join(dict.fromkeys(zone.source for zone in zones)),
        provenance=worst_provenance(zone.provenance for zone in zones),
        claimed=worst_provenance(claims) if claims else None,
        basis=worst_basis(zone.basis for zone in zones),
        summed=True,
        gross_uj=gross,
        idle_uj=_sum(zones, lambda zone: zone.idle_uj),
        system_uj=_sum(zones, lambda zone: zone.system_uj),
        others_uj=_sum(zones, lambda zone: zone.others_uj),
        own_uj=own,
        # CPU time is no share of a board.
        ratio_uj=_sum([zone for zone, one in summed if one.track.zone.domain != "gpu"], lambda zone: zone.ratio_uj),
        uncertainty_uj=_expanded(budget, net=known),
        lod_uj=_sum(zones, lambda zone: zone.lod_uj),
        missing=_lacking(zones),
        bounds_uj=None if gross is not None else _bounds(zones),
        flags=tuple(sorted({flag for zone in zones for flag in zone.flags})),
        marginal_uj=_sum(zones, lambda zone: zone.marginal_uj),
        terms=tuple(term for term in budget.terms if known or not term.of_net) if budget else (),
        below_floor=any(zone.below_floor for zone in zones),
    )


def _lacking(zones: Sequence[ZoneEnergy]) -> str | None:
    """Why a sum lacks something: first what has no number at all, by its key, then what could not be split."""
    for zone in zones:
        if zone.gross_uj is None:
            return f"{zone.key}: {zone.missing}"
    return next((zone.missing for zone in zones if zone.missing is not None), None)


def _no_gross(judged: Judged) -> str | None:
    if judged.track.broken is not None:
        return judged.track.broken
    if judged.siblings:
        return "reported by its sibling"
    return "below the limit of detection" if judged.unmoved else None


def _no_split(judged: Judged, charge: Charge, gpus: Occupancy) -> str | None:
    if isinstance(judged.track.idle, Unfit):
        return judged.track.idle.reason
    if _shared(judged, gpus) and not judged.track.utilised:
        return "others were on it, and no counter tells them apart"
    if judged.track.zone.domain == "gpu":
        untold = judged.track.zone.id in gpus.unclear - gpus.touched
        return "who was on it could not be read" if untold else None
    if judged.track.unsplit:
        return "the machine's CPU time was not read"
    return f"the CPU time of {charge.unread[0]} was not read" if charge.unread else None


def _shared(judged: Judged, gpus: Occupancy) -> bool:
    return judged.track.zone.domain == "gpu" and gpus.shared(judged.track.zone.id)


def _basis(judged: Judged, charge: Charge) -> Basis:
    sampled: Basis = "sampled_power" if judged.track.zone.unit == "mw" else "counter"
    alone = not judged.track.utilised if judged.track.zone.domain == "gpu" else charge.alone
    return sampled if alone else worst_basis([sampled, "apportioned"])


def _budget(judged: Judged, header: Header, charge: Charge, *, net: bool) -> Budget:
    track, zone = judged.track, judged.track.zone
    terms = measured(
        Reading(
            unit_nj=track.series.unit_nj,
            update_period_ns=zone.update_period_ns,
            sampled=zone.unit == "mw",
            gross_uj=track.gross_uj,
            wall_ns=header.length_ns,
            skews_ns=(header.open_skew_ns, header.close_skew_ns),
        )
    )
    if net and isinstance(track.idle, Line):
        terms += (of_idle(track.idle.rest, track.idle.drift_uw, header.length_ns),)
        if track.utilised:
            terms += (of_utilisation(track.gross_uj - track.idle_uj),)
        if zone.domain != "gpu":
            sharing = Sharing(
                dynamic_uj=track.gross_uj - track.idle_uj,
                all_cpu_ns=charge.all_ns,
                own_cpu_ns=charge.own_ns,
                tick_ns=header.tick_ns,
                cpus=header.cpus,
            )
            terms += (of_sharing(sharing, header.length_ns),)
    return Budget(terms)


def _expanded(budget: Budget | None, *, net: bool) -> int | None:
    return None if budget is None else budget.net_uj if net else budget.gross_uj


def _bounds(zones: Iterable[ZoneEnergy]) -> tuple[int, int] | None:
    low = high = 0
    for zone in zones:
        bounds = zone.bounds_uj if zone.gross_uj is None else (zone.gross_uj, zone.gross_uj)
        if bounds is None:
            return None
        low, high = low + bounds[0], high + bounds[1]
    return low, high


def _sum(zones: Sequence[ZoneEnergy], of: Callable[[ZoneEnergy], int | None]) -> int | None:
    several = [of(zone) for zone in zones]
    known = [one for one in several if one is not None]
    return sum(known) if known and len(known) == len(several) else None
