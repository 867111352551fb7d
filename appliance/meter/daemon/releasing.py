"""A window's readings as bytes that nobody can change: a header, then the blocks, in a sealed memory file.

No disk is written: a full one cannot cost a reading. What is given can be read and nothing else; the daemon alone can
empty it later (`given`).
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from appliance.energy.exchanges import SERVER
from appliance.energy.readings import Header, ReadCgroup, header_line, pack
from appliance.meter.daemon.columns import Column, CpuTimes
from appliance.meter.daemon.given import Given
from appliance.meter.daemon.handles import Handle, Window
from appliance.meter.daemon.looking import Looker
from appliance.meter.daemon.messages import Named, Released

MODEL: Final = "model"
TICK_NS: Final = 10**9 // os.sysconf("SC_CLK_TCK")
_FILES_TRIED: Final = 3
"""The kernel itself waits up to a sixth of a second for each."""
_SEALS: Final = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


@dataclass(frozen=True)
class Reader:
    """What read, as a header says it."""

    meter: str
    boot_id: str
    period_ns: int
    cpu: CpuTimes
    looker: Looker


def cpu_after_close_ns(handle: Handle, cpu: CpuTimes) -> int | None:
    """Of the solver's cgroup, from the close till now; before the cgroup is removed."""
    window, solver = handle.window, handle.solver
    if window is None or window.closed is None or solver is None:
        return None
    now = solver.read()
    at_close = next(
        (
            value
            for column, value in zip(
                window.closed.columns, window.closed.values[len(window.closed.zones) + 1 :], strict=True
            )
            if column is solver
        ),
        None,
    )
    return None if now is None or at_close is None else cpu.nanoseconds(now - at_close)


def header(handle: Handle, window: Window, reader: Reader, after_ns: int | None) -> Header:
    """Of a closed window."""
    opened, closed = window.opened, window.closed
    assert opened is not None and closed is not None  # noqa: S101  # only closed windows are released
    if any(block.level for block in window.blocks):
        window.flags.add("thinned")
    return Header(
        run=handle.run,
        trial=handle.trial,
        meter=reader.meter,
        opened_at=window.opened_at,
        boot_id=reader.boot_id,
        opened_boottime_ns=str(opened.at_ns + opened.offset_ns),
        length_ns=closed.at_ns - opened.at_ns,
        open_skew_ns=opened.skew_ns,
        close_skew_ns=closed.skew_ns,
        period_ns=reader.period_ns,
        cpus=window.cpus,
        tick_ns=TICK_NS,
        cpu_unit=reader.cpu.unit,
        zones=window.zones,
        cgroups=tuple(_named(column, handle) for column in window.columns),
        absent=reader.looker.absent,
        inner=window.inner_spans(),
        strangers_at_close=window.strangers,
        cpu_after_close_ns=after_ns,
        flags=tuple(sorted(window.flags)),
        gpu_sharing=window.gpu_sharing,
    )


def _named(column: Column, handle: Handle) -> ReadCgroup:
    trial = "own" if handle.id in column.owners else column.opaque
    if trial is None and column.role == MODEL and column.run == handle.run and handle.trial is not None:
        trial = SERVER
    return ReadCgroup(column.id, column.role, trial)


def sealed(window: Window, head: Header) -> tuple[int, Named]:
    """The file's descriptor, which the caller closes, and its digest.

    Raises OSError; EBUSY where the kernel refuses to seal file after file: one page that something of its own holds for
    a moment is enough for it (fcntl(2), F_SEAL_WRITE), and nothing is wrong with the readings.
    """
    contents = (pack(header_line(head)), *(block.content for block in window.blocks))
    digest = hashlib.sha256()
    for content in contents:
        digest.update(content)
    tried = 0
    while True:
        tried += 1
        try:
            fd = _sealed_file(contents)
            break
        except OSError as error:
            if error.errno != errno.EBUSY or tried == _FILES_TRIED:
                raise
    return fd, Named(digest.hexdigest(), sum(map(len, contents)))


def _sealed_file(contents: Iterable[bytes]) -> int:
    fd = os.memfd_create("readings-v1", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        for content in contents:
            at = 0
            while at < len(content):
                at += os.write(fd, content[at:])
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
        # Nobody opens it anew to write.
        os.fchmod(fd, 0o400)
    except BaseException:
        os.close(fd)
        raise
    return fd


@dataclass(eq=False)
class Releasing:
    """A release that waits for its cgroups to go."""

    handle: Handle
    after_ns: int | None
    is_out: Callable[[], bool]
    left: Callable[[], bool]

    def answer(self, reader: Reader, given: Given) -> tuple[Released, int | None]:
        """The answer and the descriptor that goes with it."""
        window = self.handle.window
        flags = {"cgroup_left"} if self.left() else set()
        if window is None:
            return Released(None, tuple(flags)), None
        window.flags |= flags
        head = header(self.handle, window, reader, self.after_ns)
        fd, named = sealed(window, head)
        try:
            its = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            os.close(fd)
            raise
        given.add(self.handle.uid, fd, named.bytes)
        return Released(named, head.flags), its


def boot_id(text: str) -> str:
    """sha256 of the kernel's boot id."""
    return hashlib.sha256(text.strip().encode()).hexdigest()


def cpu_seconds() -> float:
    """Of this program."""
    return round(time.process_time(), 6)
