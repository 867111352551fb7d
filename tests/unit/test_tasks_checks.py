"""checks.json: where it lies, when it counts, and what it may say."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.cli.main import run
from appliance.errors import InputRefused
from appliance.tasks.checks import CheckedSolver, CheckedTask, Checks, are_stale, read_checks, write_checks
from appliance.tasks.model import Suite
from appliance.tasks.reader import read_suite
from tests.tasks_made import make_task


def checks_of(suite: Suite) -> Checks:
    return Checks(
        suite_digest=suite.digest,
        runs=3,
        rates=(CheckedTask(task="größe", rates=(CheckedSolver(solver="reference", resolved=2, runs=3),)),),
        quarantined={"größe": "reference resolved 2 of 3"},
        forgeable={"one": ("exit_zero",)},
    )


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Suite:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    make_task(tmp_path / "s", "größe")
    make_task(tmp_path / "s", "one")
    return read_suite(tmp_path / "s")


def test_checks_come_back_with_the_suite_and_leave_its_digest_alone(suite: Suite) -> None:
    """What was found is beside the suite, read with it, and no part of its digest; names may be Unicode (H8, H25)."""
    path = write_checks(suite.folder, checks_of(suite))
    again = read_suite(suite.folder)
    assert path == suite.folder / "checks.json"
    assert again.digest == suite.digest
    assert again.quarantined == {"größe": "reference resolved 2 of 3"}
    assert again.forgeable == {"one": ("exit_zero",)}
    stored = read_checks(suite.folder, suite.digest)
    assert stored is not None
    assert (stored.value, stored.digest) == (checks_of(suite), again.checks_digest)


def test_checks_of_other_content_do_not_count(suite: Suite) -> None:
    """A suite that changed since its checks was never checked (H8)."""
    write_checks(suite.folder, checks_of(suite))
    (suite.folder / "one" / "before" / "it.py").write_text("VALUE = 5\n")
    changed = read_suite(suite.folder)
    assert (changed.quarantined, changed.forgeable, changed.checks_digest) == ({}, {}, None)
    assert are_stale(changed.folder, changed.digest)
    assert not are_stale(suite.folder, suite.digest)


def test_a_suite_that_changed_since_its_checks_says_so(suite: Suite, capsys: pytest.CaptureFixture[str]) -> None:
    """Told apart from one that nobody ever checked, with the command that mends it (H8)."""
    assert run(["tasks", "show", str(suite.folder)]) == 0
    assert "  not checked" in capsys.readouterr().out
    write_checks(suite.folder, checks_of(suite))
    (suite.folder / "one" / "before" / "it.py").write_text("VALUE = 5\n")
    assert run(["tasks", "show", str(suite.folder)]) == 0
    assert "changed since it was checked: `appliance tasks check s`" in capsys.readouterr().out


def test_checks_of_a_read_only_suite_lie_in_the_data_folder(
    suite: Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A suite that cannot be written to (a wheel's) keeps its checks under its digest (formats 1)."""
    # Root may write anywhere, so the answer of the file system is what is replaced.
    monkeypatch.setattr("appliance.tasks.checks.os.access", lambda *_: False)
    path = write_checks(suite.folder, checks_of(suite))
    assert path == tmp_path / "data" / "bench-appliance" / "checks" / f"{suite.digest}.json"
    assert not (suite.folder / "checks.json").exists()
    assert read_suite(suite.folder).quarantined == {"größe": "reference resolved 2 of 3"}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"schema": "checks-v1"}',
        b"\xff",
        b'{"schema":"checks-v1","suiteDigest":"x","runs":1,"rates":[],"quarantined":{},"forgeable":{}}',
        b'{"schema":"checks-v1","suiteDigest":"'
        + b"0" * 64
        + b'","runs":0,"rates":[],"quarantined":{},"forgeable":{}}',
    ],
)
def test_a_malformed_file_is_refused_in_one_line(suite: Suite, content: bytes) -> None:
    """Status 3, the file's name and the JSON path; no traceback (H8)."""
    path = suite.folder / "checks.json"
    path.write_bytes(content)
    with pytest.raises(InputRefused) as caught:
        read_suite(suite.folder)
    assert str(caught.value).startswith(f"{path}: $")
    assert "\n" not in str(caught.value)


def test_nothing_is_resolved_more_often_than_it_ran() -> None:
    """An impossible rate cannot exist (H8)."""
    with pytest.raises(ValueError, match="more often than run"):
        CheckedSolver(solver="noop", resolved=2, runs=1)
