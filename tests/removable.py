"""A file of the kernel's that shows a number and can go: read after that, it is ENODEV, as a removed zone's is."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def removable_file() -> Iterator[tuple[Path, Callable[[], None]]]:
    """Of a cgroup that is made for it and removed by the second of the pair."""
    for mount, name in (("/sys/fs/cgroup/cpuacct", "cpuacct.usage"), ("/sys/fs/cgroup", "pids.current")):
        folder = Path(mount) / f"bench-appliance-test-{os.getpid()}"
        try:
            folder.mkdir()
        except OSError:
            continue
        if not (folder / name).exists():
            folder.rmdir()
            continue

        def remove(folder: Path = folder) -> None:
            if folder.exists():
                folder.rmdir()

        try:
            yield folder / name, remove
        finally:
            remove()
        return
    pytest.skip("no cgroup hierarchy of this host has such a file")
