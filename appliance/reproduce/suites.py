"""Where the tasks of a record come from: the suite with the record's digest, wherever it lies."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from appliance.bundle import shipped
from appliance.digests import sha256_hex
from appliance.errors import InputRefused, Refusal
from appliance.files import disk_of
from appliance.reading import read_regular
from appliance.records.record import Record
from appliance.tasks.archive import MAX_BYTES, unpack_suite
from appliance.tasks.model import Suite
from appliance.tasks.reader import read_suite
from appliance.tasks.toml import Table


def suite_of(record: Record, where: str, given: Path | None, blobs: Path | None, scratch: Path) -> Suite:
    """The suite whose digest the record names: `--suite`, else the record's own blob, ./tasks, the shipped ones.

    A suite with another digest is never taken: it would be another experiment. Raises InputRefused with every place
    that was looked at.
    """
    wanted = record.suite.digest
    looked: list[str] = []
    for place, folder in _places(record, given, blobs, scratch):
        if folder is None:
            looked.append(f"{place}: not there")
            continue
        try:
            suite = read_suite(folder)
        except Refusal as refusal:
            looked.append(f"{place}: {refusal.message}")
            continue
        if suite.digest == wanted:
            return _named(suite, record.suite.name)
        looked.append(f"{place}: its digest is {suite.digest[:12]}")
    raise InputRefused(
        f"no suite {record.suite.name!r} with digest {wanted[:12]} ({'; '.join(looked)})",
        where=f"{where}: $.suite.digest",
        mend="--suite PATH to that version of the suite, or the run's whole folder with its blobs",
    )


def _named(suite: Suite, recorded: str) -> Suite:
    """A suite that does not name itself is called after its folder, which its digest does not cover."""
    toml = suite.folder / "suite.toml"
    names_itself = toml.is_file() and "name" in Table.read(toml)
    return suite if names_itself else replace(suite, name=recorded)


def _places(record: Record, given: Path | None, blobs: Path | None, scratch: Path) -> Iterator[tuple[str, Path | None]]:
    if given is not None:
        yield str(given), given if given.is_dir() else None
        return
    yield "the record's blobs", _unpacked(record, blobs, scratch)
    # The name comes from a stranger: only a plain one is joined to a path.
    if record.suite.name not in {"", ".", ".."} and "/" not in record.suite.name and "\0" not in record.suite.name:
        for place, base in (("./tasks", Path("tasks")), ("the shipped suites", shipped("tasks"))):
            folder = base / record.suite.name
            yield place, folder if folder.is_dir() else None


def _unpacked(record: Record, blobs: Path | None, scratch: Path) -> Path | None:
    archive = record.suite.archive
    if archive is None or blobs is None:
        return None
    blob = blobs / "sha256" / archive.sha256
    try:
        content = read_regular(blob, MAX_BYTES, follow=False)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputRefused(error.strerror or str(error), where=str(blob), mend="fetch it again") from error
    if len(content) != archive.bytes or sha256_hex(content) != archive.sha256:
        raise InputRefused("the suite's archive is not what its name says", where=str(blob), mend="fetch it again")
    folder = scratch / "suite"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        with disk_of(scratch, mend="make room there, or set TMPDIR to another folder"):
            unpack_suite(content, folder, where=str(blob))
    except InputRefused as refusal:
        refusal.mend = "--suite PATH to that version of the suite"
        raise
    return folder
