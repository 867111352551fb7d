"""Opens that never follow a link, and names as the bytes they are."""

from __future__ import annotations

import os

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def names_in(folder: int) -> list[bytes]:
    """Sorted by bytes."""
    with os.scandir(folder) as entries:
        return sorted(os.fsencode(entry.name) for entry in entries)
