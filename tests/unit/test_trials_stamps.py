"""Whose version and commit a record bears."""

from __future__ import annotations

from dataclasses import replace

import pytest

from appliance.solvers.finding import find_solver
from appliance.trials.stamps import Subject, harness_stamp, subject_of

ZERO = {"ZERO_BENCH_VERSION": "z1", "ZERO_BENCH_COMMIT": "zc"}
OURS = {"APPLIANCE_VERSION": "a1", "APPLIANCE_COMMIT": "ac"}


@pytest.mark.parametrize(
    ("flags", "environment", "expected"),
    [
        (("f1", "fc"), OURS | ZERO, Subject("f1", "fc", "flag")),
        (("f1", None), OURS, Subject("f1", "ac", "flag")),
        ((None, None), OURS | ZERO, Subject("a1", "ac", "environment")),
        ((None, None), ZERO, Subject("z1", "zc", "environment")),
        ((None, None), {"APPLIANCE_VERSION": ""}, Subject("d1", None, "release")),
    ],
)
def test_flags_win_over_our_variables_over_zeros_over_the_definition(
    flags: tuple[str | None, str | None], environment: dict[str, str], expected: Subject
) -> None:
    """decisions, Stamps; Z08. A definition with a version and no commit is a release."""
    definition = replace(find_solver("noop"), version="d1")
    assert subject_of(*flags, environment, definition) == expected


def test_what_nobody_says_is_unknown() -> None:
    """Recorded so, never guessed from the harness's own commit."""
    assert subject_of(None, None, {}, find_solver("noop")) == Subject(None, None, "unknown")


def test_the_harness_names_its_own_version_commit_and_digest() -> None:
    """H9: equal twice, and of the packages' files."""
    stamp = harness_stamp()
    assert stamp.name == "bench-appliance"
    assert len(stamp.digest) == 64
    assert stamp.dirty is None or stamp.commit is not None
