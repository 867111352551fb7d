"""Signed records in run folders, and what publishers type over them; no engine, every record is a built one."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from appliance.cli import output
from appliance.cli.main import run
from appliance.digests import sha256_hex
from appliance.records.record import Record, SuiteStamp
from appliance.tasks.archive import archive_suite
from appliance.tasks.reader import read_suite
from attest.trust.local import LocalTrust
from tests import record_builder as build
from tests.trials_suites import write_suite


class Home:
    """A user with a home and a trust of their own. What they type runs in this process: it is what is typed that counts
    here, not that a program starts."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch):
        self.folder = folder
        self._monkeypatch = monkeypatch
        folder.mkdir(parents=True, exist_ok=True)
        self.environment = {
            "XDG_DATA_HOME": str(folder / ".share"),
            "XDG_CONFIG_HOME": str(folder / ".config"),
            "XDG_CACHE_HOME": str(folder / ".cache"),
        }
        self.out = self.err = ""

    def __call__(self, *words: str, status: int = 0) -> str:
        """What was printed to standard output; standard error is in `err`."""
        out, err = io.StringIO(), io.StringIO()
        with self._monkeypatch.context() as here:
            for name, value in self.environment.items():
                here.setenv(name, value)
            here.chdir(self.folder)
            here.setattr(output, "_emitted", False)
            with redirect_stdout(out), redirect_stderr(err):
                ended = run(words)
        self.out, self.err = out.getvalue(), err.getvalue()
        assert ended == status, f"{words}: {ended}\n{self.out}\n{self.err}"
        return self.out

    def json(self, *words: str, status: int = 0) -> Any:
        return json.loads(self(*words, "--json", status=status))

    def refused(self, *words: str, status: int) -> Any:
        """The error of the JSON document."""
        return self.json(*words, status=status)["error"]

    def trust(self) -> LocalTrust:
        return LocalTrust(self.folder / ".share/bench-appliance/trust/local")

    def keep(self, record: Record, name: str = "one", blobs: Mapping[str, bytes] | None = None) -> str:
        """The record and its blobs in a run folder of its own; the path of the record, as typed."""
        folder = self.folder / name
        (folder / "records").mkdir(parents=True, exist_ok=True)
        (folder / "blobs/sha256").mkdir(parents=True, exist_ok=True)
        (folder / f"records/{name}.json").write_bytes(record.canonical())
        for digest, content in {**build.blobs(record), **(blobs or {})}.items():
            (folder / "blobs/sha256" / digest).write_bytes(content)
        return f"{name}/records/{name}.json"

    def signed(self, record: Record, name: str = "one", blobs: Mapping[str, bytes] | None = None) -> str:
        path = self.keep(record, name, blobs)
        self("sign", path)
        return path


def files(folder: Path) -> dict[str, bytes]:
    """Every file below it by its path, locks aside."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(".lock")
    }


def suite_archive(folder: Path) -> bytes:
    """Of two tasks, each with a reference solution and hidden tests; the suite is written to `folder`."""
    write_suite(folder, ("one", "two"))
    return archive_suite(read_suite(folder))


def archived(archive: bytes, **changes: Any) -> tuple[Record, dict[str, bytes]]:
    """A record whose suite goes along as this archive, and the blob."""
    plan = build.plan()
    stamp = SuiteStamp(
        name=plan.suite.name,
        version=plan.suite.version,
        digest=plan.suite.digest,
        weight=plan.suite.weight,
        archive=build.blob(archive),
        license="CC-BY-4.0",
        checks=None,
    )
    return build.record(plan, suite=stamp, **changes), {sha256_hex(archive): archive}
