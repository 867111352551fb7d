"""Joules between what a host takes at rest and what it can take at all.

W watts over t seconds are W t joules; figures are microjoules (uJ), walls seconds. A window holds the wall, and a
little before and after it, so lower bounds are held to the wall, upper ones to the wall and what a window may add.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from appliance.audit.plausible import Fault, Ran, Seen
from appliance.records.energy import EnergyFigure
from appliance.records.record import HostStamp, RestStamp

_UJ: Final = 1e6
_EDGE_SECONDS: Final = 0.01
"""Counters tick every millisecond or so: a window's two edges may each miss a tick, and ten are no news."""
_LONGER: Final = 1.05
_LONGER_SECONDS: Final = 5.0
"""What a window may hold beyond its wall, as `readings` lets it."""


def above_the_least(seen: Seen) -> Iterator[Fault]:
    """gross >= idle_watts x (wall - 10 ms), in every trial that has a gross (or, without one, a net).

    A host takes its rest whatever it does. This holds for estimates too: their watts are the publisher's to choose.
    """
    for one, figure in _figures(seen):
        gross = figure.gross_uj if figure.gross_uj is not None else figure.net_uj
        least = seen.rules.idle_watts * (one.wall - _EDGE_SECONDS) * _UJ
        if gross is not None and gross < least:
            words = f"{_joules(gross)} in {one.wall:.3f} s, below {seen.rules.idle_watts:g} W x wall"
            yield Fault(_gross_path(one), words)


def below_the_most(seen: Seen) -> Iterator[Fault]:
    """gross <= (most_watts + most_watts_per_core x cores + most_watts_per_gpu x gpus) x (wall x 1.05 + 5 s).

    Counters that wrapped, and sums of zones that hold each other, read kilowatts on a notebook.
    """
    for one, figure in _figures(seen):
        host = _host(seen, one)
        if host is None:
            continue
        rules = seen.rules
        watts = rules.most_watts + rules.most_watts_per_core * host.cores + rules.most_watts_per_gpu * len(host.gpus)
        gross = figure.gross_uj if figure.gross_uj is not None else figure.net_uj
        if gross is not None and gross > watts * (one.wall * _LONGER + _LONGER_SECONDS) * _UJ:
            words = f"{_joules(gross)} in {one.wall:.3f} s, above the {watts:g} W of {host.cores} cores"
            yield Fault(_gross_path(one), words)


def above_its_own_rest(seen: Seen) -> Iterator[Fault]:
    """gross of a zone >= (1 - rest_tolerance) x least mean of its looks at rest x (wall - 10 ms).

    Of each zone that is summed and was looked at, in looks that are fit. Row P8: joules below idle x wall. The split
    itself cannot show it: it gives rest no more than was measured, and flags `below_idle`.
    """
    rest = _rest(seen)
    for one in seen.ran:
        zones = one.trial.energy.zones if one.trial.energy else {}
        for key, zone in zones.items():
            mean = rest.get(key)
            if mean is None or not zone.summed or zone.gross_uj is None:
                continue
            if zone.gross_uj < (1 - seen.rules.rest_tolerance) * mean * (one.wall - _EDGE_SECONDS):
                words = f"{_joules(zone.gross_uj)} in {one.wall:.3f} s, and rest takes {mean / _UJ:g} W"
                yield Fault(f"{one.here}.energy.zones.{key}.grossUj", words)


def rest_leaves_something(seen: Seen) -> Iterator[Fault]:
    """Trials flagged `below_idle` <= most_below_idle_share x trials with readings, where more than two are.

    Rest that was looked at under load takes the joules of every solver: their nets are near nothing.
    """
    metered = [trial for trial in seen.record.trials if trial.energy and trial.energy.readings]
    below = sum("below_idle" in trial.energy.total.flags for trial in metered if trial.energy)
    if below > 2 and below > seen.rules.most_below_idle_share * len(metered):
        yield Fault("$.trials", f"{below} of {len(metered)} metered trials took less than rest")


def estimates_know_their_host(seen: Seen) -> Iterator[Fault]:
    """inputs.threads <= cores of the host, in estimates by utilisation: more threads make a trial's share smaller."""
    for one, figure in _figures(seen):
        host = _host(seen, one)
        threads = (figure.inputs or {}).get("threads")
        if host is not None and isinstance(threads, int) and threads > host.cores:
            words = f"{threads} threads, and its host has {host.cores}"
            yield Fault(f"{one.here}.energy.total.inputs.threads", words)


def _figures(seen: Seen) -> Iterator[tuple[Ran, EnergyFigure]]:
    """What was taken here: without a cloud's part, which is of no host."""
    for one in seen.ran:
        if one.trial.energy is not None:
            yield one, one.trial.energy.local or one.trial.energy.total


def _rest(seen: Seen) -> dict[str, int]:
    """Zone -> the least mean of all looks, in microwatts: microjoules a second."""
    meter = seen.record.meter
    looks: list[RestStamp] = [*(meter.idle or ()), *((meter.calibration,) if meter.calibration else ())]
    found: dict[str, int] = {}
    for look in looks:
        for key, zone in look.zones.items():
            if look.unfit is None and zone.unfit is None:
                found[key] = min(zone.mean_uw, found.get(key, zone.mean_uw))
    return found


def _host(seen: Seen, one: Ran) -> HostStamp | None:
    hosts = seen.record.hosts
    return hosts[one.trial.host] if one.trial.host < len(hosts) else None


def _gross_path(one: Ran) -> str:
    name = "local" if one.trial.energy and one.trial.energy.local else "total"
    return f"{one.here}.energy.{name}.grossUj"


def _joules(uj: int) -> str:
    return f"{uj / _UJ:.6g} J"
