"""Verifiers' summaries as a stranger sends them: many, long, or none."""

from __future__ import annotations

import tracemalloc
from datetime import UTC, datetime
from pathlib import Path

from appliance.audit.policy import read_policy
from appliance.submissions.summaries import read_summaries
from tests.submissions_bench import Sender, policy_text

MIB = 1024 * 1024


def test_summaries_are_looked_at_one_after_the_other_and_not_kept(tmp_path: Path) -> None:
    """Row P11: a hundred files of the longest length cost the memory of one."""
    doubter = Sender(tmp_path / "doubter")
    (tmp_path / "policy.toml").write_text(policy_text([doubter], verifiers=[doubter]))
    policy = read_policy(tmp_path / "policy.toml")
    files = ((f"verdicts/{at}.sigstore.json", bytes(MIB)) for at in range(100))
    tracemalloc.start()
    try:
        assert read_summaries(files, policy, {doubter.trust.root.sha256: doubter.trust.root}, datetime.now(UTC)) == ()
        assert tracemalloc.get_traced_memory()[1] < 20 * MIB
    finally:
        tracemalloc.stop()
