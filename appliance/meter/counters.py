"""Which energy counters this host has, and why there is none.

This version finds counters and says what it found; it does not read joules from them yet.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

POWERCAP: Final = Path("/sys/class/powercap")


@dataclass(frozen=True)
class CounterSearch:
    """What a look for counters found."""

    found: tuple[str, ...]
    """Zones that can be read, as `intel-rapl:0`."""
    lack: Literal["NoCounter", "PrivilegeRequired"] | None
    """Why none can be read; None where one can."""
    reason: str | None
    """The same in words that a record keeps: `no counter: /sys/class/powercap absent`, `EACCES intel-rapl:0`."""


def look_for_counters(powercap: Path = POWERCAP) -> CounterSearch:
    """RAPL's package zones under `powercap`; opened and read once each, as the kernel checks at both."""
    if not powercap.is_dir():
        return CounterSearch((), "NoCounter", f"no counter: {powercap} absent")
    zones = sorted(folder for folder in powercap.glob("intel-rapl:*") if (folder / "energy_uj").exists())
    readable: list[str] = []
    denied: list[str] = []
    for zone in zones:
        try:
            int((zone / "energy_uj").read_text())
        except OSError as error:
            denied.append(f"{errno.errorcode.get(error.errno or 0, error.errno)} {zone.name}")
        except ValueError:
            denied.append(f"not a number {zone.name}")
        else:
            readable.append(zone.name)
    if readable:
        return CounterSearch(tuple(readable), None, None)
    if denied:
        privilege = denied[0].startswith(("EACCES", "EPERM"))
        return CounterSearch((), "PrivilegeRequired" if privilege else "NoCounter", denied[0])
    return CounterSearch((), "NoCounter", f"no counter: {powercap} has no intel-rapl zone")
