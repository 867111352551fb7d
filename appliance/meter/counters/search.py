"""What a look for energy counters found: the zones that can be read, or why there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from appliance.meter.counters import powercap_files
from appliance.meter.counters.powercap import PowercapCounter

POWERCAP: Final = powercap_files.POWERCAP
Lack = Literal["NoCounter", "PrivilegeRequired"]
_DENIED: Final = ("EACCES", "EPERM")


@dataclass(frozen=True)
class CounterSearch:
    """What a look for counters found."""

    found: tuple[str, ...]
    """Zones that can be read, as `intel-rapl:0`, or by the meter's keys, as `package-0`."""
    lack: Lack | None
    """Why none can be read; None where one can."""
    reason: str | None
    """The same in words that a record keeps: `no counter: /sys/class/powercap absent`, `EACCES intel-rapl:0`."""
    mend: str | None = None


def look_for_counters(powercap: Path = POWERCAP) -> CounterSearch:
    """Of the processor, as a meter that is started here would find them: what is summed, else why nothing is."""
    counter = PowercapCounter(powercap)
    found = tuple(zone.path for zone in counter.zones() if zone.summed)
    absent = counter.absent()
    counter.close()
    if found:
        return CounterSearch(found, None, None)
    first = min(absent, key=lambda zone: not zone.reason.startswith(_DENIED))
    if first.path == str(powercap):
        words = "absent" if first.reason == "absent" else f"has {first.reason}"
        return CounterSearch((), "NoCounter", f"no counter: {powercap} {words}")
    reason = f"{first.reason} {first.path}"
    return CounterSearch((), _lack(reason), reason, first.mend)


def counters_of(status: Mapping[str, Any]) -> CounterSearch:
    """What a meter says of itself (formats 5, `status`): zones that may be summed, else the first that is absent."""
    zones: Sequence[Mapping[str, Any]] = status["counters"]
    found = tuple(str(zone["key"]) for zone in zones if zone.get("summed", True))
    if found:
        return CounterSearch(found, None, None)
    absent = [zone for zone in status.get("absent", ()) if isinstance(zone, Mapping)]
    if not absent:
        return CounterSearch((), "NoCounter", "no counter: the meter finds none on this host")
    # One that a permission would open is nearer than one that is broken.
    first = min(absent, key=lambda zone: not str(zone.get("reason", "")).startswith(_DENIED))
    reason = f"{first.get('reason')} {first.get('path')}"
    return CounterSearch((), _lack(reason), reason, first.get("mend"))


def _lack(reason: str) -> Lack:
    return "PrivilegeRequired" if reason.startswith(_DENIED) else "NoCounter"
