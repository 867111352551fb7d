"""The command line in a home of its own, with a record in it, as somebody types it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from appliance.records.record import Record
from tests.record_builder import journal_bytes

ROOT = Path(__file__).resolve().parents[1]


class Typed:
    """A home of its own, a run folder in it, and what is typed there."""

    def __init__(self, home: Path):
        self.home = home
        self.record = home / "run/records/noop.json"
        self.bundle = home / "run/records/noop.sigstore.json"
        self.blobs = home / "run/blobs/sha256"
        self.environment = {
            **os.environ,
            "XDG_DATA_HOME": str(home / "share"),
            "XDG_CONFIG_HOME": str(home / "config"),
            "PYTHONPATH": str(ROOT),
        }

    def __call__(self, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
        ended = subprocess.run(
            [sys.executable, "-m", "appliance.cli.main", *words],
            cwd=self.home,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == status, f"{words}: {ended.returncode}\n{ended.stdout}\n{ended.stderr}"
        assert "Traceback" not in ended.stderr
        return ended

    def json(self, *words: str, status: int = 0) -> Any:
        return json.loads(self(*words, "--json", status=status).stdout)

    def keep(self, content: Record) -> None:
        """The record, and every blob that a record of the builder names."""
        self.record.parent.mkdir(parents=True, exist_ok=True)
        self.blobs.mkdir(parents=True, exist_ok=True)
        self.record.write_bytes(content.canonical())
        for blob in (b"", journal_bytes(content.plan, content.baselines, content.trials, content.hosts, content.meter)):
            (self.blobs / hashlib.sha256(blob).hexdigest()).write_bytes(blob)
