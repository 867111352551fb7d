"""Records by path: a record's file, a run folder, or any folder of records."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from appliance.audit.documents import read_record
from appliance.audit.found import may_be_record
from appliance.errors import InputRefused
from appliance.records.record import Record

_RUN = frozenset({"plan.json", ".sources.json", "verdict.json"})  # what a run folder holds beside its records


def record_paths(path: Path) -> tuple[Path, ...]:
    """The record files that `path` stands for, by name. Raises InputRefused where there are none."""
    try:
        return _record_paths(path)
    except OSError as error:
        raise InputRefused(error.strerror or str(error), where=str(path)) from error


def _record_paths(path: Path) -> tuple[Path, ...]:
    if not path.is_dir():
        return (path,)
    folder = path / "records" if (path / "records").is_dir() else path
    found = sorted(file for file in folder.glob("*.json") if may_be_record(file.name) and file.name not in _RUN)
    if not found and (path / "plan.json").is_file():
        raise InputRefused(
            "no record yet: the run goes on, or was cut off", where=str(path), mend=f"appliance run --resume {path}"
        )
    if not found:
        raise InputRefused("no records in this folder", where=str(path), mend="give a run folder or a record's file")
    return tuple(found)


def load_records(paths: Sequence[Path]) -> tuple[Record, ...]:
    """Each record once, in the order given; checked against schema and model, not verified."""
    found: dict[bytes, Record] = {}
    for path in paths:
        for file in record_paths(path):
            record = read_record(file)
            found.setdefault(record.canonical(), record)
    return tuple(found.values())


def blobs_beside(record: Path) -> Path | None:
    """`../blobs` of a record in a run folder; None where there is no such folder."""
    folder = record.resolve().parent.parent / "blobs"
    return folder if folder.is_dir() else None
