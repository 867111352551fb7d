"""Where the engine's own things lie on this host: locks, pristine trees, scratch folders (formats 9)."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from appliance.bundle import cache_home

RUN_ID = re.compile(r"^[A-Za-z0-9_]{1,64}$")
"""Run ids name folders, locks and cgroups; a dash would nest in systemd's slices."""
WORKSPACE_UID = 1000


@dataclass(frozen=True)
class Places:
    """Root's are fixed, so that any later run finds what an earlier one left, whatever its environment was."""

    locks: Path
    state: Path

    @property
    def trees(self) -> Path:
        """Pristine trees by digest."""
        return self.state / "trees"

    @property
    def templates(self) -> Path:
        """Formatted, empty, sparse file systems by size."""
        return self.state / "templates"

    def scratch(self, run: str) -> Path:
        if not RUN_ID.match(run):
            raise ValueError(f"{run!r} is no run id: letters, digits and underscores, at most 64")
        return self.state / "scratch" / run

    def workspace_scratch(self, run: str) -> Path:
        """A new folder in `scratch(run)`, which a run's last workspace removes as it closes: maybe at this moment."""
        home = self.scratch(run)
        while True:
            # Not exist_ok: that looks a second time, and finds it gone.
            with contextlib.suppress(FileExistsError):
                home.mkdir(parents=True, mode=0o700)
            with contextlib.suppress(FileNotFoundError):
                return Path(tempfile.mkdtemp(prefix="w", dir=home))


def places() -> Places:
    if os.geteuid() == 0:
        return Places(Path("/run/bench-appliance"), Path("/var/lib/bench-appliance"))
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    # Where root's gc looks too: whether a run is alive must be known to all.
    fallback = Path(f"/tmp/bench-appliance-{os.geteuid()}")  # noqa: S108 - made 0755, files in it are opened no-follow
    locks = Path(runtime) / "bench-appliance" if runtime and Path(runtime).is_dir() else fallback
    return Places(locks, cache_home() / "engine")
