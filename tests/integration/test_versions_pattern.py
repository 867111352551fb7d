"""A solver's own pattern over a solver's own output."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.errors import InputRefused
from appliance.trials import versions
from tests.trials_bench import run_suite
from tests.trials_suites import command, small_suite

pytestmark = pytest.mark.docker


def test_a_version_pattern_that_backtracks_is_refused_by_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line with file, key and mend, status 3; the harness goes on to its end (issue 3, Bad input)."""
    monkeypatch.setattr(versions, "_SEARCH_SECONDS", 0.5)
    hostile = 'version_argv = ["sh", "-c", "printf %040d 0; echo x"]\nversion_pattern = "(0+)+$"\n'
    solver = command(tmp_path, "hostile", "true", hostile)
    with pytest.raises(InputRefused, match=r"hostile\.toml: version_pattern: no end after 0\.5 s") as caught:
        run_suite(tmp_path / "run", small_suite(tmp_path / "suite"), solver)
    assert "\n" not in str(caught.value)
