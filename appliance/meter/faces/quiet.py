"""Is the machine at rest: the fitness checks that tell foreign work, as one sentence. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from appliance.records.record import Check

LOAD: Final = frozenset({"cpu_load", "containers", "steal", "suspend"})
"""Checks that say somebody else was at work, or that no time passed."""


def unquiet(checks: Iterable[Check]) -> str | None:
    """What is at work here; None: nothing that a check tells."""
    found = [f"{check.name}: {check.message}" for check in checks if check.name in LOAD and check.level != "info"]
    return "; ".join(found) or None


def mend_of(checks: Iterable[Check]) -> str | None:
    return next((check.mend for check in checks if check.name in LOAD and check.level != "info" and check.mend), None)
