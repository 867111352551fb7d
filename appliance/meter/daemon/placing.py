"""The cgroups behind a handle: made where we may, adopted by pid, read as columns, removed in every hierarchy.

Energy rows C7, C14, C15, T9, T11. Nothing here waits: a cgroup that is still busy is tried again by whoever keeps time.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from appliance.cgroups import (
    BASE,
    CgroupDriver,
    Hierarchies,
    harness_cgroup,
    kernel_path,
    remove_cgroups,
    role_cgroup,
    run_cgroup,
    trial_cgroup,
)
from appliance.errors import HostRefused
from appliance.meter.cgroups import OwnCgroups
from appliance.meter.daemon.columns import Column, CpuFile, CpuTimes
from appliance.meter.daemon.homes import home_of
from appliance.meter.daemon.looking import log
from appliance.meter.daemon.messages import Adopt, Prepare, Refused, refused_by_the_host
from appliance.meter.daemon.sampling import Sampler

PATIENCE_NS: Final = 500_000_000
"""A cgroup is busy for some milliseconds after its last task died."""
CONTAINER: Final = "container"
_KEPT_FILES: Final = 640
"""All connections that are taken at once, and some."""
_OF_THE_RUN: Final = frozenset({"harness", "model"})


@dataclass(eq=False)
class Placed:
    """What one handle reads, and what of it is ours to remove."""

    parents: dict[str, str]
    """Role -> what the engine takes as parent."""
    columns: list[Column]
    new: tuple[Column, ...]
    """Those of them that were not read before."""
    driver: CgroupDriver = "cgroupfs"
    owned: tuple[str, ...] = ()
    """Names of cgroups that we made, as `appliance.cgroups` gives them."""
    run: str = ""

    def replace(self, removed: Sequence[Column], added: Sequence[Column]) -> None:
        for old, new in zip(removed, added, strict=True):
            if old in self.columns:
                self.columns[self.columns.index(old)] = new


@dataclass(eq=False)
class Removal:
    """Cgroups on their way out."""

    run: str
    paths: tuple[str, ...]
    until_ns: int
    left: tuple[Path, ...] = field(default=())


class Places:
    """Raises `messages.Refused` where a cgroup cannot be had as asked."""

    def __init__(self, trees: Hierarchies, cpu: CpuTimes, proc: Path = Path("/proc")):
        self._trees = trees
        self._cpu = cpu
        self._proc = proc
        self._own: dict[CgroupDriver, OwnCgroups] = {}
        self.made = 0
        """Columns so far."""
        self._removals: list[Removal] = []
        self._beside: list[Column] = []
        """The meter's own, which is in every window."""

    # ------------------------------------------------------------------------------------------ in

    def place(self, asked: Prepare, handle: str, others: Sequence[Placed]) -> Placed:
        columns = [one for placed in others for one in placed.columns]
        if asked.adopt is not None:
            return self._adopted(asked, asked.adopt, handle, columns)
        if asked.trial is None and set(asked.roles) - _OF_THE_RUN:
            raise Refused("bad_message", f"without a trial the roles are {' and '.join(sorted(_OF_THE_RUN))}")
        if any(self.clash(asked, placed) for placed in others):
            raise Refused("bad_message", f"{asked.run}: prepared already, and not released")
        names: dict[str, str] = {role: _name(asked, role) for role in asked.roles}
        own = self._of_driver(asked.driver)
        opaque = None if asked.trial is None else os.urandom(4).hex()
        made: list[Column] = []
        parents: dict[str, str] = {}
        try:
            for role, name in names.items():
                self._refuse_nested(own.path(name), columns)
                parents[role] = own.make(name)
                made += self._column(own.path(name), role, asked, opaque, handle)
        except (HostRefused, Refused, OSError) as error:
            for column in made:
                column.close()
            self._remove(asked.run, tuple(own.path(names[role]) for role in parents), own)
            if isinstance(error, Refused):
                raise
            raise refused_by_the_host(error, "no cgroup to count in") from error
        owned = (trial_cgroup(asked.run, asked.trial),) if asked.trial is not None else tuple(names.values())
        return Placed(parents, made, tuple(made), asked.driver, owned if names else (), asked.run)

    def clash(self, asked: Prepare, placed: Placed) -> bool:
        """Whether both would make the same cgroups."""
        if asked.trial is not None:
            return trial_cgroup(asked.run, asked.trial) in placed.owned
        return any(_name(asked, role) in placed.owned for role in asked.roles)

    def settle(self, placed: Placed, sampler: Sampler) -> dict[str, frozenset[int]]:
        """Right before its window opens: the engine has made what we could not, and put the tasks somewhere.

        Who is there, by role.
        """
        tasks: dict[str, frozenset[int]] = {}
        added: list[Column] = []
        removed: list[Column] = []
        for column in placed.columns:
            if column.gone:
                column.file.reopen()
            file, tasks[column.role] = self._cpu.file_with_tasks(column.path, column.file)
            if column.monitor is None:
                column.monitor = self._cpu.monitor(file)
            if file is not column.file:
                removed.append(column)
                added.append(self._again(column, file))
        placed.replace(removed, added)
        sampler.change(add=added, remove=removed)
        return tasks

    def renewed(self, columns: Iterable[Column]) -> tuple[list[Column], list[Column]]:
        """New columns, and the ones that they stand for, whose cgroup went and came back as another one."""
        added: list[Column] = []
        removed: list[Column] = []
        for column in columns:
            if not column.gone:
                continue
            if column.file.inode == 0:
                column.file.reopen()
                continue
            file = self._cpu.file(column.path, column.file.version)
            if file is not None and file.fd >= 0:
                removed.append(column)
                added.append(self._again(column, file))
        return added, removed

    def free_column(self, path: str, role: str, version: int | None = None) -> Column | None:
        """One that is of no handle: the meter's own, a container that is watched."""
        file = self._cpu.file(path, version)
        if file is None:
            return None
        column = Column(self._id(), path, role, run=None, trial=None, opaque=None, file=file)
        if role != CONTAINER:
            self._beside.append(column)
        return column

    def counts_in(self, version: int) -> bool:
        """Whether CPU time is taken from this tree."""
        return self._cpu.counts_in(version)

    # ------------------------------------------------------------------------------------------ out

    def give_up(self, placed: Placed, handle: str) -> list[Column]:
        """The columns that no other handle shares."""
        for column in placed.columns:
            column.live.discard(handle)
        return [column for column in placed.columns if not column.live]

    def remove(self, placed: Placed) -> Removal:
        own = self._of_driver(placed.driver)
        return self._remove(placed.run, tuple(own.path(name) for name in placed.owned), own, placed.owned)

    @property
    def removing(self) -> bool:
        return bool(self._removals)

    def step(self) -> bool:
        """One try at every cgroup that is on its way out; True while some are."""
        now = time.monotonic_ns()
        for removal in list(self._removals):
            removal.left = remove_cgroups(self._trees, removal.paths, 0)
            if removal.left and now < removal.until_ns:
                continue
            self._removals.remove(removal)
            if removal.left:
                log(f"{removal.left[0]}: still held, left where it is")
            self._prune(removal.run)
        return bool(self._removals)

    def is_out(self, removal: Removal) -> bool:
        return removal not in self._removals

    # ------------------------------------------------------------------------------------------ parts

    def _adopted(self, asked: Prepare, adopt: Adopt, handle: str, columns: Sequence[Column]) -> Placed:
        path, version = home_of(adopt.pid, self._cpu, self._proc)
        for column in columns:
            if column.path == path and column.role == CONTAINER and not column.gone:
                column.owners.add(handle)
                column.live.add(handle)
                return Placed({CONTAINER: path}, [column], (), run=asked.run)
        self._refuse_nested(path, [*columns, *self._beside])
        file = self._cpu.file(path, version)
        if file is None or file.fd < 0:
            raise Refused("no_counter", f"CPU time of {path} cannot be read here")
        opaque = os.urandom(4).hex()
        made = Column(self._id(), path, CONTAINER, asked.run, None, opaque, file, owners={handle}, live={handle})
        return Placed({CONTAINER: path}, [made], (made,), run=asked.run)

    def _refuse_nested(self, path: str, columns: Sequence[Column]) -> None:
        """A cgroup and one below it would count the same time twice (row C14)."""
        for column in columns:
            if path == column.path or path.startswith(f"{column.path}/") or column.path.startswith(f"{path}/"):
                raise Refused("bad_message", f"{path} is counted already, as {column.path}")

    def _column(self, path: str, role: str, asked: Prepare, opaque: str | None, handle: str) -> list[Column]:
        file = self._cpu.file(path)
        if file is None:
            return []
        if file.lack in (errno.EMFILE, errno.ENFILE) or file.fd >= _most_files():
            file.close()
            raise Refused("too_many", "the meter has no file descriptor left: release some handles first")
        return [
            Column(self._id(), path, role, asked.run, asked.trial, opaque, file, owners={handle}, live={handle}),
        ]

    def _again(self, column: Column, file: CpuFile) -> Column:
        return Column(
            self._id(),
            column.path,
            column.role,
            column.run,
            column.trial,
            column.opaque,
            file,
            self._cpu.monitor(file),
            column.owners,
            column.live,
        )

    def _id(self) -> str:
        self.made += 1
        return f"c{self.made - 1}"

    def _of_driver(self, driver: CgroupDriver) -> OwnCgroups:
        if driver not in self._own:
            self._own[driver] = OwnCgroups(self._trees, driver)
        return self._own[driver]

    def _remove(self, run: str, paths: tuple[str, ...], own: OwnCgroups, names: tuple[str, ...] = ()) -> Removal:
        removal = Removal(run, paths if own.makes else (), time.monotonic_ns() + PATIENCE_NS)
        for name in names:
            own.remove(name, patience_seconds=0)
        self._removals.append(removal)
        return removal

    def _prune(self, run: str) -> None:
        """The folders above, where nothing else is in them."""
        if not run:
            return
        names = [run_cgroup(run), f"/{BASE}"]
        for path in [*names, *(kernel_path(name, "systemd") for name in names)]:
            for folder in self._trees.folders(path):
                with contextlib.suppress(OSError):
                    folder.rmdir()


def _most_files() -> int:
    """Descriptors are given the lowest number that is free; some are kept for whoever comes to release."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return limit - min(_KEPT_FILES, limit // 4)


def _name(asked: Prepare, role: str) -> str:
    if asked.trial is not None:
        return role_cgroup(asked.run, asked.trial, role)
    return harness_cgroup(asked.run) if role == "harness" else f"{run_cgroup(asked.run)}/{role}"
