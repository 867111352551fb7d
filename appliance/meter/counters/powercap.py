"""RAPL through the kernel's powercap files, Intel's and AMD's: zones found, chosen, kept open and read (rows W, ZN).

The files stay open and are read from their head with one system call each. A read that fails is the reading's error
by name, whatever the error: EACCES, EPERM, EINVAL (the kernel's word for any failed MSR), EIO, ENODEV, ENODATA,
ENOENT alike (row W12). What is said once through `say` is said again only after it changed (row W11).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from appliance.energy import floors
from appliance.energy.counter import AbsentZone, CounterZone, Occupancy, Reading
from appliance.energy.cpus import Processor, design_power, parse_cpuinfo
from appliance.energy.grades import grade_of
from appliance.energy.sentinels import SENTINELS
from appliance.energy.zones import Zone, summable
from appliance.meter.counters import dies, powercap_files
from appliance.meter.counters.powercap_files import (
    LONGEST_NUMBER,
    POWERCAP,
    WIDEST,
    OpenZone,
    errno_name,
    number_of,
    reading_of,
)
from appliance.meter.counters.zone_ids import ZONE_IDS

_SAID: Final = frozenset({"psys_implausible"})
"""Beside errors: what is told to whoever looks after the machine. A second road to one counter is no news."""
FILTERED: Final = "sgx_energy_filtering_possible"
_Described = tuple[OpenZone, CounterZone]


@dataclass(frozen=True)
class MachineFiles:
    """Where this machine says what it is; a test says it elsewhere."""

    mountinfo: Path = Path("/proc/self/mountinfo")
    cpuinfo: Path = Path("/proc/cpuinfo")
    dev: Path = Path("/dev")


class PowercapCounter:
    """A `energy.counter.Counter`. `root` stands for /sys/class/powercap; another one makes every zone `simulated`."""

    name = "powercap"

    def __init__(
        self,
        root: Path = POWERCAP,
        *,
        machine: MachineFiles = MachineFiles(),
        ids: Iterator[str] = ZONE_IDS,
        say: Callable[[str], None] = lambda _: None,
    ):
        self._root = root
        self._machine = machine
        self._ids = ids
        self._say = say
        self._found = powercap_files.Scan((), ())
        self._described: tuple[_Described, ...] = ()
        self._absent: tuple[AbsentZone, ...] = ()
        self._dies = dies.Watch()
        self._platform = dies.PlatformWatch()
        self._failing: dict[str, str] = {}
        self._closed = False
        self._processor, self._filtered = _processor(machine)
        self.rescan()

    def zones(self) -> tuple[CounterZone, ...]:
        return tuple(zone for _, zone in self._described)

    def absent(self) -> tuple[AbsentZone, ...]:
        return self._absent

    def read(self) -> Sequence[Reading]:
        found: list[Reading] = []
        failed = False
        pread = os.pread
        for held, _ in self._described:
            value: Reading
            try:
                raw = pread(held.fd, LONGEST_NUMBER, 0)
                value = int(raw)
            except OSError as error:
                value = errno_name(error)
                failed = True
            except ValueError:
                value = reading_of(held.fd)
                failed = failed or isinstance(value, str)
            else:
                if value < 0 or value in SENTINELS:
                    value, failed = "SENTINEL", True
                elif not raw[:-1].isdigit():
                    # Python's own spellings of a number, as 1_000; or one digit.
                    value = number_of(raw)
                    failed = failed or isinstance(value, str)
                elif value > WIDEST:
                    value, failed = "NOT_A_NUMBER", True
            found.append(value)
        if failed or self._failing:
            self._tell(found)
        self._dies.look()
        return found

    def rescan(self) -> bool:
        if self._closed:
            return False
        before = self.zones()
        held = {one.zone.path: one for one in self._found.zones}
        self._platform.judge()
        self._found = powercap_files.scan(self._root, self._machine.mountinfo, held)
        kept = {one.fd for one in self._found.zones}
        for one in held.values():
            if one.fd not in kept:
                os.close(one.fd)
        self._arrange()
        return self.zones() != before

    def occupancy(self) -> Sequence[Occupancy]:
        return ()

    def close(self) -> None:
        self._closed = True
        for one in self._found.zones:
            os.close(one.fd)
        self._found, self._described = powercap_files.Scan((), ()), ()
        self._dies, self._platform = dies.Watch(), dies.PlatformWatch()

    def _arrange(self) -> None:
        """Choose among what is open: every counter once, and summed where it is no part of another."""
        usable = {one.zone.path: one for one in self._found.zones}
        absent = list(self._found.absent)
        mirrors = self._dies.mirrors(self._found.zones)
        for path, shown_by in mirrors.items():
            absent.append(AbsentZone(path, f"mirrors {shown_by}", None))
            del usable[path]
        for path in self._platform.implausible(self._found.zones):
            absent.append(AbsentZone(path, "psys_implausible", None))
            del usable[path]
        chosen = summable(one.zone for one in usable.values())
        keys = {zone.path: key for key, zone in chosen.zones.items()}
        doubles = _doubles(
            [one.zone for one in usable.values()], chosen.zones, {zone.path for zone in chosen.duplicates}
        )
        for path, key in doubles.items():
            absent.append(AbsentZone(path, f"duplicate of {key}", None))
        earlier = {one.fd: zone for one, zone in self._described}
        described: list[_Described] = []
        for path, one in usable.items():
            if path in doubles:
                continue
            flags = tuple(
                word
                for word, holds in (
                    ("mirrored_dies", one.zone.name in mirrors.values()),
                    (FILTERED, self._filtered and one.by_kernel),
                )
                if holds
            )
            described.append((one, self._describe(one, keys.get(path), flags, usable, earlier.get(one.fd))))
        self._described = tuple(described)
        self._platform.begin([one for one, _ in described])
        self._say_changes(tuple(absent))

    def _describe(
        self,
        one: OpenZone,
        key: str | None,
        flags: tuple[str, ...],
        usable: Mapping[str, OpenZone],
        earlier: CounterZone | None,
    ) -> CounterZone:
        zone = one.zone
        grade = grade_of("sysfs" if one.by_kernel else None, "rapl")
        described = CounterZone(
            id="" if earlier is None else earlier.id,
            key=_plain_key(zone, usable) if key is None else key,
            path=zone.path,
            name=zone.name,
            domain=zone.domain,
            unit="uj",
            max_range=zone.max_range_uj,
            most_uw=self._most_uw(one),
            update_period_ns=floors.RAPL.update_period_ns,
            shortest_window_ns=floors.RAPL.shortest_window_ns,
            source=self.name,
            provenance=grade.provenance,
            claimed=grade.claimed,
            summed=key is not None,
            flags=flags,
        )
        # What is summed or flagged otherwise than before is another zone to whoever reads the readings.
        return described if described == earlier else replace(described, id=next(self._ids))

    def _most_uw(self, one: OpenZone) -> int:
        """Of a package also twice its design power, where the processor is known to the letter."""
        if one.zone.domain != "package" or not one.by_kernel or self._processor is None:
            return one.most_uw
        power = design_power(self._processor)
        return (
            max(one.most_uw, 2 * power.point_uw // self._processor.packages) if power.source == "table" else one.most_uw
        )

    def _tell(self, found: Sequence[Reading]) -> None:
        for (one, zone), value in zip(self._described, found, strict=True):
            before = self._failing.get(one.zone.path)
            if isinstance(value, str) and value != before:
                self._failing[one.zone.path] = value
                self._say(f"{value} {one.zone.path} ({zone.key})")
            elif isinstance(value, int) and before is not None:
                del self._failing[one.zone.path]
                self._say(f"{one.zone.path} ({zone.key}) reads again")

    def _say_changes(self, absent: tuple[AbsentZone, ...]) -> None:
        for one in absent:
            if one not in self._absent and (one.reason.isupper() or one.reason in _SAID):
                self._say(f"{one.path} is not used: {one.reason}" + (f" ({one.mend})" if one.mend else ""))
        self._absent = absent
        here = {one.zone.path for one, _ in self._described}
        self._failing = {path: value for path, value in self._failing.items() if path in here}


def _doubles(zones: Sequence[Zone], summed: Mapping[str, Zone], twins: set[str]) -> dict[str, str]:
    """Path of a zone that another one shows as well -> key of that one: a counter by mmio and by MSR (row ZN4)."""
    by_path = {zone.path: zone for zone in zones}
    found = {path: _plain_key(by_path[path], by_path) for path in twins}
    seen = {zone.path for zone in summed.values()}
    keys = {_plain_key(by_path[path], by_path) for path in seen}
    for zone in sorted(zones, key=lambda one: one.by_mmio):
        key = _plain_key(zone, by_path)
        if zone.path in seen or zone.path in found:
            continue
        if key in keys and zone.by_mmio:
            found[zone.path] = key
        keys.add(key)
    return found


def _plain_key(zone: Zone, zones: Mapping[str, Zone] | Mapping[str, OpenZone]) -> str:
    above = zones.get(zone.parent or "")
    if above is None:
        return zone.name
    return f"{above.name if isinstance(above, Zone) else above.zone.name}/{zone.name}"


def _processor(machine: MachineFiles) -> tuple[Processor | None, bool]:
    """And whether RAPL may be filtered: SGX on distorts it (Intel: PLATYPUS, CVE-2020-8694)."""
    try:
        text = machine.cpuinfo.read_text(errors="replace")
    except OSError:
        return None, False
    flags = next((line for line in text.splitlines() if line.startswith("flags")), "")
    try:
        devices = any(machine.dev.glob("sgx*"))
    except OSError:
        devices = False
    return parse_cpuinfo(text), devices or "sgx" in flags.split()
