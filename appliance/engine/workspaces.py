"""Which workspace this host gives: an overlay for root beside its engine, a tmpfs volume elsewhere (formats 9)."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Literal

from appliance.engine.docker import DockerEngine
from appliance.engine.overlay import OverlayWorkspace
from appliance.engine.places import Places, places
from appliance.engine.pristine import PristineTrees
from appliance.engine.volume import VolumeWorkspace
from appliance.errors import HostRefused
from appliance.files import disk_of
from appliance.ports import RUN_LABEL, Workspace

Kind = Literal["overlay", "volume"]


class HostWorkspaces:
    """`ports.Workspaces`. Thread-safe."""

    def __init__(self, engine: DockerEngine, kind: Kind | None = None, where: Places | None = None):
        """`kind` None: an overlay where it can be, a volume elsewhere; a given kind is not replaced by the other."""
        self._engine = engine
        self._where = where or places()
        self._trees = PristineTrees()
        self._forced = kind is not None
        self._kind: Kind = kind or ("overlay" if shares_mounts(engine) else "volume")
        self._why = "" if self._kind == "overlay" else "not root beside the engine"
        self._guard = threading.Lock()

    @property
    def kind(self) -> Kind:
        return self._kind

    @property
    def why_volume(self) -> str:
        """Why it is not an overlay; empty where it is."""
        return self._why

    def open(self, pristine: Path, disk_mib: int, labels: Mapping[str, str], *, harvested: bool = True) -> Workspace:
        """`harvested=False` (baselines, graders) spares a volume its holder."""
        run = labels[RUN_LABEL]
        tree = self._trees.of(pristine)
        if self._kind == "overlay":
            try:
                return OverlayWorkspace.opened(self._where, run, tree, disk_mib)
            except (OSError, HostRefused) as error:
                refuse_full(error, self._where.state)
                if self._forced:
                    raise
                # No loop devices, no overlay, no mke2fs: as on a host where we are not root.
                with self._guard:
                    self._kind, self._why = "volume", str(error)
        scratch = partial(self._where.workspace_scratch, run) if harvested else None
        return VolumeWorkspace(self._engine, tree, disk_mib, labels, scratch)


def refuse_full(error: Exception, place: Path) -> None:
    """A full disk is no reason for another kind of workspace: the run would change under its trials."""
    with disk_of(place, "make room there, or: appliance gc --cache"):
        if isinstance(error, OSError):
            raise error


def shares_mounts(engine: DockerEngine) -> bool:
    """Whether a mount that we make shows in the engine: we are root, and it lives in our mount namespace."""
    if os.geteuid() != 0 or engine.address.path is None:
        return False
    with contextlib.suppress(OSError), engine.address.dial() as wire:
        peer = wire.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        pid, uid, _ = struct.unpack("3i", peer)
        if uid != 0 or pid == 0:
            return False
        return Path("/proc/self/ns/mnt").readlink() == Path(f"/proc/{pid}/ns/mnt").readlink()
    return False
