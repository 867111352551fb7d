"""The workspace where we are root beside the engine: an overlay whose upper is a file system of `disk_mib` (I21)."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from appliance.engine.laying import lay_entries
from appliance.engine.mounting import (
    MS_NODEV,
    MS_NOSUID,
    copy_sparse,
    disk_template,
    mount,
    mount_image,
    unmount,
)
from appliance.engine.overlay_walk import overlay_changes
from appliance.engine.places import WORKSPACE_UID, Places
from appliance.engine.pristine import Pristine, materialised
from appliance.ports import Changes, DiskUse, EngineFailed, Mount, TreeEntry

FULL_BYTES = 512 * 1024
"""Less than this free: the writer was stopped by the disk, not by its own end."""


class OverlayWorkspace:
    """One folder of scratch: `disk/` (the file system), `merged/` (the overlay, bound to /workspace)."""

    def __init__(self, folder: Path, pristine: Pristine):
        self._folder = folder
        self._pristine = pristine
        self._disk = folder / "disk"
        self._merged = folder / "merged"
        self._empty_bytes = 0
        self.mount = Mount("bind", str(self._merged), "/workspace")

    @classmethod
    def opened(cls, places: Places, run: str, pristine: Pristine, disk_mib: int) -> OverlayWorkspace:
        """Raises OSError where this host cannot do it, HostRefused where it lacks mke2fs."""
        lower = materialised(pristine, places.trees)
        template = disk_template(places.templates, disk_mib)
        workspace = cls(places.workspace_scratch(run), pristine)
        try:
            workspace._build(lower, template)
        except BaseException:
            workspace.close()
            raise
        return workspace

    def _build(self, lower: Path, template: Path) -> None:
        image = self._folder / "disk.img"
        self._disk.mkdir()
        self._merged.mkdir()
        copy_sparse(template, image)
        mount_image(image, self._disk)
        # The loop device holds it: nothing to remove later, however we end.
        image.unlink()
        upper, work = self._disk / "upper", self._disk / "work"
        upper.mkdir()
        work.mkdir()
        os.chown(upper, WORKSPACE_UID, WORKSPACE_UID)
        upper.chmod(0o755)
        options = f"lowerdir={lower},upperdir={upper},workdir={work},redirect_dir=on,metacopy=off,index=off,xino=off"
        mount("overlay", self._merged, "overlay", MS_NOSUID | MS_NODEV, options)
        self._empty_bytes = self._used()

    def _used(self) -> int:
        state = os.statvfs(self._disk)
        return (state.f_blocks - state.f_bfree) * state.f_frsize

    def seed(self, container: str) -> None:
        """Nothing: the pristine tree shows through."""

    def lay(self, container: str, entries: Sequence[TreeEntry]) -> None:  # noqa: ARG002 - the port's
        lay_entries(self._merged, entries)

    def disk(self) -> DiskUse:
        state = os.statvfs(self._disk)
        used = max(0, self._used() - self._empty_bytes) / (1 << 20)
        return DiskUse(used, state.f_bavail * state.f_frsize < FULL_BYTES or state.f_favail == 0)

    def harvest(self) -> Changes:
        try:
            return overlay_changes(self._disk / "upper", self._merged, self._pristine)
        except OSError as error:
            raise EngineFailed(f"the workspace could not be read: {error}") from error

    def close(self) -> None:
        for point in (self._merged, self._disk):
            with contextlib.suppress(OSError):
                unmount(point)
        shutil.rmtree(self._folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            # The run's folder goes with its last workspace.
            self._folder.parent.rmdir()
