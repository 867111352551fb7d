"""The workspace where we are not root beside the engine: a tmpfs volume held by an idle container (I21, formats 9)."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from appliance.engine.laying import refuse_unsafe
from appliance.engine.places import WORKSPACE_UID
from appliance.engine.pristine import Pristine
from appliance.engine.tar_pack import deletions, packed, pristine_entries
from appliance.engine.tar_walk import tar_changes
from appliance.ports import (
    Changes,
    ContainerSpec,
    DiskUse,
    EngineFailed,
    ExecOutcome,
    ExecSpec,
    Mount,
    TreeEntry,
)
from appliance.tasks.model import Limits

TARGET = "/workspace"
INODES_A_MIB = 256
"""One for every 4 KiB, as on the overlay's disk."""
_HOLDER = Limits(cpus=1.0, memory_mib=64, pids=16, disk_mib=8)


class VolumeEngine(Protocol):
    """What a volume needs of the engine."""

    def create(self, spec: ContainerSpec) -> str: ...

    def start(self, container: str) -> None: ...

    def remove(self, container: str) -> None: ...

    def execute(self, container: str, spec: ExecSpec) -> ExecOutcome: ...

    def put_tree(self, container: str, target: str, tar: Iterable[bytes]) -> None: ...

    def get_tree(self, container: str, source: str) -> Iterable[bytes]: ...

    def image_of(self, container: str) -> str: ...

    def create_volume(self, name: str, options: Mapping[str, str], labels: Mapping[str, str]) -> None: ...

    def remove_volume(self, name: str) -> None: ...


class VolumeWorkspace:
    """The holder is made of the container's own image when the volume is first mounted; it never writes."""

    def __init__(
        self,
        engine: VolumeEngine,
        pristine: Pristine,
        disk_mib: int,
        labels: Mapping[str, str],
        scratch: Callable[[], Path] | None,
    ):
        """`scratch` makes the folder for large contents of the harvest; None: this workspace is never harvested."""
        self._engine = engine
        self._pristine = pristine
        self._disk_mib = disk_mib
        self._labels = labels
        self._scratch = scratch
        self._spill: Path | None = None
        self._holder: str | None = None
        self._name = f"appliance_{secrets.token_hex(8)}"
        options = f"size={disk_mib}m,nr_inodes={disk_mib * INODES_A_MIB},mode=0755,uid={WORKSPACE_UID}"
        engine.create_volume(
            self._name,
            {"type": "tmpfs", "device": "tmpfs", "o": f"{options},gid={WORKSPACE_UID},nosuid,nodev"},
            labels,
        )
        self.mount = Mount("volume", self._name, TARGET)

    def seed(self, container: str) -> None:
        self._engine.put_tree(container, TARGET, packed(pristine_entries(self._pristine)))
        if self._scratch is not None:
            self._hold(self._engine.image_of(container))

    def _hold(self, image: str) -> None:
        spec = ContainerSpec(
            image=image,
            role="holder",
            labels=self._labels,
            limits=_HOLDER,
            network="none",
            cgroup_parent=None,
            mounts=(Mount("volume", self._name, TARGET, read_only=True),),
            workdir="/",
        )
        self._holder = self._engine.create(spec)
        self._engine.start(self._holder)

    def lay(self, container: str, entries: Sequence[TreeEntry]) -> None:
        refuse_unsafe(entries)
        gone = deletions(entries)
        if gone:
            # Emptied folders go too, as `git apply` has it; what is not empty stays without a word.
            self._run(container, ("xargs", "-0", "rm", "-f", "--"), gone)
            folders = b"".join(parent + b"\0" for parent in _parents(entries))
            if folders:
                self._run(container, ("xargs", "-0", "rmdir", "--ignore-fail-on-non-empty", "--"), folders)
        laid = sorted((entry for entry in entries if entry.kind != "deleted"), key=lambda entry: entry.path)
        if laid:
            self._engine.put_tree(container, TARGET, packed(laid))

    def _run(self, container: str, argv: tuple[str, ...], stdin: bytes) -> ExecOutcome:
        outcome = self._engine.execute(container, ExecSpec(argv, workdir=TARGET, stdin=stdin, timeout_seconds=60))
        if outcome.exit != 0:
            said = outcome.start_error or outcome.stderr.kept.decode(errors="backslashreplace").strip()
            raise EngineFailed(f"`{argv[0]}` failed in the workspace: {said[:300]}")
        return outcome

    def disk(self) -> DiskUse:
        argv = ("stat", "-f", "-c", "%S %b %f %a %d", TARGET)
        said = self._run(self._held(), argv, b"").stdout.kept.split()
        block, blocks, free, available, inodes = (int(word) for word in said)
        return DiskUse((blocks - free) * block / (1 << 20), available == 0 or inodes == 0)

    def harvest(self) -> Changes:
        holder = self._held()
        if self._scratch is None:
            raise AssertionError("this workspace was opened without a harvest")
        self._spill = self._scratch()
        # Before the stream: an engine locks the container until its archive is read.
        sockets = self._sockets(holder)
        return tar_changes(
            self._engine.get_tree(holder, TARGET),
            self._pristine,
            self._spill,
            limit=(4 * self._disk_mib + 64) << 20,
            read_one=lambda path: self._engine.get_tree(holder, f"{TARGET}/{os.fsdecode(path)}"),
            sockets=sockets,
        )

    def _sockets(self, holder: str) -> list[bytes]:
        """Only to name them among what is dropped; an image without `find` goes without."""
        argv = ("find", ".", "-type", "s", "-print0")
        outcome = self._engine.execute(holder, ExecSpec(argv, user="0:0", workdir=TARGET, timeout_seconds=60))
        if outcome.exit != 0 or outcome.stdout.truncated:
            return []
        return [path.removeprefix(b"./") for path in outcome.stdout.head.split(b"\0") if path]

    def _held(self) -> str:
        if self._holder is None:
            raise EngineFailed("the workspace's volume is not held: it was never seeded, or is not to be harvested")
        return self._holder

    def close(self) -> None:
        with contextlib.suppress(EngineFailed):
            if self._holder is not None:
                self._engine.remove(self._holder)
            self._engine.remove_volume(self._name)
        if self._spill is not None:
            shutil.rmtree(self._spill, ignore_errors=True)
            with contextlib.suppress(OSError):
                self._spill.parent.rmdir()


def _parents(entries: Sequence[TreeEntry]) -> list[bytes]:
    """Folders of deleted paths, the deepest first."""
    found: set[bytes] = set()
    for entry in entries:
        if entry.kind == "deleted":
            parts = entry.path.split(b"/")[:-1]
            found.update(b"./" + b"/".join(parts[:depth]) for depth in range(1, len(parts) + 1))
    return sorted(found, key=lambda path: (-path.count(b"/"), path))
