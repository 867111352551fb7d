"""docs/cascade.md as a reader copies it: both cascades, with the real program, and a run that is done again."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from appliance.records.record import Record
from appliance.solvers.cascade.links import is_answering
from tests.typed_runs import until

pytestmark = pytest.mark.docker

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cascade.md"


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the page's files, keys and known roots of its own."""
    page = PAGE.read_text()
    for language, name in (("toml", "rules.toml"), ("diff", "rooms.patch"), ("python", "my_cascade.py")):
        (block,) = re.findall(rf"```{language}\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
        (tmp_path / name).write_text(block)
    for name in ("DATA", "CONFIG"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    return tmp_path


def commands(first: str) -> list[list[str]]:
    """The lines of the page's shell block that begins with this."""
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (block,) = [block for block in blocks if block.startswith(first)]
    return [_argv(line) for line in block.splitlines()]


def _argv(line: str) -> list[str]:
    program, *words = shlex.split(line)
    return [sys.executable, *(("-m", "appliance.cli.main") if program == "appliance" else ()), *words]


@contextmanager
def serving(there: Path, argv: list[str], name: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(argv, cwd=there, stderr=subprocess.DEVNULL)
    try:
        until(lambda: is_answering(there / name))
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


def said(there: Path, argv: list[str]) -> str:
    ended = subprocess.run(argv, cwd=there, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_the_reference_cascade_of_the_page_resolves_its_task_and_is_reproduced(there: Path) -> None:
    """First by its rule, then from its cache; `reproduce --live` compares rates; SIGTERM leaves no socket (row J17)."""
    serve, ask, run = commands("appliance cascade serve")
    again = [*run[:3], "reproduce", "run/records/cascade.json", "--out", "again", "--json"]
    with serving(there, serve, "control.sock") as server:
        assert "reference-cascade" in said(there, ask)
        said(there, run)
        record = Record.read(there / "run/records/cascade.json")
        refused = subprocess.run(again, cwd=there, capture_output=True, text=True, check=False)
        assert refused.returncode == 2
        assert "--live --cascade-socket PATH" in refused.stderr
        verdict = json.loads(said(there, [*again, "--live", "--cascade-socket", "control.sock"]))
    assert server.returncode == 128 + signal.SIGTERM
    assert not (there / "control.sock").exists()
    assert [(one.outcome, one.stage) for one in record.trials] == [("resolved", "rule"), ("resolved", "cache")]
    assert [[tier["stage"] for tier in one.observations] for one in record.trials] == [["cache", "rule"], ["cache"]]
    assert all(tier["provenance"] == "estimator" for one in record.trials for tier in one.observations)
    assert any(warning.startswith("degenerate: pass 1 ") for warning in record.warnings)
    assert (verdict["outcome"]["verdict"], verdict["live"]) == ("reproduced", True)
    verify = [*run[:3], "verify", "run/records/cascade.json", "--trust", "local"]
    assert "ok" in said(there, verify).lower()


def test_the_cascade_that_needs_nothing_of_ours_resolves_its_task(there: Path) -> None:
    """The stub of the page, as it stands there: tiers, tokens, version and commit in the record (row J17)."""
    serve, run = commands("python3 my_cascade.py")
    with serving(there, serve, "mine.sock"):
        said(there, run)
    record = Record.read(there / "mine/records/cascade.json")
    (one,) = record.trials
    assert (one.outcome, one.stage, one.reported_uj) == ("resolved", "kv", 550)
    assert [tier["microjoules"] for tier in one.observations] == [50, 500]
    assert one.usage.claimed is not None
    assert one.usage.claimed.output_tokens == 120
    assert (record.version, record.commit) == ("mine 1.0", "5f1c2d3")
    assert not any(warning.startswith("unpinned") for warning in record.warnings)
    said(there, [*run[:3], "verify", "mine/records/cascade.json", "--trust", "local"])
