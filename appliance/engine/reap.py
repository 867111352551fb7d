"""What a run left behind, found and removed: containers, volumes, networks, mounts, folders, cgroups (rows H12, H13).

As a program, `python -m appliance.engine.reap RUN LOCKS STATE [ADDRESS]`, it is what a run's reaper becomes.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Protocol

from appliance.cgroups import hierarchies, remove_run_cgroups, run_cgroup, runs_with_cgroups, tasks_below
from appliance.engine.locks import is_locked, lock_path, take
from appliance.engine.mounting import mounts_under, unmount
from appliance.engine.places import RUN_ID, Places, places
from appliance.errors import HostRefused
from appliance.ports import LOCK_LABEL, ROLE_LABEL, RUN_LABEL, EngineFailed

_OLD_SECONDS = 3600.0
"""A folder that no lock speaks of may be of a run that is just starting; after this it is not."""
_PASSES = 40
_BETWEEN_PASSES_SECONDS = 0.5


class ReapedEngine(Protocol):
    """What reaping needs of the engine. Each `labelled_*` gives `(id or name, labels)`."""

    def labelled_containers(self, label: str) -> list[tuple[str, Mapping[str, str]]]: ...

    def labelled_volumes(self, label: str) -> list[tuple[str, Mapping[str, str]]]: ...

    def labelled_networks(self, label: str) -> list[tuple[str, Mapping[str, str]]]: ...

    def remove(self, container: str) -> None: ...

    def remove_volume(self, name: str) -> None: ...

    def remove_network(self, name: str) -> None: ...


@dataclass
class Reaped:
    """How many of each were removed."""

    runs: int = 0
    containers: int = 0
    volumes: int = 0
    networks: int = 0
    mounts: int = 0
    folders: int = 0
    cgroups: int = 0

    def add(self, other: Reaped) -> None:
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))

    @property
    def anything(self) -> bool:
        return any(getattr(self, field.name) for field in fields(self) if field.name != "runs")


def reap_run(engine: ReapedEngine | None, run: str, where: Places) -> Reaped:
    """One pass over all that carries this run's id. `engine` None: only what needs no engine."""
    done = Reaped()
    if engine is not None:
        with contextlib.suppress(EngineFailed):
            _reap_engine(engine, f"{RUN_LABEL}={run}", done)
    scratch = where.scratch(run)
    for point in mounts_under(scratch):
        with contextlib.suppress(OSError):
            unmount(point)
            done.mounts += 1
    if scratch.is_dir() and not mounts_under(scratch):
        shutil.rmtree(scratch, ignore_errors=True)
        done.folders += not scratch.exists()
    trees = hierarchies()
    if run in runs_with_cgroups(trees):
        left = remove_run_cgroups(trees, run)
        done.cgroups += not left
    return done


def _reap_engine(engine: ReapedEngine, label: str, done: Reaped) -> None:
    found = engine.labelled_containers(label)
    # Forwarders first: podman removes no container whose network another shares.
    for container, _ in sorted(found, key=lambda one: one[1].get(ROLE_LABEL) != "forwarder"):
        engine.remove(container)
        done.containers += 1
    for volume, _ in engine.labelled_volumes(label):
        engine.remove_volume(volume)
        done.volumes += 1
    for network, _ in engine.labelled_networks(label):
        engine.remove_network(network)
        done.networks += 1


def reap_leavings(engine: ReapedEngine, where: Places | None = None, *, everyone: bool = False) -> Reaped:
    """What runs that nobody runs any more left behind. Called by every verb that touches the engine.

    One's own runs only; `everyone` (root's `gc`) takes those of all users, and what no lock speaks of once it is old.
    """
    where = where or places()
    dead = _dead_by_lock(where, everyone=everyone) | _dead_by_label(engine, where, everyone=everyone)
    if everyone:
        dead |= _dead_by_age(where)
    total = Reaped()
    for run, lock in sorted(dead.items()):
        total.add(_reap_dead(engine, run, lock, where))
    return total


def _reap_dead(engine: ReapedEngine, run: str, lock: Path, where: Places) -> Reaped:
    held = None
    with contextlib.suppress(OSError):
        if lock.exists():
            held = take(lock, 0.0)
            if held is None:
                # Its reaper is at it, or it was resumed.
                return Reaped()
    try:
        done = reap_run(engine, run, where)
        done.runs = 1
        with contextlib.suppress(OSError):
            lock.unlink(missing_ok=True)
    finally:
        if held is not None:
            os.close(held)
    return done


def _lock_folders(where: Places, *, everyone: bool) -> list[Path]:
    folders = [where.locks]
    if everyone and os.geteuid() == 0:
        folders += sorted(Path("/run/user").glob("*/bench-appliance"))
        folders += sorted(Path("/tmp").glob("bench-appliance-*"))  # noqa: S108 - `places` puts them there
    # In /tmp anyone may put a file of that name, and a lock beneath a file can be neither held nor found free.
    return [folder for folder in folders if folder.is_dir() and not folder.is_symlink()]


def _dead_by_lock(where: Places, *, everyone: bool) -> dict[str, Path]:
    return {
        lock.stem: lock
        for folder in _lock_folders(where, everyone=everyone)
        for lock in folder.glob("*.lock")
        if lock.stem != "exclusive" and RUN_ID.match(lock.stem) and not is_locked(lock)
    }


def _dead_by_label(engine: ReapedEngine, where: Places, *, everyone: bool) -> dict[str, Path]:
    allowed = set(_lock_folders(where, everyone=everyone))
    dead = {}
    for _, labels in [*engine.labelled_containers(LOCK_LABEL), *engine.labelled_volumes(LOCK_LABEL)]:
        run, lock = labels.get(RUN_LABEL, ""), Path(labels.get(LOCK_LABEL, ""))
        ours = lock.parent in allowed or everyone
        if ours and RUN_ID.match(run) and lock.name == f"{run}.lock" and not is_locked(lock):
            dead[run] = lock
    return dead


def _dead_by_age(where: Places) -> dict[str, Path]:
    """Runs whose lock is gone with whoever held it: their folders once old, their cgroups once nothing lives there.

    An ordinary user's run cannot remove its cgroups, and takes its lock along; a live one's lock is in a place we see.
    """
    scratch = where.state / "scratch"
    suspects = {folder.name for folder in (scratch.iterdir() if scratch.is_dir() else ()) if _is_old(folder)}
    trees = hierarchies()
    for run in runs_with_cgroups(trees):
        folders = [folder for folder in trees.folders(run_cgroup(run)) if folder.is_dir()]
        if all(_is_old(folder) or not tasks_below(folder) for folder in folders):
            suspects.add(run)
    dead = {}
    for run in suspects:
        if not RUN_ID.match(run):
            continue
        locks = [lock_path(Places(locks, where.state), run) for locks in _lock_folders(where, everyone=True)]
        if not any(is_locked(lock) for lock in locks):
            dead[run] = lock_path(where, run)
    return dead


def _is_old(folder: Path) -> bool:
    return time.time() - folder.stat().st_mtime > _OLD_SECONDS


def clear_caches(where: Places | None = None) -> int:
    """Pristine trees and disk templates, where no run is alive; how many were removed."""
    where = where or places()
    if any(is_locked(lock) for lock in where.locks.glob("*.lock")):
        return 0
    count = 0
    for folder in (where.trees, where.templates):
        if folder.is_dir():
            count += sum(1 for _ in folder.iterdir())
            shutil.rmtree(folder, ignore_errors=True)
    return count


def main(argv: list[str]) -> int:
    """The reaper, once the harness is gone: passes until two in a row find nothing.

    More than one, because the engine may still be finishing a create that the harness had asked for when it died.
    """
    from appliance.engine.docker import connect

    run, locks, state, address = argv
    where = Places(Path(locks), Path(state))
    lock = lock_path(where, run)
    held = take(lock, 10.0)
    if held is None:
        return 0
    engine = None
    clean = 0
    for _ in range(_PASSES):
        if engine is None:
            with contextlib.suppress(HostRefused):
                engine = connect(address or None)
        clean = 0 if reap_run(engine, run, where).anything else clean + 1
        if clean == 2:
            break
        time.sleep(_BETWEEN_PASSES_SECONDS)
    if clean == 2:
        lock.unlink(missing_ok=True)
    os.close(held)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
