"""The energy figures of a record against their own inputs: an estimate is redone, a sum is added up again.

What needs no blob is checked here. Joules from counters are made again from their readings in `audit.readings`; here
they need to have some.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Final

from pydantic.alias_generators import to_camel

from appliance.audit.cascades import reports_add_up
from appliance.audit.clouds import clouds_follow
from appliance.energy import estimators
from appliance.records.energy import EnergyFigure, TrialEnergy
from appliance.records.record import Record
from appliance.records.trial import TrialResult
from attest.checks import Noted
from attest.errors import Refused

_FIGURES: Final = attrgetter(
    "gross_uj", "idle_uj", "system_uj", "others_uj", "net_uj", "marginal_uj", "ratio_uj", "uncertainty_uj", "lod_uj"
)
_PARTS: Final = attrgetter("net_uj", "idle_uj", "system_uj", "others_uj")
"""Of gross: a counter's joules are conserved, to the microjoule."""
_ROUNDING_NS: Final = 1_000
"""Of seconds as a JSON number: 2^53 holds a nanosecond over a hundred days, and no estimate moves by a microsecond."""


def figures_follow(record: Record) -> None:
    for at, trial in enumerate(record.trials):
        if trial.energy is None:
            continue
        here = f"$.trials[{at}].energy"
        figures = tuple(_figures(trial.energy, here))
        far = (f"{here}.cloud", f"{here}.total") if trial.energy.cloud is not None else ()
        for path, figure in figures:
            _fits_itself(figure, path)
            if record.plan.energy.mode == "measured" and figure.basis == "modelled" and path not in far:
                raise Refused("energy", "a model's figure, and counters were asked for", where=f"{path}.basis")
        _adds_up(trial.energy, here)
        _has_its_source(trial.energy, here, figures)
        near, path = _near(trial.energy, here)
        if near.basis == "modelled":
            _is_redone(record, trial, near, path)
    clouds_follow(record)
    reports_add_up(record)


def _near(energy: TrialEnergy, here: str) -> tuple[EnergyFigure, str]:
    """What was taken on this host, and its path: roles, zones, parts and readings are of it."""
    return (energy.total, f"{here}.total") if energy.local is None else (energy.local, f"{here}.local")


def _figures(energy: TrialEnergy, here: str) -> Iterator[tuple[str, EnergyFigure]]:
    yield f"{here}.total", energy.total
    for name, group in (("byRole", energy.by_role), ("zones", energy.zones)):
        for key, figure in group.items():
            yield f"{here}.{name}.{key}", figure
    for at, part in enumerate(energy.parts):
        yield f"{here}.parts[{at}]", part
    for name, one in (("local", energy.local), ("cloud", energy.cloud)):
        if one is not None:
            yield f"{here}.{name}", one


def _fits_itself(figure: EnergyFigure, path: str) -> None:
    """Net, idle and system lie within gross; the point lies within its interval; a model is no counter."""
    if figure.basis == "modelled" and figure.provenance not in ("estimator", "simulated"):
        raise Refused("energy", f"a model's figure with the provenance {figure.provenance}", where=f"{path}.provenance")
    if figure.claimed is not None and figure.provenance != "simulated":
        raise Refused("energy", "only a simulated counter claims to be another", where=f"{path}.claimed")
    if figure.gross_uj is not None:
        inside = (figure.net_uj or 0) + (figure.idle_uj or 0) + (figure.system_uj or 0) + (figure.others_uj or 0)
        if inside > figure.gross_uj:
            raise Refused("energy", f"its parts make {inside}, over its gross", where=f"{path}.grossUj")
        if figure.basis != "modelled" and None not in _PARTS(figure) and inside != figure.gross_uj:
            raise Refused("energy", f"its parts make {inside}, and not its gross", where=f"{path}.grossUj")
        if figure.marginal_uj is not None and figure.marginal_uj > figure.gross_uj:
            raise Refused("energy", "more than its gross", where=f"{path}.marginalUj")
    for name, span in (("interval", figure.interval), ("bounds", figure.bounds)):
        if span is None:
            continue
        if span[0] > span[1]:
            raise Refused("energy", "its low is over its high", where=f"{path}.{name}")
        if figure.net_uj is not None and not span[0] <= figure.net_uj <= span[1]:
            raise Refused("energy", f"the figure {figure.net_uj} is not in it", where=f"{path}.{name}")


def _has_its_source(energy: TrialEnergy, here: str, figures: Iterable[tuple[str, EnergyFigure]]) -> None:
    """Counters speak through readings; a figure without them is a model's, or none at all and says why."""
    if energy.readings is not None:
        if _near(energy, here)[0].basis == "modelled":
            raise Refused("energy", "a model's figure, and it has readings", where=f"{here}.readings")
        return
    for path, figure in figures:
        if figure.basis == "modelled":
            continue
        if any(uj is not None for uj in _FIGURES(figure)) or figure.bounds is not None:
            raise Refused("energy", "a counter's figure, and no readings", where=f"{path}.basis")
    if energy.samples is not None:
        raise Refused("energy", "samples, and no readings", where=f"{here}.samples")


def nothing_simulated(record: Record, publishing: bool) -> None:
    """Simulated counters are of no machine: no publishable record has any (formats 6). Raises Noted where nobody
    publishes, so that a reader is told."""
    for at, trial in enumerate(record.trials):
        for path, figure in _figures(trial.energy, f"$.trials[{at}].energy") if trial.energy else ():
            if figure.provenance != "simulated":
                continue
            if publishing:
                raise Refused("policy", "joules of simulated counters are never published", where=f"{path}.provenance")
            raise Noted(f"its counters are simulated, so it is nothing to publish: {path}")


def _adds_up(energy: TrialEnergy, here: str) -> None:
    near, path = _near(energy, here)
    roles = [figure.net_uj for figure in energy.by_role.values()]
    if roles and None not in roles and sum(net or 0 for net in roles) != near.net_uj:
        raise Refused("energy", "the roles do not add up to the total", where=f"{here}.byRole")
    _zones_add_up(energy, near, path)
    parts = sum(part.net_uj or 0 for part in energy.parts)
    if near.net_uj is not None and parts > near.net_uj:
        raise Refused("energy", f"its parts make {parts}, over the total", where=f"{here}.parts")


def _zones_add_up(energy: TrialEnergy, whole: EnergyFigure, path: str) -> None:
    if not energy.zones:
        return
    for field in ("gross_uj", "idle_uj", "system_uj", "others_uj", "net_uj"):
        several = [getattr(zone, field) for zone in energy.zones.values() if zone.summed]
        if several and None not in several and getattr(whole, field) != sum(several):
            where = f"{path}.{to_camel(field)}"
            raise Refused("energy", f"its zones make {sum(several)}", where=where)


def _is_redone(record: Record, trial: TrialResult, figure: EnergyFigure, path: str) -> None:
    """The named model on the recorded inputs, and these against what else the record says of wall, CPU and watts."""
    inputs = figure.inputs or {}
    try:
        again = estimators.again(str(figure.model), inputs)
    except ValueError as error:
        raise Refused("energy", str(error), where=f"{path}.model") from error
    if dict(again.inputs) != inputs:
        raise Refused("energy", "its inputs are not those that the model takes", where=f"{path}.inputs")
    for name, stated, redone in (
        ("netUj", figure.net_uj, again.net_uj),
        ("grossUj", figure.gross_uj, again.gross_uj),
        ("idleUj", figure.idle_uj, again.idle_uj),
        ("interval", figure.interval, again.interval),
    ):
        if stated != redone:
            raise Refused("energy", f"{stated}, and its inputs give {redone}", where=f"{path}.{name}")
    if trial.wall_seconds is None or abs(inputs["wallNs"] - trial.wall_seconds * 1e9) > _ROUNDING_NS:
        raise Refused("energy", "not the trial's wallSeconds", where=f"{path}.inputs.wallNs")
    if inputs.get("cpuNs") is not None and not _is_charged(trial, inputs["cpuNs"]):
        raise Refused("energy", "not the trial's cpuSeconds", where=f"{path}.inputs.cpuNs")
    watts = record.plan.energy.active_watts
    if figure.model == "wall/1" and (inputs["wattsSource"] == "default") != (watts is None):
        raise Refused("energy", "not where the plan's watts come from", where=f"{path}.inputs.wattsSource")
    if figure.model == "wall/1" and watts is not None and inputs["watts"] != round(watts * 1e6) / 1e6:
        raise Refused("energy", f"not the plan's {watts} W", where=f"{path}.inputs.watts")


def _is_charged(trial: TrialResult, cpu_ns: int) -> bool:
    charged = [seconds for seconds in trial.cpu_seconds.values() if seconds is not None]
    return abs(cpu_ns - sum(charged) * 1e9) <= _ROUNDING_NS
