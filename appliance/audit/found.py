"""The records of a folder that somebody sent: listed within bounds, one level deep, links and special files refused."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from appliance.errors import InputRefused, UsageRefused

MOST_RECORDS: Final = 20_000
MOST_ENTRIES: Final = 200_000
"""Of whatever kind, in the one folder that is looked into."""
_BUNDLE: Final = ".sigstore.json"
_BESIDE: Final = (".provenance.sigstore.json", ".anchor.json")
"""What lies beside a record, and is none: its twin, the anchor of its log."""


@dataclass(frozen=True)
class Found:
    """What a path of a command line leads to."""

    records: tuple[Path, ...]
    """Sorted by name."""
    unrecorded: tuple[Path, ...] = ()
    """Bundles without a record beside them: something was taken away."""
    in_folder: bool = True
    """False: the record was named itself, and may be a symbolic link."""


def records_of(path: Path) -> Found:
    """A record, or those of a run folder, of a submission, of what somebody published, or of a plain folder.

    Raises InputRefused, naming the bound that is passed, and UsageRefused (usage) for a folder without records: a
    verification over nothing is a refusal.
    """
    if not path.is_dir():
        if path.name.endswith(_BUNDLE):
            raise UsageRefused("a bundle, not a record", where=str(path), mend="name the record beside it")
        return Found((path,), in_folder=False)
    inner = path / "records"
    if inner.is_symlink():
        raise InputRefused("a symbolic link, not a folder", where=str(inner), mend="name the folder that it leads to")
    folder = inner if inner.is_dir() else path
    found = _listed(folder)
    if not found.records and not found.unrecorded:
        raise UsageRefused("nothing to verify: no record in it", where=str(folder), reason="usage")
    return found


def _listed(folder: Path) -> Found:
    names: list[str] = []
    bundles: set[str] = set()
    try:
        with os.scandir(folder) as entries:
            for number, entry in enumerate(entries, start=1):
                if number > MOST_ENTRIES:
                    raise InputRefused(f"over the bound of {MOST_ENTRIES} entries", where=str(folder))
                if entry.name.endswith(_BESIDE):
                    continue
                if entry.name.endswith(_BUNDLE):
                    bundles.add(entry.name.removesuffix(_BUNDLE))
                elif entry.name.endswith(".json"):
                    names.append(entry.name)
    except OSError as error:
        raise InputRefused(error.strerror or str(error), where=str(folder)) from error
    if len(names) > MOST_RECORDS:
        mend = "verify them in several commands"
        raise InputRefused(f"{len(names)} records, over the bound of {MOST_RECORDS}", where=str(folder), mend=mend)
    alone = bundles - {name.removesuffix(".json") for name in names}
    return Found(
        tuple(folder / name for name in sorted(names)),
        tuple(folder / f"{name}{_BUNDLE}" for name in sorted(alone)),
    )
