"""What would go out with a record: told from its archive alone, and asked about where it has answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.digests import sha256_hex
from appliance.errors import InputRefused, UsageRefused
from appliance.records.record import Record, SuiteStamp
from appliance.submissions.named import blobs_named
from appliance.submissions.revealing import blobs_to_go, refuse_unasked, revealed, suite_archive
from appliance.tasks.archive import archive_suite
from appliance.tasks.reader import read_suite
from tests import record_builder as build
from tests.tasks_made import TASK_TOML, make_task


def archive(folder: Path, *, reference: bool = True, hidden: bool = True) -> bytes:
    task = make_task(folder / "suite", toml=TASK_TOML, reference=reference)
    if not hidden:
        (task / "tests/test_it.py").rename(task / "before/test_it.py")
        (task / "tests").rmdir()
    return archive_suite(read_suite(folder / "suite"))


def with_archive(content: bytes) -> Record:
    suite = build.record().suite.model_copy(update={"archive": build.blob(content)})
    assert isinstance(suite, SuiteStamp)
    return build.record(suite=suite)


def test_an_archive_shows_reference_solutions_and_hidden_tests(tmp_path: Path) -> None:
    """Counted by task; and asked about before it goes."""
    found = revealed(build.record(), "0" * 64, archive(tmp_path))
    assert (found.references, found.hidden_tests) == (("one",), ("one",))
    with pytest.raises(UsageRefused, match=r"1 tasks \(one\).*--with-suite reveals it"):
        refuse_unasked([found])


@pytest.mark.parametrize(("reference", "hidden"), [(True, False), (False, True)])
def test_either_of_them_is_asked_about(tmp_path: Path, reference: bool, hidden: bool) -> None:
    """An answer is an answer: the solution, or the test that only it passes."""
    with pytest.raises(UsageRefused):
        refuse_unasked([revealed(build.record(), "0" * 64, archive(tmp_path, reference=reference, hidden=hidden))])


def test_a_suite_without_answers_and_a_record_without_a_suite_go_unasked(tmp_path: Path) -> None:
    """Transcripts and diffs are said, and no reason to stop."""
    open_suite = revealed(build.record(), "0" * 64, archive(tmp_path, reference=False, hidden=False))
    none = revealed(build.record(), "0" * 64, None)
    refuse_unasked([open_suite, none])
    assert (none.transcripts, none.diffs, none.reference_diffs) == (1, 0, 1)
    assert [line.split(":")[0] for line in none.lines()] == [
        "000000000000 reveals transcripts",
        "000000000000 reveals diffs of the solver reference, which are reference solutions",
        "000000000000 reveals outputs of tests that solvers may not have been shown",
    ]


def test_a_solvers_diffs_are_its_own_and_those_of_the_reference_are_solutions() -> None:
    """Who reads the line knows what he gives away, though the archive stays at home."""
    own = revealed(build.record(), "0" * 64, None)
    planned = build.plan(("t1",), solver="agent", kind="command")
    other = revealed(build.record(planned), "0" * 64, None)
    assert (own.diffs, own.reference_diffs) == (0, 1)
    assert (other.diffs, other.reference_diffs) == (1, 0)


def test_an_archive_that_is_none_of_ours_is_refused_rather_than_passed_as_harmless() -> None:
    """What cannot be read cannot be said to hold no answers."""
    with pytest.raises(InputRefused, match="not a tar archive of a suite"):
        revealed(build.record(), "0" * 64, b"PK\x03\x04" * 200)


def test_without_the_suite_all_but_its_archive_goes() -> None:
    """Each blob once, whoever names it how often."""
    record = with_archive(b"archive")
    whole = blobs_to_go(record, with_suite=True)
    assert set(whole) - set(blobs_to_go(record, with_suite=False)) == {sha256_hex(b"archive")}
    assert sorted(ref.sha256 for ref in blobs_named(record)) == list(whole)
    assert set(whole) == {*build.blobs(record), sha256_hex(b"archive")}


def test_an_archive_is_read_by_its_digest_and_never_through_a_link(tmp_path: Path) -> None:
    """None where it is not there."""
    record = with_archive(b"archive")
    assert suite_archive(record, tmp_path) is None
    assert suite_archive(build.record(), tmp_path) is None
    path = tmp_path / "sha256" / sha256_hex(b"archive")
    path.parent.mkdir()
    path.symlink_to("/etc/passwd")
    with pytest.raises(InputRefused, match="a symbolic link"):
        suite_archive(record, tmp_path)
    path.unlink()
    path.write_bytes(b"archive")
    assert suite_archive(record, tmp_path) == b"archive"
