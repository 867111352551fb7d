"""`appliance run --trust NAME`: a deployment signs what was run, or the record is kept for it to sign later."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sigstore_twin import PERSON, Twin, running
from tests.typed_runs import there_with_two_tasks

pytestmark = pytest.mark.docker
RUN = ("run", "--suite", "small", "--solver", "noop", "--out", "r", "--trust", "lab", "--token-env", "LAB_TOKEN")


@pytest.fixture
def twin(tmp_path: Path) -> Iterator[Twin]:
    with running(tmp_path / "twin") as found:
        yield found


@pytest.fixture
def there(tmp_path: Path, twin: Twin, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a suite in it, where the deployment is known as `lab`."""
    home = there_with_two_tasks(tmp_path, monkeypatch)
    for name in ("GITHUB_ACTIONS", "GITLAB_CI", "BUILDKITE", "CIRCLECI"):
        monkeypatch.delenv(name, raising=False)
    (home / "lab.json").write_bytes(twin.trust_config())
    assert typed(home, "trust", "init", "--name", "lab", "--config", "lab.json").returncode == 0
    monkeypatch.setenv("LAB_TOKEN", twin.token(PERSON))
    return home


def typed(there: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "appliance.cli.main", *words],
        cwd=there,
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ),
    )


def test_a_run_is_signed_by_a_deployment_and_the_line_that_it_prints_verifies_it(there: Path, twin: Twin) -> None:
    """The record names its trust; the signer's name is the one in the certificate (formats 6 and 8)."""
    ran = typed(there, *RUN)
    assert ran.returncode == 0, ran.stderr
    record = json.loads((there / "r/records/noop.json").read_bytes())
    assert record["trust"] == "lab"
    line = next(text for text in ran.stderr.splitlines() if "check it with: " in text).partition("check it with: ")[2]
    assert line == f"appliance verify r/records/noop.json --trust lab --identity {PERSON} --issuer {twin.issuer}"
    verified = typed(there, *line.split()[1:])
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_a_run_whose_deployment_fails_at_the_end_keeps_its_record_unsigned(there: Path, twin: Twin) -> None:
    """Status 7, the service named, and the line that signs it once that is mended (issue 5)."""
    twin.faults["rekor"] = "error"
    ran = typed(there, *RUN)
    assert ran.returncode == 7, ran.stderr
    assert f"{twin.url}/rekor" in ran.stderr.splitlines()[-1]
    assert not (there / "r/records/noop.sigstore.json").exists()
    kept = next(text for text in ran.stderr.splitlines() if "is kept, unsigned" in text)
    twin.faults.clear()
    words = kept.partition("once that is mended: appliance ")[2].split()
    signed = typed(there, *words)
    assert signed.returncode == 0, signed.stderr
    assert (there / "r/records/noop.sigstore.json").is_file()


def test_a_run_that_could_not_be_signed_is_refused_before_its_first_trial(
    there: Path, twin: Twin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hours of work are not begun for want of a token or a trust; no service is asked meanwhile (rows of issue 3)."""
    monkeypatch.delenv("LAB_TOKEN")
    for words, status, said in (
        (RUN, 7, "environment variable LAB_TOKEN: not set"),
        (RUN[:-2], 7, "no identity token"),
        ((*RUN[:-4], "--trust", "nobody"), 2, "no trust is known by this name"),
    ):
        ran = typed(there, *words)
        assert ran.returncode == status, ran.stderr
        assert said in ran.stderr
        assert not (there / "r/journal.jsonl").exists()
    assert twin.asked == []
