"""What a reader must know before believing joules: what is left out or flagged, what idle was, who measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from appliance.records.outline import AnyRecord
from appliance.records.record import RestStamp
from appliance.records.summarise import COUNTED
from appliance.records.summary import EnergySum
from appliance.records.words import UNRELIABLE
from appliance.report.words import cell

_SHOWN_ZONES: Final = 4
_SHOWN_REASONS: Final = 2
_WORDS: Final[dict[str, str]] = {
    "cgroup_left": "with a cgroup left behind",
    "client_died": "cut off with their harness",
    "counters_disagree": "with counters that disagree",
    "cpu_excess": "with more CPU time than the machine's",
    "cpus_changed": "with CPUs that came or went",
    "edge_error": "too short for their counter's edges",
    "ended_early": "cut off by the meter",
    "gap_longer_than_wrap": "unread for longer than their counter's turn",
    "idle_drift": "with an idle that drifted",
    "mirrored_dies": "on mirrored dies",
    "negative_cpu": "with CPU time that went back",
    "no_idle": "without a valid idle",
    "no_samples": "between two samples",
    "out_of_range": "with a counter out of its range",
    "power_averaged": "by power averaged over a second",
    "psys_implausible": "with an implausible psys",
    "ran_on": "whose solver ran on",
    "reported_by_sibling": "with a GPU reported by its sibling",
    "sgx_energy_filtering_possible": "perhaps filtered by SGX",
    "shared": "on a shared GPU",
    "source_changed": "whose source changed",
    "v1_reset": "with a CPU counter written to",
    "zone_gone": "with a zone that went",
}
"""Flags that are no words for a person as they stand."""


def of_pass(record: AnyRecord, sweep: int, energy: EnergySum) -> Iterator[str]:
    """Counts of what keeps a sum from being whole, ranked or clean (rows J42, L3)."""
    if energy.below_floor:
        yield (f"~ {energy.below_floor} of {energy.trials} below what the meter can resolve: no ranking by joules")
    if energy.below_lod:
        yield f"{energy.below_lod} of {energy.trials} below the limit of detection: no ranking by joules"
    if below := energy.flags.get("below_idle"):
        yield f"{below} of {energy.trials} took less than rest: unreliable, no ranking by joules"
    if busy := energy.flags.get("idle_busy"):
        yield f"{busy} of {energy.trials} above a rest at which the machine was at work: too low, no ranking by joules"
    if energy.missing:
        why = _why_missing(record, sweep)
        yield cell(f"{energy.missing} of {energy.trials} without joules ({why}): no sum, no ranking")
    if 0 < energy.modelled < energy.trials:
        yield f"{energy.modelled} of {energy.trials} estimated beside measured ones: no ranking by joules"
    if energy.provenance == "simulated":
        yield "joules of simulated counters: nothing to publish"
    said = [
        f"{count} of them {_WORDS.get(flag, flag.replace('_', ' '))}"
        for flag, count in energy.flags.items()
        if flag not in UNRELIABLE
    ]
    if said:
        yield f"energy: {', '.join(said)}"


def _why_missing(record: AnyRecord, sweep: int) -> str:
    """The commonest reasons first, with their count where there are several."""
    counted = [trial.energy for trial in record.trials if trial.key.pass_ == sweep and trial.outcome in COUNTED]
    said = Counter(
        "nothing was measured" if energy is None else str(energy.total.missing)
        for energy in counted
        if energy is None or energy.total.net_uj is None
    )
    shown = [reason if len(said) == 1 else f"{count}: {reason}" for reason, count in said.most_common(_SHOWN_REASONS)]
    more = [f"{len(said) - _SHOWN_REASONS} reasons more"] if len(said) > _SHOWN_REASONS else []
    return "; ".join([*shown, *more])


def _windows(record: AnyRecord) -> Iterator[str]:
    """How windows lay to each other; gross is of the whole machine, so overlapping ones have the same joules."""
    totals = [trial.energy.total for trial in record.trials if trial.energy]
    counted = [total for total in totals if total.basis != "modelled" and total.gross_uj is not None]
    if record.plan.energy.scheduling == "exclusive" and totals:
        yield "scheduling exclusive: one window at a time"
    elif len(counted) > 1:
        yield "scheduling shared: gross of windows that overlap counts the same joule in each, and so does its sum"
    elif totals:
        yield "scheduling shared"


def of_meter(record: AnyRecord) -> Iterator[str]:
    meter = record.meter
    yield from _windows(record)
    if meter.counters:
        yield cell(f"metered by {meter.name} {meter.version} ({'; '.join(meter.counters)})")
    for look in meter.idle or ():
        yield cell(f"idle ({look.when}): {_rest(look)}")
    if meter.calibration is not None:
        forced = meter.calibration.conditions.get("forced")
        by_force = f"; forced: {forced}" if forced else ""
        yield cell(f"idle (calibrated {meter.calibration.at}): {_rest(meter.calibration)}{by_force}")
    if meter.reason:
        yield cell(f"energy: {meter.reason}")


def _rest(look: RestStamp) -> str:
    """`package-0 10.02 W ± 0.11, over 20.0 s`: mean and standard deviation of its bins."""
    zones = [f"{key} {zone.mean_uw / 1e6:.2f} W ± {zone.deviation_uw / 1e6:.2f}" for key, zone in look.zones.items()]
    more = f" and {len(zones) - _SHOWN_ZONES} more zones" if len(zones) > _SHOWN_ZONES else ""
    unfit = f"; unfit: {look.unfit}" if look.unfit else ""
    return f"{', '.join(zones[:_SHOWN_ZONES]) or 'no zone'}{more}, over {look.seconds:.1f} s{unfit}"
