"""What builds and locks that were killed left on the disk, found and removed."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import time
from typing import Final

from appliance.images.archives import archive_home
from appliance.images.store import package_store, scratch_home
from appliance.images.weights import weights_home
from appliance.scratch import shared_home, sweep

_OLD_SECONDS: Final = 3600.0
"""The builder's byte code lies in a folder that no lock speaks of; compiling takes a minute."""


def remove_leavings(*, everyone: bool) -> int:
    """How many folders: of one's own cache, and of the folder for temporary files, where `everyone`'s lie."""
    count = sum(sweep(home) for home in (scratch_home(), archive_home(), package_store(), weights_home()))
    for folder in shared_home().glob("bench-bytecode.*"):
        # Anyone may put a link or a file of that name there.
        with contextlib.suppress(OSError):
            state = folder.lstat()
            theirs = state.st_uid != os.geteuid() and not everyone
            if theirs or not stat.S_ISDIR(state.st_mode) or time.time() - state.st_mtime < _OLD_SECONDS:
                continue
            shutil.rmtree(folder, ignore_errors=True)
            count += not folder.exists()
    return count
