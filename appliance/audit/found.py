"""The records of a folder that somebody sent: listed within bounds, one level deep, links and special files refused."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from appliance.errors import InputRefused, UsageRefused

MOST_RECORDS: Final = 20_000
MOST_ENTRIES: Final = 200_000
"""Of whatever kind, in the one folder that is looked into."""
_BUNDLE: Final = ".sigstore.json"
_TWIN: Final = f".provenance{_BUNDLE}"
_BESIDE: Final = (_TWIN, _BUNDLE, ".anchor.json")
"""What lies beside a record, and is none: its bundle and its twin, the anchor of its log."""


def may_be_record(name: str) -> bool:
    """Of a file in a folder of records, by its name: the one rule for every verb that takes a folder."""
    return name.endswith(".json") and not name.endswith(_BESIDE)


def record_beside(path: Path) -> Path | None:
    """The record that a bundle, a twin or an anchor lies beside; None for a name of another kind."""
    ending = next((ending for ending in _BESIDE if path.name.endswith(ending)), None)
    return None if ending is None else path.with_name(f"{path.name.removesuffix(ending)}.json")


def is_folder(path: Path) -> bool:
    """Raises InputRefused where nobody can say: a name that is too long, a folder that may not be entered."""
    with _looking_at(path):
        return path.is_dir()


@contextmanager
def _looking_at(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputRefused(error.strerror or str(error), where=str(path)) from error


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
    if not is_folder(path):
        with _looking_at(path):
            if path.name.endswith(_BUNDLE) and path.exists():
                raise UsageRefused(
                    "a bundle, not a record", where=str(path), mend="name the record beside it", reason="usage"
                )
        return Found((path,), in_folder=False)
    inner = path / "records"
    with _looking_at(inner):
        linked, nested = inner.is_symlink(), inner.is_dir()
    if linked:
        raise InputRefused("a symbolic link, not a folder", where=str(inner), mend="name the folder that it leads to")
    folder = inner if nested else path
    found = _listed(folder)
    if not found.records and not found.unrecorded:
        raise UsageRefused("nothing to verify: no record in it", where=str(folder), reason="usage")
    return found


def _listed(folder: Path) -> Found:
    names: list[str] = []
    bundles: set[str] = set()
    with _looking_at(folder), os.scandir(folder) as entries:
        for number, entry in enumerate(entries, start=1):
            if number > MOST_ENTRIES:
                raise InputRefused(f"over the bound of {MOST_ENTRIES} entries", where=str(folder))
            if may_be_record(entry.name):
                names.append(entry.name)
            elif entry.name.endswith(_BUNDLE) and not entry.name.endswith(_TWIN):
                bundles.add(entry.name.removesuffix(_BUNDLE))
    if len(names) > MOST_RECORDS:
        mend = "verify them in several commands"
        raise InputRefused(f"{len(names)} records, over the bound of {MOST_RECORDS}", where=str(folder), mend=mend)
    alone = bundles - {name.removesuffix(".json") for name in names}
    return Found(
        tuple(folder / name for name in sorted(names)),
        tuple(folder / f"{name}{_BUNDLE}" for name in sorted(alone)),
    )
