"""Which kind of file system holds a file: only the kernel's own speaks for the hardware."""

from __future__ import annotations

import os


def filesystem_type(mountinfo: str, device: int) -> str | None:
    """`sysfs`, `tmpfs`: by a file's st_dev and the text of /proc/self/mountinfo; None where no mount has the device.

    A bind mount over the kernel's folder, a symbolic link out of it and a file system in user space all give
    themselves away: the device is that of the file which was opened, not of the path that led there.
    """
    wanted = f"{os.major(device)}:{os.minor(device)}"
    found: set[str] = set()
    for line in mountinfo.splitlines():
        before, separator, after = line.partition(" - ")
        parts = before.split()
        if separator and len(parts) > 2 and parts[2] == wanted and after.split():
            found.add(after.split()[0])
    return found.pop() if len(found) == 1 else None
