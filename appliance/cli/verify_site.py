"""What `appliance verify` asks of a published folder beside its records: that its index is the one that was signed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from appliance.cli.output import note
from appliance.cli.trusting import TrustWords


def indexes_checked(paths: Sequence[Path], words: TrustWords) -> list[dict[str, Any]]:
    """One value a published folder among `paths`. Raises AttestationRefused: `replay` for an index that is not what it
    was, `record`, `bundle` or `blob` for a file that is not the one that it names.

    Under a policy alone nobody says who signs an index; then it is not looked at, and that is said.
    """
    from appliance.audit.trust import refusals_translated
    from appliance.submissions.published import is_site, read_site

    found = []
    for path in paths:
        if not is_site(path):
            continue
        if not words.names_signer:
            note(f"{path}: its index was not checked; --index-trust says whom it is held to")
            continue
        with refusals_translated():
            site = read_site(path, *words.held_to())
        verdicts = len(site.verdicts)
        note(f"{path}: an index of {site.checkpoint.size} entries, {len(site.records)} records, {verdicts} verdicts")
        found.append(
            {
                "folder": str(path),
                "checkpoint": site.checkpoint.json_value(),
                "records": len(site.records),
                "verdicts": [line.json_value() for line in site.verdicts],
                "withheld": {one.line.record: list(one.line.withheld) for one in site.records if one.line.withheld},
            }
        )
    return found
