"""Where this machine's cgroups lie, and what ours are called: paths and mounts only, standard library only.

Paths are the kernel's (`/bench-appliance/<run>/<trial>/<role>`), the same in every hierarchy; a `Hierarchy` turns
one into a folder of this mount namespace. Sources: cgroups(7), proc(5) on mountinfo, systemd.slice(5).
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

BASE: Final = "bench-appliance"
CgroupDriver = Literal["cgroupfs", "systemd"]
CgroupKind = Literal["v1", "v2", "hybrid", "unknown"]
METER: Final = "meter"
"""The daemon's own cgroup beside the runs'; no run may have its name."""
MONITOR: Final = "conmon"
"""What podman's monitor of containers and execs is put in, beside the container, under the parent that we name."""
# Neither a slash (it would leave the base) nor a dash (it nests in a slice's name).
_WORD: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.]*")
_GONE: Final = frozenset({errno.ENOENT, errno.ENODEV})


# ---------------------------------------------------------------------------------------------- hierarchies


@dataclass(frozen=True)
class Hierarchy:
    """One mounted tree of cgroups. `root` is the cgroup that stands at `mount` (`/` outside containers)."""

    version: Literal[1, 2]
    controllers: frozenset[str]
    """v1: `cpu`, `cpuacct`, `name=systemd`...; empty on v2, whose controllers vary by folder."""
    mount: Path
    root: str = "/"

    def folder(self, cgroup: str) -> Path | None:
        """The folder of a cgroup's kernel path; None where it lies outside what is mounted here."""
        if ".." in cgroup.split("/"):
            return None
        inside = _below(cgroup, self.root)
        return None if inside is None else self.mount / inside


@dataclass(frozen=True)
class Hierarchies:
    """Every hierarchy of this mount namespace, each once."""

    all: tuple[Hierarchy, ...]

    @property
    def kind(self) -> CgroupKind:
        versions = {one.version for one in self.all if one.version == 2 or one.controllers}
        if versions == {2}:
            return "v2"
        if versions == {1}:
            return "v1"
        return "hybrid" if versions else "unknown"

    @property
    def unified(self) -> Hierarchy | None:
        return next((one for one in self.all if one.version == 2), None)

    def v1(self, controller: str) -> Hierarchy | None:
        return next((one for one in self.all if controller in one.controllers), None)

    def folders(self, cgroup: str) -> Iterator[Path]:
        """The folder of `cgroup` in every hierarchy that can hold it, there or not."""
        for one in self.all:
            folder = one.folder(cgroup)
            if folder is not None:
                yield folder


def parse_mountinfo(text: str) -> Hierarchies:
    """Hierarchies of a /proc/PID/mountinfo; of two mounts of one hierarchy, the one that shows more of it."""
    found: dict[tuple[int, frozenset[str]], Hierarchy] = {}
    for line in text.splitlines():
        left, separator, right = line.partition(" - ")
        fields, source = left.split(), right.split()
        if not separator or len(fields) < 6 or len(source) < 3 or source[0] not in ("cgroup", "cgroup2"):
            continue
        version: Literal[1, 2] = 2 if source[0] == "cgroup2" else 1
        controllers = frozenset() if version == 2 else _v1_controllers(source[2])
        one = Hierarchy(version, controllers, Path(_unescape(fields[4])), _unescape(fields[3]))
        kept = found.get((version, controllers))
        if kept is None or len(one.root) < len(kept.root):
            found[version, controllers] = one
    return Hierarchies(tuple(found.values()))


def hierarchies(proc: Path = Path("/proc")) -> Hierarchies:
    """Those of this program; none where /proc cannot be read."""
    try:
        # Anybody who may mount names his folder in any bytes.
        return parse_mountinfo((proc / "self" / "mountinfo").read_text(errors="surrogateescape"))
    except OSError:
        return Hierarchies(())


def parse_membership(text: str) -> dict[str, str]:
    """/proc/PID/cgroup as controller -> kernel path; the v2 path has the key ``""``."""
    paths: dict[str, str] = {}
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number and path:
            paths.update(dict.fromkeys(controllers.split(","), path))
    return paths


def _v1_controllers(super_options: str) -> frozenset[str]:
    options = super_options.split(",")
    return frozenset(option for option in options if option not in ("rw", "ro", "xattr", "clone_children", "noprefix"))


def _unescape(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), field)


def _below(path: str, root: str) -> str | None:
    if root == "/":
        return path.lstrip("/")
    if path == root or path.startswith(root + "/"):
        return path[len(root) :].lstrip("/")
    return None


# ---------------------------------------------------------------------------------------------- our names


def run_cgroup(run: str) -> str:
    return f"/{BASE}/{_word(run)}"


def harness_cgroup(run: str) -> str:
    """Parent of baselines and graders."""
    return f"{run_cgroup(run)}/harness"


def model_cgroup(run: str) -> str:
    """Parent of the run's model server."""
    return f"{run_cgroup(run)}/model"


def trial_cgroup(run: str, trial: int) -> str:
    """`trial` counts over all plans of plan.json."""
    return f"{run_cgroup(run)}/{trial:05d}"


def role_cgroup(run: str, trial: int, role: str) -> str:
    return f"{trial_cgroup(run, trial)}/{_word(role)}"


def slice_of(cgroup: str) -> str:
    """The systemd unit of one of our paths: `/bench-appliance/r1/00003/solver` ->
    `bench-appliance-r1-00003-solver.slice`; what the engine takes as parent under the systemd driver."""
    return "-".join(cgroup.strip("/").split("/")) + ".slice"


def slice_path(unit: str) -> str:
    """Where systemd puts a slice: `a-b.slice` -> `/a.slice/a-b.slice`."""
    parts = unit.removesuffix(".slice").split("-")
    return "".join(f"/{'-'.join(parts[: depth + 1])}.slice" for depth in range(len(parts)))


def kernel_path(cgroup: str, driver: CgroupDriver) -> str:
    """Where one of our cgroups stands in the kernel's tree under this driver."""
    return slice_path(slice_of(cgroup)) if driver == "systemd" else cgroup


def engine_parent(cgroup: str, driver: CgroupDriver) -> str:
    """What the engine takes as `cgroup_parent` for one of our cgroups."""
    return slice_of(cgroup) if driver == "systemd" else cgroup


def _word(name: str) -> str:
    if not _WORD.fullmatch(name):
        raise ValueError(f"{name!r} cannot name a cgroup of ours: letters, digits, `_` and `.` only")
    return name


# ---------------------------------------------------------------------------------------------- leavings


def runs_with_cgroups(trees: Hierarchies) -> frozenset[str]:
    """Run ids that have cgroups of ours in any hierarchy, under either driver; not the cgroup of a living meter."""
    runs: set[str] = set()
    for folder in trees.folders(f"/{BASE}"):
        runs.update(_children(folder))
        if METER in runs and tasks_below(folder / METER):
            runs.discard(METER)
    prefix = f"{BASE}-"
    for folder in trees.folders(slice_path(f"{BASE}.slice")):
        for name in _children(folder):
            if name.startswith(prefix) and name.endswith(".slice"):
                runs.add(name.removeprefix(prefix).removesuffix(".slice").split("-")[0])
    return frozenset(run for run in runs if _WORD.fullmatch(run))


def remove_run_cgroups(trees: Hierarchies, run: str, patience_seconds: float = 0.5) -> tuple[Path, ...]:
    """Remove every cgroup of this run, in every hierarchy; those still held by a live task are returned.

    The folder above all runs goes with the last of them.
    """
    path = run_cgroup(run)
    left = remove_cgroups(trees, (path, kernel_path(path, "systemd")), patience_seconds)
    for base in (f"/{BASE}", slice_path(f"{BASE}.slice")):
        for folder in trees.folders(base):
            # Not empty: another run is in it.
            with contextlib.suppress(OSError):
                folder.rmdir()
    return left


def remove_cgroups(trees: Hierarchies, paths: Iterable[str], patience_seconds: float = 0.5) -> tuple[Path, ...]:
    """Remove these cgroups (kernel paths) with all below them; gone already is fine.

    A cgroup is busy for some milliseconds after its last task died: tried again until `patience_seconds` are over.
    """
    left = [folder for path in paths for folder in trees.folders(path)]
    until = time.monotonic() + patience_seconds
    while True:
        left = [folder for folder in left if not _remove_tree(folder)]
        if not left or time.monotonic() >= until:
            return tuple(left)
        time.sleep(0.005)


def tasks_below(folder: Path | str) -> frozenset[int]:
    """Pids in this cgroup and all below it, as this pid namespace sees them; empty where it is gone.

    Podman's monitor is the engine's, and left out.
    """
    pids: set[int] = set()
    waiting = [os.fspath(folder)]
    while waiting:
        at = waiting.pop()
        try:
            # Asked at every window's edge: plain system calls take a quarter of what pathlib's do, and a folder with
            # two links (its own name and its `.`) has no folder in it.
            if os.stat(at).st_nlink != _LINKS_OF_A_LEAF:  # noqa: PTH116
                with os.scandir(at) as entries:
                    waiting += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
                waiting = [path for path in waiting if not _is_monitor(path)]
            pids.update(int(line) for line in _read(f"{at}/cgroup.procs").split())
        except OSError as error:
            # EOPNOTSUPP is a threaded cgroup: its tasks are listed by its domain. And whoever was given a cgroup of his
            # own nests it deeper than a path can say: that is no reason to refuse somebody else's run.
            if error.errno not in _GONE | {errno.EOPNOTSUPP, errno.ENAMETOOLONG}:
                raise
    return frozenset(pids)


_LINKS_OF_A_LEAF: Final = 2


def _is_monitor(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name == MONITOR or name.startswith("libpod-conmon-")


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        pieces = []
        while piece := os.read(fd, 65536):
            pieces.append(piece)
        return b"".join(pieces)
    finally:
        os.close(fd)


def _children(folder: Path | str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _remove_tree(folder: Path) -> bool:
    # No recursion: a container may nest its cgroups deeper than Python's stack is.
    waiting, found = [os.fspath(folder)], []
    while waiting:
        at = waiting.pop()
        found.append(at)
        waiting += [f"{at}/{name}" for name in _children(at)]
    for at in reversed(found):
        try:
            Path(at).rmdir()
        except OSError as error:
            if error.errno not in _GONE:
                return False
    return True
