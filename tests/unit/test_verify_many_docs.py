"""docs/verification.md numbers the checks as the code does, with the words that are printed."""

from __future__ import annotations

import re
from pathlib import Path

from appliance.audit.checks import record_checks
from appliance.audit.found import MOST_ENTRIES, MOST_RECORDS
from appliance.audit.trust import agreement_check
from attest.bundle import MAX_BUNDLE_BYTES
from attest.canonical import MAX_BYTES, MAX_DEPTH
from attest.verification import OWN_CHECKS

PAGE = (Path(__file__).resolve().parents[2] / "docs/verification.md").read_text()


def test_the_list_of_the_page_is_the_list_that_is_printed() -> None:
    """Every number has a row, and from 19 on the row has the words of the output and the class of the refusal."""
    rows = re.findall(r"^\| ([0-9]+) \| (.+) \| (.+) \|$", PAGE, re.MULTILINE)
    checks = [*record_checks(None, True), agreement_check()]
    assert [int(number) for number, _, _ in rows] == list(range(1, len(OWN_CHECKS) + len(checks) + 1))
    told = [(name, reason) for _, name, reason in rows[len(OWN_CHECKS) :]]
    assert told == [(check.name, f"`{check.reason}`") for check in checks]


def test_the_bounds_of_the_page_are_those_of_the_code() -> None:
    """Record, bundle, depth, records and entries of a folder (row P11)."""
    said = " ".join(PAGE.split())
    assert f"a record {MAX_BYTES // 2**20} MiB, a bundle {MAX_BUNDLE_BYTES // 2**20} MiB" in said
    assert f"{MAX_DEPTH} levels of nesting, {MOST_RECORDS:,} records and {MOST_ENTRIES:,} entries a folder" in said
