"""Loop devices and mounts by the kernel's own calls: a program for each would cost more than the mount (row I21)."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

from appliance.errors import HostRefused

MS_NOSUID, MS_NODEV = 2, 4
MNT_DETACH, UMOUNT_NOFOLLOW = 2, 8
_LOOP_CTL_GET_FREE = 0x4C82
_LOOP_CONFIGURE = 0x4C0A
_LO_FLAGS_AUTOCLEAR = 4
_libc = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: Path, kind: str, flags: int, options: str) -> None:
    """mount(2). Raises OSError."""
    done = _libc.mount(source.encode(), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), options.encode())
    if done != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"mount {kind}: {os.strerror(number)}", str(target))


def unmount(target: Path) -> None:
    """umount2(2), lazily where something still sits in it; what is not mounted is fine."""
    for flags in (UMOUNT_NOFOLLOW, UMOUNT_NOFOLLOW | MNT_DETACH):
        if _libc.umount2(os.fsencode(target), flags) == 0:
            return
        number = ctypes.get_errno()
        if number in {errno.EINVAL, errno.ENOENT}:
            return
        if number != errno.EBUSY:
            raise OSError(number, f"umount: {os.strerror(number)}", str(target))


def mount_image(image: Path, target: Path) -> None:
    """Mount an ext4 image through a loop device that clears itself at the unmount. Raises OSError.

    Without barriers: nothing of it outlives the trial, and a flush would reach the host's disk.
    """
    backing = os.open(image, os.O_RDWR | os.O_CLOEXEC)
    try:
        device, path = _attach(backing, image)
        try:
            mount(path, target, "ext4", MS_NOSUID | MS_NODEV, "noinit_itable,barrier=0")
        finally:
            # The mount holds the device now; without one, this close clears it.
            os.close(device)
    finally:
        os.close(backing)


def _attach(backing: int, image: Path) -> tuple[int, str]:
    # loop_config of linux/loop.h: fd, block size, loop_info64 (flags and name are all we set), reserved.
    name = os.fsencode(image)[-63:]
    info = struct.pack("=5Q4I64s64s32s2Q", 0, 0, 0, 0, 0, 0, 0, 0, _LO_FLAGS_AUTOCLEAR, name, b"", b"", 0, 0)
    config = struct.pack("=II", backing, 0) + info + bytes(64)
    control = os.open("/dev/loop-control", os.O_RDWR | os.O_CLOEXEC)
    try:
        for _ in range(64):
            path = f"/dev/loop{fcntl.ioctl(control, _LOOP_CTL_GET_FREE)}"
            device = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.ioctl(device, _LOOP_CONFIGURE, config)
            except OSError as error:
                os.close(device)
                # Another took it in between.
                if error.errno != errno.EBUSY:
                    raise
            else:
                return device, path
    finally:
        os.close(control)
    raise OSError(errno.EBUSY, "no free loop device", str(image))


def disk_template(templates: Path, disk_mib: int) -> Path:
    """An empty ext4 that offers at least `disk_mib` to its user, formatted once a size. Raises HostRefused, OSError."""
    final = templates / f"ext4v2_{disk_mib}.img"
    if final.exists():
        return final
    templates.mkdir(parents=True, exist_ok=True, mode=0o700)
    # What ext4 keeps for itself: a 256-byte inode for every 4 KiB, up to 2 % of reserved clusters, its own blocks.
    size_kib = round(disk_mib * 1024 / (1 - 1 / 16 - 0.02)) + 256
    descriptor, draft = tempfile.mkstemp(prefix=".draft.", dir=templates)
    os.close(descriptor)
    try:
        command = ["mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal,^resize_inode", "-b", "4096", "-m", "0"]
        command += ["-i", "4096", "-I", "256", "-E", "lazy_itable_init=1,nodiscard", draft, f"{size_kib}k"]
        environment = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}
        program = shutil.which("mke2fs", path=environment["PATH"])
        if program is None:
            raise HostRefused("mke2fs is not installed", mend="apt-get install e2fsprogs", reason="mke2fs")
        made = subprocess.run([program, *command[1:]], capture_output=True, env=environment, check=False)
        if made.returncode != 0:
            words = " ".join(made.stderr.decode(errors="backslashreplace").split())
            raise HostRefused(f"no file system of {disk_mib} MiB: {words}", where=str(templates), reason="mke2fs")
        Path(draft).rename(final)
    finally:
        Path(draft).unlink(missing_ok=True)
    return final


def copy_sparse(source: Path, target: Path) -> None:
    """Only what is written is copied; holes stay holes."""
    with source.open("rb") as reading, target.open("wb") as writing:
        end = os.fstat(reading.fileno()).st_size
        writing.truncate(end)
        place = 0
        while True:
            try:
                place = os.lseek(reading.fileno(), place, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:
                    return
                raise
            stop = os.lseek(reading.fileno(), place, os.SEEK_HOLE)
            while place < stop:
                os.lseek(reading.fileno(), place, os.SEEK_SET)
                piece = os.read(reading.fileno(), min(stop - place, 1 << 20))
                os.pwrite(writing.fileno(), piece, place)
                place += len(piece)


def mounts_under(folder: Path) -> list[Path]:
    """Mount points at or below `folder`, the last mounted first."""
    prefix = str(folder)
    found = []
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines():
            point = line.split()[4].encode("utf-8", "surrogateescape").decode("unicode_escape")
            if point == prefix or point.startswith(prefix + "/"):
                found.append(Path(point))
    return found[::-1]
