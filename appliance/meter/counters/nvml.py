"""NVIDIA's boards through NVML (distribution nvidia-ml-py): the total-energy counter first, sampled power else.

Boards are keyed by UUID, never by index (row G15); only whole boards are counted, as energy exists nowhere below one
(MIG, row G10). Every NVML error is a reading's lack by its name, without `NVML_ERROR_`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from appliance.energy import floors
from appliance.energy.counter import AbsentZone, CounterZone, Occupancy, Reading, Unit, Utilised
from appliance.energy.grades import Grade, grade_of
from appliance.energy.sentinels import is_sentinel
from appliance.meter.counters.filesystems import filesystem_type
from appliance.meter.counters.nvml_library import LIBRARY, Lack, NvmlLibrary
from appliance.meter.counters.zone_ids import ZONE_IDS

KERNEL_DRIVER: Final = Path("/proc/driver/nvidia/version")
_UNLIMITED_UW: Final = 2_000_000_000
"""Twice a kilowatt: plausible of a board whose limit is not told."""
_AVERAGE_NS: Final = 1_000_000_000
"""What GetPowerUsage averages over on Ampere (but GA100) and newer (NVML documentation, row G5)."""
_AMPERE: Final = 7
_GA100: Final = ("A100", "A30", "A800", "PG506")
_MENDED_ANEW: Final = frozenset(
    {"UNINITIALIZED", "DRIVER_NOT_LOADED", "GPU_IS_LOST", "GPU_NOT_FOUND", "RESET_REQUIRED"}
)
_MPS_SERVER: Final = "nvidia-cuda-mps"
Source = Literal["energy", "instant", "usage", "module"]
"""What of a board is read: its counter; its power now; its power as GetPowerUsage gives it; its module's power."""


@dataclass(frozen=True)
class _Board:
    handle: Any
    uuid: str
    source: Source
    zone: CounterZone
    checks: bool = False
    """Power beside a board's own counter: compared with it, never added."""


class NvmlCounter:
    """A `energy.counter.Counter`. Where there is no driver or no library, it has no zones and says why."""

    name = "nvml"

    def __init__(
        self,
        *,
        ids: Iterator[str] = ZONE_IDS,
        say: Callable[[str], None] = lambda _: None,
        renew_seconds: float = 30.0,
        kernel_driver: Path = KERNEL_DRIVER,
        proc: Path = Path("/proc"),
    ):
        self._ids = ids
        self._say = say
        self._kernel_driver = kernel_driver
        self._proc = proc
        self._nvml = NvmlLibrary(renew_seconds)
        self._boards: tuple[_Board, ...] = ()
        self._absent: tuple[AbsentZone, ...] = ()
        self._failing: dict[str, str] = {}
        self._told_us: dict[str, int] = {}
        """Of each zone, the newest sample of utilisation that was told."""
        self._closed = False
        self.rescan()

    def zones(self) -> tuple[CounterZone, ...]:
        return tuple(board.zone for board in self._boards)

    def absent(self) -> tuple[AbsentZone, ...]:
        return self._absent

    def read(self) -> Sequence[Reading]:
        found = [self._reading(board.handle, board.source) for board in self._boards]
        for board, value in zip(self._boards, found, strict=True):
            before = self._failing.get(board.zone.key)
            if isinstance(value, str) and value != before:
                self._failing[board.zone.key] = value
                self._say(f"{value} {board.zone.key}")
            elif isinstance(value, int) and before is not None:
                del self._failing[board.zone.key]
                self._say(f"{board.zone.key} reads again")
        self._nvml.stale = self._nvml.stale or any(value in _MENDED_ANEW for value in found)
        return found

    def rescan(self) -> bool:
        if self._closed:
            return False
        before = self.zones()
        lack = self._nvml.ready()
        if lack is None:
            self._enumerate()
        else:
            self._boards = ()
            self._say_absent((AbsentZone(LIBRARY, str(lack)),))
        return self.zones() != before

    def occupancy(self) -> Sequence[Occupancy]:
        return tuple(self._occupancy(board) for board in self._boards if not board.checks)

    def utilisation(self, zone: str, since_us: int) -> dict[int, int] | str:
        """SM utilisation in percent by pid, since a moment of the driver's clock; the error's name where unknown.

        NOT_FOUND means that nobody used it, and is an empty answer (row G9).
        """
        board = next((one for one in self._boards if one.zone.id == zone), None)
        if board is None:
            return "GPU_NOT_FOUND"
        samples = self._nvml.ask("nvmlDeviceGetProcessUtilization", board.handle, since_us)
        if isinstance(samples, Lack):
            # The binding raises SUCCESS where there is no sample.
            return {} if samples in ("NOT_FOUND", "SUCCESS") else str(samples)
        newest = max((int(one.timeStamp) for one in samples), default=0)
        self._told_us[zone] = max(newest, self._told_us.get(zone, 0))
        return {int(one.pid): int(one.smUtil) for one in samples}

    def utilised(self) -> tuple[Utilised, ...]:
        """Of every board that is counted, since it was asked before: the newest moment that the driver told, in
        microseconds of its clock, is passed on (row G9)."""
        found: list[Utilised] = []
        for board in self._boards:
            if board.checks or board.zone.domain != "gpu":
                continue
            zone = board.zone.id
            percent = self.utilisation(zone, self._told_us.get(zone, 0))
            found.append(Utilised(zone, {}, percent) if isinstance(percent, str) else Utilised(zone, percent))
        return tuple(found)

    def close(self) -> None:
        self._closed = True
        self._boards = ()
        self._nvml.end()

    def _enumerate(self) -> None:
        absent: list[AbsentZone] = []
        boards: list[_Board] = []
        silent: list[tuple[str, int | None]] = []
        reporting: dict[int | None, str] = {}
        ask, text = self._nvml.ask, self._nvml.text
        version = text("nvmlSystemGetNVMLVersion")
        labelled = self.name if isinstance(version, Lack) else f"{self.name} {version}"
        grade = self._grade(text("nvmlSystemGetDriverVersion"))
        count = ask("nvmlDeviceGetCount")
        if isinstance(count, Lack):
            self._nvml.stale = True
            absent.append(AbsentZone(LIBRARY, str(count)))
            count = 0
        for index in range(count):
            handle = ask("nvmlDeviceGetHandleByIndex", index)
            uuid = handle if isinstance(handle, Lack) else text("nvmlDeviceGetUUID", handle)
            if isinstance(uuid, Lack):
                self._nvml.stale = self._nvml.stale or uuid in _MENDED_ANEW
                absent.append(AbsentZone(f"GPU {index}", str(uuid)))
                continue
            source, card = self._source(handle, uuid), self._card_of(handle)
            if source is None:
                silent.append((uuid, card))
                continue
            if source == "energy" and card is not None:
                reporting.setdefault(card, uuid)
            boards.append(_Board(handle, uuid, source, self._describe(handle, uuid, source, labelled, grade)))
            check = self._power_source(handle, uuid) if source == "energy" else None
            if check is not None:
                zone = self._describe(handle, uuid, check, labelled, grade, checks=True)
                boards.append(_Board(handle, uuid, check, zone, checks=True))
        for uuid, card in silent:
            sibling = reporting.get(card)
            reason = "no energy and no power" if sibling is None else f"reported by its sibling {_key(sibling)}"
            absent.append(AbsentZone(uuid, reason))
        self._boards = tuple(sorted(boards, key=lambda board: (board.uuid, board.checks)))
        here = {board.zone.key for board in boards}
        self._failing = {key: word for key, word in self._failing.items() if key in here}
        self._say_absent(tuple(absent))

    def _source(self, handle: Any, uuid: str) -> Source | None:
        """The best that answers with a number; a board that had one keeps it through an error of the moment.

        A counter at 0 counts nothing: on a board of two chips the other one may report for both (row G14).
        """
        held = self._held(uuid, checks=False)
        if held is not None:
            return held.source
        energy = self._reading(handle, "energy")
        if isinstance(energy, int) and energy > 0:
            return "energy"
        if energy == 0 and self._has_sibling(handle):
            return None
        others: tuple[Source, ...] = ("instant", "usage", "module")
        return next((one for one in others if isinstance(self._reading(handle, one), int)), None)

    def _power_source(self, handle: Any, uuid: str) -> Source | None:
        held = self._held(uuid, checks=True)
        if held is not None:
            return held.source
        sources: tuple[Source, ...] = ("instant", "usage")
        return next((one for one in sources if isinstance(self._reading(handle, one), int)), None)

    def _held(self, uuid: str, *, checks: bool) -> _Board | None:
        return next((one for one in self._boards if (one.uuid, one.checks) == (uuid, checks)), None)

    def _describe(
        self, handle: Any, uuid: str, source: Source, labelled: str, grade: Grade, *, checks: bool = False
    ) -> CounterZone:
        earlier = self._held(uuid, checks=checks)
        if earlier is not None and (labelled, grade.provenance) == (earlier.zone.source, earlier.zone.provenance):
            return earlier.zone
        limit = self._nvml.ask("nvmlDeviceGetEnforcedPowerLimit", handle)
        name = self._nvml.text("nvmlDeviceGetName", handle)
        architecture = self._nvml.ask("nvmlDeviceGetArchitecture", handle)
        averaged = (
            source == "usage"
            and (isinstance(architecture, Lack) or architecture >= _AMPERE)
            and not any(word in name for word in _GA100)
        )
        unit: Unit = "mj" if source == "energy" else "mw"
        return CounterZone(
            id=next(self._ids),
            key=_key(uuid, "module" if source == "module" else "gpu") + ("/power" if checks else ""),
            path=uuid,
            name=name,
            domain="module" if source == "module" else "gpu",
            unit=unit,
            max_range=None,
            most_uw=_UNLIMITED_UW if isinstance(limit, Lack) or limit <= 0 else 2 * limit * 1000,
            update_period_ns=_AVERAGE_NS if averaged else floors.NVML.update_period_ns,
            shortest_window_ns=floors.NVML.shortest_window_ns,
            source=labelled,
            provenance=grade.provenance,
            claimed=grade.claimed,
            # A module holds its processor as well, whose own counter may be summed already (row G13).
            summed=source != "module" and not checks,
            flags=("power_averaged",) if averaged else (),
        )

    def _grade(self, driver: str) -> Grade:
        """What calls itself NVML speaks for hardware only where the kernel's driver is loaded, in the same version."""
        grade = grade_of(None, "nvml")
        try:
            mounts = Path("/proc/self/mountinfo").read_text(errors="replace")
            kernels = filesystem_type(mounts, self._kernel_driver.stat().st_dev) == "proc"
            loaded = kernels and driver in self._kernel_driver.read_text(errors="replace").split()
        except OSError:
            loaded = False
        return grade if loaded else Grade("simulated", claimed=grade.provenance)

    def _reading(self, handle: Any, source: Source) -> Reading:
        if source == "energy":
            value = self._nvml.ask("nvmlDeviceGetTotalEnergyConsumption", handle)
        elif source == "usage":
            value = self._nvml.ask("nvmlDeviceGetPowerUsage", handle)
        else:
            value = self._nvml.power_mw(handle, of_module=source == "module")
        if isinstance(value, Lack):
            return str(value)
        return "SENTINEL" if is_sentinel(value, power=source != "energy") else int(value)

    def _occupancy(self, board: _Board) -> Occupancy:
        pids: set[int] = set()
        clients = self._processes("nvmlDeviceGetMPSComputeRunningProcesses", board.handle)
        lists = [
            self._processes("nvmlDeviceGetComputeRunningProcesses", board.handle),
            self._processes("nvmlDeviceGetGraphicsRunningProcesses", board.handle),
            clients,
        ]
        for one in lists:
            pids |= one or set()
        mode = self._nvml.ask("nvmlDeviceGetMigMode", board.handle)
        if not isinstance(mode, Lack) and mode[0] == 1:
            return Occupancy(board.zone.id, frozenset(pids), "mig")
        if clients or any(self._serves_mps(pid) for pid in pids):
            return Occupancy(board.zone.id, frozenset(pids), "mps")
        # Graphics and MPS may be unknown to an old driver; without the list of computing processes nothing is known.
        return Occupancy(board.zone.id, frozenset(pids), "unknown" if lists[0] is None else None)

    def _processes(self, question: str, handle: Any) -> set[int] | None:
        found = self._nvml.ask(question, handle)
        return None if isinstance(found, Lack) else {int(one.pid) for one in found}

    def _serves_mps(self, pid: int) -> bool:
        try:
            return (self._proc / str(pid) / "comm").read_text(errors="replace").startswith(_MPS_SERVER)
        except OSError:
            return False

    def _card_of(self, handle: Any) -> int | None:
        """Several boards on one card have the same."""
        found = self._nvml.ask("nvmlDeviceGetBoardId", handle)
        return None if isinstance(found, Lack) else int(found)

    def _has_sibling(self, handle: Any) -> bool:
        several = self._nvml.ask("nvmlDeviceGetMultiGpuBoard", handle)
        return not isinstance(several, Lack) and several == 1

    def _say_absent(self, absent: tuple[AbsentZone, ...]) -> None:
        for one in absent:
            # A host without NVIDIA's library lacks nothing.
            if one not in self._absent and one.reason != "LIBRARY_NOT_FOUND":
                self._say(f"{one.path} is not used: {one.reason}")
        self._absent = absent


def _key(uuid: str, domain: str = "gpu") -> str:
    return f"{domain}-{uuid.removeprefix('GPU-').lower()}"
