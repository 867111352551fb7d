"""From a window's joules to the figures of a record. Pure: harness, fold and `verify` obtain the same from one blob."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from appliance.energy.grades import Grade, worst_provenance
from appliance.energy.idle import Idle, Rest, rest_of
from appliance.energy.readings import Header, unpack
from appliance.energy.windows import InnerEnergy, Window, ZoneEnergy
from appliance.records.blob import BlobRef
from appliance.records.energy import EnergyFigure, EnergyPart, TrialEnergy, ZoneFigure
from appliance.records.record import MeterStamp, RestZone
from appliance.records.words import UNRELIABLE, Cause

RAN_ON_NS: Final = 5_000_000
"""CPU time from close to release above which strangers in the solver's cgroup count as having run on (formats 5)."""
AT_LIMIT: Final[frozenset[Cause]] = frozenset({"timeout", "budget"})
"""Causes whose own kill is no running on."""
_UNSAID: Final = "no idle power is known"
"""Of a figure whose net lacks without a reason of its own: only the split below idle can be what is not there."""


def trial_energy(window: Window, *, by_kind: bool, ran_on: bool) -> TrialEnergy:
    """Without `readings`, which the caller names. `by_kind`: one of FLOOR_KINDS, always below the floor (row J43).

    Every figure carries the flags of the window beside its own; a window without a sample between its edges says so
    (row T1), and a role's figure is its net alone. A zone is held to the floor of its own counter, total and roles to
    that of the worst that is summed (row J41).
    """
    flags = {*window.flags}
    if window.samples == 0:
        flags.add("no_samples")
    if ran_on:
        flags.add("ran_on")
    below_floor = by_kind or window.below_floor
    if window.total is None:
        total = _nothing(below_floor, flags, "no counter in this window")
        return TrialEnergy(total=total, by_role=dict.fromkeys(sorted(window.cpu_ns), total), samples=window.samples)
    whole = window.total
    return TrialEnergy(
        total=EnergyFigure(**_figure(whole, whole.key, below_floor, flags)),
        by_role=_by_role(whole, sorted(window.cpu_ns), below_floor, flags),
        zones={
            zone.key: ZoneFigure(
                **_figure(zone, zone.key, by_kind or zone.below_floor, flags),
                summed=zone.summed,
                by_role_uj=dict(zone.own_uj),
            )
            for zone in window.zones
        },
        parts=tuple(_parts(window.inner, whole)),
        samples=window.samples,
    )


def cpu_seconds(window: Window) -> dict[str, float | None]:
    """`cpuSeconds` of the trial: what it was charged, by role; None where it could not be read."""
    return {role: None if charged is None else charged / 1e9 for role, charged in window.cpu_ns.items()}


def ran_on(header: Header, cause: Cause | None) -> bool:
    """Whether the solver left a process that went on computing; what our own kill ended did not (formats 5)."""
    after = header.cpu_after_close_ns or 0
    return header.strangers_at_close and after > RAN_ON_NS and cause not in AT_LIMIT


def idle_of(meter: MeterStamp, content: Callable[[BlobRef], bytes]) -> Idle | None:
    """What the idle power of every window of a record is taken from; None where nobody looked. Raises Malformed."""
    looks = tuple(rest_of(unpack(content(look.readings))) for look in meter.idle or ())
    stored = rest_of(unpack(content(meter.calibration.readings))) if meter.calibration else None
    return Idle(looks, stored) if looks or stored else None


def lost(reason: str, roles: Iterable[str], *, by_kind: bool, origins: Iterable[Grade] = ()) -> TrialEnergy:
    """Of a trial whose meter went away: no figure, and why. `origins`: of the zones that it would have been of; a
    figure of simulated counters stays one, also where it is lost."""
    nothing = _nothing(by_kind, set(), reason)
    if grades := tuple(origins):
        claims = [grade.claimed for grade in grades if grade.claimed is not None]
        origin = {
            "provenance": worst_provenance(grade.provenance for grade in grades),
            "claimed": worst_provenance(claims) if claims else None,
        }
        nothing = nothing.model_copy(update=origin)
    return TrialEnergy(total=nothing, by_role=dict.fromkeys(sorted(roles), nothing))


def rest_fields(rest: Rest, at: str, readings: BlobRef) -> dict[str, Any]:
    """Of an IdleStamp or a CalibrationStamp: what the blob of readings says of it, `at` its header's `opened_at`."""
    return {
        "at": at,
        "readings": readings,
        "boot_id": rest.boot_id,
        "middle_boottime_ns": str(rest.middle_boottime_ns),
        "seconds": rest.seconds,
        "zones": {
            key: RestZone(
                mean_uw=zone.mean_uw,
                deviation_uw=zone.deviation_uw,
                drift_uw=zone.drift_uw,
                bins=zone.bins,
                unfit=zone.unfit,
            )
            for key, zone in rest.zones.items()
        },
        "unfit": rest.unfit,
    }


def _nothing(below_floor: bool, flags: set[str], missing: str) -> EnergyFigure:
    """No zone was read at all; the best words, so that a sum's worst is that of the figures it has."""
    return EnergyFigure(
        provenance="hw_shunt",
        basis="counter",
        source="none",
        scope="none",
        gross_uj=None,
        idle_uj=None,
        system_uj=None,
        net_uj=None,
        marginal_uj=None,
        comparable=False,
        missing=missing,
        below_floor=below_floor,
        flags=tuple(sorted(flags)),
    )


def _figure(zone: ZoneEnergy, scope: str, below_floor: bool, flags: set[str]) -> dict[str, Any]:
    words = tuple(sorted(flags.union(zone.flags)))
    return {
        **_origin(zone, scope),
        "gross_uj": zone.gross_uj,
        "idle_uj": zone.idle_uj,
        "system_uj": zone.system_uj,
        "others_uj": zone.others_uj,
        "net_uj": zone.net_uj,
        "marginal_uj": zone.marginal_uj,
        "ratio_uj": zone.ratio_uj,
        "uncertainty_uj": zone.uncertainty_uj,
        "budget_uj": {term.name: -(-term.standard_nj // 1000) for term in zone.terms} or None,
        "lod_uj": zone.lod_uj,
        "comparable": _comparable(zone, words),
        "missing": zone.missing or (None if zone.net_uj is not None else _UNSAID),
        "bounds": zone.bounds_uj,
        "below_floor": below_floor,
        "flags": words,
    }


def _origin(zone: ZoneEnergy, scope: str) -> dict[str, Any]:
    return {
        "provenance": zone.provenance,
        "claimed": zone.claimed,
        "basis": zone.basis,
        "source": zone.source,
        "scope": scope,
    }


def _comparable(zone: ZoneEnergy, flags: tuple[str, ...]) -> bool:
    stands = zone.basis != "modelled" and zone.provenance != "simulated"
    # Row J39: a window that took less than rest says nothing of its trial; nor does one whose rest was work.
    return stands and zone.net_uj is not None and UNRELIABLE.isdisjoint(flags)


def _by_role(total: ZoneEnergy, roles: list[str], below_floor: bool, flags: set[str]) -> dict[str, EnergyFigure]:
    """Every role that was read, also one whose net is not known."""
    words = tuple(sorted(flags.union(total.flags)))
    shares: Mapping[str, int] = total.own_uj
    found: dict[str, EnergyFigure] = {}
    for role in sorted({*roles, *shares}):
        net = shares.get(role)
        found[role] = EnergyFigure(
            **_origin(total, total.key),
            gross_uj=None,
            idle_uj=None,
            system_uj=None,
            net_uj=net,
            marginal_uj=None,
            comparable=net is not None and _comparable(total, words),
            missing=None if net is not None else total.missing or _UNSAID,
            below_floor=below_floor,
            flags=words,
        )
    return found


def _parts(several: Iterable[InnerEnergy], total: ZoneEnergy) -> Iterator[EnergyPart]:
    """Cases and exchanges inside the window (row D5): what is long enough stands alone, the rest is summed by stage.

    A pool stays below the floor: it has two edges for each of its own, and these do not shrink in a sum.
    """
    short: dict[str, list[InnerEnergy]] = {}
    for inner in several:
        if inner.below_floor:
            short.setdefault(_stage(inner.label), []).append(inner)
        else:
            yield _part(inner.label, [inner], total, pooled=None)
    for stage, pool in sorted(short.items()):
        yield _part(stage, pool, total, pooled=len(pool))


def _stage(label: str) -> str:
    return label.partition("/")[0]


def _part(label: str, pool: list[InnerEnergy], total: ZoneEnergy, *, pooled: int | None) -> EnergyPart:
    """The share of some of them, from the counters of the whole; a sum over what is missing is missing."""
    net, gross = ([getattr(one, name) for one in pool] for name in ("net_uj", "gross_uj"))
    missing = next((one.missing for one in pool if one.missing is not None), None)
    below_floor = any(one.below_floor for one in pool)
    return EnergyPart(
        **_origin(total, total.key),
        label=label,
        stage=_stage(label),
        pooled=pooled,
        gross_uj=None if None in gross else sum(gross),
        idle_uj=None,
        system_uj=None,
        net_uj=None if None in net else sum(net),
        marginal_uj=None,
        comparable=None not in net and not below_floor and _comparable(total, total.flags),
        missing=missing or (_UNSAID if None in net else None),
        below_floor=below_floor,
    )
