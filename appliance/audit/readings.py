"""Every joule of a counter, made again from the raw readings that the record names (row J44).

Trial by trial: the blob is read, bounded; its header has to be of this run and this trial, its window as long as the
trial ran; idle power is taken anew from the idle's own blobs; and the whole `energy` of the trial is computed by the
function that wrote it. Whatever differs, by a microjoule or a word, is named with trial, zone or role, and field.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from appliance.audit.plans import first_difference, short
from appliance.audit.shelf import Missing, Shelf, bounded
from appliance.audit.windows import Seen, at_rest_alone, has_its_solver, of_one_machine, sums_as_its_kind_is
from appliance.energy.idle import Idle, Rest, rest_of
from appliance.energy.readings import Header, Malformed
from appliance.energy.windows import Window, window_of
from appliance.records import metered
from appliance.records.blob import BlobRef
from appliance.records.cloud import with_cloud
from appliance.records.plan import trial_keys
from appliance.records.record import CalibrationStamp, IdleStamp, Record, RestStamp
from appliance.records.trial import TrialResult
from appliance.records.words import FLOOR_KINDS
from appliance.wire import Wire
from attest.checks import NotRun
from attest.errors import Refused

_SECONDS_MOST: Final = 30 * 86_400
_REST_SECONDS_MOST: Final = 86_400
_NS: Final = 10**9
_SHORTER_NS: Final = 10_000_000
_LONGER_NS: Final = 5 * _NS
_LONGER_PERCENT: Final = 5
"""A window holds the exec's start and the engine's word that it ended, which no `wallSeconds` counts."""


def joules_follow(record: Record, folder: Path | None, allow_missing: bool) -> None:
    """Raises Refused (energy), and NotRun where readings are not there."""
    metered_trials = [(at, trial) for at, trial in enumerate(record.trials) if trial.energy and trial.energy.readings]
    if not metered_trials and not record.meter.idle and record.meter.calibration is None:
        return
    if folder is None:
        raise NotRun("no folder of blobs", acceptable=allow_missing)
    _no_two_share(record)
    shelf = Shelf(folder)
    seen: list[_Seen] = []
    rests: list[tuple[RestStamp, Seen]] = []
    try:
        idle = _idle(record, shelf, rests)
        missing = [path for at, trial in metered_trials if (path := _trial(record, at, trial, shelf, idle, seen=seen))]
    except Missing as lack:
        raise NotRun(f"not there: {lack.path}", acceptable=allow_missing) from lack
    _one_by_one(record, seen)
    _fit_together(rests, seen)
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise NotRun(f"not there: {missing[0]}{more}", acceptable=allow_missing)


@dataclass(frozen=True)
class _Seen:
    """Where a trial's window lay."""

    at: int
    trial: int
    header: Header


# -------------------------------------------------------------------------------------------------------- idle


def _idle(record: Record, shelf: Shelf, rests: list[tuple[RestStamp, Seen]]) -> Idle | None:
    """What was seen of each is put to `rests`."""
    looks = tuple(
        _rest(record, look, shelf, f"$.meter.idle[{at}]", rests) for at, look in enumerate(record.meter.idle or ())
    )
    calibration = record.meter.calibration
    stored = None if calibration is None else _rest(record, calibration, shelf, "$.meter.calibration", rests)
    return Idle(looks, stored) if looks or stored else None


def _rest(record: Record, stamp: RestStamp, shelf: Shelf, here: str, rests: list[tuple[RestStamp, Seen]]) -> Rest:
    """A look is of this very run; a stored calibration was made by another."""
    path = f"{here}.readings"
    readings = shelf.readings(stamp.readings, path)
    header = readings.header
    if isinstance(stamp, IdleStamp) and header.run != _run(record):
        raise Refused("energy", f"readings of the run {short(header.run)}, not {short(_run(record))}", where=path)
    if header.trial is not None:
        raise Refused("energy", f"readings of trial {header.trial}, not of a machine at rest", where=path)
    sums_as_its_kind_is(header, path)
    rests.append((stamp, Seen(path, header)))
    readings = bounded(readings, _REST_SECONDS_MOST, path)
    try:
        rest = rest_of(readings)
        fields = metered.rest_fields(rest, header.opened_at, stamp.readings)
        again = type(stamp)(**{**fields, **_said(stamp)})
    except (Malformed, ValidationError) as error:
        raise _no_readings(error, path) from error
    _same(stamp, again, here)
    return rest


def _said(stamp: RestStamp) -> dict[str, Any]:
    """What no readings say."""
    if isinstance(stamp, IdleStamp):
        return {"when": stamp.when}
    if isinstance(stamp, CalibrationStamp):
        return {"expires_at": stamp.expires_at, "conditions": stamp.conditions}
    return {}


# ------------------------------------------------------------------------------------------------------- trials


def _trial(
    record: Record, at: int, trial: TrialResult, shelf: Shelf, idle: Idle | None, *, seen: list[_Seen]
) -> str | None:
    """The path of the readings where they are not there; else what was seen of them is put to `seen`."""
    energy = trial.energy
    if energy is None or energy.readings is None:
        return None
    path = f"$.trials[{at}].energy.readings"
    try:
        readings = shelf.readings(energy.readings, path)
    except Missing as lack:
        return lack.path
    header = readings.header
    _is_of(record, trial, header, path)
    sums_as_its_kind_is(header, path)
    seen.append(_Seen(at, header.trial or 0, header))
    limit = trial.limits.asked.wall_seconds
    readings = bounded(readings, min(_SECONDS_MOST, 2 * int(limit) + 60), path)
    try:
        window = window_of(readings, idle)
        again = metered.trial_energy(
            window,
            by_kind=record.solver.kind in FLOOR_KINDS,
            ran_on=metered.ran_on(header, trial.cause),
        ).model_copy(update={"readings": energy.readings})
    except (Malformed, ValidationError) as error:
        raise _no_readings(error, path) from error
    has_its_solver(header, path)
    if energy.cloud is not None:
        again = with_cloud(again, energy.cloud)
    _charged(trial, window, f"$.trials[{at}]")
    _same(energy, again, f"$.trials[{at}].energy")
    return None


def _is_of(record: Record, trial: TrialResult, header: Header, path: str) -> None:
    if header.run != _run(record):
        raise Refused("energy", f"readings of the run {short(header.run)}, not {short(_run(record))}", where=path)
    if header.trial is None:
        raise Refused("energy", "readings of no trial", where=path)
    if header.gpu_sharing != record.plan.energy.gpu_sharing:
        words = f"readings by {header.gpu_sharing}, and {record.plan.energy.gpu_sharing} was planned"
        raise Refused("energy", words, where=path)
    if trial.wall_seconds is None:
        raise Refused("energy", "readings of a window, and no wallSeconds", where=path)
    wall_ns = round(trial.wall_seconds * _NS)
    longest = wall_ns + _LONGER_NS + wall_ns * _LONGER_PERCENT // 100
    if not wall_ns - _SHORTER_NS <= header.length_ns <= longest:
        words = f"a window of {header.length_ns} ns, and wallSeconds is {trial.wall_seconds}"
        raise Refused("energy", words, where=path)


def _charged(trial: TrialResult, window: Window, here: str) -> None:
    """What the trial was charged is in its readings too."""
    again = metered.cpu_seconds(window)
    if trial.cpu_seconds != again:
        where, stated, redone = first_difference(trial.cpu_seconds, again, f"{here}.cpuSeconds")
        raise Refused("energy", f"{short(stated)}, and its readings give {short(redone)}", where=where)
    if trial.cpu_source != "cgroup_parent" and any(charged is not None for charged in again.values()):
        raise Refused("energy", f"{trial.cpu_source}, and readings have it", where=f"{here}.cpuSource")


# --------------------------------------------------------------------------------------- all of them together


def _no_two_share(record: Record) -> None:
    """One window is one trial's, or one look's: readings are never used twice."""
    first: dict[str, str] = {}
    for path, ref in _refs(record):
        if ref.sha256 in first:
            raise Refused("energy", f"the readings of {first[ref.sha256]} once more", where=path)
        first[ref.sha256] = path


def _refs(record: Record) -> Iterator[tuple[str, BlobRef]]:
    for at, look in enumerate(record.meter.idle or ()):
        yield f"$.meter.idle[{at}].readings", look.readings
    if record.meter.calibration is not None:
        yield "$.meter.calibration.readings", record.meter.calibration.readings
    for at, trial in enumerate(record.trials):
        if trial.energy and trial.energy.readings:
            yield f"$.trials[{at}].energy.readings", trial.energy.readings


def _one_by_one(record: Record, seen: Sequence[_Seen]) -> None:
    """Trials are numbered over all plans of a run: one record's numbers are its plan's places, moved by one amount.

    Windows of an exclusive run that one boot saw never overlap.
    """
    place = {key: number for number, key in enumerate(trial_keys(record.plan))}
    moved: dict[int, int] = {}
    for one in seen:
        number = place.get(record.trials[one.at].key)
        if number is None:
            continue  # another check has named it
        moved.setdefault(one.trial - number, one.at)
        if one.trial < number or len(moved) > 1:
            raise Refused(
                "energy", f"readings of trial {one.trial} of the run", where=f"$.trials[{one.at}].energy.readings"
            )
    if record.plan.energy.scheduling != "exclusive":
        return
    spans = sorted((_opened(one.header, one.at), one.header.length_ns, one.at) for one in seen)
    by_boot: Mapping[int, str] = {one.at: one.header.boot_id for one in seen}
    ends: dict[str, tuple[int, int]] = {}
    for opened, length, at in spans:
        end, before = ends.get(by_boot[at], (opened, at))
        if opened < end:
            raise Refused(
                "energy",
                f"its window overlaps that of trial {before}, in a run of one at a time",
                where=f"$.trials[{at}].energy.readings",
            )
        ends[by_boot[at]] = (opened + length, at)


def _fit_together(rests: Sequence[tuple[RestStamp, Seen]], seen: Sequence[_Seen]) -> None:
    windows = [Seen(f"$.trials[{one.at}].energy.readings", one.header) for one in seen]
    of_one_machine([*(one for _, one in rests), *windows])
    at_rest_alone([one for stamp, one in rests if isinstance(stamp, IdleStamp)], windows)


def _opened(header: Header, at: int) -> int:
    try:
        return int(header.opened_boottime_ns)
    except ValueError as error:
        where = f"$.trials[{at}].energy.readings"
        raise Refused("energy", "its readings opened at no moment", where=where) from error


# -------------------------------------------------------------------------------------------------------- words


def _run(record: Record) -> str:
    """`recordId` is the run's id, a dot, and the solver's name."""
    return record.record_id.partition(".")[0]


def _same(stated: Wire, again: Wire, here: str) -> None:
    if stated == again:
        return
    # A zone's own figures before the sums that they went into: the first difference names the zone.
    left, right = (dict(sorted(side.json_value().items(), key=_zones_first)) for side in (stated, again))
    where, one, other = first_difference(left, right, here)
    raise Refused("energy", f"{short(one)}, and its readings give {short(other)}", where=where)


def _zones_first(field: tuple[str, Any]) -> bool:
    return field[0] != "zones"


def _no_readings(error: ValueError, path: str) -> Refused:
    words = str(error) if isinstance(error, Malformed) else "what they say fits no record"
    return Refused("energy", f"no readings of ours: {words}", where=path)
