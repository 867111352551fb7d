"""The idle power of this machine, measured once and kept for a day: `calibration.json` and the readings behind it.

What is kept is raw: the powers are computed from the readings again whenever they are loaded, as a verifier does it.
It ends with the boot: what else runs on the machine, and how its clock tells the time, is another matter then.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Protocol

from appliance.bundle import state_home
from appliance.digests import sha256_hex
from appliance.energy.counter import CounterZone
from appliance.energy.idle import Rest, rest_of
from appliance.energy.readings import Malformed, unpack
from appliance.errors import InputRefused, MeterRefused
from appliance.files import disk_of, write_atomically
from appliance.meter.conditions import BOOT, COUNTERS, changed, conditions, counters_condition
from appliance.reading import read_regular

SCHEMA: Final = "calibration-v1"
LIFETIME: Final = timedelta(hours=24)
RUN: Final = "calibration"
_NONE: Final = "none stored"
_MAX_JSON: Final = 256 * 1024
_MAX_READINGS: Final = 64 * 1024 * 1024
_MEND: Final = "appliance meter calibrate"
_MOMENT: Final = "%Y-%m-%dT%H:%M:%SZ"
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


class Resting(Protocol):
    """What `MeterClient` does for a window in which nothing of ours runs."""

    def prepare(self, run: str, trial: int | None, roles: Any) -> Any: ...
    def open(self, handle: Any) -> Any: ...
    def close(self, window: Any) -> Any: ...
    def release(self, handle: Any) -> Any: ...


@dataclass(frozen=True)
class Calibration:
    readings: bytes = field(repr=False)
    rest: Rest
    """Computed from `readings`."""
    at: str
    """When it was measured: the readings' own word, RFC 3339."""
    conditions: Mapping[str, str | None]
    forced: str | None
    """Why the host was no fit place, where it was kept all the same."""

    @property
    def expires_at(self) -> str:
        return (_moment(self.at) + LIFETIME).strftime(_MOMENT)

    def lapsed(self, now: datetime, here: Mapping[str, str | None]) -> str | None:
        """Why it does not hold at this moment, under these conditions; None: it does."""
        if not _moment(self.at) <= now + timedelta(minutes=5):
            return f"made at {self.at}, which is still to come"
        if now >= _moment(self.at) + LIFETIME:
            return f"expired at {self.expires_at}"
        return changed(self.conditions, here)

    def json_value(self) -> dict[str, Any]:
        """What `calibration.json` says; all but conditions and `forced` follow from the readings."""
        return {
            "schema": SCHEMA,
            "at": self.at,
            "expiresAt": self.expires_at,
            "seconds": self.rest.seconds,
            "conditions": dict(self.conditions),
            "zones": {
                key: {
                    "meanUw": zone.mean_uw,
                    "deviationUw": zone.deviation_uw,
                    "driftUw": zone.drift_uw,
                    "bins": zone.bins,
                }
                for key, zone in sorted(self.rest.zones.items())
            },
            "unfit": self.rest.unfit,
            "forced": self.forced,
            "readings": {"sha256": sha256_hex(self.readings), "bytes": len(self.readings)},
        }


def folder_of_calibration() -> Path:
    return state_home() / "calibration"


def measure_rest(meter: Resting, run: str, pause: Callable[[], None]) -> bytes:
    """Readings of a window without a trial around `pause`, which sleeps and may raise. Raises MeterRefused."""
    prepared = meter.prepare(run, None, ())
    try:
        opened = meter.open(prepared.handle)
        pause()
        meter.close(opened.window)
    except BaseException:
        with contextlib.suppress(MeterRefused):  # what went wrong first is what is told
            meter.release(prepared.handle)
        raise
    content: bytes | None = meter.release(prepared.handle).readings
    if content is None:
        raise MeterRefused("the meter gives no readings of a window that it opened", reason="no_readings")
    return content


def calibration_of(readings: bytes, *, here: Mapping[str, str | None], forced: str | None = None) -> Calibration:
    """Raises energy.readings.Malformed. `here`: the conditions; boot and counters are those of the readings."""
    header = unpack(readings).header
    keys = [(zone.key, zone.source) for zone in header.zones]
    found = {**here, BOOT: header.boot_id, COUNTERS: counters_condition(keys)}
    return Calibration(readings, rest_of(unpack(readings)), header.opened_at, found, forced)


def store(calibration: Calibration, folder: Path | None = None) -> Path:
    """The readings first, then the page that names them: whoever reads finds the old calibration or the new one.

    Readings of calibrations before are removed in the end. Returns the page; raises HostRefused on a full disk.
    """
    place = folder or folder_of_calibration()
    page, blob = place / "calibration.json", place / _blob_name(sha256_hex(calibration.readings))
    with disk_of(place, "free some space"):
        write_atomically(blob, calibration.readings)
        text = json.dumps(calibration.json_value(), indent=2, ensure_ascii=False) + "\n"
        write_atomically(page, text.encode())
    for old in place.glob("*.readings.gz"):
        if old != blob:
            old.unlink(missing_ok=True)
    return page


def load(folder: Path | None = None) -> Calibration | None:
    """Valid or not; None where none was ever stored. Raises InputRefused for one that is spoiled."""
    page = (folder or folder_of_calibration()) / "calibration.json"
    try:
        return _loaded(page)
    except _Replaced:
        # Between the page and its readings another one took its place.
        return _loaded(page)


class _Replaced(InputRefused):
    """The readings that the page names are not there."""


def _loaded(page: Path) -> Calibration | None:
    try:
        value = json.loads(read_regular(page, _MAX_JSON))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise _spoiled(page, str(error)) from error
    try:
        if value["schema"] != SCHEMA:
            raise _spoiled(page, f"schema is {value['schema']!r}, not {SCHEMA}")
        digest, here, forced = value["readings"]["sha256"], value["conditions"], value["forced"]
        if not _is_conditions(here) or not isinstance(forced, str | None) or not _SHA256.fullmatch(digest):
            raise _spoiled(page, "conditions, forced or readings are none of ours")
    except (KeyError, TypeError) as error:
        raise _spoiled(page, f"no {error}") from error
    blob = page.parent / _blob_name(digest)
    try:
        readings = read_regular(blob, _MAX_READINGS)
    except FileNotFoundError as error:
        words = "no calibration of ours: its readings are not there"
        raise _Replaced(words, where=str(blob), mend=_MEND, reason="calibration") from error
    except OSError as error:
        raise _spoiled(blob, error.strerror or str(error)) from error
    if sha256_hex(readings) != digest:
        raise _spoiled(blob, "other bytes than calibration.json names")
    try:
        header = unpack(readings).header
        _moment(header.opened_at)
        return Calibration(readings, rest_of(unpack(readings)), header.opened_at, here, forced)
    except (Malformed, ValueError) as error:
        raise _spoiled(blob, str(error)) from error


def usable(
    zones: Iterable[CounterZone | Mapping[str, Any]],
    *,
    folder: Path | None = None,
    now: datetime | None = None,
    here: Mapping[str, str | None] | None = None,
) -> tuple[Calibration | None, str | None]:
    """The stored calibration for these counters, or why there is none that holds. `here`: as `conditions` gives them.

    `zones` as the daemon's status has them, or as CounterZones.
    """
    stored = load(folder)
    if stored is None:
        return None, _NONE
    keys = [(one.key, one.source) if isinstance(one, CounterZone) else (one["key"], one["source"]) for one in zones]
    found = {**(conditions() if here is None else here), COUNTERS: counters_condition(keys)}
    why = stored.lapsed(datetime.now(UTC) if now is None else now, found)
    return (stored, None) if why is None else (None, why)


def _is_conditions(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(one, str | None) for one in value.values())


def _spoiled(place: Path, why: str) -> InputRefused:
    return InputRefused(f"no calibration of ours: {why}", where=str(place), mend=_MEND, reason="calibration")


def _blob_name(digest: str) -> str:
    return f"{digest}.readings.gz"


def _moment(text: str) -> datetime:
    """RFC 3339 with `Z`: the header of readings has no other form."""
    return datetime.fromisoformat(text)
