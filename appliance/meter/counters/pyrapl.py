"""pyRAPL as a counter by name: its sensors and files, our arithmetic (row D3).

It runs in the unprivileged child, which may not open `energy_uj`: the daemon opens the files and hands them down, and
pyRAPL's own module opens its hard-coded paths through them. Its code is untouched; it decides which zones there are,
and reads them. What it cannot know (ranges, limits) is read beside it from files that everybody may read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from appliance.energy import floors
from appliance.energy.counter import AbsentZone, CounterDomain, CounterZone, Occupancy, Reading
from appliance.energy.grades import grade_of
from appliance.energy.sentinels import is_sentinel
from appliance.energy.zones import Zone
from appliance.meter.counters import powercap_files
from appliance.meter.counters.filesystems import filesystem_type
from appliance.meter.counters.powercap_files import errno_name

PATHS: Final = Path("/sys/class/powercap/intel-rapl")
"""Where pyRAPL looks; it cannot be told otherwise."""
MEND: Final = "pip install 'bench-appliance[pyrapl]'"


@dataclass(frozen=True)
class _Slot:
    """One of pyRAPL's numbers."""

    index: int
    zone: CounterZone


def energy_files(root: Path = PATHS) -> dict[str, int]:
    """Path of every `energy_uj` below, opened by whoever has the right to; those that cannot be are left out."""
    opened: dict[str, int] = {}
    for pattern in ("intel-rapl:*/energy_uj", "intel-rapl:*/intel-rapl:*/energy_uj"):
        for file in sorted(root.glob(pattern)):
            try:
                opened[str(file)] = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                # pyRAPL will say that it cannot, by its own words.
                continue
    return opened


def open_pyrapl(files: Mapping[str, int]) -> PyRaplCounter:
    return PyRaplCounter(files)


class PyRaplCounter:
    """A `energy.counter.Counter` over pyRAPL's Sensor. `files`: open descriptors by path, as `energy_files` gives."""

    name = "pyrapl"

    def __init__(self, files: Mapping[str, int]):
        self._files = dict(files)
        self._sensor: Any = None
        self._slots: tuple[_Slot, ...] = ()
        self._absent: tuple[AbsentZone, ...] = ()
        self.source = "pyRAPL"
        try:
            # It has no types.
            import pyRAPL  # type: ignore[import-untyped]
            from pyRAPL import device_api
        except ImportError as error:
            self._absent = (AbsentZone("pyRAPL", f"not installed: {error}", MEND),)
            return
        self.source = f"pyRAPL {pyRAPL.__version__}"
        device_api.open = self._open
        try:
            self._sensor = pyRAPL.Sensor()
            numbers = self._sensor.energy()
        except (pyRAPL.PyRAPLException, OSError, ValueError, IndexError) as error:
            self._absent = (AbsentZone("pyRAPL", _why(error)),)
            return
        self._slots = tuple(self._find(numbers))

    def zones(self) -> tuple[CounterZone, ...]:
        return tuple(slot.zone for slot in self._slots)

    def absent(self) -> tuple[AbsentZone, ...]:
        return self._absent

    def read(self) -> Sequence[Reading]:
        """One error of one file is the lack of all: pyRAPL reads them together."""
        try:
            numbers = self._sensor.energy() if self._slots else ()
        except OSError as error:
            return [errno_name(error)] * len(self._slots)
        except ValueError:
            return ["NOT_A_NUMBER"] * len(self._slots)
        return [_reading(numbers[slot.index]) for slot in self._slots]

    def rescan(self) -> bool:
        """It knows what was there when it began; a new look is a new process."""
        return False

    def occupancy(self) -> Sequence[Occupancy]:
        return ()

    def close(self) -> None:
        self._slots, self._sensor = (), None

    def _open(self, path: str, mode: str = "r") -> Any:
        """In place of `open` in pyRAPL's module: the daemon's descriptor where there is one."""
        given = self._files.get(path)
        return open(path if given is None else os.dup(given), mode)  # noqa: PTH123  # a descriptor is no path

    def _find(self, numbers: Sequence[float]) -> list[_Slot]:
        """pyRAPL gives two numbers a socket, package and memory, -1 where there is none."""
        slots: list[_Slot] = []
        for index, number in enumerate(numbers):
            name = f"package-{index // 2}"
            folder = None if number < 0 else _folder_of(name, memory=bool(index % 2))
            if folder is not None:
                slots.append(_Slot(index, self._describe(folder, name, memory=bool(index % 2))))
        return slots

    def _describe(self, folder: Path, package: str, *, memory: bool) -> CounterZone:
        grade = grade_of(_filesystem(folder, self._files.get(str(folder / "energy_uj"))), "rapl")
        domain: CounterDomain = "dram" if memory else "package"
        return CounterZone(
            id=folder.name,
            key=f"{package}/dram" if memory else package,
            path=folder.name,
            name="dram" if memory else package,
            domain=domain,
            unit="uj",
            max_range=powercap_files.max_range(folder),
            most_uw=powercap_files.most_uw(folder),
            update_period_ns=floors.RAPL.update_period_ns,
            shortest_window_ns=floors.RAPL.shortest_window_ns,
            source=self.source,
            provenance=grade.provenance,
            claimed=grade.claimed,
        )


def _why(error: Exception) -> str:
    """In our words: most of its own errors are a class's name and nothing else."""
    if isinstance(error, FileNotFoundError) or not PATHS.is_dir():
        return f"{PATHS} absent"
    if isinstance(error, OSError):
        return f"{errno_name(error)} {error.filename or PATHS}"
    words = " ".join(str(error).split())
    return f"it finds no counter below {PATHS} that it can read" + (f": {words}" if words else "")


def _reading(number: float) -> Reading:
    value = int(number)
    return "SENTINEL" if is_sentinel(value) else value


def _folder_of(package: str, *, memory: bool) -> Path | None:
    """The zone that pyRAPL reads for it: the first of that name."""
    for folder in sorted(PATHS.glob("intel-rapl:*"), key=lambda one: (len(one.name), one.name)):
        if _name(folder) != package:
            continue
        if not memory:
            return folder
        return next((one for one in sorted(folder.glob("intel-rapl:*:*")) if _name(one) == "dram"), None)
    return None


def _name(folder: Path) -> str:
    try:
        return Zone(folder.name, (folder / "name").read_text(errors="replace").strip()).name
    except (OSError, ValueError):
        return ""


def _filesystem(folder: Path, fd: int | None) -> str | None:
    try:
        mounts = Path("/proc/self/mountinfo").read_text(errors="replace")
        kinds = {filesystem_type(mounts, folder.stat().st_dev)}
        kinds |= set() if fd is None else {filesystem_type(mounts, os.fstat(fd).st_dev)}
    except OSError:
        return None
    return kinds.pop() if len(kinds) == 1 else None
