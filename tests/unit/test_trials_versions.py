"""What a solver's program says of its version is searched with a stranger's pattern."""

from __future__ import annotations

import subprocess

import pytest

from appliance.trials import versions
from appliance.trials.versions import first_match


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (r"\d+\.\d+\.\d+", "agent 1.20.3 (2.0.0)\n", "1.20.3"),
        (r"v(\d+)", "größe v7", "v7"),
        ("\0+", "a\0\0b", "\0\0"),
        (r"ß\S", "größ€", "ß€"),
        ("", "x", ""),
        (r"\d", "none", None),
    ],
)
def test_the_first_match_of_the_pattern_is_the_version(pattern: str, text: str, found: str | None) -> None:
    """As `re.search` would find it, whatever characters stand in either; no match is None, an empty one is not."""
    assert first_match(pattern, text) == found


def test_a_pattern_that_backtracks_without_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness is not held by a solver's TOML: the search is killed, and said to have taken too long."""
    monkeypatch.setattr(versions, "_SEARCH_SECONDS", 0.5)
    with pytest.raises(subprocess.TimeoutExpired):
        first_match("(a+)+$", "a" * 4000 + "b")
