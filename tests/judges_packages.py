"""npm's verifier and what it needs, by the committed lock; and whether there is a node to run it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

_LOCKED: Final = Path(__file__).resolve().parent / "stubs" / "judge"
_FILES: Final = ("package.json", "package-lock.json", ".npmrc", "verify.mjs")
_YOUNG_ENOUGH: Final = "process.exit(Number(process.versions.node.split('.')[0]) < 20 ? 1 : 0)"


def why_no_node() -> str | None:
    if not (shutil.which("node") and shutil.which("npm")):
        return "no node, or no npm"
    asked = subprocess.run(["node", "-e", _YOUNG_ENOUGH], capture_output=True, check=False)
    return None if asked.returncode == 0 else "a node older than 20"


def packages_folder() -> Path:
    """The packages of the committed lock, held to its sha512, outside the tree and named by the lock's digest."""
    content = b"".join((_LOCKED / name).read_bytes() for name in _FILES)
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bench-appliance" / "judges"
    folder = home / hashlib.sha256(content).hexdigest()[:16]
    if folder.exists():
        return folder
    home.mkdir(parents=True, exist_ok=True)
    with (home / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            draft = Path(tempfile.mkdtemp(prefix=".draft.", dir=home))
            try:
                for name in _FILES:
                    shutil.copy(_LOCKED / name, draft / name)
                subprocess.run(
                    ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
                    cwd=draft,
                    check=True,
                    capture_output=True,
                )
                draft.rename(folder)
            finally:
                shutil.rmtree(draft, ignore_errors=True)
    return folder
