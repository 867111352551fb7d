"""The files of a powercap tree: which zones there are, and which of them can be opened. Linux's sysfs ABI."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from appliance.energy.counter import AbsentZone, Reading
from appliance.energy.sentinels import SENTINELS
from appliance.energy.zones import Zone
from appliance.meter.counters.filesystems import filesystem_type

POWERCAP: Final = Path("/sys/class/powercap")
LONGEST_NUMBER: Final = 32
"""Bytes: a decimal 64-bit number, its sign and its newline, with room."""
WIDEST: Final = 2**64 - 1
"""What readings can hold of a raw number."""
MOST_UW: Final = 1_000_000_000
"""Plausible of any zone, unless its limits say more."""
_UNBELIEVABLE_UW: Final = 10_000_000_000
"""A limit above is firmware's noise: believed, it would let any jump pass and forbid every sampling period."""
_FOLDER: Final = re.compile(r"intel-rapl(?:-mmio)?:[0-9a-f]+(?::[0-9a-f]+)?")
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,63}")
"""The kernel's: `package-0`, `package-0-die-1`, `dram`, `psys`."""
_LONGEST_NAME: Final = 128
_MOST_ZONES: Final = 256
"""Of a machine; readings hold no more than twice as many."""
_DENIED: Final = frozenset({"EACCES", "EPERM"})
DENIED_MEND: Final = "run as root, or give CAP_DAC_READ_SEARCH: energy_uj is readable by root alone"
_NO_ZONE_MEND: Final = "load the kernel module intel_rapl_msr; most virtual machines have no such counter"


@dataclass(frozen=True)
class OpenZone:
    """One zone whose counter is open and gave a number."""

    zone: Zone
    fd: int
    identity: tuple[int, int]
    """Device and inode of its energy_uj: another one means another zone under the same name (row W13)."""
    most_uw: int
    by_kernel: bool
    """Its files are the kernel's own, not a tree that looks like it."""


@dataclass(frozen=True)
class Scan:
    zones: tuple[OpenZone, ...]
    absent: tuple[AbsentZone, ...]


def errno_name(error: OSError) -> str:
    """`EIO`; OSErrors without a number of their own are `EIO` too."""
    return errno.errorcode.get(error.errno or errno.EIO, str(error.errno))


def reading_of(fd: int) -> Reading:
    """From the head of an open file: the kernel makes its text anew at every read from 0."""
    try:
        raw = os.pread(fd, LONGEST_NUMBER, 0)
    except OSError as error:
        return errno_name(error)
    return number_of(raw)


def number_of(raw: bytes) -> Reading:
    """A first line of digits and nothing else; all bits set is no number either (row ZN10)."""
    line = raw.split(b"\n", 1)[0].strip()
    if not line:
        return "ENODATA"
    if not line.isdigit():
        return "NOT_A_NUMBER"
    value = int(line)
    if value > WIDEST:
        return "NOT_A_NUMBER"
    return "SENTINEL" if value in SENTINELS else value


def scan(root: Path, mountinfo: Path, held: Mapping[str, OpenZone]) -> Scan:
    """What stands under `root` now; zones of `held` that are still the same are taken over with their open files."""
    try:
        mounts = mountinfo.read_text(errors="replace")
    except OSError:
        mounts = ""
    try:
        folders = sorted(set(_folders(root)), key=lambda folder: (len(folder.name), folder.name))
        kernels = _by_kernel(mounts, root.stat().st_dev)
    except OSError as error:
        reason = "absent" if error.errno == errno.ENOENT else errno_name(error)
        return Scan((), (AbsentZone(str(root), reason, _NO_ZONE_MEND),))
    if not folders:
        return Scan((), (AbsentZone(str(root), "no intel-rapl zone", _NO_ZONE_MEND),))
    zones: dict[str, OpenZone] = {}
    absent: list[AbsentZone] = []
    if len(folders) > _MOST_ZONES:
        absent.append(AbsentZone(str(root), f"{len(folders)} zones, of which {_MOST_ZONES} are read"))
    for folder in folders[:_MOST_ZONES]:
        if folder.name in zones:
            continue
        found = _still(folder, held.get(folder.name)) or _open(folder, mounts, kernels)
        if isinstance(found, OpenZone):
            zones[folder.name] = found
        else:
            absent.append(found)
    return Scan(tuple(zones.values()), tuple(absent))


def _folders(root: Path) -> Iterator[Path]:
    """Zones stand side by side in the class's folder; where only its devices are given, a child is in its parent."""
    for folder in root.iterdir():
        if _FOLDER.fullmatch(folder.name):
            yield folder
            try:
                yield from (
                    child
                    for child in folder.iterdir()
                    if _FOLDER.fullmatch(child.name) and not (root / child.name).exists()
                )
            except OSError:
                # Gone while we looked: whatever is wrong with it shows when it is opened.
                continue


def _still(folder: Path, held: OpenZone | None) -> OpenZone | None:
    if held is None:
        return None
    try:
        there = (folder / "energy_uj").stat()
        name = _name(folder)
    except OSError:
        return None
    return held if (there.st_dev, there.st_ino) == held.identity and name == held.zone.name else None


def _open(folder: Path, mounts: str, kernels: bool) -> OpenZone | AbsentZone:
    try:
        name = _name(folder)
        fd = _opened(folder / "energy_uj")
    except OSError as error:
        return _absent(folder, errno_name(error))
    if not _NAME.fullmatch(name):
        os.close(fd)
        return _absent(folder, "its name is no zone's")
    first = reading_of(fd)
    zone = Zone(folder.name, name, max_range(folder))
    if isinstance(first, int) and not (first == 0 and zone.parent is not None):
        there = os.fstat(fd)
        own = kernels and _by_kernel(mounts, there.st_dev) and _by_kernel(mounts, folder.stat().st_dev)
        return OpenZone(zone, fd, (there.st_dev, there.st_ino), most_uw(folder), own)
    os.close(fd)
    # A sub-zone that stands at 0 counts nothing (row ZN9); should it ever move, the next scan finds it.
    return _absent(folder, first if isinstance(first, str) else "reads 0")


def _name(folder: Path) -> str:
    """Raises OSError also for a link: shown to the meter's users, it could be of a file that is root's alone."""
    return _head_of(folder / "name", _LONGEST_NAME, os.O_NOFOLLOW).decode(errors="replace").strip()


def _opened(file: Path, flags: int = 0) -> int:
    """Raises OSError also for what is no regular file: in a tree that is not the kernel's, a pipe holds up all."""
    fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | flags)
    mode = os.fstat(fd).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        os.close(fd)
        raise OSError(errno.EINVAL, "no regular file", os.fspath(file))
    return fd


def _head_of(file: Path, length: int, flags: int = 0) -> bytes:
    fd = _opened(file, flags)
    try:
        return os.pread(fd, length, 0)
    finally:
        os.close(fd)


def _absent(folder: Path, reason: str) -> AbsentZone:
    return AbsentZone(folder.name, reason, DENIED_MEND if reason in _DENIED else None)


def _by_kernel(mounts: str, device: int) -> bool:
    return filesystem_type(mounts, device) == "sysfs"


def max_range(folder: Path) -> int | None:
    """None where it cannot be read: then a decrease is a gap (row W10)."""
    return _positive(folder / "max_energy_range_uj")


def most_uw(folder: Path) -> int:
    """Twice the zone's highest limit, a kilowatt at the least."""
    limits = [_positive(file) for file in sorted(folder.glob("constraint_*_max_power_uw"))]
    return max([MOST_UW, *(2 * limit for limit in limits if limit is not None and limit <= _UNBELIEVABLE_UW)])


def _positive(file: Path) -> int | None:
    try:
        raw = _head_of(file, LONGEST_NUMBER)
    except OSError:
        return None
    value = number_of(raw)
    return value if isinstance(value, int) and value > 0 else None
