"""Somebody with a record of their own, typing `appliance` beside the real services."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from appliance.digests import sha256_hex
from tests.judges_bench import CLOSED_PROXIES
from tests.record_builder import blobs, record

_ROOT = Path(__file__).resolve().parents[1]
# What a machine of a CI system says of itself: a test says it where it means it.
_AMBIENT = ("GITHUB_", "ACTIONS_", "GITLAB_", "CI_", "SIGSTORE_", "BUILDKITE", "CIRCLE")


class Desk:
    """A home in `folder`, with an unsigned record and its blobs in a run folder."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.record = folder / "run/records/noop.json"
        self.bundle = folder / "run/records/noop.sigstore.json"
        made = record()
        self.content = made.canonical()
        self.record.parent.mkdir(parents=True)
        self.record.write_bytes(self.content)
        shelf = folder / "run/blobs/sha256"
        shelf.mkdir(parents=True)
        for content in (b"", *blobs(made).values()):
            (shelf / sha256_hex(content)).write_bytes(content)

    @property
    def record_sha256(self) -> str:
        return hashlib.sha256(self.record.read_bytes()).hexdigest()

    @property
    def environment(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(_AMBIENT)}
        homes = {"XDG_DATA_HOME": str(self.folder / "share"), "XDG_CONFIG_HOME": str(self.folder / "config")}
        return {**kept, **homes, "HOME": str(self.folder), "PYTHONPATH": str(_ROOT)}

    def types(
        self, *words: str | Path, status: int = 0, given: str = "", cut_off: bool = False, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """`cut_off`: from every address that is reached by a proxy or not at all. Ends within two minutes, or fails."""
        ended = subprocess.run(
            [sys.executable, "-m", "appliance.cli.main", *map(str, words)],
            cwd=self.folder,
            env={**self.environment, **(CLOSED_PROXIES if cut_off else {}), **environment},
            input=given,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert ended.returncode == status, f"{words}: {ended.returncode}\n{ended.stdout}\n{ended.stderr}"
        assert "Traceback" not in ended.stderr
        return ended

    def says(self, *words: str | Path, status: int = 0, **how: Any) -> Any:
        return json.loads(self.types(*words, "--json", status=status, **how).stdout)
