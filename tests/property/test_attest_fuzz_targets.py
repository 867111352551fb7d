"""The fuzzers' targets by themselves: each takes its seeds, and a few edits of them (`make fuzz` takes the time)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from appliance.audit.policy import policy_of
from appliance.submissions import published, state
from attest import canonical
from tests.fuzz.mutation import edited
from tests.fuzz.targets import TARGETS

_ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", TARGETS)
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 2**32))
def test_whatever_is_made_of_its_seeds_a_reader_ends_in_a_refusal_it_declares(name: str, seed: int) -> None:
    """Records, bundles, statements, policies, challenges, blobs, journals, timestamps, notes, indexes (4.1: #1826)."""
    target, random = TARGETS[name], Random(seed)
    seeds = target.seeds()
    content = random.choice(seeds)
    target.run(content)
    target.run(edited(content, random))


def test_the_seeds_are_what_their_readers_take() -> None:
    """Edits of something that is refused at its first letter would reach nothing."""
    for content in TARGETS["policy"].seeds():
        policy_of(content, "seed")
    decisions, acts, lines = (
        [canonical.loads(line) for line in content.split(b"\n")] for content in TARGETS["index"].seeds()
    )
    assert state.state_of(state.parse_lines([*decisions, *acts], "seed")).records
    assert len(published.parse_lines(lines, "seed")) == 2


def test_a_reader_that_breaks_is_found_and_its_input_kept(tmp_path: Path) -> None:
    """A planted one, by the engine that every machine has: another status, the traceback, the input."""
    program = tmp_path / "broken.py"
    program.write_text(
        "import sys\n"
        "from pathlib import Path\n"
        "from tests.fuzz import child, targets\n"
        "def broken(content):\n"
        "    assert b'expiresAt' in content\n"
        "targets.TARGETS['challenge'] = targets.Target(broken, targets.TARGETS['challenge'].seeds)\n"
        "child.with_hypothesis('challenge', 60, Path(sys.argv[1]))\n"
    )
    (tmp_path / "crashes").mkdir()
    ended = subprocess.run(
        [sys.executable, str(program), str(tmp_path)],
        cwd=_ROOT,
        env={"PYTHONPATH": str(_ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert "AssertionError" in ended.stderr
    (kept,) = (tmp_path / "crashes").iterdir()
    assert b"expiresAt" not in kept.read_bytes()
